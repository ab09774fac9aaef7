// Package tabletest is the conformance suite of the table port. Every adapter runs all of it.
package tabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
)

// Harness makes fresh, empty tables of one adapter.
type Harness struct {
	// New makes an empty table; the test's cleanup closes it.
	New func(t *testing.T) table.Table
	// PollLag is how long Poll may lag behind the items; zero if it never does.
	PollLag time.Duration
	// IndexLag is how long List and Due may lag behind the items; zero if they never do.
	IndexLag time.Duration
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, bench)
	}{
		{"get/returns nil for what is not there", getMissing},
		{"get/keeps the order of the keys", getOrder},
		{"glance/sees versions in the order of the keys", pollOrder},
		{"glance/sees more keys than fit into one request", pollMany},
		{"glance/follows puts, expiry and deletes", pollFollows},
		{"put/keeps every part of an item", putKeepsAll},
		{"put/versions count up", putVersions},
		{"commit/conditions", commitConditions},
		{"commit/is all or nothing", commitAtomic},
		{"commit/a refusal returns what is there", commitRefusal},
		{"commit/refuses what breaks the limits", commitLimits},
		{"commit/takes a hundred operations", commitHundred},
		{"commit/concurrent writers of one version: one wins", commitRace},
		{"commit/concurrent counters lose nothing", commitCounters},
		{"delete/removes the item and its index rows", deleteRemoves},
		{"query/order, direction, prefix, limit and start", queryRange},
		{"query/keeps partitions apart", queryPartitions},
		{"list/follows puts, moves and deletes", listFollows},
		{"list/pages forward and backward", listPages},
		{"due/lists what is overdue, longest first", dueLists},
		{"expires/an expired item is absent", expires},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, bench{T: t, table: h.New(t), lag: h.IndexLag, pollLag: h.PollLag})
		})
	}
}

type bench struct {
	*testing.T
	table table.Table

	lag, pollLag time.Duration
}

// poll polls keys until the result is as wanted, up to the adapter's lag.
func (b bench) poll(want []table.Mark, keys ...table.Key) {
	b.Helper()
	for end := time.Now().Add(b.pollLag); ; time.Sleep(b.pollLag / 50) {
		got, err := table.Poll(b.Context(), b.table, keys...)
		require.NoError(b, err)
		if !time.Now().Before(end) || fmt.Sprint(want) == fmt.Sprint(got) {
			assert.Equal(b, want, got)
			return
		}
	}
}

func (b bench) commit(ops ...table.Op) {
	b.Helper()
	require.NoError(b, b.commitErr(ops...))
}

var tokens atomic.Int64

func (b bench) commitErr(ops ...table.Op) error {
	return b.table.Commit(b.Context(), fmt.Sprintf("token-%d", tokens.Add(1)), ops...)
}

func (b bench) get(k table.Key) *table.Item {
	b.Helper()
	items, err := b.table.Get(b.Context(), k)
	require.NoError(b, err)
	require.Len(b, items, 1)
	return items[0]
}

// eventually waits up to the adapter's index lag; without lag it reads once.
func (b bench) eventually(want []string, got func() []string) {
	b.Helper()
	if b.lag == 0 {
		assert.Equal(b, want, got())
		return
	}
	assert.Eventually(b, func() bool { return fmt.Sprint(want) == fmt.Sprint(got()) }, b.lag, 100*time.Millisecond)
}

func key(part, sort string) table.Key { return table.Key{Part: part, Sort: sort} }

func item(part, sort string) table.Item {
	return table.Item{Key: key(part, sort), Owner: "org", WriteID: "move", Schema: 1, Body: []byte(`{"a":1}`)}
}

func getMissing(b *testing.T, x bench) { assert.Nil(b, x.get(key("p", "s"))) }

func getOrder(t *testing.T, b bench) {
	b.commit(table.Put(item("p", "1"), table.Absent()), table.Put(item("q", "2"), table.Absent()))
	items, err := b.table.Get(t.Context(), key("q", "2"), key("none", "x"), key("p", "1"))
	require.NoError(t, err)
	require.Len(t, items, 3)
	assert.Equal(t, "q", items[0].Part)
	assert.Nil(t, items[1])
	assert.Equal(t, "p", items[2].Part)
}

func seen(version int64) table.Mark { return table.Mark{There: true, Version: version} }

func pollOrder(_ *testing.T, b bench) {
	b.poll(nil)
	b.commit(table.Put(item("p", "1"), table.Absent()), table.Put(item("q", "2"), table.Always()))
	b.commit(table.Put(item("p", "1"), table.VersionIs(1)))
	b.poll([]table.Mark{seen(0), {}, seen(2), seen(2), seen(0), {}},
		key("q", "2"), key("none", "x"), key("p", "1"), key("p", "1"), key("q", "2"), key("p", "2"))
}

func pollMany(_ *testing.T, b bench) {
	const n = 2*table.MaxGetKeys + 50
	var keys []table.Key
	var want []table.Mark
	var ops []table.Op
	for i := range n {
		k := fmt.Sprintf("%03d", i)
		keys, want = append(keys, key("p", k)), append(want, table.Mark{})
		if i%3 > 0 {
			ops, want[i] = append(ops, table.Put(item("p", k), table.Absent())), seen(1)
		}
	}
	for len(ops) > 0 {
		some := min(len(ops), table.MaxOps)
		b.commit(ops[:some]...)
		ops = ops[some:]
	}
	b.poll(want, keys...)
}

func pollFollows(_ *testing.T, b bench) {
	i := item("p", "s")
	b.commit(table.Put(i, table.Absent()))
	b.poll([]table.Mark{seen(1)}, i.Key)
	i.Expires = time.Now().Add(time.Hour)
	b.commit(table.Put(i, table.VersionIs(1)))
	b.poll([]table.Mark{seen(2)}, i.Key)
	i.Expires = time.Now().Add(-time.Hour)
	b.commit(table.Put(i, table.VersionIs(2)))
	b.poll([]table.Mark{{}}, i.Key)
	b.commit(table.Put(item("p", "other"), table.Absent()))
	b.commit(table.Delete(key("p", "other"), table.Always()))
	b.poll([]table.Mark{{}}, key("p", "other"))
}

func putKeepsAll(t *testing.T, b bench) {
	due := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	want := table.Item{
		Key: key("run/1", "head"), Owner: "-", WriteID: "m1", Schema: 7, Due: due, Expires: due.AddDate(90, 0, 0),
		Lists: []table.Listing{{Index: table.ByOwner, Part: "runs/-", Sort: "0001"},
			{Index: table.ByChat, Part: "c", Sort: "2"}},
		Body: []byte(`{"text":"ein Täxt \u0000 \"quoted\"","n":12345678901,"deep":{"list":[1,null,true,1.5]}}`),
	}
	b.commit(table.Put(want, table.Absent()))
	got := b.get(want.Key)
	require.NotNil(t, got)
	assert.JSONEq(t, string(want.Body), string(got.Body))
	got.Body, want.Body, want.Version = nil, nil, 1
	assert.Equal(t, want, *got)
}

func putVersions(t *testing.T, b bench) {
	i := item("p", "s")
	b.commit(table.Put(i, table.Absent()))
	assert.EqualValues(t, 1, b.get(i.Key).Version)
	b.commit(table.Put(i, table.VersionIs(1)))
	assert.EqualValues(t, 2, b.get(i.Key).Version)
	b.commit(table.Put(i, table.Always()))
	assert.EqualValues(t, 0, b.get(i.Key).Version)
}

func commitConditions(t *testing.T, b bench) {
	for _, c := range []struct {
		name    string
		there   bool
		cond    table.Condition
		refused bool
	}{
		{"always, none there", false, table.Always(), false},
		{"always, one there", true, table.Always(), false},
		{"absent, none there", false, table.Absent(), false},
		{"absent, one there", true, table.Absent(), true},
		{"version, none there", false, table.VersionIs(1), true},
		{"version, that one there", true, table.VersionIs(1), false},
		{"version, another there", true, table.VersionIs(2), true},
	} {
		for kind, op := range map[string]func(k string) table.Op{
			"put":    func(k string) table.Op { return table.Put(item("p", k), c.cond) },
			"delete": func(k string) table.Op { return table.Delete(key("p", k), c.cond) },
			"check":  func(k string) table.Op { return table.Check(key("p", k), c.cond) },
		} {
			k := c.name + "/" + kind
			if c.there {
				b.commit(table.Put(item("p", k), table.Absent()))
			}
			// A commit of a single check has no effect, so there is always a write in the same commit.
			err := b.commitErr(op(k), table.Put(item("beside", k), table.Absent()))
			_, refused := errors.AsType[*table.Refused](err)
			assert.Equal(t, c.refused, refused, "%s: %v", k, err)
			if !c.refused {
				assert.NoError(t, err, k)
			}
		}
	}
}

func commitAtomic(t *testing.T, b bench) {
	b.commit(table.Put(item("p", "there"), table.Absent()))
	err := b.commitErr(
		table.Put(item("p", "new"), table.Absent()),
		table.Delete(key("p", "there"), table.Always()),
		table.Put(item("q", "x"), table.VersionIs(5)),
	)
	_, refused := errors.AsType[*table.Refused](err)
	require.True(t, refused, "%v", err)
	assert.Nil(t, b.get(key("p", "new")))
	assert.NotNil(t, b.get(key("p", "there")))
}

func commitRefusal(t *testing.T, b bench) {
	b.commit(table.Put(item("p", "1"), table.Absent()))
	err := b.commitErr(
		table.Put(item("p", "0"), table.Absent()),
		table.Put(item("p", "1"), table.Absent()),
		table.Check(key("p", "2"), table.VersionIs(3)),
	)
	r, ok := errors.AsType[*table.Refused](err)
	require.True(t, ok, "%v", err)
	require.Len(t, r.Conflicts, 2)
	assert.Equal(t, 1, r.Conflicts[0].Op)
	require.NotNil(t, r.Conflicts[0].Current)
	assert.Equal(t, "move", r.Conflicts[0].Current.WriteID)
	assert.EqualValues(t, 1, r.Conflicts[0].Current.Version)
	assert.Equal(t, table.Conflict{Op: 2}, r.Conflicts[1])
}

func commitLimits(t *testing.T, b bench) {
	large := item("p", "large")
	large.Body = []byte(`{"a":"` + strings.Repeat("x", table.MaxItemBytes) + `"}`)
	half := func(n int) table.Op {
		i := item("p", fmt.Sprint(n))
		i.Body = []byte(`{"a":"` + strings.Repeat("x", table.MaxItemBytes/2) + `"}`)
		return table.Put(i, table.Absent())
	}
	var heavy, many []table.Op
	for n := range 24 {
		heavy = append(heavy, half(n))
	}
	for n := range table.MaxOps + 1 {
		many = append(many, table.Put(item("p", fmt.Sprint(n)), table.Absent()))
	}
	for name, ops := range map[string][]table.Op{
		"no operation": {}, "an item too large": {table.Put(large, table.Absent())}, "a commit too large": heavy,
		"too many operations": many,
	} {
		assert.True(t, table.IsKind(b.commitErr(ops...), table.TooLarge), name)
	}
	nobody := item("p", "s")
	nobody.Owner = ""
	assert.Error(t, b.commitErr(table.Put(nobody, table.Absent())), "no owner")
	assert.Error(t, b.commitErr(table.Put(item("p", "s"), table.Absent()), table.Delete(key("p", "s"), table.Always())),
		"one key twice")
	assert.Error(t, b.commitErr(table.Put(item("p", ""), table.Absent())), "half a key")
	left, err := b.table.Query(t.Context(), table.Range{Part: "p", Limit: 10})
	require.NoError(t, err)
	assert.Empty(t, left)
}

func commitHundred(t *testing.T, b bench) {
	var ops []table.Op
	for n := range table.MaxOps {
		ops = append(ops, table.Put(item("p", fmt.Sprintf("%03d", n)), table.Absent()))
	}
	b.commit(ops...)
	got, err := b.table.Query(t.Context(), table.Range{Part: "p", Limit: 200})
	require.NoError(t, err)
	assert.Len(t, got, table.MaxOps)
}

func commitRace(t *testing.T, b bench) {
	b.commit(table.Put(item("p", "s"), table.Absent()))
	var won, refused atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				err := b.commitErr(table.Put(item("p", "s"), table.VersionIs(1)))
				if err == nil {
					won.Add(1)
				} else if _, ok := errors.AsType[*table.Refused](err); ok {
					refused.Add(1)
				} else if table.IsKind(err, table.Contended) {
					continue
				} else {
					t.Error(err)
				}
				return
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, won.Load())
	assert.EqualValues(t, 15, refused.Load())
}

func commitCounters(t *testing.T, b bench) {
	const writers, rounds = 8, 10
	b.commit(table.Put(item("p", "s"), table.Absent()))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				for {
					current, err := b.table.Get(context.WithoutCancel(t.Context()), key("p", "s"))
					if err != nil {
						t.Error(err)
						return
					}
					mark := item("marks", fmt.Sprintf("%d-%d", w, r))
					err = b.commitErr(table.Put(item("p", "s"), table.VersionIs(current[0].Version)),
						table.Put(mark, table.Absent()))
					if err == nil {
						break
					}
					var refused *table.Refused
					if !errors.As(err, &refused) && !table.IsKind(err, table.Contended) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1+writers*rounds, b.get(key("p", "s")).Version)
	marks, err := b.table.Query(t.Context(), table.Range{Part: "marks", Limit: 1000})
	require.NoError(t, err)
	assert.Len(t, marks, writers*rounds)
}

func deleteRemoves(t *testing.T, b bench) {
	i := item("p", "s")
	i.Due = time.Unix(1000, 0)
	i.Lists = []table.Listing{{Index: table.ByOwner, Part: "l", Sort: "1"}}
	b.commit(table.Put(i, table.Absent()))
	b.eventually([]string{"1"}, func() []string { return b.listed("l", table.Range{Limit: 10}) })
	b.commit(table.Delete(i.Key, table.VersionIs(1)))
	assert.Nil(t, b.get(i.Key))
	b.eventually(nil, func() []string { return b.listed("l", table.Range{Limit: 10}) })
	b.eventually(nil, func() []string { return b.due(time.Unix(2000, 0)) })
	b.commit(table.Delete(i.Key, table.Always()))
}

func (b bench) query(r table.Range) []string {
	b.Helper()
	items, err := b.table.Query(b.Context(), r)
	require.NoError(b, err)
	var sorts []string
	for _, i := range items {
		sorts = append(sorts, i.Sort)
	}
	return sorts
}

func queryRange(t *testing.T, b bench) {
	for _, s := range []string{"b/2", "a/1", "b/1", "b/10", "b/3", "c"} {
		b.commit(table.Put(item("p", s), table.Absent()))
	}
	for _, c := range []struct {
		name string
		r    table.Range
		want []string
	}{
		{"all", table.Range{Limit: 10}, []string{"a/1", "b/1", "b/10", "b/2", "b/3", "c"}},
		{"prefix", table.Range{Prefix: "b/", Limit: 10}, []string{"b/1", "b/10", "b/2", "b/3"}},
		{"prefix backward", table.Range{Prefix: "b/", Reverse: true, Limit: 10}, []string{"b/3", "b/2", "b/10", "b/1"}},
		{"limit", table.Range{Limit: 2}, []string{"a/1", "b/1"}},
		{"after", table.Range{Prefix: "b/", After: "b/1", Limit: 2}, []string{"b/10", "b/2"}},
		{"after what is not there", table.Range{After: "b/0", Limit: 1}, []string{"b/1"}},
		{"after, backward", table.Range{After: "b/2", Reverse: true, Limit: 2}, []string{"b/10", "b/1"}},
		{"after the last", table.Range{After: "c", Limit: 2}, nil},
		{"no such prefix", table.Range{Prefix: "x", Limit: 2}, nil},
	} {
		c.r.Part = "p"
		assert.Equal(t, c.want, b.query(c.r), c.name)
	}
}

func queryPartitions(t *testing.T, b bench) {
	b.commit(table.Put(item("p", "1"), table.Absent()), table.Put(item("p/1", "1"), table.Absent()),
		table.Put(item("pp", "1"), table.Absent()))
	assert.Equal(t, []string{"1"}, b.query(table.Range{Part: "p", Limit: 10}))
}

func (b bench) listed(part string, r table.Range) []string {
	b.Helper()
	r.Part = part
	entries, err := b.table.List(b.Context(), table.ByOwner, r)
	require.NoError(b, err)
	var at []string
	for _, e := range entries {
		at = append(at, e.At)
	}
	return at
}

func listFollows(_ *testing.T, b bench) {
	at := func(n string, l ...string) table.Item {
		i := item("p", n)
		for _, s := range l {
			i.Lists = append(i.Lists, table.Listing{Index: table.ByOwner, Part: "l", Sort: s})
		}
		return i
	}
	list := func() []string { return b.listed("l", table.Range{Limit: 10}) }
	b.commit(table.Put(at("1", "x"), table.Absent()), table.Put(at("2", "y"), table.Absent()))
	b.eventually([]string{"x", "y"}, list)
	b.commit(table.Put(at("1", "z"), table.VersionIs(1)))
	b.eventually([]string{"y", "z"}, list)
	b.commit(table.Put(at("2"), table.VersionIs(1)))
	b.eventually([]string{"z"}, list)
}

func listPages(_ *testing.T, b bench) {
	for n := range 5 {
		i := item("p"+fmt.Sprint(n), "head")
		i.Lists = []table.Listing{{Index: table.ByOwner, Part: "l", Sort: fmt.Sprint(n)},
			{Index: table.ByChat, Part: "l", Sort: "other"}}
		b.commit(table.Put(i, table.Absent()))
	}
	page := func(r table.Range) func() []string { return func() []string { return b.listed("l", r) } }
	b.eventually([]string{"0", "1", "2", "3", "4"}, page(table.Range{Limit: 10}))
	b.eventually([]string{"0", "1"}, page(table.Range{Limit: 2}))
	b.eventually([]string{"2", "3"}, page(table.Range{After: "1", Limit: 2}))
	b.eventually([]string{"4", "3"}, page(table.Range{Reverse: true, Limit: 2}))
	b.eventually([]string{"2", "1", "0"}, page(table.Range{Reverse: true, After: "3", Limit: 9}))
	b.eventually([]string{"3"}, page(table.Range{Prefix: "3", Limit: 9}))
}

func (b bench) due(until time.Time) []string {
	b.Helper()
	var parts []string
	for shard := range table.DueShards {
		entries, err := b.table.Due(b.Context(), shard, until, 10)
		require.NoError(b, err)
		for _, e := range entries {
			parts = append(parts, e.Part)
		}
	}
	return parts
}

func dueLists(t *testing.T, b bench) {
	at := func(part string, second int64) table.Item {
		i := item(part, "head")
		if second > 0 {
			i.Due = time.Unix(second, 0)
		}
		return i
	}
	b.commit(table.Put(at("one", 100), table.Absent()))
	b.eventually(nil, func() []string { return b.due(time.Unix(99, 999e6)) })
	b.eventually([]string{"one"}, func() []string { return b.due(time.Unix(100, 0)) })
	b.commit(table.Put(at("one", 300), table.VersionIs(1)))
	b.eventually(nil, func() []string { return b.due(time.Unix(200, 0)) })
	b.commit(table.Put(at("one", 0), table.VersionIs(2)))
	b.eventually(nil, func() []string { return b.due(time.Unix(400, 0)) })

	first := item("one", "early")
	first.Due = time.Unix(50, 0)
	b.commit(table.Put(at("one", 70), table.VersionIs(3)), table.Put(first, table.Absent()))
	b.eventually([]string{"early", "head"}, func() []string {
		entries, err := b.table.Due(t.Context(), key("one", "").Shard(), time.Unix(100, 0), 10)
		require.NoError(t, err)
		var sorts []string
		for _, e := range entries {
			sorts = append(sorts, e.Sort)
		}
		return sorts
	})
}

func expires(t *testing.T, b bench) {
	gone := item("p", "gone")
	gone.Expires = time.Now().Add(-time.Hour)
	stays := item("p", "stays")
	stays.Expires = time.Now().Add(time.Hour)
	b.commit(table.Put(gone, table.Absent()), table.Put(stays, table.Absent()))
	assert.Nil(t, b.get(gone.Key))
	assert.Equal(t, []string{"stays"}, b.query(table.Range{Part: "p", Limit: 10}))
	b.commit(table.Put(gone, table.Absent()))
}
