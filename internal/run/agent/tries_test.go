package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// ticking is a host whose clock advances a second with each reading, whose sleeps take no time, and whose random
// numbers are the highest possible.
type ticking struct {
	host.Host

	now   time.Time
	slept []time.Duration
}

func (h *ticking) Now() time.Time {
	h.now = h.now.Add(time.Second)
	return h.now
}

func (h *ticking) Sleep(_ context.Context, d time.Duration) error {
	h.slept = append(h.slept, d)
	return nil
}

func (h *ticking) Int64N(n int64) int64 { return n - 1 }

// shows records what is streamed.
type shows struct {
	silent

	text *[]string
}

func (s shows) Append(_ context.Context, text string)  { *s.text = append(*s.text, "+"+text) }
func (s shows) Replace(_ context.Context, text string) { *s.text = append(*s.text, "="+text) }

// A temporary failure is retried, with eight attempts in all. The pauses between them double, and are never shorter
// than the provider requests. Any other failure ends the run. Called is called for each attempt.
func TestModelCallIsRetriedAfterTemporaryFailures(t *testing.T) {
	fault := func(kind model.Kind, wait time.Duration) turn {
		return func(model.Request) (model.Reply, error) {
			return model.Reply{}, &model.Error{Kind: kind, Wait: wait, Err: errors.New("no")}
		}
	}
	busy := fault(model.Retryable, 0)
	throttled := func(wait time.Duration) turn { return fault(model.Throttled, wait) }
	foreign := func(model.Request) (model.Reply, error) { return model.Reply{}, errors.New("no") }
	pauses := func(n int) (list []time.Duration) {
		for d := 50 * time.Millisecond; n > 0; n-- {
			list = append(list, d-1) // the highest random number
			d *= 2
		}
		return list
	}
	for name, c := range map[string]struct {
		replies []turn
		failed  string // what Called reports: + or -
		slept   []time.Duration
		fails   bool
	}{
		"successful at once": {[]turn{textReply("done")}, "+", nil, false},
		"busy":               {[]turn{busy, textReply("done")}, "-+", pauses(1), false},
		"busy seven times":   {append(slices.Repeat([]turn{busy}, 7), textReply("done")), "-------+", pauses(7), false},
		"busy without end":   {slices.Repeat([]turn{busy}, 20), "--------", pauses(7), true},
		"throttled": {[]turn{throttled(time.Minute), textReply("done")}, "-+", []time.Duration{time.Minute},
			false},
		"throttled for a moment": {[]turn{throttled(time.Millisecond), textReply("done")}, "-+", pauses(1),
			false},
		"refused":                         {[]turn{fault(model.Refused, 0)}, "+", nil, true},
		"a bad request":                   {[]turn{busy, fault(model.BadRequest, 0)}, "-+", pauses(1), true},
		"too long":                        {[]turn{fault(model.TooLong, 0)}, "+", nil, true},
		"an error that is not of a model": {[]turn{foreign}, "+", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &script{}
			for _, turn := range c.replies {
				m.replies = append(m.replies, func(r model.Request) (model.Reply, error) {
					assert.Equal(t, len(m.shown)-1, r.Attempt, "how often this call has failed before")
					return turn(r)
				})
			}
			h, failed := &ticking{Host: host.System()}, ""
			s := newStage(m, nil)
			s.Host, s.Called = h, func(c agent.Called) {
				assert.False(t, c.Tool)
				assert.Equal(t, "m", c.Provider)
				failed += map[bool]string{true: "-", false: "+"}[c.Failed]
			}
			r := s.work(t)
			assert.Equal(t, c.failed, failed)
			assert.Equal(t, c.slept, h.slept)
			if c.fails {
				assert.Equal(t, "no", r.Failure)
				assert.Empty(t, r.All, "a call that used nothing is no step")
				return
			}
			require.NotNil(t, r.Answer)
			assert.Equal(t, len(failed), r.All[0].ModelAttempts)
		})
	}
}

// set is a clock that only the work moves forward.
type set struct {
	host.Host

	now time.Time
}

func (h *set) Now() time.Time                                 { return h.now }
func (h *set) Sleep(_ context.Context, d time.Duration) error { h.now = h.now.Add(d); return nil }
func (h *set) Int64N(n int64) int64                           { return n - 1 }

func TestTheTimeOfCallsIsSeparateFromTheRest(t *testing.T) {
	h := &set{Host: host.System(), now: time.Unix(0, 0)}
	type turn = func(model.Request) (model.Reply, error)
	takes := func(d time.Duration, turn turn) turn {
		return func(r model.Request) (model.Reply, error) {
			h.now = h.now.Add(d)
			return turn(r)
		}
	}
	m := &script{replies: []turn{
		takes(2*time.Second, fails(model.Throttled)), takes(10*time.Second, calls("1", "act", `{"n":1}`)),
		takes(time.Second, calls("2", "act", `{"n":2}`)), takes(4*time.Second, textReply("done")),
	}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		h.now = h.now.Add(3 * time.Second)
		if strings.Contains(string(i.Arguments), "2") {
			return "", tool.Fail("no")
		}
		return "yes", nil
	}))
	s.task.Journal = func(context.Context, []record.Step) error {
		h.now = h.now.Add(time.Minute)
		return nil
	}
	var called []agent.Called
	var own []time.Duration
	s.Host, s.Called = h, func(c agent.Called) { called = append(called, c) }
	s.Worked = func(d time.Duration) { own = append(own, d) }
	require.NotNil(t, s.work(t).Answer)
	assert.Equal(t, []agent.Called{
		{Provider: "m", Took: 2 * time.Second, Failed: true},
		{Provider: "m", Took: 10 * time.Second}, {Tool: true, Took: 3 * time.Second},
		{Provider: "m", Took: time.Second}, {Tool: true, Took: 3 * time.Second, Failed: true},
		{Provider: "m", Took: 4 * time.Second},
	}, called)
	assert.Equal(t, []time.Duration{2 * time.Minute}, own, "the journal of two replies; those of calls are theirs")
}

// The output of a failed attempt is replaced before the next attempt, so that clients see only text of the run.
func TestOutputOfAFailedTryIsReplaced(t *testing.T) {
	halfway := func(model.Request) (model.Reply, error) {
		return model.Reply{Text: "Le"}, model.Fail(model.Retryable, "busy")
	}
	callsTool := func(r model.Request) (model.Reply, error) {
		reply, err := calls("a", "act", `{"n":1}`)(r)
		reply.Text = "Let me look. "
		return reply, err
	}
	s := newStage(
		&script{replies: []turn{halfway, callsTool, halfway, textReply("Done.")}},
		offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil }),
	)
	var shown []string
	s.Host, s.task.Output = &ticking{Host: host.System()}, shows{text: &shown}
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, []string{"+Le", "=", "+Let me look. ", "+\n\n", "+Le", "=Let me look. ", "+\n\n", "+Done."}, shown)
	assert.Equal(t, "Let me look. \n\nDone.", r.Answer.Text)
}

// Half of the remaining history is left out, in whole turns, until it fits or none is left, at most eight times.
func TestHistoryIsHalvedInWholeTurnsUntilItFits(t *testing.T) {
	for messages, shown := range map[int][]int{
		0: {1}, 1: {2}, 2: {3, 1}, 3: {4, 2}, 4: {5, 3, 1}, 6: {7, 3, 1}, 8: {9, 5, 3, 1},
		512: {513, 257, 129, 65, 33, 17, 9, 5},
	} {
		m := &script{replies: slices.Repeat([]turn{fails(model.TooLong)}, 20)}
		s := newStage(m, nil)
		one := []model.Message{{Role: model.User, Text: "q"}, {Role: model.Assistant, Text: "a"}}
		s.task.History = slices.Repeat(one, messages)[:messages]
		r := s.work(t)
		assert.Equal(t, "no", r.Failure)
		var lengths []int
		for _, request := range m.shown {
			lengths = append(lengths, len(request.Messages))
			assert.Equal(
				t,
				"do it",
				request.Messages[len(request.Messages)-1].Text,
				"the message itself is always shown",
			)
		}
		assert.Equal(t, shown, lengths, "of %d messages", messages)
	}
}

// Each step has the times of its start and end.
func TestEachStepRecordsItsStartAndEnd(t *testing.T) {
	s, _ := payment(replies(act("a", `{"n":1}`), act("b", `{}`), named("unknown")))
	s.Host = &ticking{Host: host.System()}
	r := s.work(t)
	require.NotNil(t, r.Answer)
	for _, step := range r.All {
		assert.False(t, step.StartedAt.IsZero(), "%+v", step)
		assert.Equal(t, 1, step.Attempt)
		if step.Kind == record.StartStep {
			assert.True(t, step.FinishedAt.IsZero(), "it has only begun")
		} else {
			assert.True(t, step.FinishedAt.After(step.StartedAt), "%+v", step)
		}
	}
}

// A model request has the descriptions of the agent's tools, its instructions and its settings.
func TestModelRequestHasTheAgentsToolsInstructionsAndSettings(t *testing.T) {
	warm, most := 0.5, 99
	one := tool.Spec{Name: "one", Description: "does one", Parameters: json.RawMessage(`{"title":"one"}`)}
	two := tool.Spec{Name: "two", Description: "does two", Parameters: json.RawMessage(`{"title":"two"}`)}
	m := &script{replies: []turn{textReply("done")}}
	s := newStage(m, func(task *agent.Task) {
		task.Agent.Spec.Instructions, task.Agent.Spec.CanAsk = "Be kind.", true
		task.Agent.Spec.Model.Temperature, task.Agent.Spec.Model.MaxTokens = &warm, &most
		task.Tools = []tool.Offer{{Spec: one}, {Spec: two}}
	})
	require.NotNil(t, s.work(t).Answer)
	request := m.shown[0]
	require.Len(t, request.Tools, 3)
	for n, spec := range []tool.Spec{one, two} {
		shown := model.ToolSpec{Name: spec.Name, Description: spec.Description, Parameters: spec.Parameters}
		assert.Equal(t, shown, request.Tools[n])
	}
	assert.Equal(t, model.AskUser, request.Tools[2].Name)
	request.Tools = nil
	assert.Equal(t, model.Request{
		Name: "n", Temperature: &warm, MaxTokens: &most, Instructions: "Be kind.",
		Messages: []model.Message{{Role: model.User, Text: "do it"}},
	}, request)
}

// A run fails, with the reason, if its agent cannot be run.
func TestAgentThatCannotRunFailsItsRun(t *testing.T) {
	schema := func(text string) func(*agent.Task) {
		return func(task *agent.Task) { task.Agent.Spec.OutputSchema = json.RawMessage(text) }
	}
	for _, bad := range []string{`{`, `1`, `{"type":5}`} {
		r := newStage(&script{}, schema(bad)).work(t)
		assert.Contains(t, r.Failure, "the agent's output_schema cannot be read: ", bad)
	}
	for _, none := range []string{"", "null"} {
		r := newStage(&script{replies: []turn{textReply("any text")}}, schema(none)).work(t)
		require.NotNil(t, r.Answer)
		assert.Equal(t, agent.Answer{Text: "any text", Finish: "stop"}, *r.Answer)
	}
	r := newStage(&script{}, func(task *agent.Task) { task.Agent.Spec.Model.Provider = "other" }).work(t)
	assert.Equal(t, `this deployment has no model provider "other"`, r.Failure)
}

// An exhausted budget ends a call between two attempts. Each attempt costs tokens, which the budget does not count
// until the call ends.
func TestABudgetEndsACallBetweenTwoAttempts(t *testing.T) {
	breaks := func(model.Request) (model.Reply, error) {
		return model.Reply{InputTokens: 60, OutputTokens: 40}, model.Fail(model.Retryable, "it broke off")
	}
	m := &script{replies: slices.Repeat([]turn{breaks}, 8)}
	s := newStage(m, nil)
	s.Host = &ticking{Host: host.System()}
	s.task.BudgetExceeded = func(_ context.Context, _, more int64) (string, error) {
		if more >= 250 {
			return "all is used", nil
		}
		return "", nil
	}
	r := s.work(t)
	assert.Equal(t, "all is used", r.Failure)
	assert.Len(t, m.shown, 3)
	require.Len(t, r.Last, 1)
	assert.Equal(t, []int64{180, 120}, []int64{r.Last[0].InputTokens, r.Last[0].OutputTokens})

	s.task.BudgetExceeded = func(_ context.Context, _, more int64) (string, error) {
		return strings.Repeat("all is used", int(min(more, 1))), nil
	}
	s.Models["m"] = &script{replies: []turn{func(model.Request) (model.Reply, error) {
		return model.Reply{InputTokens: 60}, model.Fail(model.Refused, "not that")
	}}}
	assert.Contains(t, s.work(t).Failure, "not that", "there is no attempt that the budget could stop")

	unread := errors.New("unread")
	s = newStage(&script{replies: []turn{breaks}}, nil)
	reads := 0
	s.task.BudgetExceeded = func(context.Context, int64, int64) (string, error) {
		if reads++; reads == 1 {
			return "", nil
		}
		return "", unread
	}
	_, err := s.Work(t.Context(), s.task)
	require.ErrorIs(t, err, unread)
}
