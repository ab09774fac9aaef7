package model

import (
	"encoding/json"
	"slices"
	"strings"

	"agentplatform/internal/platform/paragraph"
	"agentplatform/internal/platform/schema"
)

// Sendable returns the request in a form that every provider accepts; adapters send no other. The request itself is not
// changed.
//
// Providers refuse blank texts, and with them each later message of the chat. So blank texts become empty. An empty
// message is removed, unless it is a user's. The users' messages around it become one, as some models want them to
// alternate with answers. Providers refuse tools for their schemas: these become [schema.Portable].
func (r Request) Sendable() Request {
	r.Instructions = unlessBlank(r.Instructions)
	r.Tools = slices.Clone(r.Tools)
	for i, t := range r.Tools {
		r.Tools[i].Description = unlessBlank(t.Description)
		r.Tools[i].Parameters = portable.of(t.Parameters, portableOf)
	}
	var list []Message
	gone := false // a message between this one and the last of the list
	for _, m := range r.Messages {
		m = m.sendable()
		last := len(list) - 1
		switch {
		case m.Role == Assistant && m.Text == "" && len(m.Calls) == 0, m.Role == Tool && len(m.Results) == 0:
			gone = true
			continue
		case gone && m.Role == User && last >= 0 && list[last].Role == User:
			list[last] = list[last].with(m)
		default:
			list = append(list, m)
		}
		gone = false
	}
	if last := len(list) - 1; last < 0 {
		list = []Message{{Role: User, Text: emptyMessage}}
	} else if list[last].Role == Assistant { // which the model is to go on with: it must not end with a space
		list[last].Text = strings.TrimRightFunc(list[last].Text, paragraph.IsBlank)
	}
	r.Messages = list
	return r
}

func portableOf(raw json.RawMessage) json.RawMessage {
	fit, err := schema.Portable(raw)
	if err != nil {
		return schema.Anything // its toolkit turns such a tool off; it must not stop the others
	}
	return fit
}

// PlainNames are the parameters for Anthropic's models, which accept only plain names: see [schema.PlainNames].
func (t ToolSpec) PlainNames() json.RawMessage { return plainNames.of(t.Parameters, schema.PlainNames) }

// Texts that are sent in place of an empty user message and of an empty result.
const (
	emptyMessage = "(an empty message)"
	nothingGiven = "(nothing)"
)

func (m Message) sendable() Message {
	m.Text = unlessBlank(m.Text)
	if m.Role == User && m.Text == "" && len(m.Texts) == 0 && m.Passages == "" && len(m.Images) == 0 {
		m.Text = emptyMessage
	}
	m.Results = slices.Clone(m.Results)
	for i, result := range m.Results {
		if Blank(result.Text) {
			m.Results[i].Text = nothingGiven
		}
	}
	m.Calls = slices.Clone(m.Calls)
	for i, c := range m.Calls {
		if Blank(string(c.Arguments)) {
			m.Calls[i].Arguments = json.RawMessage(`{}`)
		}
	}
	return m
}

// with returns a user's message that continues with the user's next one.
func (m Message) with(next Message) Message {
	return Message{
		Role: User, Text: strings.TrimSpace(m.FullText() + "\n\n" + next.Text), Texts: next.Texts,
		Passages: next.Passages, Images: slices.Concat(m.Images, next.Images),
	}
}

// Blank is [paragraph.Blank].
func Blank(text string) bool { return paragraph.Blank(text) }

func unlessBlank(text string) string {
	if Blank(text) {
		return ""
	}
	return text
}
