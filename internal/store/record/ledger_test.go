package record_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// ledger lists the ledger in pages of limit, and counts the pages.
func (e *estate) ledger(organization string, limit int) (runs []string, pages int) {
	e.Helper()
	e.queries = nil
	for after := ""; ; {
		pages++
		require.Less(e, pages, 200)
		page, err := ledgerPage(e.Context(), e.Store, record.Of(organization), after, limit)
		require.NoError(e, err)
		for _, row := range page.Rows {
			runs = append(runs, row.Value.RunID)
		}
		if after = page.Next; after == "" {
			return runs, pages
		}
	}
}

// The ledger goes back to the day before its organization's first, 31 days per page. Each day is queried once, for no
// more than the page needs.
func TestLedgerQueriesEachDayOnce(t *testing.T) {
	e := newEstate(t)
	for _, days := range []int{0, 1, 29, 30, 31, 59, 60, 61} {
		organization := host.FormatID(e.now.AddDate(0, 0, -days), uint64(days))
		var want []string
		for ago := range days + 2 {
			id := host.FormatID(e.now.AddDate(0, 0, -ago).Truncate(24*time.Hour), 1)
			run := e.runOf(id)
			run.Organization, run.FinishedAt = organization, host.TimeOf(id)
			e.must("seed", func(tx *record.Tx) { tx.PutCharge(run.Run) })
			want = append(want, id)
		}
		runs, pages := e.ledger(organization, 1000)
		assert.Equal(t, want, runs, "%d days", days)
		assert.Equal(t, (days+2)/31+1, pages, "%d days", days)
		assert.Len(t, e.queries, 4*(days+2), "%d days", days)
		for limit := 1; limit < 4; limit++ {
			runs, pages = e.ledger(organization, limit)
			assert.Equal(t, want, runs, "%d days", days)
			assert.GreaterOrEqual(t, pages, len(want)/limit)
			for _, query := range e.queries {
				assert.LessOrEqual(t, query.Limit, limit+1)
			}
		}
	}
}

// A page with the last entry has no next page.
func TestLedgerEndsWithItsLastEntry(t *testing.T) {
	e := newEstate(t)
	for range 3 {
		e.charge(e.organization, e.now)
	}
	for limit, want := range map[int]int{1: 3, 2: 2, 3: 1, 4: 1} {
		runs, pages := e.ledger(e.organization, limit)
		assert.Len(t, runs, 3)
		assert.Equal(t, want, pages, "in pages of %d", limit)
	}
}

// The ledger of runs without an organization begins with the deployment.
func TestLedgerWithoutOrganizationBeginsWithTheDeployment(t *testing.T) {
	e := newEstate(t)
	today := e.now
	e.now = today.AddDate(0, 0, -40)
	require.NoError(t, e.EnsureDeployment(t.Context()))
	first := e.charge(record.NoOrganization, e.now)
	e.now = today
	e.ids = host.Sequence{}
	last := e.charge(record.NoOrganization, e.now)
	e.charge(e.organization, e.now)
	runs, pages := e.ledger(record.NoOrganization, 9)
	assert.Equal(t, []string{last, first}, runs)
	assert.Equal(t, 2, pages)
}

// A name has one outcome, which is replaced only when its run was deleted.
func TestIdempotencyNameHasOneOutcome(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	name := record.IdempotencyName("o", "u", "key")
	put := func(move string, i, before record.Idempotency) error {
		op, err := opOf(e.Store, move, func(tx *record.Tx) { tx.PutIdempotency("o", name, i, before) })
		require.NoError(t, err)
		return commitOps(ctx, e.Store, move, op)
	}
	_, found, err := e.Idempotency(ctx, name)
	require.NoError(t, err)
	assert.False(t, found)
	outcomes := []record.IdempotentOutcome{record.StartedRun, record.ParkedMessage, record.AnsweredPause}
	var before record.Idempotency
	for n, outcome := range outcomes {
		i := record.Idempotency{Outcome: outcome, RunID: fmt.Sprint("r", n), Parked: fmt.Sprint("p", n)}
		require.NoError(t, put(fmt.Sprint("m", n), i, before))
		require.ErrorIs(t, put("again", i, before), record.ErrConflict)
		read, found, err := e.Idempotency(ctx, name)
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, []any{i.Outcome, i.RunID, i.Parked}, []any{read.Outcome, read.RunID, read.Parked})
		before = read
	}
	for _, other := range [][3]string{{"p", "u", "key"}, {"o", "v", "key"}, {"o", "u", "yek"}} {
		assert.NotEqual(t, name, record.IdempotencyName(other[0], other[1], other[2]))
	}
	assert.NotContains(t, name, "key", "a client's text is in no key")
}

// ledgerPage is a page of the whole ledger.
func ledgerPage(
	ctx context.Context, s *record.Store, scope record.Scope, after string, limit int,
) (record.Page[record.Entity[record.Entry]], error) {
	days := record.LedgerDays
	return s.Ledger(ctx, scope, time.Time{}, time.Time{}, after, limit, &days)
}
