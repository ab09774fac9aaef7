package mcptool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/schema"
)

// A server may ask its user something during a call (elicitation). No human is there to answer. The server gets the
// answer "cancel", and the call ends with a [tool.Question]. A repeated call has the human's answers. It gives each to
// the server when the server asks the same question again.

// asks are the running calls of a line, for which its server may ask.
type asks struct {
	mu      sync.Mutex
	calls   []*inquiry
	held    int           // requests that wait until it is known which call they belong to
	strays  atomic.Bool   // a call was given up for which the server may still ask
	changed chan struct{} // closed at each change
}

// inquiry is what a server asks in one call.
type inquiry struct {
	mu      sync.Mutex
	answers []tool.Answer // not used yet
	fault   error         // why the call has no result because its server asked something; nil: it did not
}

func (a *asks) begin(i tool.Invocation) *inquiry {
	q := &inquiry{answers: slices.Clone(i.Answers)}
	a.change(func() { a.calls = append(a.calls, q) })
	return q
}

// end ends a call. givenUp is set if it got no answer.
func (a *asks) end(q *inquiry, givenUp bool) {
	a.change(func() {
		a.calls = slices.DeleteFunc(a.calls, func(one *inquiry) bool { return one == q })
		a.strays.Store(a.strays.Load() || givenUp)
	})
}

func (a *asks) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	if a.changed != nil {
		close(a.changed)
	}
	a.changed = make(chan struct{})
}

// elicit answers a request of a server. The protocol does not name the call that the request belongs to. Where several
// calls are running, elicit waits until only one is running, or all of them ask.
func (a *asks) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode == "url" || p.URL != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "elicitation by URL is not supported"}
	}
	id := idOf(p)
	a.change(func() { a.held++ })
	defer a.change(func() { a.held-- })
	for {
		a.mu.Lock()
		calls, held, changed, strays := slices.Clone(a.calls), a.held, a.changed, a.strays.Load()
		a.mu.Unlock()
		for _, q := range calls {
			if q.has(id) {
				return q.answer(p), nil
			}
		}
		switch {
		case len(calls) == 1 && !strays:
			return calls[0].answer(p), nil
		case held >= len(calls), strays && len(calls) == 1: // also where no call is at work
			for _, q := range calls {
				q.mix()
			}
			return &mcp.ElicitResult{Action: cancels}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &mcp.ElicitResult{Action: cancels}, nil
		}
	}
}

func (q *inquiry) has(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.answers, func(a tool.Answer) bool { return a.Question == id })
}

func (q *inquiry) mix() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fault == nil {
		q.fault = tool.Fail("the server asked its user a question, and several calls may have caused it: " +
			"make these calls one after another")
	}
}

// answer is the human's answer to a question of the server. If there is none that fits, it is "cancel".
func (q *inquiry) answer(p *mcp.ElicitParams) *mcp.ElicitResult {
	form, id := formOf(p), idOf(p)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(form.names) > maxForm {
		q.fault = cmp.Or(q.fault, tool.Fail("the server asks its user for over %d fields", maxForm))
		return &mcp.ElicitResult{Action: cancels}
	}
	fault := ""
	for i := 0; i < len(q.answers); {
		if q.answers[i].Question != id {
			i++
			continue
		}
		text := q.answers[i].Text
		q.answers = slices.Delete(q.answers, i, i+1)
		var result *mcp.ElicitResult
		if result, fault = form.read(text); fault == "" {
			return result
		}
	}
	if _, already := q.fault.(*tool.Question); !already { //nolint:errorlint // it is as it was made
		q.fault = form.question(id, fault)
	}
	return &mcp.ElicitResult{Action: cancels}
}

func (q *inquiry) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fault
}

// idOf identifies a question by its words and its form.
func idOf(p *mcp.ElicitParams) string {
	b, _ := json.Marshal([]any{p.Message, p.RequestedSchema}) // it was read from JSON
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// form is a server's question: fields with a schema each.
type form struct {
	message string
	raw     json.RawMessage
	names   []string // the required ones first
	fields  map[string]field
	must    map[string]bool
}

type field struct {
	Type        string   `json:"type"`
	Format      string   `json:"format"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	Names       []string `json:"enumNames"`
	OneOf       []choice `json:"oneOf"`
	AnyOf       []choice `json:"anyOf"`
	Default     any      `json:"default"`
	Items       *field   `json:"items"`
}

type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func formOf(p *mcp.ElicitParams) form {
	f := form{message: tool.Clip(p.Message, tool.EnoughText)}
	f.raw, _ = json.Marshal(p.RequestedSchema)
	var s struct {
		Properties map[string]field `json:"properties"`
		Required   []string         `json:"required"`
	}
	_ = json.Unmarshal(f.raw, &s) // what cannot be read has no fields
	f.fields, f.must = s.Properties, make(map[string]bool, len(s.Required))
	for _, name := range s.Required {
		f.must[name] = true
	}
	f.names = slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(f.names, func(a, b string) int { return f.rank(a) - f.rank(b) })
	return f
}

func (f form) rank(name string) int {
	if f.must[name] {
		return 0
	}
	return 1
}

// options are the values of a field that allows only some: as humans read them, and the values themselves.
func (f field) options() (shown, values []string) {
	switch {
	case f.Items != nil:
		return f.Items.options()
	case f.Type == "boolean":
		return []string{"yes", "no"}, []string{"yes", "no"}
	case len(f.Enum) > 0 && len(f.Names) == len(f.Enum):
		return f.Names, f.Enum
	}
	shown, values = slices.Clone(f.Enum), slices.Clone(f.Enum)
	for _, c := range slices.Concat(f.OneOf, f.AnyOf) {
		shown, values = append(shown, cmp.Or(c.Title, c.Const)), append(values, c.Const)
	}
	return shown, values
}

// Words by which a human refuses to answer.
const (
	accepts  = "accept"
	declines = "decline"
	cancels  = "cancel"
)

// Limits of a form's fields, of those that its question explains, and of the question's text in bytes.
const (
	maxForm   = 200
	maxFields = 30
	maxText   = 7 << 10
)

// written is a value as JSON.
func written(value any) string {
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	_ = to.Encode(value) // it was read from JSON
	return strings.TrimSpace(text.String())
}

// question is the form as a human reads it. fault is the fault of an earlier answer.
func (f form) question(id, fault string) *tool.Question {
	q := &tool.Question{ID: id}
	var text strings.Builder
	if fault != "" {
		fmt.Fprintf(&text, "The answer does not fit: %s.\n", fault)
	}
	text.WriteString(f.message)
	for i, name := range f.names {
		if i == maxFields {
			text.WriteString("\n…")
			break
		}
		one := f.fields[name]
		shown, _ := one.options()
		fmt.Fprintf(&text, "\n- %s (%s", tool.Clip(name, 100), tool.Clip(one.Type, 20))
		if one.Format != "" {
			text.WriteString(" as " + tool.Clip(one.Format, 20))
		}
		if f.rank(name) > 0 {
			text.WriteString(", may be left out")
		}
		if one.Default != nil {
			text.WriteString(": " + tool.Clip(written(one.Default), 100))
		}
		if len(shown) > 0 {
			text.WriteString("; one of " + tool.Clip(strings.Join(shown, ", "), 500))
		}
		text.WriteString(")")
		if about := strings.TrimSpace(one.Title + " " + one.Description); about != "" {
			text.WriteString(": " + tool.Clip(about, 300))
		}
	}
	q.Text = tool.Clip(text.String(), maxText)
	switch len(f.names) {
	case 0:
		q.Options = []string{accepts, declines}
	case 1:
		shown, _ := f.fields[f.names[0]].options()
		if len(shown) > 0 && len(shown) < maxFields && tool.FitOptions(shown) && !slices.Contains(shown, "") {
			q.Options = append(slices.Clone(shown), declines)
		}
	default:
		q.Text += "\nAnswer with a line \"name: value\" for each, or with a JSON object."
	}
	if len(q.Options) == 0 {
		q.Text += "\nThe answer \"decline\" refuses."
	}
	return q
}

// read converts a human's answer to the server's form. fault is the reason why it does not fit.
func (f form) read(text string) (result *mcp.ElicitResult, fault string) {
	text = strings.TrimSpace(text)
	switch strings.ToLower(text) {
	case declines:
		return &mcp.ElicitResult{Action: declines}, ""
	case cancels:
		return &mcp.ElicitResult{Action: cancels}, ""
	}
	content := map[string]any{}
	switch {
	case strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &content) == nil:
	case len(f.names) == 0:
		if !strings.EqualFold(text, accepts) && !strings.EqualFold(text, "yes") {
			return nil, "it must be accept or decline"
		}
	case len(f.names) == 1:
		content[f.names[0]] = f.fields[f.names[0]].value(text)
	default:
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(line, ":")
			name = strings.TrimSpace(name)
			at := slices.IndexFunc(f.names, func(n string) bool { return strings.EqualFold(n, name) })
			if at >= 0 {
				content[f.names[at]] = f.fields[f.names[at]].value(strings.TrimSpace(value))
			}
		}
	}
	for _, name := range f.names {
		if _, there := content[name]; !there && f.fields[name].Default != nil {
			content[name] = f.fields[name].Default
		}
	}
	if len(f.names) > 0 {
		raw, err := json.Marshal(content)
		if err == nil {
			err = f.check(raw)
		}
		if err != nil {
			return nil, tool.Clip(err.Error(), 500)
		}
	}
	return &mcp.ElicitResult{Action: accepts, Content: content}, ""
}

func (f form) check(content json.RawMessage) error {
	rules := map[string]json.RawMessage{}
	_ = json.Unmarshal(f.raw, &rules)
	rules["$schema"] = json.RawMessage(`"http://json-schema.org/draft-07/schema#"`) // formats count there
	raw, _ := json.Marshal(rules)
	wanted, err := schema.Compile(raw)
	if err != nil {
		return nil //nolint:nilerr // the server checks it
	}
	return wanted.Check(context.Background(), content)
}

// value converts a text to a field's value. A text that does not convert stays a text, which the check refuses.
func (f field) value(text string) any {
	if f.Type == "array" {
		list := []any{}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, f.chosen(part))
			}
		}
		return list
	}
	switch f.Type {
	case "boolean":
		switch strings.ToLower(text) {
		case "yes", "true":
			return true
		case "no", "false":
			return false
		}
	case "integer", "number":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
			return n
		}
	}
	return f.chosen(text)
}

func (f field) chosen(text string) string {
	shown, values := f.options()
	for i, one := range shown {
		if f.Type != "boolean" && strings.EqualFold(one, text) {
			return values[i]
		}
	}
	return text
}
