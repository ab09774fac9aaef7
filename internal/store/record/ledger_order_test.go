package record_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// formerly writes an entry as earlier versions did, by the run's id.
func (e *estate) formerly(id string) {
	e.Helper()
	shard := int(id[len(id)-1]) % 4
	day := host.TimeOf(id).Format(time.DateOnly)
	require.NoError(e, e.memory.Commit(e.Context(), id, table.Put(table.Item{
		Key:   table.Key{Part: fmt.Sprintf("ledger/%s/%s/%d", e.organization, day, shard), Sort: id},
		Owner: e.organization, WriteID: id, Schema: 1,
		Body: fmt.Appendf(nil, `{"run_id":%q,"chat_id":"c","agent_id":"a","user_id":"u","status":"completed",`+
			`"billed":true,"input_tokens":1,"output_tokens":2,"active_ms":3,"model_calls":4,"tool_calls":5,`+
			`"finished_at":"2026-05-05T12:00:00Z"}`, id),
	}, table.Absent())))
}

// finished writes the entry of a run that was accepted some time before it was finished.
func (e *estate) finished(at time.Time, before time.Duration) string {
	e.Helper()
	e.n++
	run := e.runOf(host.FormatID(at.Add(-before), e.n))
	run.FinishedAt = at
	e.must("m"+run.RunID, func(tx *record.Tx) { tx.PutCharge(run.Run) })
	return run.RunID
}

// Every part of the ledger is in the order of time, in pages and all through. That holds, too, if entries of earlier
// versions are among the others: these have the time of their ids.
func TestTheLedgerIsInTheOrderOfTime(t *testing.T) {
	e := newEstate(t)
	e.organization = host.FormatID(e.now.AddDate(0, 0, -6), 1)
	r := rand.New(rand.NewPCG(1, 2))
	type one struct {
		at   time.Time
		id   string
		less time.Duration // by which its place may be early: ids are a little less exact than bounds
	}
	var all []one
	for range 300 {
		at := e.now.Add(-time.Duration(r.Int64N(int64(5 * 24 * time.Hour)))).Truncate(time.Millisecond)
		if r.IntN(8) == 0 {
			at = at.Truncate(24 * time.Hour) // midnight
		}
		if r.IntN(4) == 0 {
			id := host.FormatID(at, r.Uint64())
			e.formerly(id)
			all = append(all, one{at, id, time.Millisecond})
			continue
		}
		all = append(all, one{at, e.finished(at, time.Duration(r.Int64N(int64(50*time.Hour)))), 0})
	}
	for range 60 {
		from := e.now.Add(-time.Duration(r.Int64N(int64(6 * 24 * time.Hour)))).Truncate(time.Hour)
		to := from.Add(time.Duration(r.Int64N(int64(4 * 24 * time.Hour)))).Truncate(time.Millisecond)
		var want []string
		for _, o := range all {
			if !o.at.Before(from.Add(o.less)) && o.at.Before(to) {
				want = append(want, o.id)
			}
		}
		var through []string
		last := time.Time{}
		for entry, err := range e.Through(t.Context(), e.scope(), from, to) {
			require.NoError(t, err)
			require.False(t, entry.At().Before(last), "in order")
			require.False(t, entry.At().Before(from))
			require.True(t, entry.At().Before(to))
			last = entry.At()
			through = append(through, entry.RunID)
		}
		for _, id := range want {
			require.Contains(t, through, id)
		}
		require.InDelta(t, len(want), len(through), 2)
		limit := 1 + r.IntN(400)
		var paged []string
		for after := ""; ; {
			days := 1 + r.IntN(record.LedgerDays)
			page, err := e.Ledger(t.Context(), e.scope(), from, to, after, limit, &days)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Rows), limit)
			for _, row := range page.Rows {
				paged = append(paged, row.Value.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		slices.Reverse(paged)
		slices.Sort(paged)
		slices.Sort(through)
		require.Equal(t, through, paged, "from %s to %s in pages of %d", from, to, limit)
	}
}

// The days that one answer reads are bounded, however many pages it reads, and however few entries there are.
func TestPagesOfTheLedgerHaveABoundTogether(t *testing.T) {
	e := newEstate(t)
	organization := host.FormatID(e.now.AddDate(-2, 0, 0), 1)
	scope, any := record.Of(organization), time.Time{}
	for week := range 100 {
		run := e.runOf(host.FormatID(e.now.AddDate(0, 0, -7*week), 1))
		run.Organization, run.FinishedAt = organization, e.now.AddDate(0, 0, -7*week)
		e.must("seed", func(tx *record.Tx) { tx.PutCharge(run.Run) })
	}
	for _, limit := range []int{1, 3, 100} {
		seen := 0
		for after, answers := "", 0; ; answers++ {
			require.Less(t, answers, 60)
			days := record.LedgerDays
			e.queries = nil
			for range 12 {
				page, err := e.Ledger(t.Context(), scope, any, any, after, limit, &days)
				require.NoError(t, err)
				assert.Len(t, page.Positions, len(page.Rows))
				seen += len(page.Rows)
				if after = page.Next; after == "" {
					break
				}
			}
			assert.LessOrEqual(t, len(e.queries), 4*record.LedgerDays)
			if after == "" {
				break
			}
		}
		assert.Equal(t, 100, seen, "%d at a time", limit)
	}
}

// An entry's place contains its time to the millisecond, and places are in the order of times and ids.
func TestAPlaceInTheLedgerIsATime(t *testing.T) {
	e := newEstate(t)
	base := e.now.Truncate(24 * time.Hour)
	ids := map[string]time.Time{}
	for ms := range 1000 {
		at := base.Add(time.Duration(ms) * time.Millisecond)
		ids[e.finished(at, 0)] = at
	}
	last := base.Add(24*time.Hour - time.Millisecond)
	ids[e.finished(last, 0)] = last
	previous := ""
	n := 0
	for entry, err := range e.Through(t.Context(), e.scope(), base, base.Add(24*time.Hour)) {
		require.NoError(t, err)
		n++
		assert.Equal(t, ids[entry.RunID], entry.At())
		assert.Equal(t, entry.FinishedAt, entry.At())
		require.Greater(t, entry.SortKey, previous)
		previous = entry.SortKey
	}
	assert.Equal(t, len(ids), n)
	assert.True(t, record.Entry{SortKey: "nonsense"}.At().IsZero())
	assert.True(t, record.Entry{SortKey: "not hexadecimal"}.At().IsZero())
}

// A day with more entries than fit in memory together is read through in order, and can be left in the middle.
func TestTheLedgerIsGoneThroughAPageAtATime(t *testing.T) {
	e := newEstate(t)
	const n = 4500
	for i := range n {
		e.finished(e.now.Add(time.Duration(i)*time.Millisecond), 0)
	}
	seen := 0
	for entry, err := range e.Through(t.Context(), e.scope(), e.now, e.now.Add(time.Hour)) {
		require.NoError(t, err)
		require.Equal(t, e.now.Add(time.Duration(seen)*time.Millisecond), entry.At())
		seen++
	}
	assert.Equal(t, n, seen)
	e.queries = nil
	for range e.Through(t.Context(), e.scope(), e.now, e.now.Add(time.Hour)) {
		break
	}
	assert.Len(t, e.queries, 4, "a page of each part")
}
