package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// many is a reply with this number of calls of a tool.
func many(calls int, name string) model.Reply {
	reply := model.Reply{Finish: "tool_calls", Text: "I call.", InputTokens: 100, OutputTokens: 1000}
	for i := range calls {
		reply.Calls = append(reply.Calls, model.Call{ID: fmt.Sprint("c", i), Name: name, Arguments: []byte("{}")})
	}
	return reply
}

// longer changes the agent so that a run may take many steps, and its tokens are counted.
func (s *stage) longer() {
	steps, seconds, most := 1000, 60, int64(1_000_000)
	s.edit(func(spec *catalog.AgentSpec) {
		spec.Limits.MaxSteps, spec.Limits.MaxActiveSeconds = &steps, &seconds
		spec.Budget = &record.Budget{Period: "month", MaxTokens: &most}
		spec.Approval.Mode = "always"
	})
}

// More steps than fit into a commit are journalled, in every way that the work is stopped.
func TestManyStepsAreKeptWhenTheWorkIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(s *stage, run string, stop func())
		status lifecycle.Status
	}{
		"its time is up": {func(*stage, string, func()) {}, lifecycle.TimedOut},
		"a cancel":       {func(s *stage, run string, _ func()) { s.cancel(run) }, lifecycle.Cancelled},
		"a release":      {func(_ *stage, _ string, stop func()) { stop() }, lifecycle.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				s.worker.Tick, s.worker.Drain = time.Second, drain
				s.longer()
				s.tools = []tool.Offer{fine("one")}
				s.converse = then(func(context.Context, model.Request, func(string)) (model.Reply, error) {
					return many(120, "one"), nil
				}, s.stuck("Half", 1000, 100), func(context.Context, model.Request, func(string)) (model.Reply, error) {
					return model.Reply{Text: "done", Finish: "stop", InputTokens: 1000, OutputTokens: 1}, nil
				})
				run := s.post()
				s.handle(t.Context(), run)
				var list []record.Decision
				for _, i := range s.run(run).Interrupts {
					list = append(list, record.Decision{InterruptID: i.ID, Decision: "reject"})
				}
				require.Len(t, list, 120)
				_, err := s.intake.Resume(t.Context(), s.who, run, "", list, nil, nil)
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := s.begin(ctx, run)
				time.Sleep(10 * time.Second)
				c.end(s, run, stop)
				<-ended
				if s.run(run).Status == lifecycle.Running {
					assert.Equal(t, 122, s.run(run).Steps)
					s.handle(t.Context(), run)
				}
				used := lifecycle.Usage{InputTokens: 1100, OutputTokens: 1100, ModelCalls: 2}
				if c.status == lifecycle.Completed {
					used = lifecycle.Usage{InputTokens: 2100, OutputTokens: 1101, ModelCalls: 3}
				}
				s.counted(run, c.status, used)
				steps, err := s.store.Steps(t.Context(), s.run(run))
				require.NoError(t, err)
				assert.Len(t, steps, s.run(run).Steps)
				assert.Len(t, steps, 120+int(used.ModelCalls), "%s", s.run(run).Error)
			})
		})
	}
}

// A cancel that arrives while many steps are journalled loses none of the others.
func TestACancelAmongManyStepsLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, mute)
		s.longer()
		run := ""
		s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
			s.transition(run, lifecycle.Cancel{})
			return many(250, "unknown"), nil
		}
		run = s.post()
		s.handle(t.Context(), run)
		s.counted(run, lifecycle.Cancelled,
			lifecycle.Usage{InputTokens: 100, OutputTokens: 1000, ModelCalls: 1, ToolCalls: 250})
		assert.Len(t, s.journal(run), 251)
		assert.Equal(t, 251, s.run(run).Steps)
	})
}
