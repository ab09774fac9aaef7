package disktable_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/disktable"
)

// TestAcknowledgedCommitsSurviveACrash writes from several goroutines and cuts the power at random moments. A cut keeps
// a random part of the data that was not synced. After each cut the store must open, have every acknowledged commit,
// and no half of one.
func TestAcknowledgedCommitsSurviveACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	d, err := disktable.Open("store", disktable.Options{FS: fs})
	require.NoError(t, err)
	const writers = 8
	var acknowledged [writers]atomic.Int64
	progress := make(chan struct{}) // a writer continues when its progress was seen
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				err := d.Commit(context.Background(), "t", table.Put(half(w, n, "a"), table.Absent()),
					table.Put(half(w, n, "b"), table.Absent()))
				if !assert.NoError(t, err) {
					return
				}
				acknowledged[w].Store(n)
				select {
				case progress <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for cut := range 40 {
		for range random.IntN(40) {
			<-progress
		}
		var before [writers]int64
		for w := range writers {
			before[w] = acknowledged[w].Load()
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		crashed, err := disktable.Open("store", disktable.Options{FS: clone})
		require.NoError(t, err, "cut %d", cut)
		for w := range writers {
			for n := int64(1); n <= before[w]+2; n++ {
				items, err := crashed.Get(t.Context(), half(w, n, "a").Key, half(w, n, "b").Key)
				require.NoError(t, err)
				require.Equal(t, items[0] == nil, items[1] == nil, "cut %d: half a commit", cut)
				require.False(t, n <= before[w] && items[0] == nil, "cut %d: commit %d of writer %d is lost", cut, n, w)
			}
		}
		require.NoError(t, crashed.Close())
	}
	cancel()
	wg.Wait()
	require.NoError(t, d.Close())
}

func half(writer int, n int64, part string) table.Item {
	return table.Item{Key: table.Key{Part: fmt.Sprintf("%s/%d", part, writer), Sort: fmt.Sprint(n)}, Owner: "-",
		Body: []byte(`{}`)}
}

// BenchmarkOpenAMillionRuns opens a store with a million items of the size of a run.
func BenchmarkOpenAMillionRuns(b *testing.B) {
	dir := b.TempDir()
	d, err := disktable.Open(dir, disktable.Options{})
	require.NoError(b, err)
	body := make([]byte, 700)
	for i := range body {
		body[i] = ' '
	}
	body[0], body[len(body)-1] = '{', '}'
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for n := w; n < 10_000; n += 16 {
				ops := make([]table.Op, 0, 100)
				for i := range 100 {
					id := fmt.Sprintf("%024x", n*100+i)
					ops = append(ops, table.Put(table.Item{
						Key: table.Key{Part: "run/" + id, Sort: "head"}, Owner: "o", WriteID: id, Body: body,
						Lists: []table.Listing{{Index: table.ByOwner, Part: "runs/o", Sort: id}},
					}, table.Absent()))
				}
				assert.NoError(b, d.Commit(context.Background(), "t", ops...))
			}
		})
	}
	wg.Wait()
	require.NoError(b, d.Close())
	for b.Loop() {
		d, err := disktable.Open(dir, disktable.Options{})
		require.NoError(b, err)
		items, err := d.Get(b.Context(), table.Key{Part: fmt.Sprintf("run/%024x", 999_999), Sort: "head"})
		require.NoError(b, err)
		require.NotNil(b, items[0])
		require.NoError(b, d.Close())
	}
}
