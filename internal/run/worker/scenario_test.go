package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// scenarios are runs that a worker handles. Each prepares its run and describes the worker's action.
var scenarios = map[string]struct {
	ready func(s *stage) (run string)
	then  lifecycle.Status
}{
	"an answer": {func(s *stage) string {
		s.converse = talks()
		return s.send(intake.Message{Text: "hello", Files: []record.FileRef{s.file("a.txt", "swordfish")}}).Run.ID()
	}, lifecycle.Completed},
	"a long message, and a long answer": {func(s *stage) string {
		s.converse = textReply(strings.Repeat("long ", 5000))
		return s.send(intake.Message{Text: strings.Repeat("long ", 5000)}).Run.ID()
	}, lifecycle.Completed},
	"a call of a tool": {func(s *stage) string {
		s.converse = talks("one")
		s.tools = []tool.Offer{fine("one")}
		return s.post()
	}, lifecycle.Completed},
	"an agent with a budget": {func(s *stage) string {
		most := int64(1 << 20)
		s.edit(func(spec *catalog.AgentSpec) { spec.Budget = &record.Budget{Period: "month", MaxTokens: &most} })
		s.converse = talks()
		return s.post()
	}, lifecycle.Completed},
	"a next turn": {func(s *stage) string {
		s.converse = textReply(strings.Repeat("long ", 5000))
		s.send(intake.Message{Text: strings.Repeat("long ", 5000), ChatID: "c"})
		s.drive()
		return s.send(intake.Message{Text: "next", ChatID: "c"}).Run.ID()
	}, lifecycle.Completed},
	"a parked message": {func(s *stage) string {
		s.converse = talks()
		s.send(intake.Message{Text: "first", ChatID: "c"})
		parked := s.send(intake.Message{Text: "second", ChatID: "c", Enqueue: true}).Parked.ParkedID
		s.handle(s.Context(), <-s.wakeups.sent)
		return parked
	}, lifecycle.Completed},
	"a call that needs approval": {func(s *stage) string {
		s.edit(func(spec *catalog.AgentSpec) { spec.Approval.Mode = "always" })
		s.converse = talks("one")
		s.tools = []tool.Offer{fine("one")}
		return s.post()
	}, lifecycle.AwaitingInput},
	"a question": {asks, lifecycle.AwaitingInput},
	"an answer that brings a file": {func(s *stage) string {
		run := asks(s)
		s.drive()
		s.send(intake.Message{Text: "this", ChatID: "c", Files: []record.FileRef{s.file("b.txt", "swordfish")}})
		return run
	}, lifecycle.Completed},
	"an unavailable provider": {func(s *stage) string {
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			return model.Reply{}, errors.New("away")
		}
		return s.post()
	}, lifecycle.Failed},
	"the active limit": {func(s *stage) string {
		seconds := 10
		s.edit(func(spec *catalog.AgentSpec) { spec.Limits.MaxActiveSeconds = &seconds })
		s.worker.Lease, s.worker.Drain = 10*lease, drain // no renewal is written meanwhile
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			hang(ctx)
			return model.Reply{}, ctx.Err()
		}
		return s.post()
	}, lifecycle.TimedOut},
	"a cancel before a call":     {cancels(calls("one")), lifecycle.Cancelled},
	"a cancel before the answer": {cancels(model.Reply{Text: "done", Finish: "stop"}), lifecycle.Cancelled},
	"a step that cannot be stored": {func(s *stage) string {
		s.converse = talks("one")
		s.tools = []tool.Offer{fine("one")}
		s.refuses(`step/0`)
		return s.post()
	}, lifecycle.Failed},
	"an answer that cannot be stored": {func(s *stage) string {
		s.converse = talks()
		s.refuses(`"status":"completed"`)
		return s.post()
	}, lifecycle.Failed},
	"a question that cannot be stored": {func(s *stage) string {
		run := asks(s)
		s.refuses(`"status":"awaiting_input"`)
		return run
	}, lifecycle.Failed},
	"a process that stops": {func(s *stage) string {
		s.converse = s.leaves(1, talks("one"))
		s.tools = []tool.Offer{fine("one")}
		return s.post()
	}, lifecycle.Running},
	"a process that stops before a step that cannot be stored": {func(s *stage) string {
		s.converse = s.leaves(1, talks("one"))
		s.tools = []tool.Offer{fine("one")}
		s.refuses(`step/0`)
		return s.post()
	}, lifecycle.Failed},
	"a process that stops, and a cancel": {func(s *stage) string {
		cancel := cancels(calls("one"))(s)
		s.converse = s.leaves(1, s.converse)
		return cancel
	}, lifecycle.Cancelled},
	"a run that was not started in time": {func(s *stage) string {
		run := s.post()
		time.Sleep(2 * time.Hour)
		return run
	}, lifecycle.Failed},
	"a run that was cancelled while its worker was gone": {func(s *stage) string {
		run := s.post()
		s.transition(run, lifecycle.Claim{Holder: "gone", Until: s.host.Now().Add(lease)})
		s.transition(run, lifecycle.Cancel{})
		time.Sleep(lease)
		return run
	}, lifecycle.Cancelled},
}

// If any call of the store fails permanently, the worker returns the error, unless the run is in the same state as
// without it. The next worker brings the run to the same end.
func TestRunReachesTheSameEndWhicheverStoreCallFails(t *testing.T) {
	const patience = 8 // attempts of a store call before it fails
	for name, story := range scenarios {
		t.Run(name, func(t *testing.T) {
			var want string
			for fails, done := -1, false; !done; fails++ {
				require.Less(t, fails, 100)
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, mute)
					run := story.ready(s)
					calls, failed, others := 0, 0, s.table.fails
					s.table.fails = func(commit bool, ops []table.Op) error {
						if calls++; fails >= 0 && calls > fails && failed < patience {
							failed++
							return &table.Error{Kind: table.Down, Err: errors.New("away")}
						}
						if others != nil {
							return others(commit, ops)
						}
						return nil
					}
					err := s.worker.Handle(s.context, run)
					s.table.fails = others
					if failed == 0 {
						require.NoError(t, err)
					}
					if err == nil {
						r := s.run(run)
						require.Equal(
							t,
							story.then,
							r.Status,
							"call %d: it is done, or said not to be\n%s",
							fails,
							s.log.String(),
						)
						require.Equal(t, r.Status == lifecycle.Running, r.Hops == 1, "call %d: and handed over", fails)
					}
					for !s.run(run).Status.EndedOrWaiting() {
						time.Sleep(s.worker.Lease)
						require.NoError(t, s.worker.Handle(t.Context(), run))
					}
					if publicState := s.publicState(run); want == "" {
						want = publicState
					} else {
						require.Equal(t, want, publicState, "call %d", fails)
					}
					done = fails >= 0 && failed == 0
				})
			}
		})
	}
}

// If another process changes the run first, the worker does nothing and returns no error.
func TestWorkerLeavesARunThatAnotherChangedFirst(t *testing.T) {
	rivals := map[string]func(s *stage, run string){
		"another worker": func(s *stage, run string) {
			s.transition(run, lifecycle.Claim{Holder: "another", Until: s.host.Now().Add(lease)})
		},
		"its end":          theEnd,
		"its cancellation": func(s *stage, run string) { s.transition(run, lifecycle.Cancel{}) },
		"its removal":      theRemoval,
	}
	for name, act := range rivals {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			s.converse = talks()
			run := s.post()
			s.overtake(`"status":"running"`, func() { act(s, run) })
			require.NoError(t, s.worker.Handle(t.Context(), run), name)
			assert.Empty(t, s.requests, name)
		})
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			run := s.post()
			time.Sleep(2 * time.Hour)
			if name == "another worker" {
				return // too late for that
			}
			s.overtake(`"status":"failed"`, func() { act(s, run) })
			require.NoError(t, s.worker.Handle(t.Context(), run), name)
		})
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			s.converse = talks()
			run := s.post()
			s.overtake(`"status":"completed"`, func() {
				if name == "another worker" {
					s.transition(
						run,
						lifecycle.Renew{Work: lifecycle.Work{Attempt: 1, Until: s.host.Now()}},
					) // as if the lease had lapsed
				}
				act(s, run)
			})
			require.NoError(t, s.worker.Handle(t.Context(), run), name)
			if name == "another worker" {
				assert.Equal(t, 2, s.run(run).Attempt)
				assert.Equal(t, lifecycle.Running, s.run(run).Status)
			} else if name != "its removal" {
				assert.Equal(t, lifecycle.Cancelled, s.run(run).Status)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		run := s.post()
		s.transition(run, lifecycle.Remove{})
		s.erase(run)
		require.NoError(t, s.worker.Handle(t.Context(), run), "a run that is gone asks for nothing")
	})
}

// A committed claim is the worker's, even if its response was lost and the run was changed since.
func TestClaimWithALostResponseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = talks()
		run := s.post()
		s.table.after = func(ops []table.Op) error {
			if !writes(ops, `"status":"running"`) {
				return nil
			}
			s.table.after = nil
			s.transition(run, lifecycle.Postpone{Due: s.host.Now().Add(time.Minute)})
			return &table.Error{Kind: table.Unknown, Err: errors.New("cut")}
		}
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Equal(t, 1, s.run(run).Attempt)
	})
}

// publicState is the part of a run that clients see, without its times.
func (s *stage) publicState(run string) string {
	s.Helper()
	r := s.run(run)
	if r.Status == lifecycle.Cancelled {
		return string(r.Status) // its progress is random
	}
	output, err := s.store.Output(s.Context(), r)
	require.NoError(s, err)
	var result map[string]any
	if output != nil {
		require.NoError(s, json.Unmarshal(output, &result))
		delete(result["usage"].(map[string]any), "active_ms")
		delete(result, "run_id")
		delete(result, "chat_id")
	}
	publicState := []any{r.Status, r.Error, result, r.Usage, r.Steps, r.Pause, len(r.Interrupts)}
	for _, step := range s.journal(run) {
		publicState = append(publicState, step.Index, step.Kind, step.Text, len(step.Calls), step.Name, step.Outcome,
			step.Output)
	}
	if len(s.requests) > 0 {
		publicState = append(publicState, s.requests[len(s.requests)-1].Messages)
	}
	return strings.ReplaceAll(fmt.Sprintf("%+v", publicState), run, "RUN")
}

// refuses rejects each write whose operations contain part: it is too large.
func (s *stage) refuses(part string) {
	s.table.fails = func(commit bool, ops []table.Op) error {
		if commit && writes(ops, part) {
			return &table.Error{Kind: table.TooLarge, Err: errors.New("too large")}
		}
		return nil
	}
}

// overtake calls act before the first write whose operations contain part.
func (s *stage) overtake(part string, act func()) {
	var done atomic.Bool
	s.table.before = func(_ context.Context, commit bool, ops []table.Op) {
		if commit && writes(ops, part) && done.CompareAndSwap(false, true) {
			act()
		}
	}
}

// leaves is a model during whose call n the process is stopped.
func (s *stage) leaves(n int, converse talk) talk {
	ctx, stop := context.WithCancel(s.Context())
	s.worker.Drain, s.context = drain, ctx
	return func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		if len(s.requests) == n {
			stop()
			if err := s.host.Sleep(ctx, time.Second); err != nil {
				return model.Reply{}, err
			}
		}
		return converse(ctx, r, emit)
	}
}

func (s *stage) erase(run string) {
	s.Helper()
	e, err := s.store.Run(s.Context(), record.System(), run)
	require.NoError(s, err)
	require.NoError(s, s.store.EraseRun(s.Context(), e, s.host.NewID(), false))
}

// asks is a run whose agent asks its user a question.
func asks(s *stage) (run string) {
	s.edit(func(spec *catalog.AgentSpec) { spec.CanAsk = true })
	s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		if len(r.Messages) > 1 {
			return talks()(ctx, r, emit)
		}
		reply := calls(model.AskUser)
		reply.Calls[0].Arguments = []byte(`{"question":"which?"}`)
		return reply, nil
	}
	return s.send(intake.Message{Text: "hello", ChatID: "c"}).Run.ID()
}

// cancels is a run that is cancelled before the model replies.
func cancels(reply model.Reply) func(s *stage) string {
	return func(s *stage) string {
		run := s.post()
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			fails := s.table.fails
			s.table.fails = nil
			s.transition(run, lifecycle.Cancel{})
			s.table.fails = fails
			return reply, nil
		}
		return run
	}
}

// fine is a tool that returns "fine".
func fine(name string) tool.Offer {
	return offer(name, func(context.Context) (tool.Result, error) { return tool.TextResult("fine"), nil })
}

type talk = func(context.Context, model.Request, func(string)) (model.Reply, error)

func textReply(text string) talk {
	return func(context.Context, model.Request, func(string)) (model.Reply, error) {
		return model.Reply{Text: text, Finish: "stop"}, nil
	}
}

// writes reports whether one of the operations contains a text, in its key or in its body.
func writes(ops []table.Op, part string) bool {
	for _, op := range ops {
		if strings.Contains(op.Item.String()+string(op.Item.Body), part) {
			return true
		}
	}
	return false
}
