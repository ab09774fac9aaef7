package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table"
)

// panicPoints are where an attempt may panic: each plants a panic for the first n attempts.
func panicPoints() map[string]func(s *stage, bad func() bool) {
	oops := func(bad func() bool) {
		if bad() {
			panic("oops")
		}
	}
	fine := func() (tool.Result, error) { return tool.TextResult("fine"), nil }
	return map[string]func(s *stage, bad func() bool){
		"the model": func(s *stage, bad func() bool) {
			s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
				oops(bad)
				return talks()(ctx, r, emit)
			}
		},
		"a tool": func(s *stage, bad func() bool) {
			s.converse = talks("one")
			s.tools = []tool.Offer{offer("one", func(context.Context) (tool.Result, error) {
				oops(bad)
				return fine()
			})}
		},
		"one of two parallel calls": func(s *stage, bad func() bool) {
			s.converse = talks("one", "two")
			s.tools = []tool.Offer{
				offer("one", func(context.Context) (tool.Result, error) { oops(bad); return fine() }),
				offer("two", func(ctx context.Context) (tool.Result, error) {
					_ = s.host.Sleep(ctx, time.Second)
					return fine()
				}),
			}
		},
		"a heartbeat": func(s *stage, bad func() bool) {
			slow(s)
			s.table.before = func(_ context.Context, _ bool, ops []table.Op) {
				for _, op := range ops {
					if strings.Contains(string(op.Item.Body), `"status":"running"`) && s.beating.Load() && bad() {
						panic("oops")
					}
				}
			}
		},
		"the frames": func(s *stage, bad func() bool) {
			slow(s)
			s.frames.before = func(context.Context, bool, []table.Op) { oops(bad) }
		},
		"the end of the run": func(s *stage, bad func() bool) {
			s.converse = talks()
			s.table.before = func(_ context.Context, _ bool, ops []table.Op) {
				for _, op := range ops {
					if strings.Contains(string(op.Item.Body), `"status":"completed"`) {
						oops(bad)
					}
				}
			}
		},
	}
}

// slow makes the model take longer than a lease.
func slow(s *stage) {
	s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		s.beating.Store(true)
		defer s.beating.Store(false)
		if err := s.host.Sleep(ctx, 3*lease); err != nil {
			return model.Reply{}, err
		}
		return talks()(ctx, r, emit)
	}
}

func TestPanicCountsAsALostAttempt(t *testing.T) {
	for name, plant := range panicPoints() {
		for _, times := range []int64{1, 1000} {
			t.Run(name+map[bool]string{true: ", once", false: ", always"}[times == 1], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, local)
					var panicked atomic.Int64
					plant(s, func() bool { return panicked.Add(1) <= times })
					id := s.post()
					began := time.Now()
					s.drive()
					synctest.Wait()
					r := s.run(id)
					if times == 1 {
						assert.Equal(t, lifecycle.Completed, r.Status, "%s\n%s", r.Error, s.log.String())
						assert.Equal(t, 2, r.Attempt, "taken up again at once")
					} else {
						assert.Equal(t, lifecycle.Failed, r.Status, s.log.String())
						assert.Equal(t, "the agent's work failed inside the service 5 times without finishing a step",
							r.Error)
					}
					assert.Less(t, time.Since(began), 5*4*lease, "and not when a lease has lapsed")
					assert.Contains(t, s.log.String(), "oops")
					assert.Contains(t, s.log.String(), "panic_test.go", "where it was is in the log")
				})
			})
		}
	}
}
