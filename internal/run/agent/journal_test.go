package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// named is a call of a tool with valid arguments.
func named(name string) model.Call {
	return model.Call{Name: name, Arguments: json.RawMessage(`{"n":1,"question":"Which?"}`)}
}

// brief is a short form of steps.
func brief(steps []record.Step) string {
	var words []string
	for _, s := range steps {
		words = append(words, strings.TrimSpace(string(s.Kind)+" "+s.Name+" "+s.Outcome))
	}
	return strings.Join(words, ", ")
}

// chronicle records the effects of the loop in order.
func chronicle(task *agent.Task, m *script) *[]string {
	var did []string
	for n, turn := range m.replies {
		m.replies[n] = func(r model.Request) (model.Reply, error) {
			did = append(did, "ask the model")
			return turn(r)
		}
	}
	task.Journal = func(_ context.Context, steps []record.Step) error {
		did = append(did, "journal "+brief(steps))
		return nil
	}
	task.Output = stepRecorder{see: func(e events.StepEvent) {
		did = append(did, strings.TrimSpace("show "+e.Kind+" "+e.Name+" "+e.State+" "+e.Outcome))
	}}
	task.Agent.Spec.CanAsk = true
	for _, o := range []tool.Offer{
		{Spec: tool.Spec{Name: "look", RetrySafe: true}}, {Spec: tool.Spec{Name: "pay"}},
		{Spec: tool.Spec{Name: "guarded", RetrySafe: true}, Approval: tool.Approval{Mode: "always"}},
	} {
		o.Call = func(_ context.Context, i tool.Invocation) (tool.Result, error) {
			did = append(did, "call "+i.Name)
			return tool.TextResult("ok"), nil
		}
		task.Tools = append(task.Tools, o)
	}
	return &did
}

// A reply is journalled before its calls are made. The same commit has the start of each call that must not be made
// twice. A result is journalled before it is sent and before the next model call. A result without a call has no
// separate commit if a question follows, and none at all if it follows from a stored decision.
func TestStepsAreJournalledBeforeTheirEffects(t *testing.T) {
	const asks = "ask the model"
	for name, c := range map[string]struct {
		calls   []model.Call
		did     []string // until the run pauses, or until the next model call
		last    string   // steps stored with the pause
		decided string   // the decision, and the effects until the next model call
		after   []string
		end     string // steps stored with the answer
	}{
		"a call": {
			calls: []model.Call{named("look")},
			did: []string{
				asks, "journal model", "show tool look started", "call look", "journal tool look succeeded",
				"show tool look finished succeeded", asks,
			},
			end: "model",
		},
		"a call that must not be made twice": {
			calls: []model.Call{named("pay")},
			did: []string{
				asks, "journal model, tool_started pay started", "show tool pay started", "call pay",
				"journal tool pay succeeded", "show tool pay finished succeeded", asks,
			},
			end: "model",
		},
		"no call can be made": {
			calls: []model.Call{named("unknown")},
			did:   []string{asks, "journal model, tool unknown failed", "show tool unknown failed failed", asks},
			end:   "model",
		},
		"a search without a knowledge base": {
			calls: []model.Call{named(model.Search)},
			did:   []string{asks, "journal model, tool search failed", "show search search failed failed", asks},
			end:   "model",
		},
		"a question": {
			calls: []model.Call{named(model.AskUser)}, did: []string{asks}, last: "model",
			decided: "answer", after: []string{asks}, end: "tool ask_user answered, model",
		},
		"a question beside a call that cannot be made": {
			calls: []model.Call{named(model.AskUser), named("unknown")},
			did:   []string{asks, "show tool unknown failed failed"}, last: "model, tool unknown failed",
			decided: "answer", after: []string{asks}, end: "tool ask_user answered, model",
		},
		"a question beside a call": {
			calls: []model.Call{named(model.AskUser), named("look")},
			did: []string{
				asks, "journal model", "show tool look started", "call look", "journal tool look succeeded",
				"show tool look finished succeeded",
			},
			decided: "answer", after: []string{asks}, end: "tool ask_user answered, model",
		},
		"a call that is approved": {
			calls: []model.Call{named("guarded")}, did: []string{asks}, last: "model",
			decided: "approve",
			after: []string{
				"show tool guarded started", "call guarded", "journal tool guarded succeeded",
				"show tool guarded finished succeeded", asks,
			},
			end: "model",
		},
		"a call that is rejected": {
			calls: []model.Call{named("guarded")}, did: []string{asks}, last: "model",
			decided: "reject", after: []string{"show tool guarded finished rejected", asks},
			end: "tool guarded rejected, model",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &script{replies: []turn{replies(c.calls...), textReply("done")}}
			s := newStage(m, nil)
			did := chronicle(&s.task, m)
			r := s.work(t)
			assert.Equal(t, c.did, *did)
			if c.decided != "" {
				assert.Equal(t, c.last, brief(r.Last))
				*did = nil
				r = s.decide(t, r, c.decided)
				assert.Equal(t, c.after, *did)
			}
			require.NotNil(t, r.Answer)
			assert.Equal(t, c.end, brief(r.Last))
		})
	}
}

// Thirty steps fit into one commit with a result; if there are more, all are journalled before it.
func TestStepsThatDoNotFitBesideAResultAreJournalledFirst(t *testing.T) {
	lost := errors.New("lost")
	for decided, c := range map[int]struct{ journalled, last int }{28: {0, 29}, 29: {0, 30}, 30: {31, 0},
		120: {121, 0}} {
		requested := append(slices.Repeat([]model.Call{named("unknown")}, decided), named(model.AskUser))
		s := newStage(
			&script{replies: []turn{replies(requested...)}},
			func(task *agent.Task) { task.Agent.Spec.CanAsk = true },
		)
		keep := s.task.Journal
		s.task.Journal = func(ctx context.Context, steps []record.Step) error {
			assert.LessOrEqual(t, len(steps), 30)
			return keep(ctx, steps)
		}
		s.task.Agent.Spec.Limits.MaxSteps = new(int)
		*s.task.Agent.Spec.Limits.MaxSteps = 1000
		r := s.work(t)
		require.Len(t, r.Interrupts, 1)
		assert.Len(t, s.journal, c.journalled, "beside %d", decided)
		assert.Len(t, r.Last, c.last, "beside %d", decided)
		assert.Len(t, r.All, decided+1)

		s = newStage(&script{replies: []turn{replies(requested...)}},
			func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
		s.task.Journal = func(context.Context, []record.Step) error { return lost }
		_, err := s.Work(t.Context(), s.task)
		assert.Equal(t, c.journalled > 0, errors.Is(err, lost), "beside %d: %v", decided, err)
	}
}

// After a failure, the journal is not written again: another worker may hold the run.
func TestJournalIsNotWrittenAfterAFailure(t *testing.T) {
	const firstResult = "tool act"
	for name, failing := range map[string]string{
		"before the calls": "model", "of the first result": firstResult,
		"before the second batch": "tool_started",
	} {
		t.Run(name, func(t *testing.T) {
			lost, failed := errors.New("lost"), make(chan struct{})
			requested := slices.Repeat([]model.Call{named("unknown")}, 100)
			for n := range 12 {
				requested = append(requested, act("", fmt.Sprintf(`{"n":%d}`, n)))
			}
			s := newStage(&script{replies: []turn{replies(requested...)}}, nil)
			offers(func(_ context.Context, i tool.Invocation) (string, error) {
				if failing == firstResult && string(i.Arguments) != `{"n":0}` {
					<-failed // finishes nevertheless
				}
				return "ok", nil
			})(&s.task)
			s.task.Tools[0].RetrySafe = false
			s.task.Journal = func(_ context.Context, steps []record.Step) error {
				select {
				case <-failed:
					t.Error("written again:", brief(steps))
				default:
					if strings.HasPrefix(brief(steps), failing) {
						close(failed)
						return lost
					}
				}
				return nil
			}
			_, err := s.Work(t.Context(), s.task)
			require.ErrorIs(t, err, lost)
		})
	}
}

// The panic of a call reaches the owner of the work, once the parallel calls have ended.
func TestPanicOfACallReachesTheOwnerOfTheWork(t *testing.T) {
	m := &script{replies: []turn{replies(act("a", `{"n":1}`), act("b", `{"n":2}`))}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		if string(i.Arguments) == `{"n":1}` {
			panic("a bug")
		}
		return "ok", nil
	}))
	p := host.Catch(func() { _, _ = s.Work(t.Context(), s.task) })
	require.NotNil(t, p)
	assert.Equal(t, "a bug", p.Value)
	assert.Equal(t, "model, tool act succeeded", brief(s.journal), "what the others came to is safe")
}

// An agent with structured answers may call tools between its answers. Only answers are counted and sent as answers.
func TestToolCallsDoNotCountAsStructuredAnswers(t *testing.T) {
	m := &script{replies: []turn{
		calls("a", "act", `{"n":1}`), textReply("Oslo"),
		calls("b", "act", `{"n":2}`), textReply("\n ```json\n{\"city\":\"Oslo\"}\n``` \n"),
	}}
	s := newStage(m, func(task *agent.Task) {
		offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil })(task)
		structured(task)
	})
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	assert.JSONEq(t, `{"city":"Oslo"}`, string(r.Answer.Output))
	var roles []string
	for _, message := range m.shown[3].Messages {
		roles = append(roles, string(message.Role))
	}
	assert.Equal(t, []string{"user", "assistant", "tool", "assistant", "user", "assistant", "tool"}, roles)
}

// A model gets its own call ids if they are valid and unique. People see the beginning of invalid arguments.
func TestValidUniqueCallIDOfTheModelIsKept(t *testing.T) {
	m := &script{replies: []turn{
		replies(
			act(
				"toolu_01",
				`{"n":1}`,
			),
			act("toolu_01", `{"n":2}`),
			act("call_0-7", `{"n":3}`),
			act("ok", `{"n":`+long(5000)),
		),
		textReply("done"),
	}}
	s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil }))
	r := s.work(t)
	require.NotNil(t, r.Answer)
	var ids []string
	for _, c := range m.shown[1].Messages[1].Calls {
		ids = append(ids, c.ID)
	}
	assert.Equal(t, []string{"toolu_01", "call_0-1", "call_0-2", "ok"}, ids)
	var begins string
	require.NoError(t, json.Unmarshal(r.All[0].Calls[3].Arguments, &begins))
	assert.Equal(t, `{"n":`+long(2<<10-5)+"…", begins)
	assert.NotEmpty(t, r.All[0].Calls[3].Fault)
}
