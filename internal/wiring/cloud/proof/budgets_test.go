package proof_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/disktable"
)

// Runs of five steps count their tokens under the budgets of an organization, a user, a group, an agent and a key. No
// step waits for another run.
func TestStepsOfRunsWithTheSameBudgetsNeverConflict(t *testing.T) {
	for _, atOnce := range []int{1, 8, 32} {
		items, err := disktable.Open(t.TempDir(), disktable.Options{})
		require.NoError(t, err)
		budgetLoad(t, items, atOnce)
		require.NoError(t, items.Close())
	}
}

// counting counts the commits of a table.
type counting struct {
	table.Table

	commits, ops, steps atomic.Int64 // steps: commits of steps that were refused, or not made because of others
	refused             atomic.Int64
}

func (c *counting) Commit(ctx context.Context, token string, ops ...table.Op) error {
	err := c.Table.Commit(ctx, token, ops...)
	c.commits.Add(1)
	c.ops.Add(int64(len(ops)))
	refused, is := errors.AsType[*table.Refused](err)
	if is && (len(refused.Conflicts) == 0 || refused.Conflicts[0].Current == nil ||
		refused.Conflicts[0].Current.WriteID != token) || table.IsKind(err, table.Contended) {
		c.refused.Add(1)
		for _, op := range ops {
			if strings.HasPrefix(op.Item.Sort, "step/") {
				c.steps.Add(1)
			}
		}
	}
	return err
}

// nobody is a queue and a notifier without readers.
type nobody struct{}

func (nobody) Send(context.Context, queue.Message) error { return nil }
func (nobody) Notify(string)                             {}
func (nobody) NotifyEnd(record.RunEntity)                {}

const stepsOfLoad, tokensOfStep = 5, 10

// load is a number of concurrent runs under the same budgets.
type load struct {
	*transition.Executor

	limits []record.Limit
}

// budgetLoad makes 64 runs, atOnce of them in parallel. It checks that each token was counted once, and logs the cost.
func budgetLoad(t *testing.T, items table.Table, atOnce int) {
	t.Helper()
	const runs = 64
	counts, h := &counting{Table: items}, host.System()
	l := load{Executor: &transition.Executor{
		Store: record.New(counts, &memblob.Store{}, h), Queue: nobody{}, Notifier: nobody{}, Host: h,
		Log: slog.New(slog.DiscardHandler), StartDeadline: time.Hour,
	}}
	most := int64(1) << 40
	for _, kind := range []string{"organization", "user", "group", "agent", "api_key"} {
		l.limits = append(l.limits, record.Limit{Kind: kind, ID: "x",
			Budget: record.Budget{Period: "month", MaxTokens: &most}})
	}
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for next.Add(1) <= runs {
				if err := l.run(t.Context()); err != nil { // a run that conflicts too often continues later
					failed.Add(1)
					t.Log(err)
				}
			}
		})
	}
	all.Wait()
	for _, one := range l.limits {
		spent, err := l.Store.Spent(t.Context(), one.Name(h.Now()))
		require.NoError(t, err)
		assert.EqualValues(t, runs*stepsOfLoad*tokensOfStep, spent.Tokens, one.Kind)
	}
	t.Logf("%2d at once: %4.1f commits and %4.1f operations a run, %4d commits were refused", atOnce,
		float64(counts.commits.Load())/runs, float64(counts.ops.Load())/runs, counts.refused.Load())
	assert.Zero(t, counts.steps.Load(), "a step was refused")
	assert.Zero(t, failed.Load())
}

// run accepts a run, claims it, makes its steps and ends it.
func (l load) run(ctx context.Context) error {
	id := l.Host.NewID()
	spec := lifecycle.RunSpec{RunID: id, Organization: "o", User: "x", Agent: "x", APIKey: "x", Chat: id}
	for _, one := range l.limits {
		name := one.Name(l.Host.Now())
		spec.Budgets = append(spec.Budgets, lifecycle.Budget{Name: name, MaxTokens: *one.MaxTokens})
	}
	_, err := l.Accept(ctx, l.Store.Begin(id), transition.Acceptance{
		Spec: spec, Input: record.Input{Message: "m"},
		Slots: lifecycle.Slots{User: "over/" + id, Organization: "over/" + id}, // without conflicts with others
		Chat:  record.Fresh(lifecycle.Chat{ID: id, Organization: "o", User: "x", CreatedAt: l.Host.Now()}),
	})
	work := lifecycle.Work{Attempt: 1}
	makes := func(e lifecycle.Event, steps ...record.Step) {
		if err != nil {
			return
		}
		_, err = l.Do(ctx, record.System(), id, func(record.Run, *record.Tx) (transition.Change, error) {
			return transition.Change{Event: e, Steps: steps, Result: []byte(`{}`)}, nil
		})
	}
	makes(lifecycle.Claim{Holder: "w", Until: l.Host.Now().Add(time.Hour)})
	for n := range stepsOfLoad {
		work.Usage.InputTokens += tokensOfStep
		work.Steps++
		makes(lifecycle.Step{Work: work}, record.Step{Index: n, Kind: record.ModelStep, InputTokens: tokensOfStep})
	}
	makes(lifecycle.Complete{Work: work})
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	return nil
}
