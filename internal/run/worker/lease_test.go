package worker_test

import (
	"context"
	"errors"
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
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// notifiers runs a test with the notifier of one process, and with polling.
func notifiers(t *testing.T, test func(s *stage)) {
	for name, notifier := range map[string]func(host.Host) stream.Notifier{"local": local, "polling": polling} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newStage(t, notifier)) })
		})
	}
}

func renews(ops []table.Op) bool {
	return len(ops) == 1 && strings.Contains(string(ops[0].Item.Body), `"status":"running"`)
}

func TestHangingFrameTableDoesNotLoseTheLease(t *testing.T) {
	for _, watched := range []bool{false, true} {
		notifiers(t, func(s *stage) {
			slow(s)
			s.frames.before = func(ctx context.Context, _ bool, _ []table.Op) { hang(ctx) }
			id := s.post()
			if watched {
				e, err := s.store.Run(s.Context(), record.System(), id)
				require.NoError(s, err)
				e.Value.Watched = true
				tx := s.store.Begin("watched")
				tx.PutRun(e)
				require.NoError(s, tx.Commit(s.Context()))
			}
			done := s.begin(s.Context(), id)
			for range 5 {
				time.Sleep(lease / 2)
				synctest.Wait()
				require.True(s, s.run(id).Lease.Until.After(s.host.Now()), "the lease holds")
			}
			<-done
			assert.Equal(s, lifecycle.Completed, s.run(id).Status, s.log.String())
			assert.Equal(s, 1, s.run(id).Attempt)
		})
	}
}

func TestHangingCancelPollDoesNotLoseTheLease(t *testing.T) {
	notifiers(t, func(s *stage) {
		slow(s)
		s.table.before = func(ctx context.Context, commit bool, _ []table.Op) {
			if !commit && s.beating.Load() {
				hang(ctx)
			}
		}
		id := s.post()
		s.handle(s.Context(), id)
		assert.Equal(s, lifecycle.Completed, s.run(id).Status, s.log.String())
		assert.Equal(s, 1, s.run(id).Attempt)
	})
}

func TestHangingRenewalIsRetriedBeforeTheLeaseEnds(t *testing.T) {
	notifiers(t, func(s *stage) {
		slow(s)
		renewals := 0
		s.table.before = func(ctx context.Context, commit bool, ops []table.Op) {
			if commit && s.beating.Load() && renews(ops) {
				if renewals++; renewals%2 == 1 {
					hang(ctx)
				}
			}
		}
		id := s.post()
		s.handle(s.Context(), id)
		assert.Equal(s, lifecycle.Completed, s.run(id).Status, s.log.String())
		assert.Equal(s, 1, s.run(id).Attempt)
		assert.Greater(s, renewals, 4)
	})
}

func TestWorkEndsIfTheLeaseCannotBeRenewed(t *testing.T) {
	notifiers(t, func(s *stage) {
		var stopped time.Duration
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			began := time.Now()
			s.beating.Store(true)
			<-ctx.Done()
			stopped = time.Since(began)
			return model.Reply{}, ctx.Err()
		}
		s.table.before = func(ctx context.Context, commit bool, _ []table.Op) {
			if commit && s.beating.Load() {
				hang(ctx)
			}
		}
		id := s.post()
		s.handle(s.Context(), id)
		assert.LessOrEqual(s, stopped, lease, "the lease has ended for whoever looks")
		assert.Greater(s, stopped, lease/2)
	})
}

func TestCancelEndsARunningCallImmediately(t *testing.T) {
	notifiers(t, func(s *stage) {
		s.worker.Drain = drain
		var why error
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			why = s.host.Sleep(ctx, lease)
			return model.Reply{}, errors.New("cut")
		}
		id := s.post()
		done := s.begin(s.Context(), id)
		time.Sleep(time.Second)
		began := time.Now()
		_, err := s.intake.Cancel(s.Context(), s.who, id, "enough")
		require.NoError(s, err)
		<-done
		assert.Error(s, why)
		assert.LessOrEqual(s, time.Since(began), 2*time.Second)
		assert.Equal(s, lifecycle.Cancelled, s.run(id).Status)
	})
}

// leaving runs a test with a stopping process, and with ReleaseAfter.
func leaving(t *testing.T, test func(s *stage, leave func())) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.worker.Drain = drain
		ctx, cancel := context.WithCancel(t.Context())
		s.context = ctx
		test(s, cancel)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		s.worker.Drain, s.worker.ReleaseAfter, s.context = drain, time.Second, t.Context()
		test(s, func() {})
	})
}

func TestRunningCallsFinishBeforeARelease(t *testing.T) {
	leaving(t, func(s *stage, leave func()) {
		requests := 0
		s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			if requests++; requests > 1 {
				return talks()(ctx, r, emit)
			}
			if err := s.host.Sleep(ctx, drain-time.Second); err != nil {
				return model.Reply{}, err
			}
			return calls("one"), nil
		}
		id := s.post()
		done := s.begin(s.context, id)
		time.Sleep(time.Second)
		leave()
		<-done
		r := s.run(id)
		assert.Equal(s, lifecycle.Running, r.Status)
		assert.Equal(s, 1, r.Hops)
		assert.Empty(s, r.Lease.Holder, "another goes on at once")
		steps, err := s.store.Journal(s.Context(), id)
		require.NoError(s, err)
		require.Len(s, steps, 1, "what the model said is not asked for again")
		assert.Equal(s, r.Steps, 1)
		assert.Equal(s, 1, requests, "and no further call was begun")
		s.worker.ReleaseAfter = 0
		s.handle(s.Context(), id)
		assert.Equal(s, lifecycle.Completed, s.run(id).Status)
		assert.Equal(s, 2, requests)
		assert.EqualValues(s, 2, s.run(id).Usage.ModelCalls)
	})
}

// The process stops when a call that must not be repeated has ended and another is running. Neither is repeated, and no
// person must decide about them.
func TestCallsFinishedBeforeAReleaseAreNotRepeated(t *testing.T) {
	leaving(t, func(s *stage, leave func()) {
		var made atomic.Int64
		s.converse = talks("quick", "steady")
		for name, takes := range map[string]time.Duration{"quick": 0, "steady": drain - time.Second} {
			o := offer(name, func(ctx context.Context) (tool.Result, error) {
				made.Add(1)
				return tool.TextResult("fine"), s.host.Sleep(ctx, takes)
			})
			o.RetrySafe = false
			s.tools = append(s.tools, o)
		}
		id := s.post()
		done := s.begin(s.context, id)
		time.Sleep(time.Second)
		leave()
		<-done
		assert.Equal(s, 1, s.run(id).Hops)
		s.worker.ReleaseAfter = 0
		s.handle(s.Context(), id)
		assert.Equal(s, lifecycle.Completed, s.run(id).Status, s.log.String())
		assert.EqualValues(s, 2, made.Load())
	})
}

func TestCallThatOutlastsTheDrainIsCutByTheRelease(t *testing.T) {
	leaving(t, func(s *stage, leave func()) {
		var took time.Duration
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			began := time.Now()
			err := s.host.Sleep(ctx, time.Hour)
			took = time.Since(began)
			return model.Reply{}, err
		}
		id := s.post()
		done := s.begin(s.context, id)
		time.Sleep(time.Second)
		leave()
		<-done
		assert.Equal(s, time.Second+drain, took)
		assert.Equal(s, 1, s.run(id).Hops)
		assert.Equal(s, lifecycle.Running, s.run(id).Status)
	})
}
