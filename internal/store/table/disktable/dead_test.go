package disktable

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
)

// A row may be made and removed over and over, as every run does with a slot. The work of readers that pass it does not
// grow with the number of removals.
func TestReadersDoNotPassAllThatWasRemoved(t *testing.T) {
	now := time.Now()
	d, err := Open(t.TempDir(), Options{Now: func() time.Time {
		now = now.Add(flushPause)
		return now
	}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	var takes, frees []table.Op
	for i := range table.MaxOps {
		slot := table.Item{Key: table.Key{Part: "p", Sort: fmt.Sprint("slot/", i)}, Owner: "-", Body: []byte(`{}`)}
		takes = append(takes, table.Put(slot, table.Absent()))
		frees = append(frees, table.Delete(slot.Key, table.Always()))
	}
	for range 3 * maxDead / len(takes) {
		require.NoError(t, d.Commit(t.Context(), "w", takes...))
		require.NoError(t, d.Commit(t.Context(), "w", frees...))
	}
	require.NotNil(t, d.flushed)
	<-d.flushed
	v, _, err := d.whenOpen()
	require.NoError(t, err)
	defer func() { _ = v.release() }()
	it, err := v.NewIter(&pebble.IterOptions{})
	require.NoError(t, err)
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok; ok = it.Next() {
	}
	stats := it.Stats()
	assert.Less(t, stats.ForwardStepCount[pebble.InternalIterCall], 2*maxDead, "%v", stats.String())
}
