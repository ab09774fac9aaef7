package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Draft is a reply while it is streamed. An adapter fills in what the provider says of the reply as a whole.
type Draft struct {
	Reply // without text, calls and finish

	Emit    func(text string)
	Stop    string // why the model stopped, in the provider's words; empty: it goes on
	Refusal string // why the provider refuses to answer; empty: it does not

	text  strings.Builder
	calls []*Call
	size  int // bytes of the calls
}

// What a draft keeps, whatever a provider sends. What is longer than maxLabel is cut.
const (
	maxCalls = 1000
	maxLabel = 1 << 10 // bytes of a call's id and name, and of a model's name
)

// Say adds text.
func (d *Draft) Say(piece string) {
	if piece != "" {
		d.text.WriteString(piece)
		d.Emit(piece)
	}
}

// Begin adds a call; nil: there are very many.
func (d *Draft) Begin() *Call {
	if len(d.calls) == maxCalls {
		return nil
	}
	c := &Call{}
	d.calls = append(d.calls, c)
	return c
}

// Add adds a piece of a call: its id, a part of its name, or a part of its arguments.
func (d *Draft) Add(c *Call, id, name, arguments string) {
	if c == nil {
		return
	}
	d.size += len(id) + len(name) + len(arguments)
	c.ID = cmp.Or(c.ID, id)
	if name != c.Name { // some endpoints repeat the name
		c.Name = label(c.Name + name)
	}
	c.Arguments = append(c.Arguments, arguments...)
}

// label is a text that a provider makes up, cut to its limit.
func label(text string) string { return text[:min(len(text), maxLabel)] }

// Full says that the reply is larger than any caller accepts; no more of it is read.
func (d *Draft) Full() bool { return d.size > MaxArguments || d.text.Len() > MaxText }

// Failed is the reply of a call that failed: the provider has counted, and may bill, what it reported until then.
func (d *Draft) Failed(err error) (Reply, error) {
	return Reply{InputTokens: d.InputTokens, OutputTokens: d.OutputTokens}, err
}

// Done is the reply when the stream has ended. long is how the provider says that it stopped at the limit of tokens.
// The error is an [Error].
func (d *Draft) Done(long string) (Reply, error) {
	r := d.Reply
	r.Text, r.Model = d.text.String(), label(r.Model)
	for i, c := range d.calls {
		if c.Name == "" {
			continue
		}
		c.ID = cmp.Or(label(c.ID), fmt.Sprintf("call_%d", i)) // some endpoints send no ids
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage(`{}`)
		}
		r.Calls = append(r.Calls, *c)
	}
	switch {
	case d.Stop == "" && !d.Full():
		return r, Fail(Retryable, "the model's stream ended in the middle")
	case d.Refusal != "":
		return r, Fail(Refused, "%s", d.Refusal)
	case d.Stop == WindowFull && r.Text == "" && len(r.Calls) == 0:
		return r, Fail(TooLong, "the model's context window is full")
	case d.Full():
		r.Finish = "length"
	case len(r.Calls) > 0:
		r.Finish = "tool_calls" // some endpoints say "stop"
	case d.Stop == long, d.Stop == WindowFull:
		r.Finish = "length"
	default:
		r.Finish = "stop"
	}
	return r, nil
}
