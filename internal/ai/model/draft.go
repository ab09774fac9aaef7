package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Draft is a reply while it is streamed. An adapter fills in the provider's statements about the reply as a whole.
type Draft struct {
	Reply // without text, calls and finish

	Emit    func(text string)
	Stop    string // why the model stopped, in the provider's words; empty: it gives no reason
	Ended   bool   // the provider has ended the reply, with or without a reason
	Refusal string // why the provider refuses to answer; empty: it does not

	text  strings.Builder
	last  pieces // of the text
	calls []*PartialCall
	size  int // bytes of the calls
}

// PartialCall is a call while it is streamed.
type PartialCall struct {
	Call

	last  pieces // of the arguments
	shape shape
}

// Whole reports that the arguments are a whole JSON object or array.
func (c *PartialCall) Whole() bool { return c.shape.whole }

// Limits of a draft. A provider may send more. A label longer than maxLabel is cut.
const (
	maxCalls = 1000
	maxLabel = 1 << 10 // bytes of a call's id and name, and of a model's name
)

// AddText adds text.
func (d *Draft) AddText(piece string) { d.write(d.last.add(piece)) }

func (d *Draft) write(text string) {
	if text != "" {
		d.text.WriteString(text)
		d.Emit(text)
	}
}

// Begin adds a call; nil: there are very many.
func (d *Draft) Begin() *PartialCall {
	if len(d.calls) == maxCalls {
		return nil
	}
	c := &PartialCall{}
	d.calls = append(d.calls, c)
	return c
}

// Add adds a piece of a call: its id, a part of its name, or a part of its arguments. An object after whole arguments
// replaces them. Some endpoints begin with an empty object, and some send all arguments again at the end.
func (d *Draft) Add(c *PartialCall, id, name, arguments string) {
	if c == nil {
		return
	}
	d.size += len(id) + len(name) + len(arguments)
	c.ID = cmp.Or(c.ID, id)
	if name != c.Name { // some endpoints repeat the name
		c.Name = label(c.Name + name)
	}
	if c.Whole() && strings.HasPrefix(strings.TrimSpace(arguments), "{") {
		c.Arguments, c.shape, c.last = nil, shape{}, pieces{}
	}
	c.shape.read(arguments)
	c.Arguments = append(c.Arguments, c.last.add(arguments)...)
}

// shape follows JSON that arrives in pieces, and knows when an object or array has ended.
type shape struct {
	depth                int
	text, escaped, whole bool
}

func (s *shape) read(piece string) {
	for i := range len(piece) {
		switch b := piece[i]; {
		case s.escaped:
			s.escaped = false
		case s.text:
			s.escaped, s.text = b == '\\', b != '"'
		case b == '"':
			s.text = true
		case b == '{', b == '[':
			s.depth++
		case b == '}', b == ']':
			s.depth--
			s.whole = s.depth == 0
		}
	}
}

// label is a text that a provider makes up, cut to its limit.
func label(text string) string { return text[:min(len(text), maxLabel)] }

// Full reports that the reply is larger than any caller accepts; no more of it is read.
func (d *Draft) Full() bool { return d.size > MaxArguments || d.text.Len() > MaxText }

// Empty reports that the reply has no text and no calls yet.
func (d *Draft) Empty() bool { return d.text.Len() == 0 && len(d.calls) == 0 }

// failed is the reply of a call that failed. It has the usage that the provider reported until then, and may bill.
func (d *Draft) failed(err error) (Reply, error) {
	return Reply{InputTokens: d.InputTokens, OutputTokens: d.OutputTokens}, err
}

// The reasons for which models stop, in the words of all known providers and gateways. Every other reason is an
// ordinary end.
var (
	long = regexp.MustCompile(`(?i)^(length|max_?(output_|new_|completion_)?(tokens|length)|model_length|` +
		`token_limit)$`)
	filtered = regexp.MustCompile(`(?i)content_?filter|safety|prohibited|recitation|blocklist|spii|refusal|guardrail|` +
		`sensitive|moderation|flagged`)
	broken = regexp.MustCompile(`(?i)error|^abort|malformed|unexpected_tool_call|insufficient_system_resource|` +
		`^(cancel|timeout|unavailable|overloaded)`)
)

// Done returns the reply after the stream has ended. err is that of the stream. If the connection broke after the model
// had stopped, the reply is whole. The error is an [Error].
func (d *Draft) Done(err error) (Reply, error) {
	if e, _ := errors.AsType[*Error](err); err != nil && (d.Stop == "" || e == nil || !e.Cut) {
		return d.failed(err)
	}
	d.write(d.last.rest())
	r := d.Reply
	r.Text, r.Model = d.text.String(), label(r.Model)
	whole, ids := true, map[string]bool{"": true}
	for i, c := range d.calls {
		c.Arguments = append(c.Arguments, c.last.rest()...)
		if c.Name == "" {
			continue
		}
		c.ID = label(c.ID)
		for n := i; ids[c.ID]; n++ { // some endpoints send no ids, and some send one id for all calls
			c.ID = fmt.Sprintf("call_%d", n)
		}
		ids[c.ID] = true
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage(`{}`)
		}
		whole = whole && json.Valid(c.Arguments)
		r.Calls = append(r.Calls, c.Call)
	}
	empty := r.Text == "" && len(r.Calls) == 0
	if filtered.MatchString(d.Stop) {
		d.Refusal = cmp.Or(d.Refusal, "the model refuses: its provider filters this content")
	}
	switch {
	case d.Refusal != "":
		return r, Begin(Fail(Refused, "%s", d.Refusal))
	case d.Full():
		r.Finish = "length"
	case d.Stop == "" && (!d.Ended || empty || !whole):
		return r, Begin(Fail(Retryable, "the model's stream ended in the middle"))
	case broken.MatchString(d.Stop):
		return r, Begin(Fail(Retryable, "the model's provider stopped with the error %q", label(d.Stop)))
	case d.Stop == WindowFull && empty:
		return r, Begin(Fail(TooLong, "the model's context window is full"))
	case len(r.Calls) > 0:
		r.Finish = "tool_calls" // some endpoints send "stop"
	case long.MatchString(d.Stop), d.Stop == WindowFull:
		r.Finish = "length"
	default:
		r.Finish = "stop"
	}
	return r, nil
}
