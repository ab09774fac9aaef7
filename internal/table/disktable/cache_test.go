package disktable

import (
	"cmp"
	"context"
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

	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
)

// What is read is what a table without a cache has, whatever was cached, forgotten, trimmed or expired before: in small
// partitions and large ones, in old ones and such as are new, and after the store was opened again.
func TestTheCacheReadsAsIfThereWereNone(t *testing.T) {
	for seed := range uint64(4) {
		w := newWalk(t, seed)
		for range 3 {
			w.open()
			if seed == 3 { // in a cache that is always full
				for i := range w.store.cache.shards {
					parts := &w.store.cache.shards[i].parts
					parts.fresh.limit, parts.kept.limit = 1<<10, 4<<10
				}
			}
			for range 800 {
				w.commit()
				w.get()
				w.query()
			}
			checkSums(t, &w.store.cache)
			require.NoError(t, w.store.Close())
		}
		assert.Greater(t, w.cached, w.asked/4, "of %d ranges too few came from the cache", w.asked)
		assert.Greater(t, w.asked-w.cached, w.asked/20, "of %d ranges too few came from the engine", w.asked)
	}
}

// walk makes random commits and reads, in a store and in a plain one beside it.
type walk struct {
	t      *testing.T
	random *rand.Rand
	fs     vfs.FS
	clock  time.Time
	plain  *memtable.Table
	store  *Table
	made   int // partitions
	size   int // how many rows a partition has, about

	asked, cached int
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

// part is a partition: often one of few, large or small, or else one of those that were made one after the other.
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
			item.Body = fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", cachedBytes))
		}
		if w.random.IntN(8) == 0 {
			item.Expires = w.clock.Add(time.Duration(w.random.IntN(2000)) * time.Millisecond)
		}
		ops = append(ops, table.Put(item, cond))
	}
	want, got := w.plain.Commit(w.t.Context(), "t", ops...), w.store.Commit(w.t.Context(), "t", ops...)
	_, refused := table.AsRefused(want)
	_, also := table.AsRefused(got)
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
	_, v, _, _, err := w.store.cachedRange(r)
	require.NoError(w.t, err)
	if w.asked++; v == nil {
		w.cached++
	} else {
		require.NoError(w.t, v.release())
	}
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

// Rows that move about in a partition are always all there for readers who ask while they move: for those who fill the
// cache, too.
func TestNoRowIsMissedOrSeenTwiceWhileItMoves(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	const rows, places = 40, 400
	random := rand.New(rand.NewPCG(5, 6))
	at := random.Perm(places)[:rows]
	key := func(place int) table.Key { return table.Key{Part: "p", Sort: fmt.Sprintf("%04d", place)} }
	row := func(place int) table.Op {
		return table.Put(table.Item{Key: key(place), Owner: "-", Body: []byte(`{}`)}, table.Absent())
	}
	var first []table.Op
	for _, place := range at {
		first = append(first, row(place))
	}
	require.NoError(t, d.Commit(t.Context(), "t", first...))
	var moving atomic.Bool
	moving.Store(true)
	var readers sync.WaitGroup
	var all []table.Key
	for place := range places {
		all = append(all, key(place))
	}
	for reader := range 4 {
		readers.Go(func() {
			for n := 0; moving.Load() && !t.Failed(); n++ {
				if n%4 == reader {
					d.forget("p")
				}
				found, err := d.Query(context.Background(), table.Range{Part: "p", Limit: places})
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
	for _, place := range at {
		taken[place] = true
	}
	for range 1500 {
		i, to := random.IntN(rows), random.IntN(places)
		if taken[to] {
			continue
		}
		require.NoError(t, d.Commit(t.Context(), "t", table.Delete(key(at[i]), table.Always()), row(to)))
		delete(taken, at[i])
		at[i], taken[to] = to, true
	}
	moving.Store(false)
	readers.Wait()
	for place := range places {
		found, err := d.Get(t.Context(), key(place))
		require.NoError(t, err)
		require.Equal(t, taken[place], found[0] != nil, "%d", place)
	}
}

// forget drops what is known of a partition.
func (t *Table) forget(part string) {
	s := t.cache.shard(part)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts.kept.Remove(part)
	s.parts.fresh.Remove(part)
}

// A partition that was large and is small again is known whole again, and one that is new is known without a look.
func TestThePartitionsThatRunsUseAreKnown(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	slot := func(n int) table.Key { return table.Key{Part: "slots", Sort: fmt.Sprintf("%04d", n)} }
	for n := range 2 * endItems {
		require.NoError(t, d.Commit(t.Context(), "t",
			table.Put(table.Item{Key: slot(n), Owner: "-", Body: []byte(`{}`)}, table.Absent())))
	}
	_, _, known := d.cache.get(slot(0))
	assert.False(t, known)
	for n := range 2 * endItems {
		require.NoError(t, d.Commit(t.Context(), "t", table.Delete(slot(n), table.Always())))
	}
	_, err = d.Get(t.Context(), slot(7*endItems), slot(1))
	require.NoError(t, err)
	_, err = d.Query(t.Context(), table.Range{Part: "slots", Limit: 1})
	require.NoError(t, err)
	for n := range 3 * endItems {
		_, _, known := d.cache.get(slot(n))
		require.True(t, known, "%d", n)
	}
	for n := range maxNames + maxNames/4 {
		part := fmt.Sprintf("run/%08d", n)
		isNew := d.recent.isNew(d.db, part) // nobody else asks while nothing is committed
		require.True(t, isNew)
		head := table.Item{Key: table.Key{Part: part, Sort: "head"}, Owner: "-", Body: []byte(`{}`)}
		require.NoError(t, d.Commit(t.Context(), "t", table.Put(head, table.Absent())))
		isNew = d.recent.isNew(d.db, part)
		require.False(t, isNew)
		_, _, known := d.cache.get(table.Key{Part: part, Sort: "step"})
		require.True(t, known)
	}
	assert.LessOrEqual(t, len(d.recent.kinds["run"].names), maxNames)
	for n := range maxNames + maxNames/4 {
		isNew := d.recent.isNew(d.db, fmt.Sprintf("run/%08d", n))
		require.False(t, isNew, "%d", n)
	}
}

// What all runs of an organization need stays known, however many runs of others come between, once it was read again.
func TestRunsDoNotPushOutWhatAllOfThemNeed(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	put := func(part, sort string, size int) table.Op {
		body := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", size))
		return table.Put(table.Item{Key: table.Key{Part: part, Sort: sort}, Owner: "-", Body: body}, table.Absent())
	}
	const organizations, turns = 300, 20
	name := func(n int) string { return fmt.Sprint("organization/", n) }
	for n := range organizations {
		require.NoError(t, d.Commit(t.Context(), "t", put(name(n), "-", 500), put("ledger/"+name(n), "0", 500)))
	}
	unknown := 0
	for n := range organizations * turns {
		its := table.Key{Part: name(n % organizations), Sort: "-"}
		entry := put("ledger/"+its.Part, fmt.Sprintf("1%06d", n), 500)
		late := put("ledger/"+its.Part, fmt.Sprintf("0%06d", n), 500) // of a run that has ended before others
		if n >= organizations*turns/2 {
			for _, k := range []table.Key{its, entry.Item.Key} {
				if _, _, known := d.cache.get(k); !known {
					unknown++
				}
			}
		}
		_, err := d.Get(t.Context(), its)
		require.NoError(t, err)
		run := fmt.Sprintf("run/%06d", n)
		ops := []table.Op{put(run, "1", 2000), put(run, "2", 2000), put(run, "3", 2000), entry, late}
		require.NoError(t, d.Commit(t.Context(), "t", ops...))
	}
	assert.Less(t, unknown, organizations*turns/10, "of what is needed of the organizations was not known")
	bytes := 0
	for i := range d.cache.shards {
		bytes += d.cache.shards[i].parts.kept.bytes
	}
	assert.Less(t, bytes, organizations*4000, "entries that nobody reads are kept")
}

// Where a partition ends is known without what is in it: what is added at its end is not looked for, and what is below
// is not taken for not there.
func TestABareEndIsNotTheWholePartition(t *testing.T) {
	row := func(sort string) *table.Item { return &table.Item{Key: table.Key{Part: "p", Sort: sort}, Owner: "-"} }
	e := &end{complete: true}
	for _, sort := range []string{"a", "b", "c"} {
		e.set(sort, row(sort))
	}
	require.False(t, e.bare())
	require.True(t, e.strip())
	require.True(t, e.bare())
	require.False(t, e.strip(), "there is no more to forget")
	e.write("e", row("e"))
	e.write("d", row("d"))
	e.write("a", nil)
	require.True(t, e.bare())
	require.Zero(t, e.bytes)
	for _, sort := range []string{"a", "d", "e"} {
		_, known := e.get(sort)
		require.False(t, known, sort)
	}
	item, known := e.get("f")
	require.True(t, known)
	require.Nil(t, item)
	require.True(t, e.wanting(), "a range needs more")
	e.set("b", row("b"))
	require.False(t, e.bare())
	e.write("g", row("g"))
	item, known = e.get("g")
	require.True(t, known)
	require.NotNil(t, item)
	require.False(t, (&end{items: e.items}).strip(), "without an end there is nothing to keep")
}

// Of a queue's partitions those are kept that were used last; the others are first stripped to where they end, and then
// pushed out.
func TestWhatIsUsedIsKeptLongest(t *testing.T) {
	var q twoQueues
	q.init()
	fill := func(part string) {
		q.change(part, func(e *end) {
			e.complete = true
			for i := range 10 {
				sort := fmt.Sprint(i)
				e.set(sort, &table.Item{Key: table.Key{Part: part, Sort: sort}, Owner: "-", Body: make([]byte, 1000)})
			}
		})
	}
	state := func(part string) string {
		if q.fresh.Contains(part) {
			return "fresh"
		}
		e, there := q.kept.Peek(part)
		switch {
		case !there:
			return "gone"
		case e.bare():
			return "bare"
		}
		return "kept"
	}
	fill("first")
	for n := 0; state("first") == "fresh"; n++ {
		require.Less(t, n, 10, "use does not keep it in the queue of what is fresh")
		require.NotNil(t, q.get("first"))
		fill(fmt.Sprint("passing/", n))
	}
	require.Equal(t, "gone", state("first"))
	require.Equal(t, "fresh", state("passing/4"))
	again := func(part string) {
		q.change(part, func(*end) {})
		for n := 0; state(part) != "gone"; n++ {
			fill(fmt.Sprint("passing/", part, n))
		}
		fill(part)
		require.Equal(t, "kept", state(part))
	}
	again("used")
	again("unused")
	for n := 0; state("unused") == "kept"; n++ {
		require.Less(t, n, 40)
		require.NotNil(t, q.get("used"))
		again(fmt.Sprint("other/", n))
	}
	require.Equal(t, "bare", state("unused"))
	more := 0
	for ; state("unused") == "bare"; more++ {
		require.Less(t, more, 100)
		require.NotNil(t, q.get("used"))
		require.Equal(t, "kept", state("used"))
		again(fmt.Sprint("more/", more))
	}
	require.Equal(t, "gone", state("unused"))
	require.Greater(t, more, 5, "where it ended was not kept for a while")
}

// An end that is large leaves room for others in the queue of what is fresh.
func TestOneLargeEndDoesNotPushOutAll(t *testing.T) {
	var q twoQueues
	q.init()
	for n := range 5 {
		q.change(fmt.Sprint("run/", n), func(e *end) { e.set("-", &table.Item{Body: make([]byte, 2000)}) })
	}
	q.change("large", func(e *end) {
		e.complete = true
		for n := range 50 {
			e.set(fmt.Sprintf("%02d", n), &table.Item{Body: make([]byte, 1000)})
		}
	})
	for n := range 5 {
		require.NotNil(t, q.get(fmt.Sprint("run/", n)))
	}
	_, known := q.get("large").get("49")
	require.True(t, known)
	_, known = q.get("large").get("00")
	require.False(t, known)
}

// What was read before a write is not added after it, be it a row or the end of a partition.
func TestWhatWasReadBeforeAWriteIsNotAddedAfterIt(t *testing.T) {
	var c cache
	c.init()
	k := table.Key{Part: "p", Sort: "s"}
	_, read, known := c.get(k)
	require.False(t, known)
	item := &table.Item{Key: k, Owner: "-"}
	c.replace(map[table.Key]*table.Item{k: item}, map[string]bool{})
	require.False(t, c.learn(k, nil, read))
	c.learnEnd(k.Part, &end{complete: true}, read)
	found, _, known := c.get(k)
	require.True(t, known)
	require.Same(t, item, found)
}

// Rows that are known stay so when the end of their partition is read.
func TestTheEndOfAPartitionIsAddedToWhatIsKnown(t *testing.T) {
	var c cache
	c.init()
	head, absent := table.Key{Part: "p", Sort: "a"}, table.Key{Part: "p", Sort: "z"}
	_, epoch, _ := c.get(head)
	c.learn(head, &table.Item{Key: head}, epoch)
	require.True(t, c.learn(absent, nil, epoch))
	c.learnEnd("p", &end{complete: true, above: "c", trimmed: true}, epoch)
	item, _, known := c.get(head)
	require.True(t, known && item != nil)
	item, _, known = c.get(absent)
	require.True(t, known && item == nil)
	_, _, known = c.get(table.Key{Part: "p", Sort: "b"})
	require.False(t, known)
	require.Len(t, c.shard("p").parts.get("p").items, 1)
}

// Who asks for what is not there learns no more of a partition than where it ends, if that is enough; who asks for what
// may be in it learns all of it.
func TestReadersLearnWhatTheyNeedOfAPartition(t *testing.T) {
	d, err := Open("store", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	key := func(sort string) table.Key { return table.Key{Part: "p", Sort: sort} }
	for _, sort := range []string{"b", "d"} {
		item := table.Item{Key: key(sort), Owner: "-", Body: []byte(`{}`)}
		require.NoError(t, d.Commit(t.Context(), "t", table.Put(item, table.Absent())))
	}
	d.forget("p")
	_, err = d.Get(t.Context(), key("e"), key("f"))
	require.NoError(t, err)
	require.True(t, d.cache.shard("p").parts.get("p").bare())
	_, err = d.Get(t.Context(), key("a"))
	require.NoError(t, err)
	for sort, there := range map[string]bool{"a": false, "aa": false, "b": true, "c": false, "d": true, "e": false} {
		item, _, known := d.cache.get(key(sort))
		require.True(t, known, sort)
		require.Equal(t, there, item != nil, sort)
	}
}

// A batch that is larger than the cache pushes out what it has written itself, and no row of it is taken for not there.
func TestTheCacheForgetsRowsOfOneBatchAndMissesNone(t *testing.T) {
	var c cache
	c.init()
	written, begun := map[table.Key]*table.Item{}, map[string]bool{}
	for part := range 8000 {
		for row := range 2 {
			k := table.Key{Part: fmt.Sprint("p/", part), Sort: fmt.Sprint(row)}
			written[k] = &table.Item{Key: k, Owner: "-", Body: make([]byte, cachedBytes/2)}
			begun[k.Part] = true
		}
	}
	c.replace(written, begun)
	kept := 0
	for k := range written {
		item, _, known := c.get(k)
		require.True(t, item != nil || !known, "%v", k)
		if known {
			kept++
		}
	}
	assert.Less(t, kept, len(written))
	assert.Positive(t, kept)
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
			refused, _ := table.AsRefused(d.Commit(t.Context(), "t", table.Put(item, table.Absent())))
			require.NotNil(t, refused)
			require.Equal(t, first, refused.Conflicts[0].Current)
		}
	}
}

// A row that cannot be read is an error for who asks for it, not for those who ask for another of its partition.
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
	d.publish(nil, nil)
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
	_, is := table.AsRefused(d.Commit(t.Context(), "t", table.Put(last, table.Absent())))
	require.True(t, is)
}

// What the cache holds is bounded by bytes, however large the partitions are.
func TestTheCacheIsBounded(t *testing.T) {
	var c cache
	c.init()
	body := make([]byte, cachedBytes/2)
	for part := range 2000 {
		written := map[table.Key]*table.Item{}
		for row := range 40 {
			k := table.Key{Part: fmt.Sprint("p/", part), Sort: fmt.Sprint(row)}
			written[k] = &table.Item{Key: k, Owner: "-", Body: body}
		}
		c.replace(written, map[string]bool{})
	}
	for n := range 20_000 { // of which many come back
		k := table.Key{Part: fmt.Sprint("back/", n%4000), Sort: fmt.Sprintf("%08d", n)}
		c.replace(map[table.Key]*table.Item{k: {Key: k, Owner: "-", Body: body}}, map[string]bool{})
	}
	checkBounds(t, &c)
	for i := range c.shards {
		require.Greater(t, c.shards[i].parts.kept.bytes, keptBytes/2)
	}
	for part := range 200_000 { // that have nothing
		name := fmt.Sprint("none/", part)
		_, epoch, _, _ := c.query(table.Range{Part: name, Limit: 1}, nil)
		c.learnEnd(name, &end{complete: true}, epoch)
		if part == 100_000 {
			checkBounds(t, &c)
		}
	}
	checkBounds(t, &c)
}

func checkBounds(t *testing.T, c *cache) {
	checkSums(t, c)
	for i := range c.shards {
		require.Greater(t, c.shards[i].parts.fresh.bytes, freshBytes/2)
	}
}

// checkSums adds up what the queues of a cache hold, of which none is in both.
func checkSums(t *testing.T, c *cache) {
	for i := range c.shards {
		parts := &c.shards[i].parts
		for _, q := range []*partQueue{&parts.fresh, &parts.kept} {
			sum := 0
			for _, part := range q.Keys() {
				e, _ := q.Peek(part)
				held := overhead + len(part) + len(e.above)
				for _, k := range e.items {
					held += k.size()
				}
				require.Equal(t, held, cost(part, e))
				inOrder := slices.IsSortedFunc(e.items, func(a, b kept) int { return cmp.Compare(a.sort, b.sort) })
				require.True(t, inOrder)
				require.False(t, parts.fresh.Contains(part) && parts.kept.Contains(part))
				sum += held
			}
			require.Equal(t, sum, q.bytes)
			require.LessOrEqual(t, sum, q.limit)
		}
	}
}
