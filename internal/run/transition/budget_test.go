package transition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// counted requires that the run's budgets have counted this many tokens, and that only a running run has its own
// counters.
func (w *world) counted(run string, tokens int64, at string) {
	w.t.Helper()
	r := w.run(run)
	require.Len(w.t, r.Counting.Budgets, 5, at)
	for _, b := range r.Counting.Budgets {
		spent, err := w.Store.Spent(w.t.Context(), b.Name)
		require.NoError(w.t, err)
		assert.Equal(w.t, tokens, spent.Tokens, "%s: %s", at, b.Name)
	}
	open := 0
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) {
		if strings.HasPrefix(i.Part, "spent/") && strings.HasPrefix(i.Sort, "unsettled/") {
			open++
		}
	})
	assert.Equal(w.t, r.Counting.Open > 0, open > 0, at)
	assert.False(w.t, r.Status != lifecycle.Running && open > 0, "%s: %s", at, r.Status)
}

// fiveBudgets accepts a run with five token budgets.
func (w *world) fiveBudgets() string {
	t := w.ticket("u")
	t.Budgets = nil
	for _, owner := range []string{"organization/o", "user/u", "group/g", "agent/a", "api_key/k"} {
		t.Budgets = append(t.Budgets, lifecycle.Budget{Name: owner + "/2026-01", MaxTokens: 1000})
	}
	require.NoError(w.t, w.begin(w.t.Context(), t, input(1)))
	return t.RunID
}

func using(attempt int, in, out int64) lifecycle.Work {
	return lifecycle.Work{Attempt: attempt, Usage: lifecycle.Usage{InputTokens: in, OutputTokens: out}}
}

// Tokens count in each budget with the commit that records them in the run. They stay counted once through a pause, a
// lost attempt, a release and the end.
func TestTokensCountWithTheCommitThatUsesThem(t *testing.T) {
	w := newWorld(t)
	run := w.fiveBudgets()
	w.claim(run)
	w.counted(run, 0, "claimed")
	makes := func(e lifecycle.Event) { w.do(run, plainly(transition.Change{Event: e, Result: sizedResult(9)})) }
	makes(lifecycle.Step{Work: using(1, 10, 5)})
	w.counted(run, 15, "a step")
	makes(lifecycle.Renew{Work: using(1, 10, 5)})
	w.counted(run, 15, "a renewal")
	makes(lifecycle.Step{Work: using(1, 20, 9)})
	w.counted(run, 29, "another step")
	asks := w.pausing()
	e := asks.Event.(lifecycle.Pause)
	e.Work = using(1, 30, 10)
	asks.Event = e
	w.do(run, plainly(asks))
	w.counted(run, 40, "a pause")
	slots, err := w.Slots(t.Context(), w.run(run).RunSpec)
	require.NoError(t, err)
	w.do(run, plainly(w.answering(slots)))
	w.counted(run, 40, "its answer")
	w.claim(run)
	makes(lifecycle.Step{Work: using(2, 50, 10)})
	w.counted(run, 60, "a step behind the pause")
	w.clock.now = w.clock.now.Add(2 * time.Hour)
	w.claim(run)
	w.counted(run, 60, "a claim of a lost attempt")
	makes(lifecycle.Release{Work: using(3, 50, 20)})
	w.counted(run, 70, "a release")
	w.claim(run)
	makes(lifecycle.Complete{Work: using(4, 60, 20)})
	w.counted(run, 80, "its end")
}

// A run that an earlier version has begun has counted nothing. Its tokens count once: when this version claims it, or
// at its end. While a worker of the earlier version may hold it, that version counts.
func TestARunOfAnEarlierVersionCountsOnce(t *testing.T) {
	begun := lifecycle.Usage{InputTokens: 30, OutputTokens: 10}
	last := func(w *world, run string) {
		w.do(run, plainly(transition.Change{
			Event: lifecycle.Complete{Work: using(w.run(run).Attempt, 40, 20)}, Result: sizedResult(9),
		}))
	}
	cancel := func(w *world, run string) { w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}})) }
	for name, c := range map[string]struct {
		paused, lapsed bool
		goOn           func(w *world, run string)
		want           int64
	}{
		"paused, then cancelled": {true, false, cancel, 40},
		"paused, then answered and claimed": {true, false, func(w *world, run string) {
			slots, err := w.Slots(t.Context(), w.run(run).RunSpec)
			require.NoError(t, err)
			w.do(run, plainly(w.answering(slots)))
			w.claim(run)
		}, 40},
		"paused, answered and ended": {true, false, func(w *world, run string) {
			slots, err := w.Slots(t.Context(), w.run(run).RunSpec)
			require.NoError(t, err)
			w.do(run, plainly(w.answering(slots)))
			w.claim(run)
			last(w, run)
		}, 60},
		"lost, then claimed":       {false, true, func(w *world, run string) { w.claim(run) }, 40},
		"lost, claimed and ended":  {false, true, func(w *world, run string) { w.claim(run); last(w, run) }, 60},
		"lost, then cancelled":     {false, true, cancel, 40},
		"held, and a cancel asked": {false, false, cancel, -1},
	} {
		w := newWorld(t)
		run := w.fiveBudgets()
		w.claim(run)
		if c.paused {
			w.do(run, plainly(w.pausing()))
		}
		e, err := w.Store.Run(t.Context(), record.System(), run)
		require.NoError(t, err)
		budgets := e.Value.Counting.Budgets
		for _, b := range budgets { // as if it had counted nothing
			w.erase(b.Name)
		}
		e.Value.Budgets, e.Value.Counting, e.Value.Usage = budgets, lifecycle.Counting{}, begun
		tx := w.Store.Begin("earlier")
		tx.PutRun(e)
		require.NoError(t, tx.Commit(t.Context()))
		if c.lapsed {
			w.clock.now = w.clock.now.Add(2 * time.Hour)
		}
		c.goOn(w, run)
		if c.want >= 0 {
			w.counted(run, c.want, name)
			assert.Empty(t, w.run(run).Budgets, "an earlier version would count them again")
			continue
		}
		assert.Equal(t, budgets, w.run(run).Budgets, "the earlier version counts them at the end")
		spent, err := w.Store.Spent(t.Context(), budgets[0].Name)
		require.NoError(t, err)
		assert.Zero(t, spent, name)
	}
}

// erase deletes the counts under a name.
func (w *world) erase(name string) {
	var ops []table.Op
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) {
		if i.Part == "spent/"+name {
			ops = append(ops, table.Delete(i.Key, table.Always()))
		}
	})
	if len(ops) > 0 {
		require.NoError(w.t, w.items.Inner.Commit(w.t.Context(), w.Host.NewID(), ops...))
	}
}
