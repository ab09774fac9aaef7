// Package demomodel implements the model port without a network: deterministic, for demonstrations and tests.
//
// It reads the newest user message line by line. A line that begins with "/" is a directive; every other line is
// echoed. The directives: /sleep, /stream, /ask, /tool, /search, /fail, /flaky.
//
// It imports its port and host.
package demomodel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/host"
)

// Model is the demo model.
type Model struct{ host host.Host }

// New makes the model; /sleep and /stream wait on the clock of h.
func New(h host.Host) *Model { return &Model{host: h} }

// Limits on what directives may ask for.
const (
	maxDeltas = 100_000
	maxText   = 1 << 20
)

// Converse executes the newest user message, continuing after the last round of tool results. It returns the
// [model.Error] that /fail or /flaky asks for, or the context's error.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	t := newest(r.Messages)
	p := parse(t.text)
	// More rounds of results than the message has segments: another model wrote this conversation. Continue with the
	// last segment.
	began := min(len(t.rounds), len(p.segments)-1)
	s := p.segments[began]
	if r.Attempt < s.flaky {
		return model.Reply{}, model.Fail(model.Retryable,
			"the demo model fails %d times as instructed; this is failure %d",
			s.flaky, r.Attempt+1)
	}
	w := &writer{ctx: ctx, emit: emit}
	if began == 0 && p.text != "" {
		w.words("You said: " + p.text)
	}
	if began > 0 {
		for _, line := range resultLines(t.rounds[began-1]) {
			w.line(line)
		}
	}
	for _, d := range s.directions {
		if err := m.follow(ctx, d, w); err != nil {
			return w.used(r.Messages), err
		}
	}
	if began == len(p.segments)-1 && len(s.calls) == 0 && len(t.sources) > 0 {
		w.line("Sources: " + strings.Join(t.sources, " "))
	}
	reply := w.used(r.Messages)
	if err := ctx.Err(); err != nil {
		return reply, err
	}
	reply.Text, reply.Calls, reply.Finish = w.text.String(), callsOf(s.calls, began), "stop"
	if len(reply.Calls) > 0 {
		reply.Finish = "tool_calls"
	}
	return reply, nil
}

// turn is the newest user message and what followed it.
type turn struct {
	text    string
	sources []string         // citations of the passages that came with it
	rounds  [][]model.Result // of each round of calls
}

func newest(messages []model.Message) (t turn) {
	for i, m := range messages {
		switch m.Role {
		case model.User:
			if !cameWithAnswer(messages, i) {
				t = turn{text: m.Text, sources: sources(m.Passages)}
			}
		case model.Tool:
			t.rounds = append(t.rounds, m.Results)
		case model.Assistant:
		}
	}
	return t
}

// cameWithAnswer reports whether a user message consists only of files that were attached to an answer to a question.
func cameWithAnswer(messages []model.Message, i int) bool {
	return i > 0 && messages[i-1].Role == model.Tool && messages[i].Text == ""
}

func countWords(messages []model.Message) int64 {
	n := 0
	for _, m := range messages {
		n += len(strings.Fields(m.Text))
		for _, r := range m.Results {
			n += len(strings.Fields(r.Text))
		}
	}
	return int64(n)
}

// A plan is a parsed message: text to echo and directives, in segments, each ending with a round of calls.
type plan struct {
	text     string
	segments []segment
}

type segment struct {
	flaky      int // how often the call of this segment fails before it succeeds
	directions []direction
	calls      []direction
}

type direction struct{ name, rest string }

func parse(message string) plan {
	var spoken []string
	segments := []segment{{}}
	for line := range strings.SplitSeq(message, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if !strings.HasPrefix(line, "/") {
			spoken = append(spoken, line)
			if last := &segments[len(segments)-1]; len(last.calls) > 0 && strings.TrimSpace(line) != "" {
				// text or a directive stands between two calls, so they are not parallel
				segments = append(segments, segment{})
			}
			continue
		}
		name, rest, _ := strings.Cut(line[1:], " ")
		d := direction{name: name, rest: strings.TrimSpace(rest)}
		last := &segments[len(segments)-1]
		parallel := name == "tool" || name == "ask"
		if len(last.calls) > 0 && (!parallel || last.calls[0].name == "search") {
			segments = append(segments, segment{})
			last = &segments[len(segments)-1]
		}
		switch name {
		case "tool", "ask", "search":
			last.calls = append(last.calls, d)
		case "flaky":
			n, _ := strconv.Atoi(d.rest)
			last.flaky += max(n, 0)
		default:
			last.directions = append(last.directions, d)
		}
	}
	if len(segments[len(segments)-1].calls) > 0 {
		segments = append(segments, segment{}) // the segment in which the results are reported
	}
	return plan{text: strings.Trim(strings.Join(spoken, "\n"), "\n"), segments: segments}
}

// follow executes one directive. Errors: the [model.Error] that /fail and /flaky ask for, or the context's error.
// A directive with unreadable arguments is reported in the text instead.
func (m *Model) follow(ctx context.Context, d direction, w *writer) error {
	switch d.name {
	case "sleep":
		wait, bad := time.ParseDuration(d.rest)
		if bad != nil || wait < 0 {
			w.line(fmt.Sprintf("sleep → error: %q is not a duration", d.rest))
			return nil //nolint:nilerr // reported in the text
		}
		return m.host.Sleep(ctx, wait)
	case "stream":
		return m.stream(ctx, d, w)
	case "fail":
		return model.Fail(model.BadRequest, "%s", cmp.Or(d.rest, "the demo model fails as instructed"))
	default:
		w.line(fmt.Sprintf("%s → error: unknown direction", d.name))
		return nil
	}
}

func (m *Model) stream(ctx context.Context, d direction, w *writer) error {
	count, gap, _ := strings.Cut(d.rest, " ")
	n, badCount := strconv.Atoi(count)
	wait, badGap := time.ParseDuration(strings.TrimSpace(gap))
	if badCount != nil || n < 0 || n > maxDeltas || (gap != "" && (badGap != nil || wait < 0)) {
		w.line(fmt.Sprintf("stream → error: %q is not a count and a duration", d.rest))
		return nil //nolint:nilerr // reported in the text
	}
	for i := 1; i <= n; i++ {
		if i > 1 {
			if err := m.host.Sleep(ctx, wait); err != nil {
				return err
			}
			w.raw(" " + strconv.Itoa(i))
			continue
		}
		w.line("1")
	}
	return nil
}

func callsOf(directions []direction, round int) []model.Call {
	var calls []model.Call
	for i, d := range directions {
		c := model.Call{ID: fmt.Sprintf("call-%d-%d", round+1, i+1)}
		switch d.name {
		case "ask":
			c.Name = model.AskUser
			c.Arguments, _ = json.Marshal(map[string]string{"question": d.rest})
		case "search":
			c.Name = model.Search
			c.Arguments, _ = json.Marshal(map[string]string{"query": d.rest})
		default:
			name, arguments, _ := strings.Cut(d.rest, " ")
			c.Name, c.Arguments = name, json.RawMessage(cmp.Or(strings.TrimSpace(arguments), "{}"))
		}
		calls = append(calls, c)
	}
	return calls
}

func resultLines(results []model.Result) []string {
	lines := make([]string, 0, len(results))
	for _, r := range results {
		if found := passages(r.Text); r.Name == model.Search && r.Outcome == model.Succeeded && len(found) > 0 {
			for _, p := range found {
				lines = append(lines, r.Name+" → "+p.line())
			}
			continue
		}
		switch r.Outcome {
		case model.Answered:
			lines = append(lines, "Answer: "+r.Text)
		case model.Failed:
			lines = append(lines, r.Name+" → error: "+r.Text)
		case model.Rejected:
			lines = append(lines, r.Name+" → rejected: "+r.Text)
		case model.Succeeded:
			lines = append(lines, r.Name+" → "+r.Text)
		}
	}
	return lines
}

// passage is a passage of a search, in the form that models read.
type passage struct {
	N     int    `json:"n"`
	State string `json:"state"` // why it is not shown; empty: it is
	Title string `json:"title"`
	Text  string `json:"text"`
}

// passages reads the output of a search: a line of JSON for each.
func passages(output string) (list []passage) {
	for line := range strings.SplitSeq(output, "\n") {
		var p passage
		if json.Unmarshal([]byte(line), &p) == nil && p.N > 0 {
			list = append(list, p)
		}
	}
	return list
}

// maxExcerpt is how many characters of a passage the demo model repeats.
const maxExcerpt = 80

func (p passage) line() string {
	if p.State != "" {
		return fmt.Sprintf("[%d] (%s)", p.N, p.State)
	}
	text := []rune(p.Text)
	one := strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")
	return fmt.Sprintf("[%d] %s: %s", p.N, one.Replace(p.Title), one.Replace(string(text[:min(len(text), maxExcerpt)])))
}

// sources cites what was found for a message.
func sources(found string) (list []string) {
	for _, p := range passages(found) {
		list = append(list, fmt.Sprintf("[%d]", p.N))
	}
	return list
}

type writer struct {
	ctx  context.Context
	emit func(string)
	text strings.Builder
}

// used is a reply with the usage so far: a token is a word.
func (w *writer) used(messages []model.Message) model.Reply {
	return model.Reply{InputTokens: countWords(messages), OutputTokens: int64(len(strings.Fields(w.text.String())))}
}

func (w *writer) raw(s string) {
	if w.ctx.Err() != nil || w.text.Len() > maxText {
		return
	}
	w.text.WriteString(s)
	w.emit(s)
}

// line begins a new line, unless nothing has been written yet.
func (w *writer) line(s string) {
	if w.text.Len() > 0 {
		s = "\n" + s
	}
	w.raw(s)
}

// words writes a text word by word with its white space unchanged.
func (w *writer) words(s string) {
	for s != "" {
		end := strings.IndexAny(s[1:], " \n\t")
		if end < 0 {
			w.raw(s)
			return
		}
		w.raw(s[:end+1])
		s = s[end+1:]
	}
}
