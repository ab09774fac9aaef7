package record_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// Rollups are read in the order of their times, each with its pages, up to the end of the requested range.
func TestRollupsAreReadInOrder(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	first := e.now.Truncate(24 * time.Hour)
	var quarters, days []string
	for n := range 200 {
		at, id := first.Add(time.Duration(n)*45*time.Minute), e.NewID()
		e.must(id, func(tx *record.Tx) {
			for page := range 1 + n%3 {
				written := record.RollupPage{Number: page, By: id, Data: fmt.Append(nil, page)}
				tx.PutQuarter(e.organization, at, written)
				quarters = append(quarters, at.Format(time.RFC3339)+fmt.Sprint(" ", page))
				if n < 130 {
					day := first.AddDate(0, 0, n)
					tx.PutDay(e.organization, "view", day, written)
					tx.PutDay(e.organization, "viewed", day, record.RollupPage{Number: page, Data: []byte("another")})
					days = append(days, day.Format(time.RFC3339)+fmt.Sprint(" ", page))
				}
			}
		})
	}
	var got []string
	collect := func(at time.Time, data []byte) error {
		got = append(got, at.Format(time.RFC3339)+" "+string(data))
		return nil
	}
	require.NoError(t, e.Quarters(ctx, e.scope(), first, first.AddDate(1, 0, 0), collect))
	assert.Equal(t, quarters, got)
	got = nil
	require.NoError(t, e.Days(ctx, e.scope(), "view", first, first.AddDate(1, 0, 0), collect))
	assert.Equal(t, days, got)
	got = nil
	at := first.Add(45 * time.Minute)
	require.NoError(t, e.Quarters(ctx, e.scope(), at, at.Add(45*time.Minute), collect))
	assert.Equal(t, quarters[1:3], got)
	got = nil
	require.NoError(t, e.Days(ctx, e.scope(), "view", first.AddDate(0, 0, 1), first.AddDate(0, 0, 2), collect))
	assert.Equal(t, days[1:3], got)
	fail := func(time.Time, []byte) error { return assert.AnError }
	require.NoError(t, e.Days(ctx, record.Of("another"), "view", first, first.AddDate(1, 0, 0), fail))
	require.ErrorIs(t, e.Quarters(ctx, e.scope(), first, e.now, fail), assert.AnError)
}

// A ledger is rolled up from the day before its organization's first. The process that has read the mark last moves it
// on.
func TestHowFarIsMovedOnByOne(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	before, err := e.Rolled(ctx, e.scope())
	require.NoError(t, err)
	eve := e.now.Truncate(24*time.Hour).AddDate(0, 0, -1)
	assert.Equal(t, record.Rolled{Quarters: eve, Checked: eve, Days: eve}, before.Value)
	on := func(from record.RolledEntity, by time.Duration) error {
		from.Value.Quarters = from.Value.Quarters.Add(by)
		return committed(ctx, e.Store, e.NewID(), func(tx *record.Tx) {
			tx.PutQuarter(e.organization, eve, record.RollupPage{Data: []byte(by.String())})
			tx.PutRolled(e.organization, from)
		})
	}
	require.NoError(t, on(before, time.Hour))
	require.ErrorIs(t, on(before, 2*time.Hour), record.ErrConflict)
	require.ErrorIs(t, committed(ctx, e.Store, e.NewID(), func(tx *record.Tx) {
		tx.PutQuarter(e.organization, eve, record.RollupPage{Data: []byte("late")})
		tx.RequireRolled(e.organization, before)
	}), record.ErrConflict)
	now, err := e.Rolled(ctx, e.scope())
	require.NoError(t, err)
	assert.Equal(t, eve.Add(time.Hour), now.Value.Quarters)
	require.NoError(t, e.Quarters(ctx, e.scope(), eve, e.now, func(_ time.Time, data []byte) error {
		assert.Equal(t, "1h0m0s", string(data))
		return nil
	}))
	require.NoError(t, committed(ctx, e.Store, e.NewID(), func(tx *record.Tx) {
		tx.PutQuarter(e.organization, eve, record.RollupPage{Number: 1, By: "another", Data: []byte("more")})
		tx.RequireRolled(e.organization, now)
	}))
}

// A new first page replaces a table as a whole: other old pages are not read.
func TestTablesAreReplacedWithTheirFirstPage(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	at := e.now.Truncate(24 * time.Hour)
	read := func() (got []string) {
		require.NoError(t, e.Quarters(ctx, e.scope(), at, e.now, func(_ time.Time, data []byte) error {
			got = append(got, string(data))
			return nil
		}))
		return got
	}
	write := func(by string, pages ...int) {
		e.must(e.NewID(), func(tx *record.Tx) {
			for _, n := range pages {
				tx.PutQuarter(e.organization, at, record.RollupPage{Number: n, By: by, Data: fmt.Append(nil, by, n)})
			}
		})
	}
	write("6b", 1, 2)
	assert.Empty(t, read(), "the first page is not there yet")
	write("6b", 0)
	assert.Equal(t, []string{"6b0", "6b1", "6b2"}, read())
	write("6a", 1)
	assert.Equal(t, []string{"6b0", "6b1", "6b2"}, read())
	write("6a", 0)
	assert.Equal(t, []string{"6a0", "6a1"}, read())
	write("6c", 0)
	assert.Equal(t, []string{"6c0"}, read())

	// Pages of earlier versions do not name their writer.
	raw := func(sort string) table.Op {
		return table.Put(table.Item{
			Key:   table.Key{Part: "rollup/" + e.organization + "/quarters/" + at.Format(time.DateOnly), Sort: sort},
			Owner: e.organization, Body: []byte(`{"data":"` + base64.StdEncoding.EncodeToString([]byte(sort)) + `"}`),
		}, table.Always())
	}
	require.NoError(t, e.memory.Commit(ctx, e.NewID(), raw("00:00/001"), raw("00:15/000"), raw("00:15/001")))
	assert.Equal(t, []string{"6c0", "00:15/000", "00:15/001"}, read())
}

// A unit of work that has room takes a page of the largest size, and how far the ledger is rolled up.
func TestAUnitOfWorkHasRoomForPages(t *testing.T) {
	e := newEstate(t)
	page := make([]byte, record.MaxRollupPage)
	for _, size := range []int{len(page), 1} {
		tx := e.Begin(e.NewID())
		n := 0
		for ; tx.Roomy(); n++ {
			tx.PutQuarter(e.organization, e.now.Add(time.Duration(n)*15*time.Minute),
				record.RollupPage{Data: page[:size]})
		}
		rolled, err := e.Rolled(t.Context(), e.scope())
		require.NoError(t, err)
		tx.RequireRolled(e.organization, rolled)
		require.NoError(t, tx.Commit(t.Context()))
		assert.GreaterOrEqual(t, n, 10)
	}
}
