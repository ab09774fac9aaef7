package aguiserver

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// encoder sends the texts and calls of an agent in a part of a run to a front end. It sends events while they happen,
// and a snapshot where earlier events are replaced. Each message of the model is a message of the front end: after
// calls another begins.
type encoder struct {
	emit          func(AGUIEvent) error
	messagePrefix string            // how the ids of the part's messages begin
	resultPrefix  string            // and those of its results
	items         []snapshotMessage // sent to the front end
	count         int               // messages of the agent among them
	open          bool              // the last of them is being written
	quiet         bool              // messages are collected, and not sent
}

func (t *encoder) send(events ...AGUIEvent) error {
	if t.quiet {
		return nil
	}
	for _, e := range events {
		if err := t.emit(e); err != nil {
			return err
		}
	}
	return nil
}

// message is the agent's message that goes on. calls reports whether it may have calls.
func (t *encoder) message(calls bool) *snapshotMessage {
	if t.goesOn(calls) {
		return &t.items[len(t.items)-1]
	}
	t.count++
	t.items = append(t.items, snapshotMessage{ID: t.messagePrefix + strconv.Itoa(t.count), Role: "assistant"})
	return &t.items[len(t.items)-1]
}

// goesOn reports whether the last item is a message of the agent to which text, or a call, may be added.
func (t *encoder) goesOn(call bool) bool {
	n := len(t.items)
	return n > 0 && t.items[n-1].Role == "assistant" && (call || len(t.items[n-1].ToolCalls) == 0)
}

func (t *encoder) text(piece string) error {
	if !t.goesOn(false) { // a message begins, and not with the break before it
		piece = strings.TrimLeft(piece, "\n")
	}
	if piece == "" {
		return nil
	}
	m := t.message(false)
	m.Content += piece
	if !t.open && !t.quiet {
		t.open = true
		if err := t.send(AGUIEvent{Type: "TEXT_MESSAGE_START", MessageID: m.ID, Role: "assistant"}); err != nil {
			return err
		}
	}
	return t.send(AGUIEvent{Type: "TEXT_MESSAGE_CONTENT", MessageID: m.ID, Delta: &piece})
}

func (t *encoder) close() error {
	if !t.open {
		return nil
	}
	t.open = false
	return t.send(AGUIEvent{Type: "TEXT_MESSAGE_END", MessageID: t.items[len(t.items)-1].ID})
}

func (t *encoder) call(id, name string, arguments json.RawMessage) error {
	if err := t.close(); err != nil {
		return err
	}
	text := cmp.Or(string(arguments), "{}")
	m := t.message(true)
	m.ToolCalls = append(m.ToolCalls,
		toolCall{ID: id, Type: "function", Function: functionToCall{Name: name, Arguments: text}})
	return t.send(AGUIEvent{Type: "TOOL_CALL_START", ToolCallID: id, ToolCallName: name, ParentMessageID: m.ID},
		AGUIEvent{Type: "TOOL_CALL_ARGS", ToolCallID: id, Delta: &text},
		AGUIEvent{Type: "TOOL_CALL_END", ToolCallID: id})
}

func (t *encoder) result(step int, call, output string) error {
	if err := t.close(); err != nil {
		return err
	}
	m := snapshotMessage{ID: t.resultPrefix + strconv.Itoa(step), Role: "tool", Content: output, ToolCallID: call}
	t.items = append(t.items, m)
	return t.send(AGUIEvent{
		Type: "TOOL_CALL_RESULT", MessageID: m.ID, ToolCallID: call, Content: &output, Role: "tool",
	})
}

// replace sends a snapshot of all messages of the thread. again collects the part's messages, which stand between those
// of others.
func (t *encoder) replace(before, after []json.RawMessage, again func() error) error {
	if err := t.close(); err != nil {
		return err
	}
	t.items, t.count, t.quiet = nil, 0, true
	err := again()
	if t.quiet = false; err != nil {
		return err
	}
	list := append([]json.RawMessage{}, before...)
	for _, m := range t.items {
		raw, err := json.Marshal(m)
		if err != nil {
			return err
		}
		list = append(list, raw)
	}
	list = append(list, after...)
	return t.send(AGUIEvent{Type: "MESSAGES_SNAPSHOT", Messages: &list})
}
