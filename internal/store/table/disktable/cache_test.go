package disktable

import (
	"cmp"
	"context"
	"errors"
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
	"agentplatform/internal/store/table/memtable"
)

// Reads return the same as those of a table without a cache, after any caching, forgetting, trimming or expiry. That
// holds in small and large partitions, in old and new ones, and after the store was opened again.
func TestTheCacheReadsAsIfThereWereNone(t *testing.T) {
	for seed := range uint64(4) {
		w := newWalk(t, seed)
		for range 3 {
			w.open()
			if seed == 3 { // in a cache that is always full
				w.store.cache.limit = 40 << 10
			}
			for range 800 {
				w.commit()
				w.get()
				w.query()
			}
			checkSum(t, w.store.cache)
			require.NoError(t, w.store.Close())
		}
		assert.Greater(t, w.cached, w.queries/4, "of %d ranges too few came from the cache", w.queries)
		assert.Greater(t, w.queries-w.cached, w.queries/20, "of %d ranges too few came from the engine", w.queries)
	}
}

// walk makes random commits and reads, the same in a store and in a plain one.
type walk struct {
	t      *testing.T
	random *rand.Rand
	fs     vfs.FS
	clock  time.Time
	plain  *memtable.Table
	store  *Table
	made   int // partitions
	size   int // how many rows a partition has, about

	queries, cached int
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, random: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem(), clock: time.UnixMilli(1_700_000_000_000)}
	w.plain = memtable.New(func() time.Time { return w.clock })
	return w
}

func (w *walk) open() {
	var err error
	w.store, err = Open("store", Options{FS: w.fs, Now: func() time.Time { return w.clock }})
	require.NoError(w.t, err)
}

// part is a partition. Often it is one of few, large or small, or else one of those that were made one after the other.
func (w *walk) part() string {
	switch w.random.IntN(4) {
	case 0:
		return "large"
	case 1:
		return fmt.Sprint("few/", w.random.IntN(3))
	default:
		return fmt.Sprintf("made/%06d", max(0, w.made-w.random.IntN(6)))
	}
}

func (w *walk) key(part string) table.Key {
	if part == "large" {
		return table.Key{Part: part, Sort: fmt.Sprintf("%d/%04d", w.random.IntN(2), w.random.IntN(w.size+1))}
	}
	return table.Key{Part: part, Sort: fmt.Sprintf("%d/%d", w.random.IntN(2), w.random.IntN(8))}
}

func (w *walk) commit() {
	if w.random.IntN(3) == 0 {
		w.made += w.random.IntN(3)
	}
	if w.random.IntN(100) == 0 { // it grows, or is left to shrink
		w.size = w.random.IntN(900)
	}
	w.clock = w.clock.Add(time.Duration(w.random.IntN(50)) * time.Millisecond)
	var ops []table.Op
	taken := map[table.Key]bool{}
	for range 1 + w.random.IntN(12) {
		k := w.key(w.part())
		if taken[k] {
			continue
		}
		taken[k] = true
		cond := []table.Condition{table.Always(), table.Always(), table.Always(), table.Absent()}[w.random.IntN(4)]
		if w.random.IntN(3) == 0 {
			ops = append(ops, table.Delete(k, table.Always()))
			continue
		}
		item := table.Item{Key: k, Owner: "-", Schema: w.random.Int(), Body: []byte(`{}`)}
		if w.random.IntN(12) == 0 {
			item.Body = fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", partBytes/4))
		}
		if w.random.IntN(8) == 0 {
			item.Expires = w.clock.Add(time.Duration(w.random.IntN(2000)) * time.Millisecond)
		}
		ops = append(ops, table.Put(item, cond))
	}
	want, got := w.plain.Commit(w.t.Context(), "t", ops...), w.store.Commit(w.t.Context(), "t", ops...)
	_, refused := errors.AsType[*table.Refused](want)
	_, also := errors.AsType[*table.Refused](got)
	require.Equal(w.t, refused, also, "%v, %v: %v", want, got, ops)
}

func (w *walk) get() {
	keys := make([]table.Key, 1+w.random.IntN(3))
	for i := range keys {
		keys[i] = w.key(w.part())
	}
	want, err := w.plain.Get(w.t.Context(), keys...)
	require.NoError(w.t, err)
	got, err := w.store.Get(w.t.Context(), keys...)
	require.NoError(w.t, err)
	for i := range keys {
		require.Equal(w.t, rowOf(want[i]), rowOf(got[i]), "%v", keys[i])
	}
}

func (w *walk) query() {
	part := w.part()
	r := table.Range{Part: part, Reverse: w.random.IntN(2) == 0, Limit: 1 + w.random.IntN(40)}
	if w.random.IntN(2) == 0 {
		r.Prefix = fmt.Sprint(w.random.IntN(2), "/")
	}
	if w.random.IntN(2) == 0 {
		r.After = w.key(part).Sort
	}
	if p := w.store.cache.get(part); p != nil && !p.large {
		w.cached++
	}
	w.queries++
	want, err := w.plain.Query(w.t.Context(), r)
	require.NoError(w.t, err)
	got, err := w.store.Query(w.t.Context(), r)
	require.NoError(w.t, err)
	require.Equal(w.t, rowsOf(want), rowsOf(got), "%+v", r)
}

func rowOf(i *table.Item) string {
	if i == nil {
		return "none"
	}
	return fmt.Sprint(i.Key, " ", i.Version, " ", i.Schema, " ", len(i.Body))
}

func rowsOf(items []*table.Item) (rows []string) {
	for _, i := range items {
		rows = append(rows, rowOf(i))
	}
	return rows
}

// Rows that move about in a partition are always all there for readers during the move, also for those that fill the
// cache.
func TestNoRowIsMissedOrSeenTwiceWhileItMoves(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	const rows, positions = 40, 400
	random := rand.New(rand.NewPCG(5, 6))
	at := random.Perm(positions)[:rows]
	key := func(position int) table.Key { return table.Key{Part: "p", Sort: fmt.Sprintf("%04d", position)} }
	row := func(position int) table.Op {
		return table.Put(table.Item{Key: key(position), Owner: "-", Body: []byte(`{}`)}, table.Absent())
	}
	var first []table.Op
	for _, position := range at {
		first = append(first, row(position))
	}
	require.NoError(t, d.Commit(t.Context(), "t", first...))
	var moving atomic.Bool
	moving.Store(true)
	var readers sync.WaitGroup
	var all []table.Key
	for position := range positions {
		all = append(all, key(position))
	}
	for reader := range 4 {
		readers.Go(func() {
			for n := 0; moving.Load() && !t.Failed(); n++ {
				if n%4 == reader {
					d.forget("p")
				}
				found, err := d.Query(context.Background(), table.Range{Part: "p", Limit: positions})
				if reader%2 == 0 {
					found, err = d.Get(context.Background(), all...)
					found = slices.DeleteFunc(found, func(i *table.Item) bool { return i == nil })
				}
				if assert.NoError(t, err) {
					assert.Len(t, found, rows)
				}
			}
		})
	}
	taken := map[int]bool{}
	for _, position := range at {
		taken[position] = true
	}
	for range 1500 {
		i, to := random.IntN(rows), random.IntN(positions)
		if taken[to] {
			continue
		}
		require.NoError(t, d.Commit(t.Context(), "t", table.Delete(key(at[i]), table.Always()), row(to)))
		delete(taken, at[i])
		at[i], taken[to] = to, true
	}
	moving.Store(false)
	readers.Wait()
	for position := range positions {
		found, err := d.Get(t.Context(), key(position))
		require.NoError(t, err)
		require.Equal(t, taken[position], found[0] != nil, "%d", position)
	}
}

// forget drops a partition from the cache.
func (t *Table) forget(part string) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	t.cache.parts.Remove(part)
}

// A partition that was large and is small again is cached whole again.
func TestTheCacheTakesAPartitionBackThatHasShrunk(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	slot := func(n int) table.Key { return table.Key{Part: "slots", Sort: fmt.Sprintf("%04d", n)} }
	const slots = 3 * partItems
	for n := range slots {
		require.NoError(t, d.Commit(t.Context(), "t",
			table.Put(table.Item{Key: slot(n), Owner: "-", Body: []byte(`{}`)}, table.Absent())))
	}
	require.True(t, d.cache.get("slots").large)
	for n := range slots - 7 {
		require.NoError(t, d.Commit(t.Context(), "t", table.Delete(slot(n), table.Always())))
	}
	found, err := d.Query(t.Context(), table.Range{Part: "slots", Limit: slots})
	require.NoError(t, err)
	require.Len(t, found, 7)
	p := d.cache.get("slots")
	require.NotNil(t, p)
	require.False(t, p.large)
}

// The cache first drops the partition that was not used for the longest time.
func TestTheCacheKeepsWhatWasUsedLast(t *testing.T) {
	c := newCache()
	c.limit = 100_000
	p := newPartition([]*table.Item{{Key: table.Key{Part: "p", Sort: "s"}, Body: make([]byte, 1000)}}, 1000)
	c.add("used", p)
	c.add("unused", p)
	for n := 0; c.get("used") != nil && c.parts.Contains("unused"); n++ {
		require.Less(t, n, 200, "nothing is dropped")
		c.add(fmt.Sprint("other/", n), p)
	}
	require.NotNil(t, c.get("used"))
}

// A write does not change the partition that readers of the cache may have.
func TestTheCacheChangesNoPartitionThatReadersHave(t *testing.T) {
	row := func(sort string) *table.Item { return &table.Item{Key: table.Key{Part: "p", Sort: sort}} }
	a, b, c := row("a"), row("b"), row("c")
	p := newPartition(append(make([]*table.Item, 0, 8), a, b, c), 3*sizeOf(a))
	for sort, item := range map[string]*table.Item{"a": nil, "b": row("b"), "bb": row("bb")} {
		p.with(sort, item)
		require.Same(t, a, p.items[0])
		require.Same(t, b, p.items[1])
		require.Same(t, c, p.items[2])
	}
}

// Items that were read before a write are not added to the cache after it.
func TestTheCacheTakesNothingThatWasReadBeforeAWrite(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	k := table.Key{Part: "p", Sort: "s"}
	v, _, err := d.whenOpen()
	require.NoError(t, err)
	before := load(v, k.Part)
	require.NoError(t, d.Commit(t.Context(), "t", table.Put(table.Item{Key: k, Owner: "-"}, table.Always())))
	d.forget(k.Part)
	d.remember(v, k.Part, before)
	require.NoError(t, v.release())
	found, err := d.Get(t.Context(), k)
	require.NoError(t, err)
	require.NotNil(t, found[0])
}

// A refused commit leaves no item of it in the cache. A commit leaves no item that it has replaced.
func TestTheCacheHasWhatWasCommitted(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	row := func(sort string, schema int, cond table.Condition) table.Op {
		return table.Put(table.Item{Key: table.Key{Part: "p", Sort: sort}, Owner: "-", Schema: schema}, cond)
	}
	rows := func() (list []string) {
		found, err := d.Query(t.Context(), table.Range{Part: "p", Limit: 9})
		require.NoError(t, err)
		for _, i := range found {
			list = append(list, fmt.Sprint(i.Sort, i.Schema))
		}
		return list
	}
	require.Empty(t, rows())
	require.NoError(t, d.Commit(t.Context(), "t", row("a", 1, table.Absent()), row("b", 1, table.Absent())))
	require.Equal(t, []string{"a1", "b1"}, rows())
	err = d.Commit(t.Context(), "t", row("c", 2, table.Absent()), row("a", 2, table.Absent()),
		table.Delete(table.Key{Part: "p", Sort: "b"}, table.Always()))
	_, refused := errors.AsType[*table.Refused](err)
	require.True(t, refused)
	require.Equal(t, []string{"a1", "b1"}, rows())
	require.NoError(t, d.Commit(t.Context(), "t", row("a", 3, table.Always()),
		table.Delete(table.Key{Part: "p", Sort: "b"}, table.Always())))
	require.Equal(t, []string{"a3"}, rows())
	require.False(t, d.cache.get("p").large)
}

// A batch that is larger than the cache pushes out its own rows. None of its rows is taken for missing.
func TestTheCacheForgetsRowsOfOneBatchAndMissesNone(t *testing.T) {
	c := newCache()
	c.limit = 1 << 20
	written := map[table.Key]*table.Item{}
	for part := range 1000 {
		name := fmt.Sprint("p/", part)
		c.add(name, newPartition(nil, 0))
		for row := range 2 {
			k := table.Key{Part: name, Sort: fmt.Sprint(row)}
			written[k] = &table.Item{Key: k, Owner: "-", Body: make([]byte, 1000)}
		}
	}
	c.replace(written)
	held := 0
	for k := range written {
		if p := c.get(k.Part); p != nil {
			_, there := p.find(k.Sort)
			require.True(t, there, "%v", k)
			held++
		}
	}
	assert.Less(t, held, len(written))
	assert.Positive(t, held)
}

// An item is the same as it was committed, from the cache and from the engine.
func TestAnItemIsTheSameFromCacheAndEngine(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	at := time.Date(2040, 1, 2, 3, 4, 5, 6_789_012, time.FixedZone("east", 3600))
	item := table.Item{Key: table.Key{Part: "p", Sort: "s"}, Owner: "-", Due: at, Expires: at, Body: []byte(`{}`),
		Lists: []table.Listing{{Index: table.ByOwner, Part: "a", Sort: "s"}}}
	require.NoError(t, d.Commit(t.Context(), "t", table.Put(item, table.Absent())))
	var first *table.Item
	for range 3 {
		for _, cached := range []bool{true, false} {
			if !cached {
				d.forget("p")
			}
			found, err := d.Get(t.Context(), item.Key)
			require.NoError(t, err)
			if first == nil {
				first = found[0]
			}
			require.Equal(t, first, found[0])
			refused, _ := errors.AsType[*table.Refused](d.Commit(t.Context(), "t", table.Put(item, table.Absent())))
			require.NotNil(t, refused)
			require.Equal(t, first, refused.Conflicts[0].Current)
		}
	}
}

// A row that cannot be read is an error for its readers, not for readers of other rows of its partition.
func TestARowThatCannotBeReadLeavesTheOthers(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	row := func(sort string) table.Op {
		item := table.Item{Key: table.Key{Part: "p", Sort: sort}, Owner: "-", Body: []byte(`{}`)}
		return table.Put(item, table.Absent())
	}
	require.NoError(t, d.Commit(t.Context(), "t", row("a")))
	require.NoError(t, d.db.Set(appendItemKey(nil, table.Key{Part: "p", Sort: "z"}), []byte{7}, pebble.Sync))
	d.publish(nil)
	d.forget("p")
	found, err := d.Query(t.Context(), table.Range{Part: "p", Limit: 1})
	require.NoError(t, err)
	require.Len(t, found, 1)
	for _, sort := range []string{"b", "c", "d"} {
		_, err = d.Get(t.Context(), table.Key{Part: "p", Sort: sort + sort})
		require.NoError(t, err)
		require.NoError(t, d.Commit(t.Context(), "t", row(sort)))
	}
	_, err = d.Get(t.Context(), table.Key{Part: "p", Sort: "z"})
	require.ErrorIs(t, err, errCorrupt)
	_, err = d.Query(t.Context(), table.Range{Part: "p", Limit: 9})
	require.ErrorIs(t, err, errCorrupt)
}

// A sort key may have any bytes.
func TestARowBehindAllOthersIsNotMissed(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	last := table.Item{Key: table.Key{Part: "p", Sort: "\xff\xffz"}, Owner: "-", Body: []byte(`{}`)}
	require.NoError(t, d.Commit(t.Context(), "t", table.Put(last, table.Absent())))
	d.forget("p")
	_, err = d.Query(t.Context(), table.Range{Part: "p", Prefix: "a", Limit: 1})
	require.NoError(t, err)
	_, is := errors.AsType[*table.Refused](d.Commit(t.Context(), "t", table.Put(last, table.Absent())))
	require.True(t, is)
}

// The bytes of the cache are bounded, however large and however many the partitions are.
func TestTheCacheIsBounded(t *testing.T) {
	c := newCache()
	body := make([]byte, 1000)
	for part := range 2000 {
		name, written := fmt.Sprint("p/", part), map[table.Key]*table.Item{}
		c.add(name, newPartition(nil, 0))
		for row := range 2 * part % 100 { // some become large
			k := table.Key{Part: name, Sort: fmt.Sprint(row)}
			written[k] = &table.Item{Key: k, Owner: "-", Body: body}
		}
		c.replace(written)
	}
	checkSum(t, c)
	assert.Greater(t, c.bytes, cacheBytes/2)
	for part := range 200_000 { // that have nothing
		c.add(fmt.Sprint("none/", part), newPartition(nil, 0))
	}
	checkSum(t, c)
	assert.Greater(t, c.bytes, cacheBytes/2)
}

// checkSum adds up the contents of a cache.
func checkSum(t *testing.T, c *cache) {
	sum := 0
	for _, name := range c.parts.Keys() {
		p, _ := c.parts.Peek(name)
		held := entryBytes + len(name)
		for _, item := range p.items {
			held += sizeOf(item)
		}
		require.Equal(t, held, p.cost(name))
		require.True(t, slices.IsSortedFunc(p.items, func(a, b *table.Item) int { return cmp.Compare(a.Sort, b.Sort) }))
		require.LessOrEqual(t, p.bytes, partBytes)
		require.LessOrEqual(t, len(p.items), partItems)
		sum += held
	}
	require.Equal(t, sum, c.bytes)
	require.LessOrEqual(t, sum, c.limit)
}
