package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// endless is a model that always requests another tool, and uses 100 tokens a call. Its calls take different times.
type endless struct{ calls atomic.Int64 }

func (m *endless) Converse(_ context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
	n := m.calls.Add(1)
	time.Sleep(time.Duration(n%7+1) * time.Second)
	reply := calls(fmt.Sprint("none", n))
	reply.InputTokens, reply.OutputTokens = 60, 40
	return reply, nil
}

// Parallel runs of one budget overdraw it by their calls under way, and by no more. Each counts the tokens of all
// others before its next call.
func TestConcurrentRunsOverdrawABudgetByTheirCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const concurrent, most, call = 8, 2000, 100
		s, m := newStage(t, local), &endless{}
		s.worker.Loop.Models["demo"] = m
		s.edit(func(spec *catalog.AgentSpec) {
			tokens := int64(most)
			spec.Budget = &record.Budget{Period: "month", MaxTokens: &tokens}
		})
		var runs []string
		var all sync.WaitGroup
		for range concurrent {
			run := s.send(intake.Message{Text: "x"}).Run.RunID
			runs = append(runs, run)
			all.Go(func() { s.handle(t.Context(), run) })
		}
		all.Wait()
		used := int64(0)
		for _, id := range runs {
			r := s.run(id)
			require.Equal(t, lifecycle.Failed, r.Status, "%s %s", r.Error, s.log.String())
			assert.Contains(t, r.Error, "of 2000 tokens")
			used += r.Usage.Tokens()
		}
		assert.Equal(t, m.calls.Load()*call, used)
		assert.GreaterOrEqual(t, used, int64(most))
		assert.Less(t, used, int64(most+concurrent*call))
		spent, err := s.store.Spent(t.Context(), s.run(runs[0]).Counting.Budgets[0].Name)
		require.NoError(t, err)
		assert.Equal(t, used, spent.Tokens)
	})
}
