package proof_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
// step waits for another run. It compares runs without a budget, and two other ways to count.
func TestStepsOfRunsWithTheSameBudgetsNeverConflict(t *testing.T) {
	for _, atOnce := range []int{1, 8, 32} {
		for _, way := range []string{"no budget", "at the end", "shared counters", "own counters"} {
			items, err := disktable.Open(t.TempDir(), disktable.Options{})
			require.NoError(t, err)
			budgetLoad(t, items, way, atOnce)
			require.NoError(t, items.Close())
		}
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

// nobody is a queue and a notifier that nobody reads.
type nobody struct{}

func (nobody) Send(context.Context, queue.Message) error { return nil }
func (nobody) Notify(string)                             {}
func (nobody) NotifyEnd(record.RunEntity)                {}

const stepsOfLoad, tokensOfStep = 5, 10

// load is a number of concurrent runs, which count their tokens in one way.
type load struct {
	*transition.Executor
	way    string
	limits []record.Limit
}

// budgetLoad makes 64 runs, so many concurrently, checks that each token was counted once, and logs what that took.
func budgetLoad(t *testing.T, items table.Table, way string, atOnce int) {
	t.Helper()
	const runs = 64
	counts, h := &counting{Table: items}, host.System()
	l := load{way: way, Executor: &transition.Executor{
		Store: record.New(counts, &memblob.Store{}, h), Queue: nobody{}, Notifier: nobody{}, Host: h,
		Log: slog.New(slog.DiscardHandler), StartDeadline: time.Hour,
	}}
	most := int64(1) << 40
	for _, kind := range []string{"organization", "user", "group", "agent", "api_key"} {
		l.limits = append(l.limits, record.Limit{Kind: kind, ID: "x",
			Budget: record.Budget{Period: "month", MaxTokens: &most}})
	}
	began := processor(t)
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for next.Add(1) <= runs {
				if err := l.run(t.Context()); err != nil { // a run that conflicts too often goes on later
					failed.Add(1)
					t.Log(err)
				}
			}
		})
	}
	all.Wait()
	took := processor(t) - began
	for _, one := range l.limits {
		spent, err := l.Store.Spent(t.Context(), one.Name(h.Now()))
		require.NoError(t, err)
		if want := int64(runs * stepsOfLoad * tokensOfStep); way != "no budget" && failed.Load() == 0 {
			assert.Equal(t, want, spent.Tokens, "%s: %s", way, one.Kind)
		}
	}
	t.Logf("%2d at once, %-15s: %4.1f commits and %4.1f operations a run, %4d commits were refused, %4d of them of "+
		"steps; %.1f ms of a processor a run", atOnce, way, float64(counts.commits.Load())/runs,
		float64(counts.ops.Load())/runs, counts.refused.Load(), counts.steps.Load(),
		float64(took.Microseconds())/1000/runs)
	if way == "no budget" || way == "own counters" {
		assert.Zero(t, counts.steps.Load(), "%s: a step was refused", way)
		assert.Zero(t, failed.Load(), way)
	}
}

// processor is how much processor time this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// run accepts a run, claims it, makes its steps and ends it.
func (l load) run(ctx context.Context) error {
	id := l.Host.NewID()
	spec := lifecycle.RunSpec{RunID: id, Organization: "o", User: "x", Agent: "x", APIKey: "x", Chat: id}
	if l.way == "own counters" {
		for _, one := range l.limits {
			name := one.Name(l.Host.Now())
			spec.Budgets = append(spec.Budgets, lifecycle.Budget{Name: name, MaxTokens: *one.MaxTokens})
		}
	}
	_, err := l.Accept(ctx, l.Store.Begin(id), transition.Acceptance{
		Spec: spec, Input: record.Input{Message: "m"},
		Slots: lifecycle.Slots{User: "over/" + id, Organization: "over/" + id}, // in nobody's way
		Chat:  record.Fresh(lifecycle.Chat{ID: id, Organization: "o", User: "x", CreatedAt: l.Host.Now()}),
	})
	work := lifecycle.Work{Attempt: 1}
	makes := func(e lifecycle.Event, tokens int64, steps ...record.Step) {
		if err != nil {
			return
		}
		_, err = l.Do(ctx, record.System(), id, func(_ record.Run, tx *record.Tx) (transition.Change, error) {
			if tokens > 0 {
				tx.SpendEmbedded(ctx, "o", l.limits, tokens)
			}
			return transition.Change{Event: e, Steps: steps, Result: []byte(`{}`)}, nil
		})
	}
	makes(lifecycle.Claim{Holder: "w", Until: l.Host.Now().Add(time.Hour)}, 0)
	for n := range stepsOfLoad {
		work.Usage.InputTokens += tokensOfStep
		work.Steps++
		makes(lifecycle.Step{Work: work}, map[string]int64{"shared counters": tokensOfStep}[l.way],
			record.Step{Index: n, Kind: record.ModelStep, InputTokens: tokensOfStep})
	}
	makes(lifecycle.Complete{Work: work}, map[string]int64{"at the end": stepsOfLoad * tokensOfStep}[l.way])
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	return nil
}
