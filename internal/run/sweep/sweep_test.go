package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// bad is a table in which one partition cannot be read.
type bad struct {
	table.Table

	part string
	meet func() error
}

func (b *bad) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if k.Part == b.part {
			if err := b.meet(); err != nil {
				return nil, err
			}
		}
	}
	return b.Table.Get(ctx, keys...)
}

// wakeups records the ids of the wakeups, in their order, and the number that were sent together.
type wakeups struct {
	mu    sync.Mutex
	sent  []string
	sizes []int
	fails bool // none is accepted
}

func (n *wakeups) Send(ctx context.Context, m queue.Message) error {
	return n.SendAll(ctx, []queue.Message{m})[0]
}

func (n *wakeups) SendAll(_ context.Context, ms []queue.Message) []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	errs := make([]error, len(ms))
	n.sizes = append(n.sizes, len(ms))
	for i, m := range ms {
		if n.fails {
			errs[i] = errors.New("down")
			continue
		}
		n.sent = append(n.sent, m.Wakeup.ID)
	}
	return errs
}

// listingRecorder is a table that records the listings of the due index, by shard.
type listingRecorder struct {
	table.Table

	mu       sync.Mutex
	listings []int
	// before is called before each listing, with the shard and the number of its listings so far. It may be nil.
	before func(shard, listings int)
	// during is called in each listing, in parallel. It may be nil.
	during func(shard int)
}

func (l *listingRecorder) Due(ctx context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	l.mu.Lock()
	n := 0
	for _, other := range l.listings {
		if other == shard {
			n++
		}
	}
	l.listings = append(l.listings, shard)
	if l.before != nil {
		l.before(shard, n)
	}
	l.mu.Unlock()
	if l.during != nil {
		l.during(shard)
	}
	return l.Table.Due(ctx, shard, until, limit)
}

// stage is a sweeper over a table in memory.
type stage struct {
	*testing.T

	store   *record.Store
	listed  *listingRecorder
	items   *bad
	queue   *wakeups
	sweeper *sweep.Sweeper
	host    host.Host
	left    map[string]int
	log     bytes.Buffer
}

func newStage(t *testing.T) *stage {
	s := &stage{T: t, host: host.System(), queue: &wakeups{}}
	s.items = &bad{Table: memtable.New(s.host.Now)}
	s.listed = &listingRecorder{Table: s.items}
	s.store = record.New(s.listed, &memblob.Store{}, s.host)
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.sweeper = &sweep.Sweeper{
		Executor: &transition.Executor{Store: s.store, Host: s.host, Log: log}, Store: s.store, Queue: s.queue,
		Host: s.host, Log: log, OnLeft: func(left map[string]int) { s.left = left },
	}
	return s
}

// shardOf is the shard of a run.
func shardOf(run string) int { return record.RunKey(run).Shard() }

// run stores a queued run that has been due for this time, and returns its id.
func (s *stage) run(due time.Duration) string {
	s.Helper()
	var r record.Run
	r.RunID, r.Organization, r.Status = s.host.NewID(), record.NoOrganization, lifecycle.Queued
	r.Due, r.StartBy = s.host.Now().Add(-due), s.host.Now().Add(24*time.Hour)
	tx := s.store.Begin(r.RunID)
	tx.PutRun(record.Fresh(r))
	require.NoError(s, tx.Commit(s.Context()))
	return r.RunID
}

// rows stores n rows in a shard that have been due for two minutes. They have an unknown kind, so that they stay due.
func (s *stage) rows(shard, n int) {
	s.Helper()
	var ops []table.Op
	for made := 0; made < n; {
		k := table.Key{Part: "thing/" + s.host.NewID(), Sort: "head"}
		if k.Shard() != shard {
			continue
		}
		made++
		ops = append(ops, table.Put(table.Item{Key: k, Owner: "-", WriteID: "w", Body: []byte("{}"),
			Due: s.host.Now().Add(-2 * time.Minute)}, table.Absent()))
		if len(ops) == table.MaxOps || made == n {
			require.NoError(s, s.items.Commit(s.Context(), k.Part, ops...))
			ops = nil
		}
	}
}

// A hundred thousand due rows in one shard delay no other shard by more than a round, and no other kind in their own
// shard. A shard is listed again only when all shards have been listed as often.
func TestBacklogOfOneShardDelaysNoOther(t *testing.T) {
	s := newStage(t)
	elsewhere := s.run(time.Minute)
	backlog := (shardOf(elsewhere) + 1) % record.DueShards
	s.rows(backlog, 100_000)
	const rounds = 3
	ctx, cancel := context.WithCancel(t.Context())
	s.listed.before = func(shard, listings int) {
		if shard == backlog && listings == 1 {
			s.queue.mu.Lock()
			defer s.queue.mu.Unlock()
			assert.Equal(t, []string{elsewhere}, s.queue.sent, "it is told of in the first round")
		}
		if listings == rounds {
			cancel()
		}
	}
	require.ErrorIs(t, s.sweeper.Sweep(ctx), context.Canceled)
	first := map[int]bool{}
	for _, shard := range s.listed.listings[:record.DueShards] {
		first[shard] = true
	}
	assert.Len(t, first, record.DueShards, "each shard is looked at before any is a second time")
	for _, shard := range s.listed.listings[record.DueShards:] {
		assert.Equal(t, backlog, shard, "only where much is due there are more looks")
	}
	assert.Positive(t, s.left["thing"])
}

// The shards are listed in parallel: no listing ends here before all have begun.
func TestShardsAreLookedAtTogether(t *testing.T) {
	s := newStage(t)
	run := s.run(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var missing atomic.Int64
	missing.Store(record.DueShards)
	all := make(chan struct{})
	s.listed.during = func(int) {
		if missing.Add(-1) == 0 {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
	}
	require.NoError(t, s.sweeper.Sweep(ctx))
	assert.Equal(t, []string{run}, s.queue.sent)
}

// In a shard, a kind with few due items takes turns with a kind with many.
func TestBacklogOfOneKindDelaysNoOther(t *testing.T) {
	s := newStage(t)
	run := s.run(time.Minute)
	s.rows(shardOf(run), 900) // all of them have waited longer
	ctx, cancel := context.WithCancel(t.Context())
	s.listed.before = func(shard, listings int) {
		if shard == shardOf(run) && listings == 1 {
			cancel()
		}
	}
	require.ErrorIs(t, s.sweeper.Sweep(ctx), context.Canceled)
	assert.Equal(t, []string{run}, s.queue.sent)
	assert.Equal(t, map[string]int{"thing": 801}, s.left, "a hundred are reconciled in a round, and the run is one")
}

func TestSweepComesToEverythingWithFewSends(t *testing.T) {
	s := newStage(t)
	want := map[string]bool{}
	for range 2000 {
		want[s.run(time.Minute)] = true
	}
	s.rows(3, 1500) // they stay due, and hide no due item after them
	require.NoError(t, s.sweeper.Sweep(t.Context()))
	for _, id := range s.queue.sent {
		assert.True(t, want[id], "it is sent once")
		delete(want, id)
	}
	assert.Empty(t, want)
	assert.Empty(t, s.left)
	for _, n := range s.queue.sizes {
		assert.LessOrEqual(t, n, 10)
	}
	assert.LessOrEqual(t, len(s.queue.sizes), 2000/10+3*record.DueShards)
	s.queue.sent = nil
	require.NoError(t, s.sweeper.Sweep(t.Context()))
	assert.Empty(t, s.queue.sent, "what was told of is left alone for a while")
}

// A sweep ends before its deadline, and reports the items that it has left. These stay due.
func TestSweepEndsBeforeItsTime(t *testing.T) {
	s := newStage(t)
	run := s.run(time.Minute)
	for range 10 {
		s.run(time.Minute)
	}
	late, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	require.NoError(t, s.sweeper.Sweep(late))
	assert.Empty(t, s.listed.listings, "it begins nothing that it has no time for")

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	moved := &later{Host: s.host}
	s.sweeper.Host = moved
	s.listed.before = func(shard, _ int) {
		if shard == shardOf(run) {
			moved.by.Store(int64(time.Hour)) // the time is over during the listing
		}
	}
	require.NoError(t, s.sweeper.Sweep(ctx))
	assert.Positive(t, s.left["run"])
	assert.Equal(t, 11, s.left["run"]+len(s.queue.sent))

	s.sweeper.Host, s.listed.before = s.host, nil
	require.NoError(t, s.sweeper.Sweep(ctx))
	assert.Empty(t, s.left)
	assert.Len(t, s.queue.sent, 11)
}

// later is a host whose clock a test sets forward.
type later struct {
	host.Host
	by atomic.Int64
}

func (l *later) Now() time.Time { return l.Host.Now().Add(time.Duration(l.by.Load())) }

// A run whose wakeup could not be sent is due again soon.
func TestUnsentWakeupsAreSentSoon(t *testing.T) {
	s := newStage(t)
	s.queue.fails = true
	run := s.run(time.Minute)
	require.NoError(t, s.sweeper.Sweep(t.Context()))
	assert.Equal(t, []int{1}, s.queue.sizes)
	e, err := s.store.Run(t.Context(), record.System(), run)
	require.NoError(t, err)
	assert.True(t, e.Value.Due.After(s.host.Now()))
	assert.True(t, e.Value.Due.Before(s.host.Now().Add(5*time.Second)))
}

func TestFailingItemDoesNotStopTheSweep(t *testing.T) {
	for name, meet := range map[string]func() error{
		"a panic":  func() error { panic("oops") },
		"an error": func() error { return errors.New("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.items.meet = meet
			var ids []string
			for range 20 {
				ids = append(ids, s.run(time.Minute))
			}
			s.items.part = "run/" + ids[3]
			require.NoError(t, s.sweeper.Sweep(t.Context()))
			slices.Sort(s.queue.sent)
			assert.Equal(t, slices.Delete(slices.Clone(ids), 3, 4), s.queue.sent)
			assert.Contains(t, s.log.String(), ids[3])
			assert.Contains(t, s.log.String(), "oops")
			if strings.Contains(name, "panic") {
				assert.Contains(t, s.log.String(), "sweep_test.go")
			}
		})
	}
}
