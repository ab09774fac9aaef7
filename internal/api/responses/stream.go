package responses

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

// Sequence numbers follow from the sent events. Those of the first four events are 0 to 3. A delta's number is 3 plus
// the bytes of the text up to its end. A citation's number follows by its place in the text. The events that end the
// text have numbers after those of all places: the citations may change from one read to the next. So a reader that was
// cut off sends the last number that it received, and gets the missing events, from any process.
const beforeText = 3

// Stream translates the stream of a run into the events of one of its responses.
type Stream struct {
	*Server

	who   tenant.Principal
	part  *part
	emit  func(ResponseEvent) error
	after int64 // number of the last event that the reader has seen; -1: none
	next  int64 // number of the next event, unless it is a delta
	top   int64 // number of the last event that was sent; -1: there is none
	have  int   // bytes of the text that have come
	sent  int   // bytes that the reader has
	open  bool  // the message has begun
	index int   // of the output's next item
	gone  bool  // the response was deleted
}

// Open finds a response to be followed after the event with the number after. Its errors are those of
// [Server.Response].
func (s *Server) Open(ctx context.Context, p tenant.Principal, id string, after int64) (*Stream, error) {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return s.stream(p, one, after), nil
}

func (s *Server) stream(p tenant.Principal, of *part, after int64) *Stream {
	return &Stream{Server: s, who: p, part: of, after: after, top: -1, sent: int(max(after-beforeText, 0))}
}

// Whose returns the agent of the response's run, and its owner.
func (s *Stream) Whose() lifecycle.Whose { return s.part.of.Whose() }

// Follow sends the events of a response that the reader has not seen to emit, and the last event in any case. It calls
// beat after idle without an event. It returns nil after the last event, or the error of the store, of ctx, of emit or
// of beat.
func (s *Stream) Follow(
	ctx context.Context, idle time.Duration, emit func(ResponseEvent) error, beat func() error,
) error {
	s.emit = emit
	if err := s.begin(); err != nil {
		return err
	}
	if s.part.after != nil || s.part.of.Status.Terminal() {
		return s.end(s.part)
	}
	err := s.Hub.Follow(ctx, s.Store, s.who.Scope(), s.part.run, idle, func(e stream.Event) error {
		if e.Event == stream.Heartbeat {
			return beat()
		}
		return s.take(ctx, e)
	})
	s.gone = problem.Is(err, "not_found")
	return err
}

// Short is the event of a stream that ends before its response, after Follow has returned or instead of it. The SDKs
// raise the member error as an error of theirs: they would take a stream that just ended for a whole one. Its number is
// that of the event before it, after which the reader continues the stream; 0 where there was none.
func (s *Stream) Short() ResponseEvent {
	text, last := "the stream ended before the response: read it, or follow it", max(s.after, s.top)
	switch {
	case s.gone:
		text = "the stream ends here"
	case last >= 0:
		text += " behind this sequence_number"
	}
	return ResponseEvent{Type: "error", Sequence: max(last, 0), Error: &StreamError{
		Type: serverError, Code: "unavailable", Message: text,
	}}
}

func (s *Stream) send(events ...ResponseEvent) error {
	for _, e := range events {
		e.Sequence = s.next
		s.next++
		if e.Sequence <= s.after {
			continue
		}
		if err := s.emit(e); err != nil {
			return err
		}
		s.top = e.Sequence
	}
	return nil
}

func (s *Stream) begin() error {
	s.next = 0
	of := *s.part.whole
	of.of.Status, of.result = lifecycle.Running, nil
	begun := part{ref: s.part.ref, whole: &of, given: s.part.given, before: s.part.before}
	r := s.response(&begun)
	return s.send(ResponseEvent{Type: "response.created", Response: &r},
		ResponseEvent{Type: "response.in_progress", Response: &r})
}

func (s *Stream) take(ctx context.Context, e stream.Event) error {
	switch e.Event {
	case stream.Init:
		if err := s.poll(ctx, false); err != nil {
			return err
		}
		s.have = 0
		return s.write(record.Behind(*e.Text, s.part.first))
	case stream.Delta:
		if s.have == 0 && len(s.part.first) > 0 { // the break before the part does not belong to it
			return s.write(strings.TrimLeft(*e.Text, "\n"))
		}
		return s.write(*e.Text)
	case stream.Status:
		return s.poll(ctx, false)
	case stream.Done:
		return s.poll(ctx, true)
	}
	return nil
}

// poll ends the stream when the run is over, has paused since, or has gone on from that pause.
func (s *Stream) poll(ctx context.Context, over bool) error {
	e, err := s.Store.LiveRun(ctx, s.who.Scope(), s.part.run)
	if err != nil {
		return err
	}
	if r := e.Value; !over && r.Status != lifecycle.AwaitingInput && r.Passed() == s.part.part {
		return nil
	}
	one, err := s.cut(ctx, s.who, e, s.part.part)
	if err != nil {
		return err
	}
	if err := s.end(one); err != nil {
		return err
	}
	return stream.ErrStop
}

// write accepts a piece of the text that follows the text so far.
func (s *Stream) write(piece string) error {
	from := s.have
	if s.have += len(piece); s.have <= s.sent {
		return nil
	}
	cut := max(s.sent-from, 0)
	for cut < len(piece) && !utf8.RuneStart(piece[cut]) {
		cut++
	}
	if err := s.begun(); err != nil {
		return err
	}
	s.sent = s.have
	if piece = piece[cut:]; piece == "" {
		return nil
	}
	s.next = int64(beforeText + s.have)
	return s.send(delta(s.messageID(), 0, &piece))
}

// inMessage is an event about the text of a message, which is an item of the output with an index.
func inMessage(kind, message string, index int) ResponseEvent {
	return ResponseEvent{Type: kind, ItemID: message, OutputIndex: &index, ContentIndex: new(0)}
}

func delta(message string, index int, piece *string) ResponseEvent {
	e := inMessage("response.output_text.delta", message, index)
	e.Delta, e.Logprobs = piece, &[]string{}
	return e
}

func (s *Stream) messageID() string { return "msg_" + s.part.suffix() }

func (s *Stream) begun() error {
	if s.open {
		return nil
	}
	s.open, s.next, s.index = true, 2, 1
	return s.opened(message(s.messageID(), "assistant", inProgress), 0)
}

func (s *Stream) opened(m ResponseItem, index int) error {
	m.Content = &[]ResponseContent{}
	part := inMessage("response.content_part.added", m.ID, index)
	part.Part = new(outputText("", nil))
	return s.send(ResponseEvent{Type: "response.output_item.added", OutputIndex: &index, Item: &m}, part)
}

// cited sends the citations of a message. Its text has come with the sequence number at.
func (s *Stream) cited(m ResponseItem, index int, at int64) error {
	for n, a := range *(*m.Content)[0].Annotations {
		s.next = at + 1 + int64(a.StartIndex)
		e := inMessage("response.output_text.annotation.added", m.ID, index)
		e.AnnotationIndex, e.Annotation = &n, &a
		if err := s.send(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) closed(m ResponseItem, index int) error {
	text := (*m.Content)[0]
	done, part := inMessage("response.output_text.done", m.ID, index),
		inMessage("response.content_part.done", m.ID, index)
	done.Text, done.Logprobs, part.Part = text.Text, &[]string{}, &text
	return s.send(done, part, ResponseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: &m})
}

// end sends the missing part of a response that has ended. A text may differ from the sent text, as a model call was
// made again. Then it is whole in the events that end it.
func (s *Stream) end(p *part) error {
	items := s.items(p)
	text := p.answer()
	if s.have < len(text) {
		if err := s.write(text[s.have:]); err != nil {
			return err
		}
	}
	if text != "" || s.open {
		m := message(s.messageID(), "assistant", p.itemStatus(), outputText(text, nil))
		if text != "" {
			m, items = items[0], items[1:]
		}
		if err := s.begun(); err != nil {
			return err
		}
		at := max(int64(beforeText+len(text)), s.top)
		if err := s.cited(m, 0, at); err != nil {
			return err
		}
		s.next = at + int64(len(text)) + 1
		if err := s.closed(m, 0); err != nil {
			return err
		}
	} else {
		s.next = 2
	}
	for _, item := range items {
		if err := s.item(item); err != nil {
			return err
		}
	}
	r := s.response(p)
	name := "response." + r.Status
	if r.Status == cancelled {
		name = "response.incomplete" // the protocol has no event for it
	}
	s.next = max(s.next, s.after+1) // no reader goes without the last event
	return s.send(ResponseEvent{Type: name, Response: &r})
}

// item sends the events of an item that comes whole.
func (s *Stream) item(item ResponseItem) error {
	index := s.index
	s.index++
	begun := item
	switch item.Type {
	case "message":
		begun.Status = inProgress
		if err := s.opened(begun, index); err != nil {
			return err
		}
		if err := s.send(delta(item.ID, index, (*item.Content)[0].Text)); err != nil {
			return err
		}
		return s.closed(item, index)
	case "function_call":
		begun.Status, begun.Arguments = inProgress, new("")
	}
	events := []ResponseEvent{{Type: "response.output_item.added", OutputIndex: &index, Item: &begun}}
	if item.Type == "function_call" {
		events = append(events,
			ResponseEvent{Type: "response.function_call_arguments.delta", ItemID: item.ID, OutputIndex: &index,
				Delta: item.Arguments},
			ResponseEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, OutputIndex: &index,
				Arguments: item.Arguments})
	}
	return s.send(append(events,
		ResponseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: &item})...)
}
