package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// reader has the state of a stream's reader: the pieces since the text was last replaced.
type reader struct {
	pieces   []string
	replaced []string // the texts that replaced others
}

func (r *reader) Append(_ context.Context, text string) { r.pieces = append(r.pieces, text) }

func (r *reader) Replace(_ context.Context, text string) {
	if text == r.text() {
		return
	}
	r.replaced = append(r.replaced, text)
	r.pieces = []string{text}
}

func (*reader) Step(context.Context, events.StepEvent) {}

func (r *reader) text() string { return strings.Join(r.pieces, "") }

// spoken is a reply that streams in pieces.
type spoken struct {
	pieces []string
	calls  bool
	finish string
}

type speaker struct {
	replies []spoken
	shown   []model.Request
	meet    func(n int) error // before the nth reply
}

func (s *speaker) Converse(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	n := len(s.shown)
	s.shown = append(s.shown, r)
	if s.meet != nil {
		if err := s.meet(n); err != nil {
			return model.Reply{}, err
		}
	}
	reply := model.Reply{Finish: s.replies[n].finish, InputTokens: 10, OutputTokens: 5}
	for _, piece := range s.replies[n].pieces {
		emit(piece)
		reply.Text += piece
	}
	if reply.Finish == "" {
		reply.Finish = "stop"
	}
	if s.replies[n].calls {
		reply.Calls = []model.Call{{Name: "act", Arguments: json.RawMessage(`{"n":1}`)}}
	}
	return reply, nil
}

func acts(t *agent.Task) {
	offers(func(context.Context, tool.Invocation) (string, error) { return "done", nil })(t)
}

func speaks(pieces ...string) spoken { return spoken{pieces: pieces} }

func speaksAndCalls(pieces ...string) spoken { return spoken{pieces: pieces, calls: true} }

// Texts of several steps are paragraphs of the answer. The streamed pieces join to it. The break is a separate piece
// before the next text.
func TestTextsOfStepsAreJoinedByABlankLine(t *testing.T) {
	for name, c := range map[string]struct {
		replies []spoken
		pieces  []string
	}{
		"two": {[]spoken{speaksAndCalls("Let me ", "check"), speaks("It is", " 5")},
			[]string{"Let me ", "check", "\n\n", "It is", " 5"}},
		"the first is none": {[]spoken{speaksAndCalls(), speaks("It is 5")}, []string{"It is 5"}},
		"the last is none":  {[]spoken{speaksAndCalls("Done"), speaks()}, []string{"Done"}},
		"one between is none": {[]spoken{speaksAndCalls("A"), speaksAndCalls(), speaksAndCalls("\n"), speaks("B")},
			[]string{"A", "\n\n", "B"}},
		"the first is blank": {[]spoken{speaksAndCalls("\n", "\n"), speaks("It is 5")}, []string{"It is 5"}},
		"a heading": {[]spoken{speaksAndCalls("for you."), speaks("# Result")},
			[]string{"for you.", "\n\n", "# Result"}},
		"after a line": {[]spoken{speaksAndCalls("for you.\n"), speaks("# Result")},
			[]string{"for you.\n", "\n", "# Result"}},
		"after a blank line": {[]spoken{speaksAndCalls("for you.\n\n"), speaks("# Result")},
			[]string{"for you.\n\n", "# Result"}},
		"with blank lines": {[]spoken{speaksAndCalls("for you.\n\n"), speaks("\n", "\n", "# Result")},
			[]string{"for you.\n\n", "# Result"}},
		"with a line end": {[]spoken{speaksAndCalls("for you."), speaks("\n# Result")},
			[]string{"for you.", "\n\n", "# Result"}},
		"with an indentation": {[]spoken{speaksAndCalls("so:"), speaks("\n", "  ", "  code")},
			[]string{"so:", "\n\n", "    code"}},
		"only the answer":      {[]spoken{speaks("\n", " A", "\n")}, []string{"\n A", "\n"}},
		"nothing that is seen": {[]spoken{speaksAndCalls("A"), speaks("\u200B", "\u00A0")}, []string{"A"}},
	} {
		out := &reader{}
		s := newStage(&speaker{replies: c.replies}, acts)
		s.task.Output = out
		r := s.work(t)
		require.NotNil(t, r.Answer, name)
		assert.Equal(t, c.pieces, out.pieces, name)
		assert.Equal(t, out.text(), r.Answer.Text, name)
		assert.Equal(t, "stop", r.Answer.Finish, name)
		assert.Empty(t, out.replaced, name)
	}
}

// A failed model call is made again. The break is sent once before its text.
func TestTheBreakIsSentAgainWithTheNextAttempt(t *testing.T) {
	out := &reader{}
	m := &speaker{replies: []spoken{speaksAndCalls("A"), speaks("lost"), speaks("B")}}
	s := newStage(brokenAfter{m, 2}, acts)
	s.task.Output = out
	r := s.work(t)
	assert.Equal(t, "A\n\nB", r.Answer.Text)
	assert.Equal(t, []string{"A"}, out.replaced)
	assert.Equal(t, []string{"A", "\n\n", "B"}, out.pieces)
}

// brokenAfter breaks off reply n.
type brokenAfter struct {
	*speaker

	n int
}

func (b brokenAfter) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	reply, err := b.speaker.Converse(ctx, r, emit)
	if len(b.shown) == b.n {
		err = model.Fail(model.Retryable, "broke off")
	}
	return reply, err
}

// A repaired answer replaces the first one, also in streams.
func TestARepairedAnswerReplacesTheFirst(t *testing.T) {
	out := &reader{}
	m := &speaker{replies: []spoken{
		speaksAndCalls("I look."), speaks("Here: ", `{"town":"Rome"}`), speaks(`{"city":`, `"Oslo"}`),
	}}
	s := newStage(m, func(t *agent.Task) { acts(t); structured(t) })
	s.task.Output = out
	r := s.work(t)
	assert.Equal(t, "I look.\n\n{\"city\":\"Oslo\"}", r.Answer.Text)
	assert.Equal(t, []string{"I look."}, out.replaced)
	assert.Equal(t, []string{"I look.", "\n\n", `{"city":`, `"Oslo"}`}, out.pieces)
	assert.Contains(t, m.shown[2].Messages[3].Text, "Here: ", "the model is shown what it is to repair")
}

// An empty reply is journalled. The model gets one more request with a line about it.
func TestAnEmptyReplyIsAskedForOnceMore(t *testing.T) {
	for _, empty := range []string{"", " \n", "\u00A0", "\u200B\uFEFF"} {
		m := &speaker{replies: []spoken{speaks(empty), speaks("Hello")}}
		out := &reader{}
		s := newStage(m, nil)
		s.task.Output = out
		m.meet = func(n int) error {
			assert.Len(t, s.journal, n, "%q", empty)
			return nil
		}
		r := s.work(t)
		assert.Equal(t, agent.Answer{Text: "Hello", Finish: "stop"}, *r.Answer, "%q", empty)
		assert.Equal(t, "Hello", out.text(), "%q", empty)
		require.Len(t, m.shown, 2, "%q", empty)
		sent := m.shown[1].Sendable().Messages
		require.Len(t, sent, 1, "%q", empty)
		assert.Equal(t, "do it\n\nYour reply was empty. Reply to the message above.", sent[0].Text, "%q", empty)
		require.Len(t, r.All, 2)
		assert.Equal(t, int64(10), r.All[0].InputTokens, "%q: both replies are paid", empty)
	}
}

// A run whose model writes nothing ends so. The model gets at most two requests.
func TestARunThatStaysEmptyEndsEmpty(t *testing.T) {
	one := 1
	for name, c := range map[string]struct {
		replies []spoken
		change  func(*agent.Task)
		finish  string
		text    string
	}{
		"empty twice":             {[]spoken{speaks(), speaks("\n")}, nil, "empty", ""},
		"cut before a text":       {[]spoken{{finish: "length"}}, nil, "length", ""},
		"cut the second time":     {[]spoken{speaks(), {finish: "length"}}, nil, "length", ""},
		"after a call":            {[]spoken{speaksAndCalls(), speaks()}, acts, "empty", ""},
		"after a text":            {[]spoken{speaksAndCalls("Done."), speaks()}, acts, "stop", "Done."},
		"a call when asked again": {[]spoken{speaks(), speaksAndCalls(), speaks()}, acts, "empty", ""},
		"the demo model": {[]spoken{speaks()},
			func(t *agent.Task) { t.Agent.Spec.Model.Provider = "demo" }, "empty", ""},
		"no step is left": {[]spoken{speaks()},
			func(t *agent.Task) { t.Agent.Spec.Limits.MaxSteps = &one }, "empty", ""},
	} {
		m := &speaker{replies: c.replies}
		s := newStage(m, c.change)
		s.Models["demo"] = m
		r := s.work(t)
		require.Empty(t, r.Failure, name)
		assert.Equal(t, agent.Answer{Text: c.text, Finish: c.finish}, *r.Answer, name)
		assert.Len(t, m.shown, len(c.replies), name)
	}
}

// For a structured agent an empty reply is only an answer to repair.
func TestAnEmptyStructuredAnswerIsRepairedOnce(t *testing.T) {
	m := &speaker{replies: []spoken{speaks(), speaks(`{"city":"Oslo"}`)}}
	r := newStage(m, structured).work(t)
	assert.Equal(t, `{"city":"Oslo"}`, r.Answer.Text)
	m = &speaker{replies: []spoken{speaks(), speaks(" ")}}
	r = newStage(m, structured).work(t)
	assert.Contains(t, r.Failure, "output_schema")
	assert.Len(t, m.shown, 2)
}

// A later attempt does not repeat the requests of an earlier one, and keeps no text that was replaced.
func TestACrashBeforeTheBetterAnswerChangesNothing(t *testing.T) {
	crash := errors.New("crash")
	for name, c := range map[string]struct {
		first  []spoken
		second []spoken
		change func(*agent.Task)
		want   agent.Answer
	}{
		"a repair": {[]spoken{speaks(`{"town":"Rome"}`), {}}, []spoken{speaks(`{"city":"Oslo"}`)}, structured,
			agent.Answer{Text: `{"city":"Oslo"}`, Finish: "stop", Output: json.RawMessage(`{"city":"Oslo"}`)}},
		"an empty reply": {[]spoken{speaks(), {}}, []spoken{speaks()}, nil, agent.Answer{Finish: "empty"}},
		"a text after an empty reply": {[]spoken{speaks(), {}}, []spoken{speaks("Hello")}, nil,
			agent.Answer{Text: "Hello", Finish: "stop"}},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		m := &speaker{replies: c.first}
		s := newStage(m, c.change)
		m.meet = func(n int) error {
			if n == 1 {
				stop(crash)
				return ctx.Err()
			}
			return nil
		}
		_, err := s.Work(ctx, s.task)
		require.Error(t, err, name)
		out := &reader{}
		again := newStage(&speaker{replies: c.second}, c.change)
		again.task.Steps, again.task.Output = s.journal, out
		r := again.work(t)
		require.NotNil(t, r.Answer, name)
		assert.Equal(t, c.want, *r.Answer, name)
		assert.Equal(t, c.want.Text, out.text(), name)
		var all record.Answer
		for _, step := range r.All {
			all.Add(step)
		}
		assert.Equal(t, c.want.Text, all.String(), name)
	}
}

// A client may request another form with the output of its function. An answer that did not fit the first form may fit
// this one. The run then continues.
func TestAnAnswerThatWasRepairedMayFitTheFormOfNow(t *testing.T) {
	for name, change := range map[string]func(*agent.Task){"it fits": structured, "no form": func(*agent.Task) {}} {
		m := &speaker{replies: []spoken{speaks(`{"city":"Rome"}`)}}
		s := newStage(m, change)
		s.task.Steps = []record.Step{
			{Kind: record.ModelStep, Text: `{"city":"Oslo"}`, Withdrawn: true},
			{Index: 1, Kind: record.ModelStep, Calls: []record.Call{{ID: "0", Name: "act"}}},
			{Index: 2, Kind: record.ToolStep, CallID: "1-0", Outcome: "answered", Output: "done"},
		}
		r := s.work(t)
		require.NotNil(t, r.Answer, name)
		assert.Equal(t, `{"city":"Rome"}`, r.Answer.Text, name)
		assert.Equal(t, "Answer again.", m.shown[0].Messages[2].Text, name)
	}
}
