package analytics_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
	"agentplatform/internal/store/table"
)

// sum is the sum of a question.
func (w *world) sum(from, to time.Time) int64 {
	w.Helper()
	s, err := w.Summarize(w.Context(), w.scope(), analytics.Question{From: from, To: to})
	require.NoError(w, err)
	return s.Total
}

func (w *world) rolled() record.Rolled {
	w.Helper()
	e, err := w.store.Rolled(w.Context(), w.scope())
	require.NoError(w, err)
	return e.Value
}

// done does the daily work until nothing is left.
func (w *world) done() {
	w.Helper()
	for range 10 {
		behind, err := w.Daily(w.Context(), w.organization)
		require.NoError(w, err)
		if !behind {
			return
		}
	}
	require.Fail(w, "the daily work does not end")
}

// many writes the ledger entries of n runs, evenly over a span of time, each of another user, key and agent.
func (w *world) many(from time.Time, span time.Duration, n int) {
	w.Helper()
	tx := w.store.Begin(w.NewID())
	for i := range n {
		tx.PutCharge(lifecycle.Run{RunSpec: lifecycle.RunSpec{
			RunID: w.NewID(), Organization: w.organization, User: id("6b", i), APIKey: id("6d", i), Agent: id("6c", i),
			Chat: "c", Model: "p/a",
		}, FinishedAt: from.Add(span / time.Duration(n) * time.Duration(i)).Truncate(time.Millisecond),
			Status: lifecycle.Completed, ActiveMS: int64(i), Usage: lifecycle.Usage{InputTokens: 1}})
		if i%90 == 89 || i == n-1 {
			require.NoError(w, tx.Commit(w.Context()))
			tx = w.store.Begin(w.NewID())
		}
	}
}

// A clock that was ahead has rolled up days that had not been. Once it is set right they are rolled up again, also the
// entries that came meanwhile.
func TestWhatAClockThatWasAheadHasRolledUpIsRolledUpAgain(t *testing.T) {
	for _, ahead := range []time.Duration{40 * time.Minute, 5 * time.Hour, 3 * day, 20 * day} {
		w := newWorld(t)
		w.spend(w.now, id("6b", 1), "p/a")
		right := w.now
		w.now = right.Add(ahead)
		w.done()
		w.now = right.Add(time.Minute)
		for range 20 { // no query for a while
			w.spend(w.now, id("6b", 1), "p/a")
			w.now = w.now.Add(min(ahead/30, time.Hour))
		}
		end := w.now.AddDate(0, 0, 30)
		if ahead > time.Hour { // less is late, like late entries, until the day is checked
			assert.Equal(t, int64(21), w.sum(began, end), "%s", ahead)
		}
		for range 5 {
			w.spend(w.now, id("6b", 1), "p/a")
			w.now = w.now.Add(day)
			w.sum(began, end)
		}
		w.done()
		assert.Equal(t, int64(26), w.sum(began, end), "%s", ahead)
		assert.Equal(t, int64(26), w.sum(began.Truncate(day), w.now.Truncate(day)), "%s", ahead)
		w.same(analytics.SeriesQuestion{Question: analytics.Question{From: began, To: w.now}, Metric: rollup.Runs,
			Interval: rollup.Day, Zone: time.UTC})
	}
}

// Clocks that differ by as much as they may take nothing back from each other.
func TestClocksThatDifferALittleTakeNothingBack(t *testing.T) {
	w := newWorld(t)
	for range 200 {
		w.now = w.now.Add(7 * time.Minute)
		w.done()
		before, commits := w.rolled(), w.commits
		w.now = w.now.Add(-14 * time.Minute)
		w.done()
		assert.Equal(t, before, w.rolled())
		assert.Equal(t, commits, w.commits)
		w.now = w.now.Add(14 * time.Minute)
	}
}

// An operator of the service can have a ledger rolled up again.
func TestALedgerIsRolledUpAgainOnRequest(t *testing.T) {
	w := newWorld(t)
	w.spend(w.now, id("6b", 1), "p/a")
	at := w.now
	w.now = w.now.Add(5 * day)
	w.done()
	w.spend(at.Add(time.Hour), id("6b", 1), "p/a") // days late
	from, to := began.Truncate(day), began.Truncate(day).Add(3*day)
	assert.Equal(t, int64(1), w.sum(from, to))
	require.NoError(t, w.Again(t.Context(), w.organization, at))
	assert.Equal(t, int64(2), w.sum(from, to))
	require.NoError(t, w.Again(t.Context(), w.organization, w.now.Add(day)))
	assert.Equal(t, int64(2), w.sum(from, to), "not further than it has been")
}

// Nothing is left of rollups of a removed organization, and nothing is rolled up any more. That holds, too, for a
// process that stood still meanwhile.
func TestRollupsGoWithTheirOrganization(t *testing.T) {
	w := newWorld(t)
	w.many(w.now.Add(30*day), 10*day, 50)
	w.now = w.now.Add(100 * day)
	w.done()
	w.many(w.now, time.Minute, 2000)
	w.now = w.now.Add(time.Hour)
	w.beforeCommit = func() { w.edit(func(o *catalog.Organization) { o.Deleted = true }) }
	behind, err := w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	assert.False(t, behind)
	_, err = w.Summarize(t.Context(), w.scope(), analytics.Question{From: began, To: w.now})
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	pieces := 0
	for after := ""; ; pieces++ {
		require.Less(t, pieces, 10)
		after, err = w.Erase(t.Context(), w.organization, after)
		require.NoError(t, err)
		if after == "" {
			break
		}
	}
	assert.Positive(t, pieces)
	kinds := map[string]int{}
	w.items.All(func(item *table.Item) {
		kind, _, _ := strings.Cut(item.Part, "/")
		kinds[kind]++
	})
	assert.Equal(t, map[string]int{"ledger": 2050, "organization": 1, "deployment": 1}, kinds)
	require.Error(t, w.Again(t.Context(), w.organization, began))
}

// A question that is answered while rollups are deleted gets an error rather than a sum of the remaining ones.
func TestAQuestionIsNotAnsweredWhileRollupsGo(t *testing.T) {
	w := newWorld(t)
	w.many(w.now, 10*day, 50)
	w.now = w.now.Add(20 * day)
	w.done() // nothing is left to be rolled up, which would find out
	question := analytics.Question{From: began.Truncate(day), To: w.now.Truncate(day)}
	whole, err := w.Summarize(t.Context(), w.scope(), question)
	require.NoError(t, err)
	assert.EqualValues(t, 50, whole.Total)
	w.edit(func(o *catalog.Organization) { o.Deleted = true })
	_, err = w.Erase(t.Context(), w.organization, "")
	require.NoError(t, err)
	_, err = w.Summarize(t.Context(), w.scope(), question)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
}

// A part that cannot be stored keeps nothing else from being rolled up, and counts.
func TestWhatCannotBeStoredStopsNothing(t *testing.T) {
	w := newWorld(t)
	noon := w.now.Truncate(day).Add(36 * time.Hour)
	w.spend(noon.Add(-2*time.Hour), id("6b", 1), "p/a")
	w.many(noon, rollup.Quarter, 300)
	w.spend(noon.Add(2*time.Hour), id("6b", 2), "p/a")
	w.spend(noon.Add(day), id("6b", 3), "p/b")
	w.fits = 16 << 10
	w.now = noon.Add(4 * day)
	w.done()
	assert.True(t, w.rolled().Days.After(noon.Add(day)))
	from, to := noon.Truncate(day), noon.Truncate(day).Add(2*day)
	assert.Equal(t, int64(303), w.sum(from, to))
	s, err := w.Series(t.Context(), w.scope(), analytics.SeriesQuestion{
		Question: analytics.Question{From: from, To: to}, Metric: rollup.Runs, Interval: rollup.Day,
		GroupBy: rollup.Model, Zone: time.UTC,
	})
	require.NoError(t, err)
	assert.Equal(t, map[string][]float64{"p/a": {2, 0}, rollup.Other: {300, 0}, "p/b": {0, 1}}, s.Values)
}

// A ledger of hundreds of days without an entry is rolled up in a few commits.
func TestEmptyDaysCostFewCommits(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(395 * day)
	before := w.commits
	w.done()
	assert.LessOrEqual(t, w.commits-before, 8)
	assert.Equal(t, w.now.Add(-time.Hour).Truncate(day), w.rolled().Days)
}

// Tables have so many rows that a day takes several commits. Any number of processes may roll them up, and die
// anywhere. Each view has each entry once, also those that came late.
func TestTablesOfManyPagesAreRolledUpByMany(t *testing.T) {
	w := newWorld(t)
	const runs = 5_000
	noon := w.now.Truncate(day).Add(36 * time.Hour)
	w.many(noon, 20*time.Minute, runs)
	w.now = noon.Add(time.Hour)
	w.done()
	w.many(noon, 20*time.Minute, runs/10) // late
	w.now = noon.Add(2 * day)
	var all sync.WaitGroup
	for range 4 {
		other := &analytics.Analytics{Store: w.store, Host: w} // another process
		all.Go(func() {
			for range 3 {
				w.mu.Lock()
				w.failAfter = 2
				w.mu.Unlock()
				_, _ = other.Daily(t.Context(), w.organization)
			}
		})
	}
	all.Wait()
	w.failAfter = -1
	before := w.commits
	w.done()
	require.NoError(t, w.Again(t.Context(), w.organization, noon))
	w.done()
	assert.LessOrEqual(t, w.commits-before, 12)
	today := noon.Truncate(day)
	for _, v := range rollup.Views() {
		entries := int64(0)
		require.NoError(t, w.Days(t.Context(), w.scope(), v, rollup.Filter{}, today, today.Add(day),
			func(_ time.Time, data []byte) error {
				return rollup.Read(v, data, func(_ rollup.Key, r *rollup.Row) { entries += r.Entries })
			}))
		assert.Equal(t, int64(runs+runs/10), entries, "%s", v)
	}
	assert.Equal(t, int64(runs+runs/10), w.sum(noon, noon.Add(time.Hour)))
}

const day = 24 * time.Hour
