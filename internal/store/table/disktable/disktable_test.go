package disktable_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/disktable"
	"agentplatform/internal/store/table/tabletest"
)

func open(t *testing.T, dir string) *disktable.Table {
	t.Helper()
	d, err := disktable.Open(dir, disktable.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestContract(t *testing.T) {
	tabletest.Run(t, tabletest.Harness{New: func(t *testing.T) table.Table { return open(t, t.TempDir()) }})
}

func TestSecondOpenOfAFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := disktable.Open(dir, disktable.Options{})
	require.ErrorIs(t, err, disktable.ErrInUse)
	require.NoError(t, first.Close())
	open(t, dir)
}

func TestStoreOfANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	db, err := pebble.Open(dir, &pebble.Options{})
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("mf"), []byte("99"), pebble.Sync))
	require.NoError(t, db.Close())
	_, err = disktable.Open(dir, disktable.Options{})
	require.ErrorContains(t, err, `format "99"`)
}

func TestCommitSurvivesAReopen(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	i := table.Item{Key: table.Key{Part: "p", Sort: "s"}, Owner: "-", Body: []byte(`{}`)}
	require.NoError(t, d.Commit(t.Context(), "t", table.Put(i, table.Absent())))
	require.NoError(t, d.Close())
	items, err := open(t, dir).Get(t.Context(), i.Key)
	require.NoError(t, err)
	require.NotNil(t, items[0])
	require.True(t, table.IsKind(d.Commit(t.Context(), "t", table.Put(i, table.Absent())), table.Down))
}

// TestASortKeyMayHaveAnyBytes: ranges find the keys with the highest bytes, in a partition that is too large for the
// cache, too.
func TestASortKeyMayHaveAnyBytes(t *testing.T) {
	d := open(t, t.TempDir())
	item := func(sort string) table.Op {
		body := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 300<<10))
		return table.Put(table.Item{Key: table.Key{Part: "p", Sort: sort}, Owner: "-", Body: body}, table.Absent())
	}
	require.NoError(t, d.Commit(t.Context(), "t", item("a"), item("a\xff"), item("a\xff\xffb"), item("\xff"),
		item("\xff\xffz"), item("b")))
	for prefix, want := range map[string][]string{
		"":         {"a", "a\xff", "a\xff\xffb", "b", "\xff", "\xff\xffz"},
		"a":        {"a", "a\xff", "a\xff\xffb"},
		"a\xff":    {"a\xff", "a\xff\xffb"},
		"\xff":     {"\xff", "\xff\xffz"},
		"\xff\xff": {"\xff\xffz"},
	} {
		for _, reverse := range []bool{false, true} {
			found, err := d.Query(t.Context(), table.Range{Part: "p", Prefix: prefix, Reverse: reverse, Limit: 9})
			require.NoError(t, err)
			var got []string
			for _, i := range found {
				got = append(got, i.Sort)
			}
			if reverse {
				slices.Reverse(got)
			}
			assert.Equal(t, want, got, "prefix %q, reverse %t", prefix, reverse)
		}
	}
}

// TestExpiredItemsAreRemoved counts the rows of a store: the commits after an item's expiry remove it with its index
// rows, and nothing else.
func TestExpiredItemsAreRemoved(t *testing.T) {
	fs, now := vfs.NewMem(), atomic.Int64{}
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	reopen := func() *disktable.Table {
		d, err := disktable.Open("store",
			disktable.Options{FS: fs, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
		require.NoError(t, err)
		return d
	}
	d := reopen()
	const items = 100
	put := func(n int, lasts time.Duration) {
		sort := fmt.Sprintf("%03d", n)
		i := table.Item{
			Key: table.Key{Part: "p", Sort: sort}, Owner: "-", Body: []byte(`{}`), Due: time.UnixMilli(now.Load()),
			Lists: []table.Listing{{Index: table.ByOwner, Part: "l", Sort: sort}},
		}
		if lasts > 0 {
			i.Expires = time.UnixMilli(now.Load()).Add(lasts)
		}
		require.NoError(t, d.Commit(t.Context(), "t", table.Put(i, table.Always())))
	}
	for n := range items {
		put(n, time.Hour)
	}
	put(0, 3*time.Hour) // its expiry is extended
	put(1, 0)           // and this one's is removed
	rows := func() (n int) {
		require.NoError(t, d.Close())
		db, err := pebble.Open("store", &pebble.Options{FS: fs})
		require.NoError(t, err)
		it, err := db.NewIter(nil)
		require.NoError(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		require.NoError(t, it.Close())
		require.NoError(t, db.Close())
		d = reopen()
		return n
	}
	const each = 3 // rows of an item without expiry: itself, its listing, its due time
	require.Equal(t, 1+items*(each+1)-1, rows())
	now.Add(2 * time.Hour.Milliseconds())
	put(2, 3*time.Hour) // in the batch that would otherwise remove it
	put(1, 0)
	left := rows() // the same after the store is reopened
	require.Greater(t, left, items)
	for range items {
		put(1, 0)
	}
	assert.Equal(t, 1+3*each+2, rows())
	list, err := d.List(t.Context(), table.ByOwner, table.Range{Part: "l", Limit: items})
	require.NoError(t, err)
	assert.Len(t, list, 3)
	now.Add(2 * time.Hour.Milliseconds())
	put(3, time.Minute) // put again after its expiry
	put(1, 0)
	assert.Equal(t, 1+3*each+2, rows())
	require.NoError(t, d.Close())
}

// TestReadersNeverSeeHalfACommit: a reader that has seen one item of a commit sees the others, cached or not.
func TestReadersNeverSeeHalfACommit(t *testing.T) {
	d, err := disktable.Open("store", disktable.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	const items, commits = 16, 400
	key := func(i int) table.Key { return table.Key{Part: fmt.Sprint("p", i), Sort: "s"} }
	commit := func(n int) {
		var ops []table.Op
		for i := range items {
			// Some items are too large for the cache, every other time.
			body := fmt.Appendf(nil, `{"n":%d,"x":%q}`, n, strings.Repeat("x", i%2*n%2*3000))
			ops = append(ops, table.Put(table.Item{Key: key(i), Owner: "-", Schema: n, Body: body}, table.Always()))
		}
		require.NoError(t, d.Commit(t.Context(), "t", ops...))
	}
	commit(1)
	var done atomic.Bool
	var readers sync.WaitGroup
	for reader := range 4 {
		readers.Go(func() {
			random, latest := rand.New(rand.NewPCG(1, uint64(reader))), 0
			for !done.Load() && !t.Failed() {
				k := key(random.IntN(items))
				var found []*table.Item
				var err error
				if random.IntN(4) == 0 {
					found, err = d.Query(t.Context(), table.Range{Part: k.Part, Limit: 1})
				} else {
					found, err = d.Get(t.Context(), k)
				}
				if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, found[0].Schema, latest,
					"of %s, after another item of a later commit", k) {
					return
				}
				latest = found[0].Schema
			}
		})
	}
	for n := 2; n <= commits && !t.Failed(); n++ {
		commit(n)
	}
	done.Store(true)
	readers.Wait()
	for i := range items { // no old item is left in the cache
		found, err := d.Get(t.Context(), key(i))
		require.NoError(t, err)
		require.Equal(t, commits, found[0].Schema, "of %s", key(i))
	}
}

// TestCloseWaitsForReaders: a read that has begun is answered, and a later one is refused.
func TestCloseWaitsForReaders(t *testing.T) {
	for range 20 {
		d, err := disktable.Open("store", disktable.Options{FS: vfs.NewMem()})
		require.NoError(t, err)
		const items = 200
		for i := range items {
			key := table.Key{Part: "p", Sort: fmt.Sprintf("%03d", i)}
			body := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 5000)) // too large for the cache
			require.NoError(t, d.Commit(t.Context(), "t", table.Put(table.Item{Key: key, Owner: "-", Body: body},
				table.Always())))
		}
		var begun, readers sync.WaitGroup
		for range 4 {
			begun.Add(1)
			readers.Go(func() {
				begin := sync.OnceFunc(begun.Done)
				for {
					found, err := d.Query(t.Context(), table.Range{Part: "p", Limit: items})
					begin()
					if err != nil {
						assert.True(t, table.IsKind(err, table.Down), "%v", err)
						return
					}
					if !assert.Len(t, found, items) {
						return
					}
				}
			})
		}
		begun.Wait()
		require.NoError(t, d.Close())
		readers.Wait()
	}
}
