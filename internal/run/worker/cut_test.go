package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// stuck streams a text, reports tokens, and waits until it is stopped.
func (*stage) stuck(text string, in, out int64) talk {
	return func(ctx context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
		emit(text)
		hang(ctx)
		return model.Reply{InputTokens: in, OutputTokens: out}, ctx.Err()
	}
}

// then are the parts of a model, one for each call.
func then(parts ...talk) talk {
	n := 0
	return func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		n++
		return parts[n-1](ctx, r, emit)
	}
}

// firstStep is a first step: a text and a call, of 110 tokens.
func firstStep(_ context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
	emit("Let me look. ")
	reply := calls("one")
	reply.Text, reply.InputTokens, reply.OutputTokens = "Let me look. ", 100, 10
	return reply, nil
}

// entry is the one ledger entry of a run.
func (s *stage) entry(run string) record.Entry {
	s.Helper()
	days := record.LedgerDays
	page, err := s.store.Ledger(s.Context(), s.who.Scope(), time.Time{}, time.Time{}, "", 10, &days)
	require.NoError(s, err)
	require.Len(s, page.Rows, 1)
	assert.Equal(s, run, page.Rows[0].Value.RunID)
	return page.Rows[0].Value
}

// After any end of a run or an attempt, the tokens of a call that was cut short are counted once. This holds for the
// run, its ledger entry, budgets, and the journal.
func TestACallThatIsCutShortIsCountedOnce(t *testing.T) {
	failing := func(context.Context, model.Request, func(string)) (model.Reply, error) {
		return model.Reply{InputTokens: 1000, OutputTokens: 100}, model.Fail(model.Refused, "no")
	}
	done := func(_ context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
		emit("done")
		return model.Reply{Text: "done", Finish: "stop", InputTokens: 200, OutputTokens: 20}, nil
	}
	for name, c := range map[string]struct {
		model   func(s *stage) talk
		end     func(s *stage, run string) // while the call continues
		again   bool
		status  lifecycle.Status
		usage   lifecycle.Usage
		partial string
		steps   int
	}{
		"a cancel": {
			func(s *stage) talk { return then(firstStep, s.stuck("The answer", 1000, 100)) },
			func(s *stage, run string) { s.cancel(run) }, false, lifecycle.Cancelled,
			lifecycle.Usage{InputTokens: 1100, OutputTokens: 110, ModelCalls: 2, ToolCalls: 1},
			"Let me look. \n\nThe answer", 3,
		},
		"a cancel, and nothing is reported": {
			func(s *stage) talk { return then(firstStep, s.stuck("The answer", 0, 0)) },
			func(s *stage, run string) { s.cancel(run) }, false, lifecycle.Cancelled,
			lifecycle.Usage{InputTokens: 100 + 7, OutputTokens: 10 + 3, ModelCalls: 2, ToolCalls: 1},
			"Let me look. \n\nThe answer", 3,
		},
		"its chat is deleted": {
			func(s *stage) talk { return then(firstStep, s.stuck("The answer", 1000, 100)) },
			func(s *stage, run string) {
				_, err := s.intake.DeleteChat(s.Context(), s.who, s.run(run).Chat)
				require.NoError(s, err)
			}, false, lifecycle.Cancelled,
			lifecycle.Usage{InputTokens: 1100, OutputTokens: 110, ModelCalls: 2, ToolCalls: 1}, "", 3,
		},
		"its user is deleted": {
			func(s *stage) talk { return then(firstStep, s.stuck("The answer", 1000, 100)) },
			func(s *stage, run string) { s.transition(run, lifecycle.Remove{KeepParked: true}) }, false,
			lifecycle.Cancelled,
			lifecycle.Usage{InputTokens: 1100, OutputTokens: 110, ModelCalls: 2, ToolCalls: 1}, "", 3,
		},
		"its time is up": {
			func(s *stage) talk { return then(firstStep, s.stuck("The answer", 1000, 100)) },
			func(*stage, string) {}, false, lifecycle.TimedOut,
			lifecycle.Usage{InputTokens: 1100, OutputTokens: 110, ModelCalls: 2, ToolCalls: 1}, "", 3,
		},
		"it fails": {
			func(*stage) talk { return then(firstStep, failing) },
			func(*stage, string) {}, false, lifecycle.Failed,
			lifecycle.Usage{InputTokens: 1100, OutputTokens: 110, ModelCalls: 2, ToolCalls: 1}, "", 3,
		},
		"a release": {
			func(s *stage) talk { return then(firstStep, s.stuck("do", 1000, 100), done) },
			func(*stage, string) {}, true, lifecycle.Completed,
			lifecycle.Usage{InputTokens: 1300, OutputTokens: 130, ModelCalls: 3, ToolCalls: 1}, "", 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				s.worker.Tick, s.worker.Drain = time.Second, drain
				most, seconds := int64(1_000_000), 60
				s.edit(func(spec *catalog.AgentSpec) {
					spec.Budget = &record.Budget{Period: "month", MaxTokens: &most}
					spec.Limits.MaxActiveSeconds = &seconds
				})
				s.tools = []tool.Offer{fine("one")}
				s.converse = c.model(s)
				run := s.post()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := s.begin(ctx, run)
				time.Sleep(10 * time.Second)
				if c.again {
					stop()
				}
				c.end(s, run)
				<-ended
				if c.again {
					assert.Equal(t, lifecycle.Running, s.run(run).Status)
					assert.EqualValues(t, 1210, s.run(run).Usage.InputTokens+s.run(run).Usage.OutputTokens, "at once")
					s.handle(t.Context(), run)
				}
				s.counted(run, c.status, c.usage)
				steps, err := s.store.Steps(t.Context(), s.run(run))
				require.NoError(t, err)
				assert.Len(t, steps, c.steps)
				var want *events.Partial
				if c.partial != "" {
					want = &events.Partial{Answer: c.partial, FinishReason: "cancelled"}
				}
				got, err := view.PartialOf(t.Context(), s.store, s.run(run))
				require.NoError(t, err)
				assert.Equal(t, want, got)
				if c.status == lifecycle.Completed {
					assert.Equal(t, "Let me look. \n\ndone", s.result(run).Answer)
					assert.Equal(t, "done", steps[len(steps)-1].Text)
				}
			})
		})
	}
}

// counted checks the usage of an ended run in all places that count it.
func (s *stage) counted(run string, status lifecycle.Status, used lifecycle.Usage) {
	s.Helper()
	r := s.run(run)
	require.Equal(s, status, r.Status, s.log.String())
	assert.Equal(s, used, r.Usage)
	e := s.entry(run)
	assert.Equal(s, []int64{used.InputTokens, used.OutputTokens, used.ModelCalls, used.ToolCalls},
		[]int64{e.InputTokens, e.OutputTokens, e.ModelCalls, e.ToolCalls})
	require.NotEmpty(s, r.Counting.Budgets)
	spent, err := s.store.Spent(s.Context(), r.Counting.Budgets[0].Name)
	require.NoError(s, err)
	assert.Equal(s, used.InputTokens+used.OutputTokens, spent.Tokens)
	steps, err := s.store.Steps(s.Context(), r)
	require.NoError(s, err)
	tokens := int64(0)
	for _, step := range steps {
		tokens += step.InputTokens + step.OutputTokens
	}
	assert.Equal(s, used.InputTokens+used.OutputTokens, tokens, "%+v", steps)
}

func (s *stage) cancel(run string) {
	s.Helper()
	_, err := s.intake.Cancel(s.request(), s.who, run, "enough")
	require.NoError(s, err)
}

// A reply that has arrived when the run is cancelled is counted and kept, even if its own commit failed or was not
// made.
func TestAReplyThatComesWithACancelIsKept(t *testing.T) {
	for name, lost := range map[string]func(s *stage, run string){
		"before its commit": func(s *stage, run string) {
			inner := s.converse
			s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
				s.transition(run, lifecycle.Cancel{})
				return inner(ctx, r, emit)
			}
		},
		"as the answer": func(s *stage, run string) {
			s.converse = func(_ context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
				s.transition(run, lifecycle.Cancel{})
				emit("Let me look. ")
				return model.Reply{Text: "Let me look. ", Finish: "stop", InputTokens: 100, OutputTokens: 10}, nil
			}
		},
		"its commit fails": func(s *stage, run string) {
			failed := 0
			s.table.fails = func(_ bool, ops []table.Op) error {
				if writes(ops, "step/0") && failed < 8 {
					if failed++; failed == 8 {
						s.table.fails = nil
						s.cancel(run)
						s.worker.Tick = time.Millisecond
					}
					return &table.Error{Kind: table.Down, Err: errors.New("away")}
				}
				return nil
			}
		},
		"the answer of its commit is lost": func(s *stage, run string) {
			failed := 0
			s.table.after = func(ops []table.Op) error {
				if writes(ops, "step/0") && failed < 8 {
					if failed++; failed == 1 {
						s.transition(run, lifecycle.Cancel{})
					}
					return &table.Error{Kind: table.Unknown, Err: errors.New("away")}
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, local)
				most := int64(1_000_000)
				s.edit(func(spec *catalog.AgentSpec) {
					spec.Budget = &record.Budget{Period: "month", MaxTokens: &most}
				})
				s.tools = []tool.Offer{offer("one", func(ctx context.Context) (tool.Result, error) {
					hang(ctx)
					return tool.Result{}, ctx.Err()
				})}
				s.converse = firstStep
				run := s.post()
				lost(s, run)
				s.handle(t.Context(), run)
				s.counted(run, lifecycle.Cancelled, lifecycle.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1})
				assert.Len(t, s.journal(run), 1)
				got, err := view.PartialOf(t.Context(), s.store, s.run(run))
				require.NoError(t, err)
				require.NotNil(t, got)
				assert.Equal(t, "Let me look. ", got.Answer)
			})
		})
	}
}

// Cancels do not avoid a token budget: each run's client reads the text from the stream, and cancels late.
func TestABudgetIsNotEscapedByCancelling(t *testing.T) {
	for name, script := range map[string]func(s *stage) talk{
		"usage is reported":     func(s *stage) talk { return s.stuck(strings.Repeat("word ", 40), 400, 100) },
		"no usage is reported":  func(s *stage) talk { return s.stuck(strings.Repeat("word ", 80), 0, 0) },
		"it is asked once more": func(s *stage) talk { return again(s.stuck("", 200, 50)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, local)
				most := int64(2000)
				s.edit(func(spec *catalog.AgentSpec) {
					spec.Budget = &record.Budget{Period: "month", MaxTokens: &most}
				})
				s.converse = script(s)
				message := intake.Message{AgentID: s.agent, Text: strings.Repeat("asked ", 1600/6) + "asks"}
				for range 4 {
					posted, err := s.intake.Post(t.Context(), s.who, message)
					require.NoError(t, err)
					ended := s.begin(t.Context(), posted.Run.RunID)
					time.Sleep(10 * time.Second)
					s.cancel(posted.Run.RunID)
					<-ended
					r := s.run(posted.Run.RunID)
					assert.Equal(t, lifecycle.Cancelled, r.Status)
					assert.EqualValues(t, 500, r.Usage.InputTokens+r.Usage.OutputTokens)
				}
				_, err := s.intake.Post(t.Context(), s.who, message)
				assert.True(t, problem.Is(err, "budget_exhausted"), "%v", err)
			})
		})
	}
}

// again breaks off each first attempt; the next one gets a reply.
func again(inner talk) talk {
	return func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		if r.Attempt == 0 {
			return model.Reply{InputTokens: 200, OutputTokens: 50}, model.Fail(model.Retryable, "it broke off")
		}
		return inner(ctx, r, emit)
	}
}

// A completed run has one text: its steps have that of its result. Here a reply is empty, the repeated request is cut
// short, and the next attempt meets a limit.
func TestACompletedRunHasOneText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.worker.Tick, s.worker.Drain = time.Second, drain
		s.worker.Loop.Models["mock"] = s // the demo model gets no second request
		most := 1000
		s.edit(func(spec *catalog.AgentSpec) { spec.Limits.MaxTokens, spec.Model.Provider = &most, "mock" })
		s.converse = then(func(context.Context, model.Request, func(string)) (model.Reply, error) {
			return model.Reply{Finish: "stop", InputTokens: 100}, nil
		}, s.stuck("Half an answer", 1000, 100))
		run := s.post()
		ctx, stop := context.WithCancel(t.Context())
		ended := s.begin(ctx, run)
		time.Sleep(10 * time.Second)
		stop()
		<-ended
		s.handle(t.Context(), run)
		r := s.run(run)
		require.Equal(t, lifecycle.Completed, r.Status, r.Error)
		steps, err := s.store.Steps(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, steps, 2)
		require.Equal(t, "Half an answer", steps[1].Text)
		text, _ := view.Progress(steps, r.Status)
		assert.Equal(t, s.result(run).Answer, text)
	})
}

// An answer that does not fit the schema is withdrawn when the model gets a request for a better one. A run that is
// cancelled before text of the better one arrives keeps none.
func TestAnAnswerThatWasWithdrawnIsNotKept(t *testing.T) {
	for name, released := range map[string]bool{"at once": false, "by another attempt": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, local)
				s.worker.Drain = drain
				s.edit(func(spec *catalog.AgentSpec) {
					spec.OutputSchema = []byte(`{"type":"object","required":["city"]}`)
				})
				s.converse = func(_ context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
					if len(s.requests) > 1 {
						time.Sleep(2 * time.Second)
						return model.Reply{}, model.Fail(model.Throttled, "busy")
					}
					emit("rubbish")
					return model.Reply{Text: "rubbish", Finish: "stop", InputTokens: 10, OutputTokens: 2}, nil
				}
				run := s.post()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := s.begin(ctx, run)
				time.Sleep(5 * time.Second)
				if released {
					stop()
					<-ended
					ended = s.begin(t.Context(), run)
					time.Sleep(5 * time.Second)
				}
				s.cancel(run)
				<-ended
				require.Equal(t, lifecycle.Cancelled, s.run(run).Status)
				require.Equal(t, "rubbish", s.journal(run)[0].Text)
				got, err := view.PartialOf(t.Context(), s.store, s.run(run))
				require.NoError(t, err)
				assert.Nil(t, got)
			})
		})
	}
}
