package record_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// The last use of a key is read as written, zero for an unused key; it is written without a condition.
func TestKeyUseIsWrittenUnconditionally(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	ids, want := []string{"never"}, []time.Time{{}}
	for n := range table.MaxGetKeys + 1 {
		k, at := catalog.APIKey{ID: fmt.Sprint("k", n), Organization: "o"}, e.now.Add(time.Duration(n)*time.Second)
		e.NoteUse(ctx, k, at.Add(-time.Minute))
		e.NoteUse(ctx, k, at)
		ids, want = append(ids, k.ID), append(want, at)
	}
	at, err := record.LastUses[catalog.APIKey](ctx, e.Store, ids...)
	require.NoError(t, err)
	assert.Equal(t, want, at)
	gone := catalog.APIKey{ID: "k0"}
	require.NoError(t, committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.DeleteUse(gone) }))
	at, err = record.LastUses[catalog.APIKey](ctx, e.Store, "k0", "k1")
	require.NoError(t, err)
	assert.Equal(t, []time.Time{{}, want[2]}, at)
}

// A write of the use of a key takes a second at most, for any outcome, also when the caller's context has ended.
func TestKeyUseIsTriedOnce(t *testing.T) {
	e := newEstate(t)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	k := catalog.APIKey{ID: "k", Organization: "o"}
	e.NoteUse(away, k, e.now)
	assert.Equal(t, []time.Duration{time.Second}, e.waits)
	at, err := record.LastUses[catalog.APIKey](t.Context(), e.Store, "k")
	require.NoError(t, err)
	assert.Equal(t, []time.Time{e.now}, at)
	e.calls, e.failAt = 0, 1
	e.NoteUse(t.Context(), k, e.now.Add(time.Second))
	assert.Equal(t, 1, e.calls)
	e.NoteUse(t.Context(), k, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))
	assert.Equal(t, 1, e.calls, "that has no stored form")
}
