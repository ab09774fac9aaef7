package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// The usage of a run is that of its model calls and of the tool calls made. Its result lists those calls and the
// rejected ones, and the files that they made, but no questions.
func TestResultListsCallsFilesAndUsageOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.edit(func(spec *catalog.AgentSpec) {
			spec.CanAsk, spec.Approval = true, catalog.AgentApproval{Mode: "tools", Tools: []string{"act"}}
		})
		s.converse = func(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
			if len(r.Messages) > 1 {
				return model.Reply{Text: "done", Finish: "stop", InputTokens: 100, OutputTokens: 10}, nil
			}
			reply := calls("draw", "look", "bad", "act", model.AskUser)
			reply.Calls[4].Arguments = []byte(`{"question":"which?"}`)
			reply.Text, reply.InputTokens, reply.OutputTokens = "Well. ", 20, 3
			return reply, nil
		}
		s.tools = []tool.Offer{
			offer("draw", func(context.Context) (tool.Result, error) {
				time.Sleep(2 * time.Second)
				return tool.Result{Text: "drawn", Files: []tool.File{cat}}, nil
			}),
			offer("look", func(context.Context) (tool.Result, error) { return tool.TextResult("seen"), nil }),
			offer("bad", func(context.Context) (tool.Result, error) { return tool.Result{}, tool.Fail("no luck") }),
			offer("act", func(context.Context) (tool.Result, error) { panic("it was refused") }),
		}
		run := s.send(intake.Message{Text: "hello", ChatID: "c"}).Run.ID()
		s.drive()
		paused := s.run(run)
		require.Equal(t, lifecycle.AwaitingInput, paused.Status, s.log.String())
		assert.Equal(t, s.host.Now().Add(s.worker.PauseExpiry), paused.ExpiresAt)
		assert.EqualValues(t, 2000, paused.ActiveMS)
		var decisions []record.Decision
		for _, i := range paused.Interrupts {
			decisions = append(decisions, map[lifecycle.InterruptKind]record.Decision{
				lifecycle.Approval:      {InterruptID: i.ID, Decision: "reject", Message: "no"},
				lifecycle.Clarification: {InterruptID: i.ID, Decision: "answer", Message: "this"},
			}[i.Kind])
		}
		require.Len(t, decisions, 2)
		time.Sleep(time.Minute)
		_, err := s.intake.Resume(t.Context(), s.who, run, "", decisions, nil, nil)
		require.NoError(t, err)
		s.drive()
		r := s.run(run)
		require.Equal(t, lifecycle.Completed, r.Status, s.log.String())
		assert.Equal(t, lifecycle.Usage{InputTokens: 120, OutputTokens: 13, ModelCalls: 2, ToolCalls: 3}, r.Usage)
		assert.EqualValues(t, 2000, r.ActiveMS, "no pause is active time")
		result, none := s.result(run), json.RawMessage(`{}`)
		require.Len(t, result.Files, 1)
		assert.Equal(t, view.Result{
			RunID:        run,
			ChatID:       "c",
			Answer:       "Well. \n\ndone",
			Citations:    []citation.Citation{},
			FinishReason: "stop",
			Files:        result.Files,
			Steps: []view.ResultStep{
				{Name: "draw", Arguments: none, Outcome: "succeeded", Output: "drawn\n" + kept},
				{Name: "look", Arguments: none, Outcome: "succeeded", Output: "seen"},
				{Name: "bad", Arguments: none, Outcome: "failed", Output: "no luck"},
				{Name: "act", Arguments: none, Outcome: "rejected", Output: "no"},
			},
			Usage: view.Usage{InputTokens: 120, OutputTokens: 13, ActiveMS: 2000, ModelCalls: 2, ToolCalls: 3},
		}, result)
		assert.Equal(t, "miaow", s.content(result.Files[0]))
		assert.Equal(t, 7, r.Steps)
		assert.Len(t, s.journal(run), 6, "the run tells its last step itself")
	})
}

// The embedding tokens of searches are a part of the run's tokens. They are also listed separately, over pauses and
// crashes.
func TestTheLedgerListsEmbeddingsOfSearchesSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		base := catalog.KnowledgeBase{ID: s.host.NewID(), Organization: s.who.Organization}
		_, err := record.Create(t.Context(), s.store, base, base.ID)
		require.NoError(t, err)
		s.edit(func(spec *catalog.AgentSpec) {
			spec.KnowledgeBaseIDs = []string{base.ID}
			spec.Approval = catalog.AgentApproval{Mode: "tools", Tools: []string{"act"}}
		})
		searches := 0
		s.worker.Search = func(
			context.Context, string, string, string, catalog.AgentSpec, string,
		) ([]record.Source, record.Embeddings, error) {
			searches++
			return nil, record.Embeddings{{Model: "p/e", Tokens: 7}, {Model: "p/f", Tokens: int64(searches)}}, nil
		}
		s.converse = func(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
			reply := calls(model.Search, "act")
			if len(r.Messages) > 3 {
				reply = model.Reply{Text: "done", Finish: "stop"}
			} else if len(r.Messages) > 1 {
				reply = calls(model.Search)
			}
			for i := range reply.Calls {
				reply.Calls[i].Arguments = []byte(`{"query":"words"}`)
			}
			reply.InputTokens, reply.OutputTokens = 100, 10
			return reply, nil
		}
		s.tools = []tool.Offer{
			offer("act", func(context.Context) (tool.Result, error) { return tool.TextResult("acted"), nil }),
		}
		run := s.send(intake.Message{Text: "hello", ChatID: "c"}).Run.ID()
		s.drive()
		paused := s.run(run)
		require.Equal(t, lifecycle.AwaitingInput, paused.Status, s.log.String())
		_, err = s.intake.Resume(t.Context(), s.who, run, "",
			[]record.Decision{{InterruptID: paused.Interrupts[0].ID, Decision: "approve"}}, nil, nil)
		require.NoError(t, err)
		s.drive()
		require.Equal(t, lifecycle.Completed, s.run(run).Status, s.log.String())
		days := record.LedgerDays
		page, err := s.store.Ledger(t.Context(), s.who.Scope(), time.Time{}, time.Time{}, "", 10, &days)
		require.NoError(t, err)
		require.Len(t, page.Rows, 1)
		e := page.Rows[0].Value
		assert.Equal(t, record.Embeddings{{Model: "p/e", Tokens: 14}, {Model: "p/f", Tokens: 3}}, e.Embedded)
		assert.Equal(t, []int64{300 + 17, 30}, []int64{e.InputTokens, e.OutputTokens})
	})
}

// Active time is the sum over all attempts, by the monotonic clock. The run ends at its limit.
func TestActiveTimeIsTheSumOfAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.worker.Drain = drain
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			s.host.wall.Add(int64(time.Second)) // the wall clock is adjusted
			if err := s.host.Sleep(ctx, time.Hour); err != nil {
				return model.Reply{}, err
			}
			return model.Reply{Text: "done"}, nil
		}
		time.Sleep(time.Hour)
		run := s.post()
		for n := range 3 {
			ctx, stop := context.WithCancel(t.Context())
			done := s.begin(ctx, run)
			time.Sleep(7 * time.Second)
			assert.Equal(t, n+1, s.run(run).Attempt)
			stop()
			<-done
			assert.EqualValues(t, (n+1)*12000, s.run(run).ActiveMS, "seven seconds, and those of the drain")
			time.Sleep(time.Minute)
		}
		began := time.Now()
		s.handle(t.Context(), run)
		assert.Equal(t, lifecycle.TimedOut, s.run(run).Status)
		assert.Equal(t, 10*time.Minute-36*time.Second, time.Since(began))
		assert.EqualValues(t, 600_000, s.run(run).ActiveMS)
	})
}

// A fresh run has neither journal nor pauses, so none are read.
func TestFreshRunReadsNoJournalAndNoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = talks()
		run := s.post()
		before := s.table.ranges.Load()
		s.drive()
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Equal(t, before, s.table.ranges.Load())

		s.converse = s.leaves(2, talks("one"))
		s.tools = []tool.Offer{fine("one")}
		run = s.post()
		s.handle(s.context, run)
		before = s.table.ranges.Load()
		s.handle(t.Context(), run)
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Equal(t, before+1, s.table.ranges.Load(), "the journal, but no pauses")
	})
}

// The model gets files of an answer like files of the message.
func TestModelIsShownTheFilesOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		asks(s)
		s.drive()
		s.send(intake.Message{Text: "this", ChatID: "c", Files: []record.FileRef{s.file("b.txt", "swordfish")}})
		s.drive()
		require.Len(t, s.requests, 2)
		last := s.requests[1].Messages
		assert.Equal(t, []model.Text{{Name: "b.txt", Text: "swordfish"}}, last[len(last)-1].Texts)
	})
}

// A spent budget fails the run, and the error names the budget's owner.
func TestRunFailsWhenItsBudgetIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		most := int64(100)
		s.edit(func(spec *catalog.AgentSpec) { spec.Budget = &record.Budget{Period: "month", MaxTokens: &most} })
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			reply := calls("one")
			reply.InputTokens = 50
			return reply, nil
		}
		s.tools = []tool.Offer{fine("one")}
		run := s.post()
		s.drive()
		r := s.run(run)
		assert.Equal(t, lifecycle.Failed, r.Status)
		assert.Contains(t, r.Error, "the budget of agent "+s.agent)
		assert.Len(t, s.requests, 2)
	})
}

// A parked message is not executed if its sender was deleted while it waited. A run that was accepted immediately, or
// has begun, continues.
func TestParkedMessageOfADeletedSenderFails(t *testing.T) {
	gone := map[string]func(s *stage) error{
		"the user who sent the message has been deleted": func(s *stage) error {
			_, err := record.Remove[catalog.User](s.Context(), s.store, record.System(), s.who.User, nil)
			return err
		},
		"the API key that sent the message has been revoked": func(s *stage) error {
			_, err := record.Remove[catalog.APIKey](s.Context(), s.store, record.System(), s.who.Key, nil)
			return err
		},
		"the agent has been deleted": func(s *stage) error {
			return s.intake.Tenants.RemoveAgent(s.Context(), s.who, s.agent)
		},
	}
	for why, leave := range gone {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			s.converse = talks()
			s.send(intake.Message{Text: "first", ChatID: "c"})
			parked := s.send(intake.Message{Text: "second", ChatID: "c", Enqueue: true}).Parked.ParkedID
			s.handle(t.Context(), <-s.wakeups.sent)
			begun := s.post()
			require.NoError(t, leave(s))
			requests := len(s.requests)
			s.handle(t.Context(), parked)
			assert.Equal(t, lifecycle.Failed, s.run(parked).Status)
			assert.Equal(t, why, s.run(parked).Error)
			assert.Len(t, s.requests, requests)
			s.handle(t.Context(), begun)
			assert.Equal(t, lifecycle.Completed, s.run(begun).Status, "it did not wait")
		})
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			s.converse = talks()
			s.send(intake.Message{Text: "first", ChatID: "c"})
			parked := s.send(intake.Message{Text: "second", ChatID: "c", Enqueue: true}).Parked.ParkedID
			s.handle(t.Context(), <-s.wakeups.sent)
			s.transition(parked, lifecycle.Claim{Holder: "gone", Until: s.host.Now().Add(lease)})
			require.NoError(t, leave(s))
			time.Sleep(lease)
			s.handle(t.Context(), parked)
			assert.Equal(t, lifecycle.Completed, s.run(parked).Status, "it had begun")
		})
	}
}

// The runs of an agent that was erased fail. A pause makes no difference.
func TestRunOfAnErasedAgentFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		run := s.post()
		require.NoError(t, record.EraseVersions[catalog.Agent](t.Context(), s.store, s.agent))
		s.handle(t.Context(), run)
		assert.Equal(t, "the agent has been deleted", s.run(run).Error)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.edit(func(spec *catalog.AgentSpec) { spec.Approval.Mode = "always" })
		s.tools = []tool.Offer{fine("one")}
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			require.NoError(t, s.intake.Tenants.RemoveAgent(t.Context(), s.who, s.agent))
			require.NoError(t, record.EraseVersions[catalog.Agent](t.Context(), s.store, s.agent))
			return calls("one"), nil
		}
		run := s.post()
		s.handle(t.Context(), run)
		assert.Equal(t, lifecycle.AwaitingInput, s.run(run).Status)
		assert.Zero(t, s.run(run).PausedAgentVersion)
	})
}

// Tools that are unavailable now may be available later: another attempt will execute the run, and the error is
// returned.
func TestRunIsRetriedWhileItsToolsAreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = talks()
		s.worker.Tools = closed{s}
		run := s.post()
		require.Error(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Running, s.run(run).Status)
		assert.Empty(t, s.requests)
		s.worker.Tools = s
		time.Sleep(lease)
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
	})
}

type closed struct{ *stage }

func (closed) Open(context.Context, string, []string) ([]tool.Offer, error) {
	return nil, errors.New("away")
}

// A file of a tool becomes a file of the user, or the model gets a note that it does not. Every named file exists.
func TestFileOfAToolIsStoredOrNotNamed(t *testing.T) {
	for fails, done := 0, false; !done; fails++ {
		require.Less(t, fails, 50)
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			calls, failed := 0, 0
			s.converse = talks("draw")
			s.tools = []tool.Offer{offer("draw", func(context.Context) (tool.Result, error) {
				s.table.fails = func(_ bool, ops []table.Op) error {
					if calls++; calls > fails && failed < 8 {
						failed++
						return &table.Error{Kind: table.Down, Err: errors.New("away")}
					}
					if writes(ops, "step/0") {
						s.table.fails = nil
					}
					return nil
				}
				return tool.Result{Files: []tool.File{cat}}, nil
			})}
			run := s.post()
			s.handle(t.Context(), run)
			if done = failed == 0; s.run(run).Status != lifecycle.Completed {
				assert.NotEmpty(t, s.requests) // the step was not stored, and nothing was shown
				return
			}
			result := s.result(run)
			if failed == 0 {
				require.Len(t, result.Files, 1)
			}
			if len(result.Files) == 0 {
				assert.Equal(t, "[5 bytes of text/plain; they are not stored]", result.Steps[0].Output)
				return
			}
			assert.Equal(t, kept, result.Steps[0].Output)
			assert.Equal(t, "miaow", s.content(result.Files[0]))
		})
	}
}

// cat is a file that a tool makes; kept is the note for the model.
var (
	cat  = tool.File{Name: "cat.txt", ContentType: "text/plain", Data: []byte("miaow")}
	kept = "[5 bytes of text/plain; the user has them as the file cat.txt]"
)

// content reads the bytes of a file.
func (s *stage) content(f record.FileRef) string {
	s.Helper()
	r, err := s.store.OpenFile(s.Context(), s.who.Scope(), f.FileID)
	require.NoError(s, err)
	b, err := io.ReadAll(r)
	require.NoError(s, err)
	return string(b)
}
