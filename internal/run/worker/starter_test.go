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
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/table"
)

// room has space for some number of attempts in parallel, in its own goroutines.
type room struct {
	*stage

	free int
	dead bool // the work that it begins is never done, as if the process died
}

// starting makes the stage start the runs that it accepts.
func starting(s *stage, free int) *room {
	r := &room{stage: s, free: free}
	s.worker.Executor.Starter = &worker.Starter{Worker: s.worker, Room: r.reserve}
	return r
}

func (r *room) reserve(_, _ string) func(func(context.Context)) {
	if r.free == 0 {
		return nil
	}
	r.free--
	return func(attempt func(context.Context)) {
		if r.dead {
			return
		}
		if attempt == nil {
			r.free++
			return
		}
		go func() {
			defer func() { r.free++ }()
			attempt(r.context)
		}()
	}
}

// A run that is accepted while a worker is free is claimed in the same commit and needs no wakeup. Its client gets the
// accepted state. Counters get both states.
func TestAnAcceptedRunStartsImmediatelyWhereAWorkerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		r := starting(s, 1)
		var entered []lifecycle.Status
		var events []string
		s.worker.Executor.OnTransition = func(m transition.Move) {
			entered, events = append(entered, m.After.Status), append(events, m.Event)
		}
		commits := 0
		s.table.after = func([]table.Op) error {
			commits++
			return nil
		}
		posted := s.send(intake.Message{Text: "hello"})
		assert.Equal(t, lifecycle.Queued, posted.Run.Status)
		synctest.Wait()
		run := s.run(posted.Run.ID())
		assert.Equal(t, lifecycle.Completed, run.Status)
		assert.Equal(t, 1, run.Attempt)
		assert.Equal(t, 3, run.Transition)
		assert.False(t, run.StartedAt.IsZero())
		assert.Equal(t, 2, commits, "it was accepted and claimed, then completed")
		assert.Empty(t, s.wakeups.sent)
		assert.Equal(t, []lifecycle.Status{lifecycle.Queued, lifecycle.Running, lifecycle.Completed}, entered)
		assert.Equal(t, []string{transition.Accepted, "claim", "complete"}, events)
		assert.Equal(t, 1, r.free)
	})
}

func TestAnAcceptedRunWaitsForItsWakeupWhereNoWorkerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		starting(s, 0)
		run := s.post()
		synctest.Wait()
		assert.Equal(t, lifecycle.Queued, s.run(run).Status)
		s.drive()
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
	})
}

// A run whose start deadline is over when it is accepted is not claimed.
func TestNoRunStartsAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.worker.Executor.StartDeadline = 0
		r := starting(s, 1)
		run := s.post()
		synctest.Wait()
		assert.Equal(t, lifecycle.Queued, s.run(run).Status)
		assert.Equal(t, 1, r.free)
		assert.Len(t, s.wakeups.sent, 1)
	})
}

// With any result of the commit that accepts a run, the worker executes the run that is stored with its claim, once,
// and nothing else. Then it is free again.
func TestAWorkerStartsOnlyWhatIsStoredWithItsClaim(t *testing.T) {
	away := func(kind table.Kind) error { return &table.Error{Kind: kind, Err: errors.New("away")} }
	for name, c := range map[string]struct {
		fails    error // of the commit, which is not made
		lost     error // of a commit that is made
		panics   bool
		dies     bool                       // it panics when the commit is made
		meant    func(s *stage, run string) // happens before the commit's result is read
		requests int
	}{
		"it fails":                 {fails: away(table.Down)},
		"its answer is lost":       {lost: away(table.Unknown), requests: 1},
		"it panics":                {panics: true},
		"it panics late":           {dies: true, requests: 1},
		"it panics after its end":  {dies: true, meant: theEnd},
		"its answer is lost late":  {lost: away(table.Unknown), meant: theEnd},
		"it is made, then removed": {lost: away(table.Unknown), meant: theRemoval},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, local)
			s.converse = talks()
			r := starting(s, 1)
			var run string
			accepts := func(ops []table.Op) bool {
				for _, op := range ops {
					if kind, id, _ := strings.Cut(op.Item.Part, "/"); kind == "run" && (run == "" || run == id) {
						run = id
						return true
					}
				}
				return false
			}
			s.table.fails = func(commit bool, ops []table.Op) error {
				if !commit || c.lost != nil || c.dies || !accepts(ops) {
					return nil
				}
				if c.panics {
					panic("the store's program failed")
				}
				return c.fails
			}
			s.table.after = func(ops []table.Op) error {
				if c.lost == nil && !c.dies || run != "" || !accepts(ops) {
					return nil
				}
				if c.meant != nil {
					c.meant(s, run)
				}
				if c.dies {
					panic("the store's program failed")
				}
				return c.lost
			}
			died := host.Catch(func() {
				_, err := s.intake.Post(t.Context(), s.who, intake.Message{AgentID: s.agent, Text: "hello"})
				assert.Equal(t, c.requests == 0, err != nil, name) // a committed write is found by its write id
			})
			assert.Equal(t, c.panics || c.dies, died != nil, name)
			synctest.Wait()
			assert.Len(t, s.requests, c.requests, name)
			assert.Equal(t, 1, r.free, name)
			if c.requests > 0 {
				assert.Equal(t, lifecycle.Completed, s.run(run).Status, name)
			}
		})
	}
}

// A conflict returns the worker; the next attempt reserves one again.
func TestAConflictGivesTheWorkerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		r := starting(s, 1)
		first := s.send(intake.Message{Text: "hello", ChatID: "c1"})
		synctest.Wait()
		other := ""
		s.overtake("head", func() { // another message arrives in the chat first
			free := r.free
			r.free = 0
			other = s.send(intake.Message{Text: "me first", ChatID: "c1"}).Run.ID()
			r.free = free
		})
		_, err := s.intake.Post(t.Context(), s.who, intake.Message{AgentID: s.agent, Text: "and I", ChatID: "c1"})
		require.ErrorContains(t, err, "the chat is busy with run "+other)
		synctest.Wait()
		assert.Equal(t, lifecycle.Completed, s.run(first.Run.ID()).Status)
		assert.Equal(t, lifecycle.Queued, s.run(other).Status)
		assert.Len(t, s.requests, 1)
		assert.Equal(t, 1, r.free)
	})
}

// A process that dies between accepting a run and its work loses nothing: another takes the run over.
func TestARunOfAProcessThatDiesAtItsStartIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		r := starting(s, 1)
		r.dead = true
		run := s.post()
		s.handle(t.Context(), run)
		assert.Empty(t, s.requests, "the lease protects it")
		time.Sleep(lease)
		s.handle(t.Context(), run)
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
		assert.Equal(t, 2, s.run(run).Attempt)
		assert.Len(t, s.requests, 1)
	})
}

// The lease is counted from before the commit that accepts the run.
func TestAStartThatTakesTooLongMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			return calls("one"), nil
		}
		s.tools = []tool.Offer{offer("one", func(context.Context) (tool.Result, error) {
			t.Error("it was called")
			return tool.Result{}, nil
		})}
		starting(s, 1)
		s.overtake("head", func() { s.host.mono.Add(int64(lease)) })
		run := s.post()
		synctest.Wait()
		assert.Empty(t, s.requests)
		assert.Equal(t, lifecycle.Running, s.run(run).Status)
		assert.Zero(t, s.run(run).Steps)
	})
}

// An error that prevents the end of an accepted run is logged. The run is executed again.
func TestAStartThatFailsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		s.worker.Tools = closed{s}
		starting(s, 1)
		run := s.post()
		synctest.Wait()
		assert.Contains(t, s.log.String(), "run could not be started when it was accepted")
		assert.Contains(t, s.log.String(), run)
		s.worker.Tools = s
		time.Sleep(lease)
		s.handle(t.Context(), run)
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
	})
}

// A run that is accepted while its process stops is released.
func TestARunThatIsStartedWhileItsProcessStopsIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		slowly := talks()
		s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			if err := s.host.Sleep(ctx, time.Minute); err != nil {
				return model.Reply{}, err
			}
			return slowly(ctx, r, emit)
		}
		s.worker.Drain = drain
		starting(s, 1)
		var stop context.CancelFunc
		s.context, stop = context.WithCancel(t.Context())
		stop()
		run := s.post()
		time.Sleep(2 * drain)
		assert.Equal(t, lifecycle.Running, s.run(run).Status)
		assert.Equal(t, 1, s.run(run).Hops)
		assert.Len(t, s.wakeups.sent, 1)
		s.drive()
		assert.Equal(t, lifecycle.Completed, s.run(run).Status)
	})
}

// A run begins when its turn comes, even if its start deadline has passed while other runs of its organization were
// running.
func TestAWorkerBeginsWhatItsOrganizationHasHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.converse = talks()
		long := s.post()
		s.transition(long, lifecycle.Claim{
			Holder: "another", ProcessID: s.worker.Executor.ProcessID, Until: s.host.Now().Add(24 * time.Hour),
		})
		run := s.post()
		time.Sleep(2 * s.worker.Executor.StartDeadline)
		require.NoError(t, s.worker.Handle(t.Context(), run))
		assert.Equal(t, lifecycle.Completed, s.run(run).Status, s.run(run).Error)
	})
}
