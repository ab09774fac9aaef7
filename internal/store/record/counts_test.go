package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
)

// Counts change with the counted things, in any item of the name. A count that falls to zero is gone.
func TestCountsAreOfWhatIsThere(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	add := func(id string, n map[string]int64) {
		e.must(e.NewID(), func(tx *record.Tx) { tx.Count(ctx, e.organization, "things", id, n) })
	}
	read := func() map[string]int64 {
		n, err := e.Counts(ctx, "things")
		require.NoError(t, err)
		return n
	}
	assert.Empty(t, read())
	for _, id := range []string{"0", "1", "9", "f"} {
		add(id, map[string]int64{"all": 1, "size": 10})
	}
	assert.Equal(t, map[string]int64{"all": 4, "size": 40}, read())
	add("9", map[string]int64{"all": -1, "size": -10, "other": 2})
	assert.Equal(t, map[string]int64{"all": 3, "size": 30, "other": 2}, read())
	add("9", map[string]int64{"other": -2})
	assert.Equal(t, map[string]int64{"all": 3, "size": 30}, read())
	n, err := e.Counts(ctx, "thing")
	require.NoError(t, err)
	assert.Empty(t, n, "of another name")

	behind := e.Begin("a")
	behind.Count(ctx, e.organization, "things", "0", map[string]int64{"all": 1})
	add("0", map[string]int64{"all": 1})
	require.ErrorIs(t, behind.Commit(ctx), record.ErrConflict)
	assert.Equal(t, int64(4), read()["all"])

	require.NoError(t, e.EraseCounts(ctx, "things"))
	assert.Empty(t, read())
}
