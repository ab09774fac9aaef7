package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// A model's reply is untrusted until it is checked: the ids of its calls, their arguments, the length of its text, and
// its token counts.

type turn = func(model.Request) (model.Reply, error)

// replies is a turn with several calls in one reply.
func replies(calls ...model.Call) turn {
	return func(model.Request) (model.Reply, error) {
		return model.Reply{Calls: calls, Finish: "tool_calls", InputTokens: 7, OutputTokens: 3}, nil
	}
}

func act(id, arguments string) model.Call {
	return model.Call{ID: id, Name: "act", Arguments: json.RawMessage(arguments)}
}

// approved is an agent whose calls all need approval; made are the arguments of the calls made.
func approved(made *[]string) func(*agent.Task) {
	var mu sync.Mutex
	return func(t *agent.Task) {
		offers(func(_ context.Context, i tool.Invocation) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			*made = append(*made, string(i.Arguments))
			return "ok", nil
		})(t)
		t.Agent.Spec.Approval.Mode = "always"
	}
}

// decide continues after a pause with a verb for each interrupt, in order.
func (s *stage) decide(t *testing.T, r agent.Result, verbs ...string) agent.Result {
	t.Helper()
	require.Len(t, r.Interrupts, len(verbs))
	s.task.Steps, s.task.Pauses = r.All, append(s.task.Pauses, r.Interrupts)
	for n, i := range r.Interrupts {
		s.task.Decided[i.ID] = record.Decision{InterruptID: i.ID, Decision: verbs[n]}
	}
	return s.work(t)
}

func TestEachCallIsDecidedSeparatelyEvenIfTheModelReusesItsID(t *testing.T) {
	for name, ids := range map[string][3]string{
		"the same id for all":     {"a", "a", "a"},
		"no ids":                  {"", "", ""},
		"ids like generated ones": {"2", "1", "0"},
		"ids of another key":      {"0-a", "a", "0-0-a"},
		"ids that are long and invalid": {
			strings.Repeat("x", 1<<16), strings.Repeat("x", 1<<16) + "y", "a\x00b\r\nX-Evil: 1\xff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &script{replies: []turn{
				replies(act(ids[0], `{"n":1}`), act(ids[1], `{"n":2}`), act(ids[2], `{"n":3}`)), textReply("done"),
			}}
			var made []string
			s := newStage(m, approved(&made))
			r := s.decide(t, s.work(t), "approve", "reject", "approve")
			require.NotNil(t, r.Answer)
			slices.Sort(made)
			assert.Equal(t, []string{`{"n":1}`, `{"n":3}`}, made, "the one that was rejected is not made")

			shown := m.shown[1].Messages
			calls, results := shown[len(shown)-2].Calls, shown[len(shown)-1].Results
			require.Len(t, calls, 3)
			require.Len(t, results, 3)
			known := map[string]bool{}
			for n := range calls {
				assert.False(t, known[calls[n].ID], "the model is shown each call under an id of its own: %q",
					calls[n].ID)
				known[calls[n].ID] = true
				assert.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, calls[n].ID, "an id that every provider takes")
				assert.Equal(t, calls[n].ID, results[n].CallID)
			}
			assert.Equal(t, model.Rejected, results[1].Outcome)
		})
	}
}

func TestRepeatedIDInALaterReplyIsAnotherCall(t *testing.T) {
	m := &script{replies: []turn{replies(act("a", `{"n":1}`)), replies(act("a", `{"n":2}`)), textReply("done")}}
	var made []string
	s := newStage(m, approved(&made))
	r := s.decide(t, s.work(t), "approve")
	r = s.decide(t, r, "reject")
	require.NotNil(t, r.Answer)
	assert.Equal(t, []string{`{"n":1}`}, made)
	var ids []string
	for _, message := range m.shown[2].Messages {
		for _, c := range message.Calls {
			ids = append(ids, c.ID)
		}
	}
	require.Len(t, ids, 2)
	assert.NotEqual(t, ids[0], ids[1])
}

// storable asserts that the store accepts the steps: JSON without ambiguity.
func storable(t *testing.T, steps []record.Step) {
	t.Helper()
	for _, step := range steps {
		text, err := json.Marshal(step)
		require.NoError(t, err)
		_, err = strictjson.Value(text, strictjson.Limits{Bytes: 64 << 20, Depth: 1000})
		assert.NoError(t, err)
	}
}

func TestUnreadableArgumentsFailTheCallAndAreReportedToTheModel(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"n":1,"n":2}`:                         "/n is repeated",
		`{"n":1,"\u006e":2}`:                    "/n is repeated",
		`{"n":1,"x":{"y":1,"y":2}}`:             "/x/y is repeated",
		`{"n":1,"x":"\ud800"}`:                  "not valid Unicode",
		"{\"n\":1,\"x\":\"\xff\"}":              "not valid Unicode",
		`{"n":1`:                                "cut off",
		`{"n":1} {"n":2}`:                       "must be the only content",
		`"n"`:                                   "not a JSON object",
		``:                                      "the JSON is empty",
		`{"n":1,"x":` + deep(100):               "levels deep",
		`{"n":1,"x":"` + long(1<<20) + `"}`:     "bytes",
		`{"n":1,"x":[` + long(1<<10) + `1e999]`: "not valid JSON",
	} {
		t.Run(want, func(t *testing.T) {
			m := &script{replies: []turn{replies(act("a", arguments)), textReply("done")}}
			var made []string
			s := newStage(m, approved(&made))
			r := s.work(t)
			require.NotNil(t, r.Answer, "the model is told, and goes on")
			assert.Empty(t, made)
			storable(t, r.All)
			assert.Contains(t, r.All[1].Output, want)
			assert.Less(t, len(r.All[1].Output), 2000)
			assert.EqualValues(t, 7, r.All[0].InputTokens, "what it used counts")
		})
	}
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
func long(n int) string { return strings.Repeat("x", n) }

func TestApprovedArgumentsAreTheOnesSent(t *testing.T) {
	m := &script{replies: []turn{replies(act("a", `{ "n" : 5e3, "to":"\u006dallory" }`)), textReply("done")}}
	var made []string
	s := newStage(m, approved(&made))
	r := s.work(t)
	require.Len(t, r.Interrupts, 1)
	assert.Equal(t, `{"n":5000,"to":"mallory"}`, string(r.Interrupts[0].Tool.Arguments))
	s.decide(t, r, "approve")
	assert.Equal(t, []string{`{"n":5000,"to":"mallory"}`}, made)
}

func TestStructuredAnswerIsParsedStrictly(t *testing.T) {
	m := &script{replies: []turn{textReply(`{"city":"Oslo","city":"Rome"}`), textReply(`{"city":"\u004fslo"}`)}}
	s := newStage(m, structured)
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, `{"city":"Oslo"}`, string(r.Answer.Output))
	last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
	assert.Contains(t, last.Text, "/city is repeated")
}

func TestReplyBeyondItsLimitsFailsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		reply turn
		want  string
	}{
		"text":  {textReply(long(5 << 20)), "the model's reply is over"},
		"calls": {replies(slices.Repeat([]model.Call{act("a", `{"n":1}`)}, 300)...), "requested 300 calls"},
		"arguments": {
			replies(slices.Repeat([]model.Call{act("a", `{"n":1,"x":"`+long(200<<10)+`"}`)}, 20)...),
			"bytes of arguments",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var made []string
			s := newStage(&script{replies: []turn{c.reply}}, approved(&made))
			r := s.work(t)
			assert.Contains(t, r.Failure, c.want)
			assert.Empty(t, made)
			require.NotEmpty(t, r.All, "the call of the model is journalled, so that what it used counts")
			storable(t, r.All)
		})
	}
}

func TestInvalidToolNameIsReportedAndStorable(t *testing.T) {
	m := &script{replies: []turn{replies(model.Call{ID: "a", Name: long(1<<20) + "\xff",
		Arguments: json.RawMessage(`{}`)}), textReply("done")}}
	r := newStage(m, nil).work(t)
	require.NotNil(t, r.Answer)
	storable(t, r.All)
	assert.Less(t, len(r.All[1].Name), 200)
	assert.Less(t, len(r.All[1].Output), 500)
}

func TestImplausibleTokenClaimsAreEstimated(t *testing.T) {
	claim := func(in, out int64) turn {
		return func(model.Request) (model.Reply, error) {
			return model.Reply{Text: "one two three", Finish: "stop", InputTokens: in, OutputTokens: out}, nil
		}
	}
	for name, c := range map[string]struct{ in, out, wantIn, wantOut int64 }{
		"plausible":              {120, 30, 120, 30},
		"zero":                   {0, 0, 2, 4},
		"negative":               {-50, -1, 2, 4},
		"one of the two too low": {-50, 30, 2, 30},
		"implausibly many":       {math.MaxInt64, math.MaxInt64, 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(&script{replies: []turn{claim(c.in, c.out)}}, nil)
			r := s.work(t)
			assert.Equal(t, c.wantIn, r.All[0].InputTokens)
			assert.Equal(t, c.wantOut, r.All[0].OutputTokens)
		})
	}
}

// A result is journalled when its call ends, not with the others of its round. No person must decide about it if the
// worker is lost before the others end.
func TestFinishedCallIsJournalledWhileOthersRun(t *testing.T) {
	for name, ends := range map[string]bool{"the other ends too": false, "the process ends meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			journalled := make(chan struct{})
			m := &script{replies: []turn{replies(act("a", `{"n":1}`), act("b", `{"n":2}`)), textReply("done")}}
			s := newStage(m, offers(func(ctx context.Context, i tool.Invocation) (string, error) {
				if string(i.Arguments) == `{"n":1}` {
					return "first", nil
				}
				select {
				case <-journalled: // waits until the other result is journalled
				case <-ctx.Done():
					return "", ctx.Err()
				}
				if ends {
					stop()
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "second", nil
			}))
			keep := s.task.Journal
			s.task.Journal = func(ctx context.Context, steps []record.Step) error {
				err := keep(ctx, steps)
				if slices.ContainsFunc(steps, func(step record.Step) bool { return step.Output == "first" }) {
					close(journalled)
				}
				return err
			}
			_, err := s.Work(ctx, s.task)
			outputs := map[string]int{}
			for _, step := range s.journal {
				outputs[step.Output]++
			}
			assert.Equal(t, 1, outputs["first"])
			if ends {
				require.ErrorIs(t, err, context.Canceled)
				assert.Len(t, s.journal, 2, "the one that was cut short is not in the journal: %v", s.journal)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 1, outputs["second"])
		})
	}
}

func TestEventsOfACallHaveTheSameIndex(t *testing.T) {
	m := &script{replies: []turn{replies(
		act("a", `{"n":1,"ask":true}`), act("b", `{"n":2}`),
		model.Call{ID: "c", Name: "unknown", Arguments: json.RawMessage(`{}`)}, act("d", `{"n":4}`),
	)}}
	s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil }))
	s.task.Tools[0].Approval = tool.Approval{Mode: "when", Argument: "ask"}
	begun, ended := map[string]int{}, map[string]int{}
	s.task.Output = stepRecorder{see: func(e events.StepEvent) {
		if e.State == "started" {
			begun[string(e.Arguments)] = e.Index
		} else {
			ended[string(e.Arguments)] = e.Index
		}
	}}
	r := s.work(t)
	require.Len(t, r.Interrupts, 1)
	require.Len(t, begun, 2)
	for arguments, index := range begun {
		assert.Equal(t, index, ended[arguments])
	}
	for _, step := range s.journal[1:] {
		assert.Equal(t, step.Index, ended[string(step.Arguments)], "and it is the journal's")
	}
}

func TestJournalFailureCancelsTheRunningCalls(t *testing.T) {
	lost := errors.New("lost")
	m := &script{replies: []turn{replies(act("a", `{"n":1}`), act("b", `{"n":2}`))}}
	s := newStage(m, offers(func(ctx context.Context, i tool.Invocation) (string, error) {
		if string(i.Arguments) == `{"n":1}` {
			return "first", nil
		}
		<-ctx.Done()
		return "", ctx.Err()
	}))
	s.task.Journal = func(_ context.Context, steps []record.Step) error {
		if steps[0].Kind == record.ToolStep {
			return lost
		}
		return nil
	}
	_, err := s.Work(t.Context(), s.task)
	require.ErrorIs(t, err, lost)
}

func TestRoundIsJournalledInOrderWhicheverCallEndsFirst(t *testing.T) {
	var calls []model.Call
	for n := range 25 {
		calls = append(calls, act("a", fmt.Sprintf(`{"n":%d}`, n)))
	}
	m := &script{replies: []turn{replies(calls...), textReply("done")}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		return string(i.Arguments), nil
	}))
	r := s.work(t)
	require.NotNil(t, r.Answer)
	for n, step := range r.All[1:26] {
		assert.Equal(t, n+1, step.Index)
		assert.Equal(t, fmt.Sprintf(`{"n":%d}`, n), step.Output)
	}
}

// A release between the start steps of calls and the calls themselves: no person must decide about the calls that were
// not made.
func TestCallThatWasNotStartedNeedsNoDecision(t *testing.T) {
	for name, stopAt := range map[string]int{"before the first": 0, "among the first ten": 3, "before the others": 10} {
		t.Run(name, func(t *testing.T) {
			var calls []model.Call
			for n := range 12 {
				calls = append(calls, act("", fmt.Sprintf(`{"n":%d}`, n)))
			}
			m := &script{replies: []turn{replies(calls...), textReply("done")}}
			var mu sync.Mutex
			made, checks, leaving := map[string]int{}, 0, errors.New("leaving")
			s := newStage(m, func(task *agent.Task) {
				offers(func(_ context.Context, i tool.Invocation) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					made[i.IdempotencyKey]++
					return "ok", nil
				})(task)
				task.Tools[0].RetrySafe = false
			})
			s.task.CheckLease = func() error {
				mu.Lock()
				defer mu.Unlock()
				if checks++; checks > 2+stopAt { // once for each round, then for each call
					return leaving
				}
				return nil
			}
			r, err := s.Work(t.Context(), s.task)
			require.ErrorIs(t, err, leaving)
			assert.Less(t, len(made), 12)
			s.journal = append(s.journal, r.Last...) // like a release
			slices.SortFunc(s.journal, func(a, b record.Step) int { return a.Index - b.Index })
			s.task.CheckLease, s.task.Steps = func() error { return nil }, slices.Clone(s.journal)
			r = s.work(t)
			require.NotNil(t, r.Answer, "nobody is asked: %v", r.Interrupts)
			assert.Len(t, made, 12)
			for key, n := range made {
				assert.Equal(t, 1, n, key)
			}
			seen := map[int]bool{}
			for _, step := range r.All {
				assert.False(t, seen[step.Index], "each step has an index of its own")
				seen[step.Index] = true
			}
		})
	}
}

// The tools may change between a call and its approval. Another tool that has the name by then was not approved.
func TestCallFailsIfAnotherToolHasTakenTheName(t *testing.T) {
	m := &script{replies: []turn{replies(act("a", `{"n":1}`)), textReply("done")}}
	var made []string
	s := newStage(m, approved(&made))
	s.task.Tools[0].Source = "A/act"
	r := s.work(t)
	s.task.Tools[0].Source = "B/act"
	r = s.decide(t, r, "approve")
	require.NotNil(t, r.Answer)
	assert.Empty(t, made)
	assert.Contains(t, r.All[1].Output, "another tool has its name")
}

// Internal errors are for the operators: they may contain addresses and credentials.
func TestOnlyToolErrorsAreShownToTheModel(t *testing.T) {
	m := &script{replies: []turn{replies(act("a", `{"n":1}`)), replies(act("b", `{"n":2}`)), textReply("done")}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		if string(i.Arguments) == `{"n":1}` {
			return "", fmt.Errorf("post https://user:sesame@10.0.0.7/: %w", context.DeadlineExceeded)
		}
		return "", fmt.Errorf("post https://user:sesame@10.0.0.7/: %w", tool.Fail("the server answered 503"))
	}))
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, "the tool could not be called", r.All[1].Output)
	assert.Equal(t, "the server answered 503", r.All[3].Output)
}

func TestInvalidUnicodeIsMadeStorable(t *testing.T) {
	m := &script{replies: []turn{func(model.Request) (model.Reply, error) {
		return model.Reply{Text: "a\xffb", Finish: "\xfe", RequestID: "\x80", InputTokens: 1, OutputTokens: 1}, nil
	}}}
	s := newStage(m, nil)
	var shown strings.Builder
	s.task.Output = textRecorder{text: &shown}
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, "a\uFFFDb", r.Answer.Text)
	assert.Equal(t, r.Answer.Text, shown.String())
	assert.Equal(t, "\uFFFD", r.All[0].Finish)
	assert.Equal(t, "\uFFFD", r.All[0].RequestID)
}

// textRecorder collects the streamed text.
type textRecorder struct {
	silent

	text *strings.Builder
}

func (h textRecorder) Append(_ context.Context, text string) { h.text.WriteString(text) }
