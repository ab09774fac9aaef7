package disktable_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/disktable"
)

var cuts = flag.Int("cuts", 250, "at least how many moments the store is cut at")

// TestAcknowledgedCommitsSurviveIfDisksLosePower cuts the power before every operation of the store on its files:
// each write, each sync, each rename. Of the data that was not synced, a cut keeps nothing, or all, or some blocks,
// or the log up to some byte. After each cut the store must open, have every acknowledged commit, and no half of one.
func TestAcknowledgedCommitsSurviveIfDisksLosePower(t *testing.T) {
	w := &workload{t: t, disk: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(3, 4))}
	fs := errorfs.Wrap(w.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpLock && op.Kind != errorfs.OpFileClose {
			w.cut()
		}
		return nil
	}))
	for round := 0; w.made.Load() < int64(*cuts) && !t.Failed(); round++ {
		d, err := disktable.Open("store", disktable.Options{FS: fs}) // each round closes a log and begins another
		require.NoError(t, err)
		w.write(d, round)
		require.NoError(t, d.Close())
	}
	t.Logf("%d cuts at %d moments, %d commits", w.made.Load(), w.moments.Load(), w.acknowledged())
}

const (
	hands = 4
	turns = 12 // commits of a writer per round
)

// workload has the written commits, and those of them that have been acknowledged.
type workload struct {
	t             *testing.T
	disk          *vfs.MemFS
	done          [hands]atomic.Int64
	made, moments atomic.Int64

	mu     sync.Mutex // guards random, and serializes the checks of cuts
	random *rand.Rand
}

func (w *workload) acknowledged() (n int64) {
	for h := range hands {
		n += w.done[h].Load()
	}
	return n
}

func (w *workload) write(d *disktable.Table, round int) {
	var wg sync.WaitGroup
	for h := range hands {
		wg.Go(func() {
			for n := int64(round*turns) + 1; n <= int64((round+1)*turns); n++ {
				ops := []table.Op{table.Put(half(h, n, "a"), table.Absent()),
					table.Put(half(h, n, "b"), table.Absent())}
				for i := range ops {
					ops[i].Item.Body = fmt.Appendf(nil, `{"n":%d,"filler":%q}`, n, strings.Repeat("x", int(n*37%900)))
				}
				if !assert.NoError(w.t, d.Commit(context.Background(), "t", ops...)) {
					return
				}
				w.done[h].Store(n)
			}
		})
	}
	wg.Wait()
}

// cut loses power now, in several ways.
func (w *workload) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moments.Add(1)
	var before [hands]int64
	for h := range hands {
		before[h] = w.done[h].Load()
	}
	clone := func(percent int) *vfs.MemFS {
		return w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: w.random})
	}
	nothing, all := clone(0), clone(100)
	kept, written := logs(w.t, nothing), logs(w.t, all)
	w.check("nothing", nothing, before)
	some := clone(1 + w.random.IntN(99))
	entries(w.t, all, some)
	w.check("some blocks", some, before)
	for name, whole := range written {
		// a torn write: the end is cut at any byte of the data that was not synced
		if synced := len(kept[name]); synced < len(whole) {
			torn := clone(100)
			f, err := torn.Create(name, vfs.WriteCategoryUnspecified)
			if !assert.NoError(w.t, err) {
				return
			}
			at := synced + w.random.IntN(len(whole)-synced)
			_, err = f.Write([]byte(whole[:at]))
			assert.NoError(w.t, err)
			assert.NoError(w.t, f.Close())
			w.check(fmt.Sprintf("the log up to byte %d of %d", at, len(whole)), torn, before)
		}
	}
	w.check("all", all, before)
}

// entries restores the file names that a clone has lost. A cut may lose any block of the contents. But journalling file
// systems do not keep a name while losing an earlier one of the same folder. The engine relies on that when it begins a
// manifest: it syncs its name together with that of the marker that refers to it.
func entries(t *testing.T, all, some *vfs.MemFS) {
	names, err := all.List("store")
	if err != nil {
		return
	}
	for _, name := range names {
		name = path.Join("store", name)
		if _, err := some.Stat(name); err == nil {
			continue
		}
		f, err := all.Open(name)
		if err != nil {
			continue // a folder
		}
		b, err := io.ReadAll(f)
		assert.NoError(t, err)
		_ = f.Close()
		assert.NoError(t, some.MkdirAll("store", 0o755))
		lost, err := some.Create(name, vfs.WriteCategoryUnspecified)
		if assert.NoError(t, err) {
			_, err = lost.Write(b)
			assert.NoError(t, err)
			assert.NoError(t, lost.Close())
		}
	}
}

// logs reads the contents of the logs.
func logs(t *testing.T, fs *vfs.MemFS) map[string]string {
	found := map[string]string{}
	names, err := fs.List("store")
	if err != nil {
		return found // the folder does not exist yet
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.Open(path.Join("store", name))
		if err != nil {
			continue
		}
		b, err := io.ReadAll(f)
		assert.NoError(t, err)
		_ = f.Close()
		found[path.Join("store", name)] = string(b)
	}
	return found
}

// check opens the files that a cut has left, and checks them.
func (w *workload) check(kept string, fs *vfs.MemFS, before [hands]int64) {
	w.made.Add(1)
	crashed, err := disktable.Open("store", disktable.Options{FS: fs})
	if !assert.NoError(w.t, err, "moment %d, %s kept", w.moments.Load(), kept) {
		return
	}
	defer func() { assert.NoError(w.t, crashed.Close()) }()
	for h := range hands {
		for n := max(1, before[h]-20); n <= before[h]+1; n++ { // older commits were checked before
			items, err := crashed.Get(context.Background(), half(h, n, "a").Key, half(h, n, "b").Key)
			if !assert.NoError(w.t, err) {
				return
			}
			assert.Equal(w.t, items[0] == nil, items[1] == nil, "moment %d, %s kept: half a commit", w.moments.Load(),
				kept)
			assert.False(w.t, n <= before[h] && items[0] == nil, "moment %d, %s kept: commit %d of %d is lost",
				w.moments.Load(), kept, n, h)
		}
	}
}
