package responses

import (
	"context"
	"time"
	"unicode/utf8"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/stream"
)

// Sequence numbers follow from what was said: those of the first four events are 0 to 3, a delta's is 3 and the bytes
// of the text with it. A citation's is behind them by its place in the text; the events that end the text have numbers
// behind those of all places, whichever citations there are, as these may change from one read to the next. So a reader
// that was cut off says the last number that it saw, and gets what is missing, from any process.
const beforeText = 3

// Stream is a response that is followed.
type Stream struct {
	Run, Agent string

	server *Server
	who    tenant.Principal
	part   *part
	after  int64 // number of the last event that the reader has seen
	last   int64 // number of the last event that was sent, or seen
	gone   bool  // the response was deleted
}

// Open finds a response to be followed behind the event with the number after. Its errors are those of
// [Server.Response].
func (s *Server) Open(ctx context.Context, p tenant.Principal, id string, after int64) (*Stream, error) {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return &Stream{
		Run: one.run, Agent: one.of.Agent, server: s, who: p, part: one, after: after, last: after,
	}, nil
}

// Follow sends the events of a response to emit that the reader has not seen, and the last one in any case. beat is
// called after idle without an event. It returns nil after the last event, or the error of the store, of ctx, of emit
// or of beat.
func (s *Stream) Follow(
	ctx context.Context, idle time.Duration, emit func(ResponseEvent) error, beat func() error,
) error {
	f := &follower{Server: s.server, who: s.who, part: s.part, after: s.after, emit: func(e ResponseEvent) error {
		err := emit(e)
		if err == nil {
			s.last = e.Sequence
		}
		return err
	}}
	f.sent = int(max(s.after-beforeText, 0))
	if err := f.begin(); err != nil {
		return err
	}
	if s.part.over() {
		return f.end(s.part)
	}
	err := f.Hub.Follow(ctx, f.Store, s.who.Scope(), s.Run, idle, func(e stream.Event) error {
		if e.Event == stream.Heartbeat {
			return beat()
		}
		return f.take(ctx, e)
	})
	s.gone = problem.Is(err, "not_found")
	return err
}

// Short is the event of a stream that ends before its response, after Follow has returned or instead of it. The SDKs
// raise the member error as an error of theirs: a stream that just ended would be taken for a whole one. Its number is
// that of the event before it, behind which the reader takes the stream up again; 0 where there was none.
func (s *Stream) Short() ResponseEvent {
	text := "the stream ends here, and the response does not: read it, or follow it"
	switch {
	case s.gone:
		text = "the stream ends here"
	case s.last >= 0:
		text += " behind this sequence_number"
	}
	return ResponseEvent{Type: "error", Sequence: max(s.last, 0), Error: &StreamError{
		Type: serverError, Code: "unavailable", Message: text,
	}}
}

// over reports whether a part has ended.
func (p *part) over() bool { return p.asked != nil || p.of.Status.Terminal() }

// follower translates the stream of a run into the events of one of its responses.
type follower struct {
	*Server

	who   tenant.Principal
	part  *part
	emit  func(ResponseEvent) error
	after int64
	next  int64 // number of the next event, unless it is a delta
	top   int64 // number of the last event that was sent
	have  int   // bytes of the text that have come
	sent  int   // bytes that the reader has
	open  bool  // the message has begun
	index int   // of the output's next item
}

func (f *follower) send(e ResponseEvent) error {
	e.Sequence = f.next
	f.next++
	if e.Sequence <= f.after {
		return nil
	}
	f.top = e.Sequence
	return f.emit(e)
}

// finally sends the last event, which no reader goes without.
func (f *follower) finally(e ResponseEvent) error {
	f.next = max(f.next, f.after+1)
	return f.send(e)
}

// begin sends the events that every stream has.
func (f *follower) begin() error {
	f.next = 0
	of := *f.part.whole
	of.of.Status, of.result = lifecycle.Running, nil
	begun := part{ref: f.part.ref, whole: &of, before: f.part.before}
	r := f.response(&begun)
	for _, name := range []string{"response.created", "response.in_progress"} {
		if err := f.send(ResponseEvent{Type: name, Response: &r}); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) take(ctx context.Context, e stream.Event) error {
	switch e.Event {
	case stream.Init:
		if err := f.passed(ctx); err != nil {
			return err
		}
		f.have = 0
		return f.write((*e.Text)[min(len(f.part.prefix), len(*e.Text)):])
	case stream.Delta:
		return f.write(*e.Text)
	case stream.Status:
		return f.passed(ctx)
	case stream.Done:
		return f.finish(ctx)
	}
	return nil
}

// passed ends the stream when the run has paused since, or has gone on from that pause.
func (f *follower) passed(ctx context.Context) error {
	e, err := f.Store.LiveRun(ctx, f.who.Scope(), f.part.run)
	if err != nil {
		return err
	}
	if r := e.Value; r.Status != lifecycle.AwaitingInput && r.Passed() == f.part.part {
		return nil
	}
	return f.finish(ctx)
}

func (f *follower) finish(ctx context.Context) error {
	e, err := f.Store.LiveRun(ctx, f.who.Scope(), f.part.run)
	if err != nil {
		return err
	}
	one, err := f.cut(ctx, f.who, e, f.part.part)
	if err != nil {
		return err
	}
	if err := f.end(one); err != nil {
		return err
	}
	return stream.ErrStop
}

// write takes a piece of the text that follows what has come.
func (f *follower) write(piece string) error {
	from := f.have
	if f.have += len(piece); f.have <= f.sent {
		return nil
	}
	cut := max(f.sent-from, 0)
	for cut < len(piece) && !utf8.RuneStart(piece[cut]) {
		cut++
	}
	if err := f.begun(); err != nil {
		return err
	}
	f.sent = f.have
	if piece = piece[cut:]; piece == "" {
		return nil
	}
	f.next = int64(beforeText + f.have)
	return f.send(ResponseEvent{
		Type: "response.output_text.delta", ItemID: f.messageID(), OutputIndex: pointer(0), ContentIndex: pointer(0),
		Delta: &piece, Logprobs: &[]string{},
	})
}

func (f *follower) messageID() string { return "msg_" + f.part.suffix() }

// begun sends that the message begins, once.
func (f *follower) begun() error {
	if f.open {
		return nil
	}
	f.open, f.next, f.index = true, 2, 1
	return f.opened(message(f.messageID(), "assistant", inProgress), 0)
}

// opened sends the events that begin a message.
func (f *follower) opened(m ResponseItem, index int) error {
	added := ResponseEvent{Type: "response.output_item.added", OutputIndex: &index, Item: withContent(m)}
	if err := f.send(added); err != nil {
		return err
	}
	none := outputText("", nil)
	return f.send(ResponseEvent{
		Type: "response.content_part.added", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0), Part: &none,
	})
}

func withContent(m ResponseItem, content ...ResponseContent) *ResponseItem {
	list := append([]ResponseContent{}, content...)
	m.Content = &list
	return &m
}

// cited sends the citations of a message, whose text has come with the number at.
func (f *follower) cited(m ResponseItem, index int, at int64) error {
	for n, a := range *(*m.Content)[0].Annotations {
		f.next = at + 1 + int64(a.StartIndex)
		if err := f.send(ResponseEvent{
			Type: "response.output_text.annotation.added", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0),
			AnnotationIndex: &n, Annotation: &a,
		}); err != nil {
			return err
		}
	}
	return nil
}

// closed sends the events that end a message.
func (f *follower) closed(m ResponseItem, index int) error {
	text := (*m.Content)[0]
	for _, e := range []ResponseEvent{
		{
			Type: "response.output_text.done", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0),
			Text:     text.Text,
			Logprobs: &[]string{},
		},
		{
			Type: "response.content_part.done", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0),
			Part: &text,
		},
		{Type: "response.output_item.done", OutputIndex: &index, Item: &m},
	} {
		if err := f.send(e); err != nil {
			return err
		}
	}
	return nil
}

// end sends what is missing of a response that has ended. A text that is another than what was sent, as a model call
// was made again, is whole in the events that end it.
func (f *follower) end(p *part) error {
	items := f.items(p)
	text := p.answer()
	if f.have < len(text) {
		if err := f.write(text[f.have:]); err != nil {
			return err
		}
	}
	if text != "" || f.open {
		m := message(f.messageID(), "assistant", p.itemStatus(), outputText(text, nil))
		if text != "" {
			m, items = items[0], items[1:]
		}
		if err := f.begun(); err != nil {
			return err
		}
		at := max(int64(beforeText+len(text)), f.top)
		if err := f.cited(m, 0, at); err != nil {
			return err
		}
		f.next = at + int64(len(text)) + 1
		if err := f.closed(m, 0); err != nil {
			return err
		}
	} else {
		f.next = 2
	}
	for _, item := range items {
		if err := f.item(item); err != nil {
			return err
		}
	}
	r := f.response(p)
	name := "response." + r.Status
	if r.Status == cancelled {
		name = "response.incomplete" // the protocol has no event of its own for it
	}
	return f.finally(ResponseEvent{Type: name, Response: &r})
}

// item sends the events of an item that comes whole.
func (f *follower) item(item ResponseItem) error {
	index := f.index
	f.index++
	begun := item
	switch item.Type {
	case "message":
		begun.Status = inProgress
		if err := f.opened(begun, index); err != nil {
			return err
		}
		text := (*item.Content)[0].Text
		if err := f.send(ResponseEvent{Type: "response.output_text.delta", ItemID: item.ID, OutputIndex: &index,
			ContentIndex: pointer(0), Delta: text, Logprobs: &[]string{}}); err != nil {
			return err
		}
		return f.closed(item, index)
	case "function_call":
		begun.Status, begun.Arguments = inProgress, pointer("")
	}
	events := []ResponseEvent{{Type: "response.output_item.added", OutputIndex: &index, Item: &begun}}
	if item.Type == "function_call" {
		events = append(
			events,
			ResponseEvent{
				Type:        "response.function_call_arguments.delta",
				ItemID:      item.ID,
				OutputIndex: &index,
				Delta:       item.Arguments,
			},
			ResponseEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, OutputIndex: &index,
				Arguments: item.Arguments},
		)
	}
	events = append(events, ResponseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: &item})
	for _, e := range events {
		if err := f.send(e); err != nil {
			return err
		}
	}
	return nil
}
