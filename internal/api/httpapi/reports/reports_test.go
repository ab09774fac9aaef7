package reports

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A cell must not be a formula to a spreadsheet that opens the ledger.
func TestCellsAreNotFormulas(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "plain": "plain", "1": "1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "a=b": "a=b",
	} {
		assert.Equal(t, want, defuse(cell))
	}
}

// A range without an end is the same for a minute, and has all events so far. A given end is taken as it is.
func TestARangeWithoutAnEndHoldsForAMinute(t *testing.T) {
	minute := time.Date(2026, 11, 24, 23, 59, 0, 0, time.UTC)
	for _, now := range []time.Time{minute, minute.Add(time.Millisecond), minute.Add(59 * time.Second)} {
		from, to, err := Span{}.within(now, time.UTC, false)
		require.NoError(t, err)
		assert.Equal(t, minute.Add(time.Minute-defaultRange), from)
		assert.Equal(t, minute.Add(time.Minute), to)
		from, to, err = Span{From: "2026-11-01T00:00:00.5Z"}.within(now, time.UTC, false)
		require.NoError(t, err)
		assert.Equal(t, time.Date(2026, 11, 1, 0, 0, 0, 5e8, time.UTC), from)
		assert.Equal(t, minute.Add(time.Minute), to)
		from, to, err = Span{To: "2026-11-02T00:00:00.5Z"}.within(now, time.UTC, false)
		require.NoError(t, err)
		assert.Equal(t, time.Date(2026, 11, 2, 0, 0, 0, 5e8, time.UTC), to)
		assert.Equal(t, to.Add(-defaultRange), from)
		from, to, err = Span{}.within(now, time.UTC, true)
		require.NoError(t, err)
		assert.True(t, from.IsZero() && to.IsZero())
	}
}
