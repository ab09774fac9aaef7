package worker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
)

// All open sessions of an attempt's calls end with the attempt, after any end, while it still holds the run.
func TestSessionsOfToolsEndWithTheirAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		does func(s *stage, id string) // in the call
		ends lifecycle.Status
	}{
		"an answer": {func(*stage, string) {}, lifecycle.Completed},
		"a pause":   {func(s *stage, _ string) { s.tools[1].Approval.Mode = "always" }, lifecycle.AwaitingInput},
		"a cancel":  {func(s *stage, id string) { s.transition(id, lifecycle.Cancel{}) }, lifecycle.Cancelled},
		"a panic of the model": {func(s *stage, _ string) {
			s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) { panic("oops") }
		}, lifecycle.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, local)
				open, ended := false, 0
				var id string
				s.converse = talks("one", "two")
				two := offer("two", func(context.Context) (tool.Result, error) { return tool.Result{}, nil })
				one := offer("one", func(context.Context) (tool.Result, error) {
					open = true
					c.does(s, id)
					return tool.Result{}, nil
				})
				one.End = func() {
					open = false
					ended++
					assert.Equal(t, lifecycle.Running, s.run(id).Status, "the lease is held")
				}
				s.tools = []tool.Offer{one, two}
				if name == "a pause" {
					c.does(s, id)
				}
				id = s.post()
				s.drive()
				synctest.Wait()
				r := s.run(id)
				assert.Equal(t, c.ends, r.Status, s.log.String())
				assert.False(t, open)
				assert.Equal(t, r.Attempt, ended, "each attempt ends its own")
			})
		})
	}
}
