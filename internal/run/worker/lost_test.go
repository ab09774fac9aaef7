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

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// takeovers are the ways in which a running attempt may lose its run.
func takeovers() map[string]func(s *stage, run string) {
	return map[string]func(s *stage, run string){
		"another worker": func(s *stage, run string) {
			// As if the lease had lapsed.
			s.transition(run, lifecycle.Renew{Work: lifecycle.Work{Attempt: 1, Until: s.host.Now()}})
			s.transition(run, lifecycle.Claim{Holder: "another", Until: s.host.Now().Add(time.Hour)})
		},
		"its end":     theEnd,
		"its removal": theRemoval,
	}
}

// theEnd ends a run whose lease has lapsed, if it had one.
func theEnd(s *stage, run string) {
	if r := s.run(run); r.Status == lifecycle.Running {
		s.transition(run, lifecycle.Renew{Work: lifecycle.Work{Attempt: r.Attempt, Until: s.host.Now()}})
	}
	s.transition(run, lifecycle.Remove{})
}

func theRemoval(s *stage, run string) {
	theEnd(s, run)
	s.erase(run)
}

// A running model call is cancelled when its run is lost: at the next poll, or, if polls fail, at the next renewal. The
// worker then does and writes nothing more, and reports no failure.
func TestWorkOnALostRunIsCancelled(t *testing.T) {
	type sight struct {
		tick time.Duration
		most time.Duration
	}
	for name, take := range takeovers() {
		for _, c := range []sight{{time.Second, time.Second}, {time.Hour, lease / 3}} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, polling)
				s.worker.Tick = c.tick
				var took time.Duration
				run := s.post()
				s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
					take(s, run)
					began := time.Now()
					hang(ctx)
					took = time.Since(began)
					return calls("one"), nil
				}
				require.NoError(t, s.worker.Handle(t.Context(), run), name)
				assert.Less(t, took, c.most+time.Second, name)
				assert.Contains(t, s.log.String(), "run attempt stopped: another worker took the run over", name)
				assert.NotContains(t, s.log.String(), "could not go on", name)
				if name != "its removal" {
					assert.Zero(t, s.run(run).Steps, name)
				}
			})
		}
	}
}

// The next renewal finds a requested cancel if polls do not.
func TestRenewalSeesARequestedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		run := s.post()
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			s.transition(run, lifecycle.Cancel{})
			hang(ctx)
			return model.Reply{}, ctx.Err()
		}
		began := time.Now()
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Cancelled, s.run(run).Status)
		assert.InDelta(t, lease/3, time.Since(began), float64(time.Second))
	})
}

// A model's reply for a lost run is not journalled, and its calls are not made.
func TestNoCallIsMadeForALostRun(t *testing.T) {
	for name, take := range takeovers() {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			s.converse = talks("one")
			s.tools = []tool.Offer{offer("one", func(context.Context) (tool.Result, error) {
				t.Error("it was called after", name)
				return tool.Result{}, nil
			})}
			run := s.post()
			s.overtake("step/0", func() { take(s, run) })
			require.NoError(t, s.worker.Handle(t.Context(), run), name)
			assert.Len(t, s.requests, 1, name)
			assert.Empty(t, s.journal(run), name)
		})
	}
}

// A process that stood still begins no call if the lease may have ended by its wall clock or by its monotonic clock.
func TestNoCallBeginsOnceTheLeaseMayHaveEnded(t *testing.T) {
	for _, still := range []time.Duration{host.Trusted(lease) - 1, host.Trusted(lease), lease} {
		for _, wall := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
					if len(s.requests) == 1 {
						if wall {
							s.host.wall.Add(int64(still.Truncate(time.Millisecond))) // with the precision of the clock
						} else {
							s.host.mono.Add(int64(still))
						}
						return calls("one"), nil
					}
					return talks()(ctx, r, emit)
				}
				made := false
				s.tools = []tool.Offer{offer("one", func(context.Context) (tool.Result, error) {
					made = true
					return tool.TextResult("fine"), nil
				})}
				run := s.post()
				require.NoError(t, s.worker.Handle(t.Context(), run))
				assert.Equal(t, still < host.Trusted(lease), made, "%s", still)
				assert.Equal(t, made, s.run(run).Status == lifecycle.Completed)
			})
		}
	}
}

// The lease is renewed after each third of it, or later if a journalled step has renewed it. It begins with the claim.
func TestLeaseIsRenewedAfterEachThirdOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		var began time.Time
		var renewed []time.Duration
		s.table.before = func(_ context.Context, commit bool, ops []table.Op) {
			if commit && renews(ops) {
				renewed = append(renewed, time.Since(began))
			}
		}
		run := s.post()
		s.tools = []tool.Offer{offer("slow", func(ctx context.Context) (tool.Result, error) {
			return tool.TextResult("fine"), s.host.Sleep(ctx, 35*time.Second)
		}), offer("quick", func(ctx context.Context) (tool.Result, error) {
			return tool.TextResult("fine"), s.host.Sleep(ctx, 14*time.Second)
		})}
		s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			if len(s.requests) == 1 {
				assert.Equal(t, s.host.Now().Add(lease), s.run(run).Lease.Until)
				began, renewed = time.Now(), nil
			}
			return talks("slow", "quick")(ctx, r, emit)
		}
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Equal(t, []time.Duration{10 * time.Second, 24 * time.Second, 34 * time.Second}, renewed,
			"the quick one was journalled at 14")
	})
}

// A renewal that fails immediately is retried, ten times in the interval of renewals.
func TestFailedRenewalIsRetriedAfterAShortWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		slow(s)
		attempts := 0
		s.table.fails = func(commit bool, ops []table.Op) error {
			if commit && s.beating.Load() && renews(ops) {
				attempts++
				require.Less(t, attempts, 100)
				return errors.New("odd")
			}
			return nil
		}
		run := s.post()
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Running, s.run(run).Status)
		assert.Equal(t, 15, attempts, "from a third of the lease to what is trusted of it")
	})
}

// Steps whose commit has an unknown outcome are not journalled by the release: the next attempt calls the model
// again, and both calls count.
func TestStepsOfAnUnknownCommitAreNotJournalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		ctx, stop := context.WithCancel(t.Context())
		s.worker.Drain = drain
		s.converse = talks("one")
		s.tools = []tool.Offer{fine("one")}
		failed := 0
		s.table.fails = func(_ bool, ops []table.Op) error {
			if writes(ops, "step/0") && failed < 8 {
				failed++
				stop()
				return &table.Error{Kind: table.Down, Err: errors.New("away")}
			}
			return nil
		}
		run := s.post()
		require.NoError(t, s.worker.Handle(ctx, run))
		assert.Equal(t, 1, s.run(run).Hops)
		assert.Empty(t, s.journal(run))
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Len(t, s.requests, 3)
		assert.EqualValues(t, 3, s.run(run).Usage.ModelCalls)
	})
}

// The reply of a second model call is journalled by the release if the process stops during it.
func TestReleaseJournalsNewSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		converse := func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			if len(s.requests) < 3 {
				return calls("one"), nil
			}
			return talks()(ctx, r, emit)
		}
		s.converse = s.leaves(2, converse)
		made := 0
		s.tools = []tool.Offer{offer("one", func(context.Context) (tool.Result, error) {
			made++
			return tool.TextResult("fine"), nil
		})}
		run := s.post()
		require.NoError(t, s.worker.Handle(s.context, run))
		assert.Len(t, s.journal(run), 3)
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Len(t, s.requests, 3, "none was asked twice")
		assert.Equal(t, 2, made)
	})
}

// A release is not progress: crashes before and after it are counted together until a step is journalled.
func TestReleaseWithoutAStepKeepsTheCountOfCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) { panic("oops") }
		run := s.post()
		s.handle(t.Context(), run)
		assert.Equal(t, 1, s.run(run).Crashes)
		s.worker.Drain = drain
		ctx, stop := context.WithCancel(t.Context())
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			stop()
			hang(ctx)
			return model.Reply{}, ctx.Err()
		}
		s.handle(ctx, run)
		assert.Equal(t, 1, s.run(run).Hops)
		assert.Equal(t, 1, s.run(run).Crashes)
	})
}

// A file is stored even if the run changes at the same time, unless the run is lost or keeps changing.
func TestFileIsStoredThoughTheRunChangesMeanwhile(t *testing.T) {
	draws := func(s *stage) {
		s.converse = talks("draw")
		s.tools = []tool.Offer{offer("draw", func(context.Context) (tool.Result, error) {
			return tool.Result{Files: []tool.File{cat}}, nil
		})}
	}
	const itsRow = `"name":"cat.txt"`
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		draws(s)
		run := s.post()
		s.overtake(itsRow, func() { s.transition(run, lifecycle.Postpone{Due: s.host.Now().Add(time.Minute)}) })
		require.NoError(t, s.worker.Handle(t.Context(), run))
		require.Len(t, s.result(run).Files, 1)
		assert.Equal(t, "miaow", s.content(s.result(run).Files[0]))
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		draws(s)
		run := s.post()
		attempts := 0
		s.table.before = func(_ context.Context, commit bool, ops []table.Op) {
			if commit && writes(ops, itsRow) && !writes(ops, "step/0") && !writes(ops, "status") {
				attempts++
				s.transition(run, lifecycle.Postpone{Due: s.host.Now().Add(time.Duration(attempts) * time.Minute)})
			}
		}
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Empty(t, s.result(run).Files)
		assert.Equal(t, "[5 bytes of text/plain; they are not stored]", s.result(run).Steps[0].Output)
		assert.Equal(t, 16, attempts)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		draws(s)
		run := s.post()
		s.overtake(itsRow, func() {
			s.transition(run, lifecycle.Cancel{})
			synctest.Wait() // until the worker has read it
		})
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Cancelled, s.run(run).Status)
		steps := s.journal(run)
		require.Len(t, steps, 2, "the call was made")
		assert.Equal(t, "[5 bytes of text/plain; they are not stored]", steps[1].Output)
		assert.Empty(t, steps[1].Files)
	})
	for name, take := range takeovers() {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, mute)
			draws(s)
			run := s.post()
			s.overtake(itsRow, func() { take(s, run) })
			require.NoError(t, s.worker.Handle(t.Context(), run))
			files, err := record.Resources[record.File](t.Context(), s.store, s.who.Scope(), "", 10)
			require.NoError(t, err)
			assert.Empty(t, files.Rows, name)
		})
	}
}

// Each attempt stores its own files, so that an incomplete file of a lost attempt is not named by the journal.
func TestEachAttemptStoresItsOwnFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = talks("draw")
		long := strings.Repeat("long ", 100_000)
		s.tools = []tool.Offer{offer("draw", func(context.Context) (tool.Result, error) {
			return tool.Result{Text: long, Files: []tool.File{{Name: "cat.txt", Data: []byte("miaow")}}}, nil
		})}
		s.table.fails = func(_ bool, ops []table.Op) error {
			if writes(ops, "step/000001") {
				return &table.Error{Kind: table.Down, Err: errors.New("away")}
			}
			return nil
		}
		run := s.post()
		require.Error(t, s.worker.Handle(t.Context(), run))
		s.table.fails = nil
		time.Sleep(lease)
		require.NoError(t, s.worker.Handle(t.Context(), run))
		files := s.result(run).Files
		require.Len(t, files, 2)
		assert.Equal(t, long, s.content(files[0]))
		assert.Equal(t, "miaow", s.content(files[1]))
		ids := map[string]bool{}
		for attempt := range 2 {
			for _, key := range []string{"0-0", "0-0/0"} {
				ids[record.DerivedID("file/"+key+"/"+string(rune('1'+attempt)), run)] = true
			}
		}
		all, err := record.Resources[record.File](t.Context(), s.store, s.who.Scope(), "", 10)
		require.NoError(t, err)
		assert.Len(t, all.Rows, 4)
		for _, f := range all.Rows {
			assert.True(t, ids[f.Value.ID], "its name follows from the call, so that a second try makes no second file")
		}
	})
}
