package responses

import (
	"context"
	"time"
	"unicode/utf8"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/stream"
	"agentplatform/internal/tenant"
)

// Sequence numbers follow from what was said: those of the first four events are 0 to 3, a delta's is 3 and the bytes
// of the text with it, and the events behind the text go on from there. So a reader that was cut off says the last
// number that it saw, and gets what is missing, from any process.
const beforeText = 3

// Follow sends the events of a response to emit, those with a number above after, until it ends. beat is called after
// idle without an event. It returns nil after the last event, or the error of the store, of ctx, of emit or of beat.
func (s *Server) Follow(
	ctx context.Context, p tenant.Principal, id string, after int64, idle time.Duration, emit func(ResponseEvent) error,
	beat func() error,
) error {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return err
	}
	f := &follower{Server: s, who: p, part: one, emit: emit, after: after, next: 2}
	f.sent = int(max(after-beforeText, 0))
	if err := f.begin(); err != nil {
		return err
	}
	if one.over() {
		return f.end(one)
	}
	return s.Hub.Follow(ctx, s.Store, p.Scope(), one.run, idle, func(e stream.Event) error {
		if e.Event == stream.Heartbeat {
			return beat()
		}
		return f.take(ctx, e)
	})
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
	return f.emit(e)
}

// begin sends the events that every stream has.
func (f *follower) begin() error {
	f.next = 0
	begun := *f.part
	begun.asked, begun.text, begun.output = nil, "", nil
	begun.of.Status = lifecycle.Running
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
	if r := e.Value; r.Status != lifecycle.AwaitingInput && partOf(r) == f.part.part {
		return nil
	}
	return f.finish(ctx)
}

func (f *follower) finish(ctx context.Context) error {
	one, err := f.find(ctx, f.who, f.part.String())
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
	if err := f.send(ResponseEvent{Type: "response.output_item.added", OutputIndex: &index, Item: withContent(m)}); err != nil {
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

// closed sends the events that end a message.
func (f *follower) closed(m ResponseItem, index int) error {
	text := (*m.Content)[0]
	for _, e := range []ResponseEvent{
		{
			Type: "response.output_text.done", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0), Text: text.Text,
			Logprobs: &[]string{},
		},
		{
			Type: "response.content_part.done", ItemID: m.ID, OutputIndex: &index, ContentIndex: pointer(0), Part: &text,
		},
		{Type: "response.output_item.done", OutputIndex: &index, Item: &m},
	} {
		if err := f.send(e); err != nil {
			return err
		}
	}
	return nil
}

// end sends what is missing of a response that has ended.
func (f *follower) end(p *part) error {
	items := f.items(p)
	if text := p.answer(); text != "" {
		if f.have < len(text) {
			if err := f.write(text[f.have:]); err != nil {
				return err
			}
		}
		if err := f.begun(); err != nil {
			return err
		}
		f.next = int64(beforeText + len(text) + 1)
		if err := f.closed(items[0], 0); err != nil {
			return err
		}
		items = items[1:]
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
	if r.Status == "cancelled" {
		name = "response.incomplete" // the protocol has no event of its own for it
	}
	return f.send(ResponseEvent{Type: name, Response: &r})
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
		events = append(events,
			ResponseEvent{Type: "response.function_call_arguments.delta", ItemID: item.ID, OutputIndex: &index, Delta: item.Arguments},
			ResponseEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, OutputIndex: &index,
				Arguments: item.Arguments})
	}
	for _, e := range append(events, ResponseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: &item}) {
		if err := f.send(e); err != nil {
			return err
		}
	}
	return nil
}
