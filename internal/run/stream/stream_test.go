package stream_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// bench is a hub and a store with one running run.
type bench struct {
	testing.TB
	T *testing.T // nil in a benchmark

	reads  *reads
	stores *stores
	hub    *stream.Hub
	store  *record.Store
	entry  record.RunEntity
	host   host.Host
}

// reads counts the reads of a table.
type reads struct {
	table.Table
	n       atomic.Int64
	queries atomic.Int64
	gate    chan struct{} // if not nil, each read waits for it
	bad     atomic.Bool   // the next read panics
	last    atomic.Int64  // if not 0, each read after this one fails
}

func (r *reads) Query(ctx context.Context, of table.Range) ([]*table.Item, error) {
	r.queries.Add(1)
	return r.Table.Query(ctx, of)
}

func (r *reads) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	n, last := r.n.Add(1), r.last.Load()
	if r.gate != nil {
		<-r.gate
	}
	if r.bad.CompareAndSwap(true, false) {
		panic("a row that nobody expected")
	}
	if last > 0 && n > last {
		return nil, errDown
	}
	return r.Table.Get(ctx, keys...)
}

// stores is the hub's table. It counts the writes, and fails or hangs if configured.
type stores struct {
	table.Table
	commits atomic.Int64
	ops     atomic.Int64
	rows    atomic.Int64 // rows read
	trouble atomic.Int64 // 1: commits fail, 2: each call hangs, 3: queries hang
}

var errDown = &table.Error{Kind: table.Down, Err: errors.New("down")}

func (s *stores) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if s.trouble.Load() == 2 {
		<-ctx.Done()
		return nil, errDown
	}
	return s.Table.Get(ctx, keys...)
}

func (s *stores) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if s.trouble.Load() >= 2 {
		<-ctx.Done()
		return nil, errDown
	}
	items, err := s.Table.Query(ctx, r)
	s.rows.Add(int64(len(items)))
	return items, err
}

func (s *stores) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if token != "frame" && s.trouble.Load() != 2 {
		return s.Table.Commit(ctx, token, ops...)
	}
	switch s.trouble.Load() {
	case 1:
		return errDown
	case 2:
		<-ctx.Done()
		return errDown
	}
	s.commits.Add(1)
	s.ops.Add(int64(len(ops)))
	return s.Table.Commit(ctx, token, ops...)
}

func newBench(t testing.TB, notifier func(host.Host) stream.Notifier) *bench {
	h := host.System()
	counted := &reads{Table: memtable.New(h.Now)}
	store := record.New(counted, &memblob.Store{}, h)
	now := h.Now()
	run := record.Run{Input: &record.Input{Message: "m"}, Run: lifecycle.Accept(
		lifecycle.RunSpec{RunID: h.NewID(), Organization: "o", User: "u", Chat: "c", LimitMS: 60_000},
		lifecycle.ChatPosition{Turn: 1}, now, now.Add(time.Minute))}
	run.Status, run.Attempt, run.Lease = lifecycle.Running, 1, lifecycle.Lease{Holder: "w", Until: now.Add(time.Hour)}
	stored := &stores{Table: memtable.New(h.Now)}
	hub := stream.New(stored, notifier(h), h, slog.New(slog.DiscardHandler))
	b := &bench{TB: t, reads: counted, stores: stored, hub: hub, store: store, host: h}
	b.T, _ = t.(*testing.T)
	b.entry = record.Fresh(run)
	b.save(func(*record.Run) {})
	return b
}

func (b *bench) save(change func(*record.Run)) {
	b.Helper()
	change(&b.entry.Value)
	tx := b.store.Begin(b.host.NewID())
	b.entry = tx.PutRun(b.entry)
	require.NoError(b, tx.Commit(b.Context()))
	b.hub.Notifier().Notify(b.entry.Value.ID())
}

// silence is the number of consecutive heartbeats after which a stream has ended for a test. In virtual time a test
// that waits for more would never end.
const silence = 5000

func (b *bench) follow(ctx context.Context) <-chan stream.Event {
	out := make(chan stream.Event, 1000)
	go func() {
		defer close(out)
		beats := 0
		err := b.hub.Follow(ctx, b.store, record.Of("o"), b.entry.Value.ID(), 15*time.Second,
			func(e stream.Event) error {
				if beats++; e.Event != stream.Heartbeat {
					beats = 0
				}
				if beats == silence {
					panic(b.Name() + " waits for what its stream does not say")
				}
				out <- e
				return nil
			})
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}()
	return out
}

// writer makes a writer whose attempt is watched from its start, and runs it in the background.
func (b *bench) writer(ctx context.Context, attempt int, text string) *stream.Writer {
	w := b.watched(attempt, text)
	go w.Run(ctx, time.Second)
	return w
}

func (b *bench) watched(attempt int, text string) *stream.Writer {
	b.Helper()
	require.NoError(b, b.hub.Watch(b.Context(), b.entry.Value.ID()))
	return b.hub.Writer(b.entry.Value.ID(), attempt, text, true)
}

// next returns the next event except heartbeats.
func next(t *testing.T, c <-chan stream.Event, name string) stream.Event {
	t.Helper()
	for e := range c {
		if e.Event == stream.Heartbeat {
			continue
		}
		require.Equal(t, name, e.Event)
		return e
	}
	require.Fail(t, "the stream ended before "+name)
	return stream.Event{}
}

// both runs a test with notifications and with polling, in virtual time.
func both(t *testing.T, test func(b *bench)) {
	for name, notifier := range map[string]func(host.Host) stream.Notifier{
		"local notifier": func(host.Host) stream.Notifier { return stream.NewLocalNotifier() },
		"polling": func(host.Host) stream.Notifier {
			return stream.Polling{Every: 250 * time.Millisecond}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newBench(t, notifier)) })
		})
	}
}

func TestDeltasArriveInOrderWhileWatched(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		assert.Empty(b, *next(b.T, out, stream.Init).Text)
		w := b.hub.Writer(b.entry.Value.ID(), 1, "", false)
		w.Append(ctx, "unseen") // there is no reader yet
		go w.Run(ctx, time.Second)
		time.Sleep(time.Second)
		w.Append(ctx, " one")
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "started"})
		w.Append(ctx, " two")
		text := ""
		for text != "unseen one two" {
			switch e := <-out; e.Event {
			case stream.Delta:
				text += *e.Text
			case stream.StepEvent:
				assert.Equal(b, "t", e.Step.Name)
				assert.Equal(b, "unseen one", text)
			}
			require.Contains(b, "unseen one two", text)
		}
		cancel()
		for range out {
		}
	})
}

// A client that reads more slowly than the run writes is always behind. Its stream still ends with its context.
func TestASlowStreamEndsWithItsContext(t *testing.T) {
	both(t, func(b *bench) {
		const slow = 600 * time.Millisecond
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
		defer cancel()
		speaking, stop := context.WithCancel(b.Context())
		defer time.Sleep(time.Second) // the worker ends
		defer stop()
		w := b.writer(speaking, 1, "")
		go func() {
			for n := 0; n < 1000 && speaking.Err() == nil; n++ {
				w.Append(speaking, "word ")
				time.Sleep(100 * time.Millisecond)
			}
		}()
		began := b.host.Elapsed()
		err := b.hub.Follow(ctx, b.store, record.Of("o"), b.entry.Value.ID(), 15*time.Second,
			func(stream.Event) error {
				time.Sleep(slow)
				return nil
			})
		require.ErrorIs(b, err, context.DeadlineExceeded)
		assert.LessOrEqual(b, b.host.Elapsed()-began, 2*time.Second+2*slow)
	})
}

func TestReplacedTextIsSentAsAnotherInit(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		w := b.writer(ctx, 1, "")
		w.Append(ctx, "wrong")
		assert.Equal(b, "wrong", *next(b.T, out, stream.Delta).Text)
		w.Replace(ctx, "")
		assert.Empty(b, *next(b.T, out, stream.Init).Text)
		w.Append(ctx, "right")
		assert.Equal(b, "right", *next(b.T, out, stream.Delta).Text)
		cancel()
		for range out {
		}
	})
}

func TestNewAttemptRestartsTheStreamAndTheOldOneIsIgnored(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		old := b.writer(ctx, 1, "")
		old.Append(ctx, "old")
		assert.Equal(b, "old", *next(b.T, out, stream.Delta).Text)
		b.save(func(r *record.Run) { r.Attempt = 2 })
		next(b.T, out, stream.Init)
		old.Append(ctx, " zombie")
		b.writer(ctx, 2, "").Append(ctx, "new")
		assert.Equal(b, "new", *next(b.T, out, stream.Delta).Text)
		cancel()
		for range out {
		}
	})
}

func TestIdleStreamSendsHeartbeats(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		<-out
		began := time.Now()
		assert.Equal(b, stream.Heartbeat, (<-out).Event)
		assert.Equal(b, stream.Heartbeat, (<-out).Event)
		assert.InDelta(b, 30, time.Since(began).Seconds(), 1)
		cancel()
		for range out {
		}
	})
}

func TestOnePollServesAllReadersAndSlowsDownWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier {
			return stream.Polling{Every: 250 * time.Millisecond}
		})
		ctx, cancel := context.WithCancel(t.Context())
		const readers = 100
		streams := make([]<-chan stream.Event, readers)
		for i := range streams {
			streams[i] = b.follow(ctx)
			next(t, streams[i], stream.Init)
		}
		within := func(d time.Duration) int64 {
			synctest.Wait()
			before := b.reads.n.Load()
			time.Sleep(d)
			synctest.Wait()
			return b.reads.n.Load() - before
		}
		assert.InDelta(t, 8, within(2*time.Second), 1, "four times a second")
		assert.InDelta(t, 9, within(4*time.Second), 1, "the longer nothing happens the less often")
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 30, within(time.Minute), 2, "every other second")

		heartbeats := len(streams[1])
		b.writer(ctx, 1, "").Append(ctx, "again")
		assert.Equal(t, "again", *next(t, streams[0], stream.Delta).Text)
		synctest.Wait()
		for _, s := range streams[1:] {
			assert.Len(t, s, heartbeats+1, "all are woken when one has read")
			assert.Equal(t, "again", *next(t, s, stream.Delta).Text)
		}
		assert.InDelta(t, 8, within(2*time.Second), 1, "more often again")
		cancel()
		for _, s := range streams {
			for range s {
			}
		}
	})
}

func TestNotificationCausesOneReadForAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		ctx, cancel := context.WithCancel(t.Context())
		streams := make([]<-chan stream.Event, 100)
		for i := range streams {
			streams[i] = b.follow(ctx)
			next(t, streams[i], stream.Init)
		}
		w := b.writer(ctx, 1, "")
		synctest.Wait()
		before := b.reads.n.Load()
		b.reads.gate = make(chan struct{})
		w.Append(ctx, "news")
		synctest.Wait() // the run is being read
		close(b.reads.gate)
		for _, s := range streams {
			assert.Equal(t, "news", *next(t, s, stream.Delta).Text)
		}
		synctest.Wait()
		assert.EqualValues(t, 1, b.reads.n.Load()-before)
		cancel()
		for _, s := range streams {
			for range s {
			}
		}
	})
}

func TestPanickingReadBlocksNoOtherReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		ctx, cancel := context.WithCancel(t.Context())
		b.reads.gate = make(chan struct{})
		b.reads.bad.Store(true)
		failed := make(chan any)
		go func() {
			defer func() { failed <- recover() }()
			_ = b.hub.Follow(ctx, b.store, record.Of("o"), b.entry.Value.ID(), 15*time.Second,
				func(stream.Event) error { return nil })
		}()
		synctest.Wait()
		out := b.follow(ctx)
		synctest.Wait() // it waits for the first reader's read
		close(b.reads.gate)
		assert.NotNil(t, <-failed)
		next(t, out, stream.Init)
		cancel()
		for range out {
		}
	})
}

func TestStalledReadersShareOneCopyOfTheText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		w := b.writer(t.Context(), 1, "")
		heap := func() int {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		const readers, each = 200, 10
		goOn := make(chan struct{})
		var reading sync.WaitGroup
		before := heap()
		for range readers {
			reading.Go(func() {
				assert.NoError(t, b.hub.Follow(t.Context(), b.store, record.Of("o"), b.entry.Value.ID(),
					15*time.Second, func(e stream.Event) error {
						if e.Event == stream.Delta {
							<-goOn
							return stream.ErrStop
						}
						return nil
					}))
			})
			synctest.Wait()
			for range each {
				w.Append(t.Context(), "piece")
				synctest.Wait()
			}
		}
		assert.Less(t, (heap()-before)/readers, 16<<10, "bytes for each reader; the frames alone are %d",
			readers*each*int(reflect.TypeFor[events.Frame]().Size()))
		close(goOn)
		reading.Wait()
	})
}

func TestReadersOfDifferentScopesShareNothing(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		err := b.hub.Follow(ctx, b.store, record.Of("other"), b.entry.Value.ID(), 15*time.Second,
			func(stream.Event) error {
				b.Error("it saw the run")
				return nil
			})
		assert.True(b, problem.Is(err, "outside_organization"), "%v", err)
		cancel()
		for range out {
		}
	})
}

func TestRefusedReaderDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier {
			return stream.Polling{Every: 250 * time.Millisecond}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out := b.follow(ctx)
		next(t, out, stream.Init)
		go func() {
			for ctx.Err() == nil {
				err := b.hub.Follow(ctx, b.store, record.Of("other"), b.entry.Value.ID(), 15*time.Second,
					func(stream.Event) error { return nil })
				assert.Error(t, err)
				_ = b.host.Sleep(ctx, 100*time.Millisecond)
			}
		}()
		b.writer(ctx, 1, "").Append(ctx, "news")
		began := time.Now()
		assert.Equal(t, "news", *next(t, out, stream.Delta).Text)
		assert.Less(t, time.Since(began), time.Second)
		cancel()
		for range out {
		}
	})
}

func TestClosedListenersAreForgotten(t *testing.T) {
	b := stream.NewLocalNotifier()
	hub := stream.New(nil, b, host.System(), nil)
	one, two := hub.Subscribe("a", "b"), hub.Subscribe("a")
	b.Notify("a")
	b.Notify("a")
	for _, l := range []*stream.Subscription{one, two} {
		rung, err := l.Wait(t.Context(), time.Hour)
		require.NoError(t, err)
		require.True(t, rung, "a ring between looks is not lost")
	}
	one.Close()
	b.Notify("b")
	two.Close()
	b.Notify("a")
	for _, l := range []*stream.Subscription{one, two} {
		rung, err := l.Wait(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, rung)
	}
}

func TestHangingTableHoldsUpNoStream(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		b.stores.trouble.Store(2)
		began := time.Now()
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		b.save(func(r *record.Run) { r.Attempt = 2 })
		next(b.T, out, stream.Init)
		assert.LessOrEqual(b, time.Since(began), 10*time.Second)
		cancel()
		for range out {
		}
	})
}

// A wait for a run, or for an inbox, does not count as an answer's own time.
func TestWaitsAreCountedAsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, clock := waiting.New(t.Context(), b.host.Elapsed)
		_, err := b.hub.Until(ctx, b.store, record.Of("o"), b.entry.Value.ID(), 0, 10*time.Second,
			func(record.Run) bool { return false })
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, clock.Total())
		_, mark, err := b.store.PausedRuns(ctx, "o")
		require.NoError(t, err)
		require.NoError(t, b.hub.UntilInbox(ctx, b.store, "o", mark, 10*time.Second))
		assert.Equal(t, 20*time.Second, clock.Total())
	})
}

// A client that waits for the end of a run is not woken by other changes. It reads the run when the wait begins and
// when the end is announced.
func TestWhoWaitsForTheEndReadsItThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		id, began := b.entry.Value.ID(), time.Now()
		before := b.reads.n.Load()
		ended := make(chan lifecycle.Status, 1)
		go func() {
			e, err := b.hub.UntilEnd(t.Context(), b.store, record.Of("o"), id, 0, time.Minute)
			assert.NoError(t, err)
			ended <- e.Value.Status
		}()
		for range 5 {
			synctest.Wait()
			b.save(func(r *record.Run) { r.Attempt++ })
		}
		b.save(func(r *record.Run) { r.Status = lifecycle.AwaitingInput })
		b.hub.Notifier().Notify(record.EndOf(id))
		assert.Equal(t, lifecycle.AwaitingInput, <-ended)
		assert.Zero(t, time.Since(began))
		assert.EqualValues(t, 2, b.reads.n.Load()-before)
	})
}

// A client that waits for the end of a run gets the run with the notification. It reads the run only if that one is
// older than its known version, of another organization, or not enough.
func TestWhoWaitsForTheEndIsHandedIt(t *testing.T) {
	ends := func(r *record.Run) { r.Status = lifecycle.AwaitingInput }
	for name, c := range map[string]struct {
		of     string
		change func(*record.Run)
		older  bool
		reads  int64
	}{
		"it has ended": {of: "o", change: ends},
		"older":        {of: "o", change: ends, older: true, reads: 1},
		"goes on":      {of: "o", change: func(r *record.Run) { r.Attempt++ }, reads: 1},
		"another's":    {of: "other", change: ends, reads: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
			handed := b.entry
			if c.older {
				c.change(&handed.Value)
				b.save(func(r *record.Run) { r.Attempt++ })
			}
			type result struct {
				run record.RunEntity
				err error
			}
			waited := make(chan result, 1)
			id, seen := b.entry.Value.ID(), b.entry.Version()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				e, err := b.hub.UntilEnd(ctx, b.store, record.Of(c.of), id, seen, time.Minute)
				waited <- result{e, err}
			}()
			synctest.Wait()
			if !c.older {
				b.save(c.change)
				handed = b.entry
			}
			before := b.reads.n.Load()
			b.hub.Notifier().NotifyEnd(handed)
			synctest.Wait()
			assert.Equal(t, c.reads, b.reads.n.Load()-before, name)
			if c.reads > 0 {
				cancel()
			}
			switch got := <-waited; {
			case c.of != "o":
				assert.True(t, problem.Is(got.err, "outside_organization"), "%s: %v", name, got.err)
			case c.reads > 0:
				assert.ErrorIs(t, got.err, context.Canceled, name)
			default:
				assert.NoError(t, got.err, name)
				assert.Equal(t, handed, got.run, name)
			}
		})
	}
}

// A client without a known version reads the run first: a run that arrives while it subscribes may be older.
func TestWhoHasSeenNothingIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &handsAtOnce{LocalNotifier: stream.NewLocalNotifier()}
		b := newBench(t, func(host.Host) stream.Notifier { return n })
		n.older = b.entry
		n.older.Value.Status = lifecycle.AwaitingInput
		b.save(func(r *record.Run) { r.Attempt++ })
		e, err := b.hub.UntilEnd(t.Context(), b.store, record.Of("o"), b.entry.Value.ID(), 0, time.Second)
		require.NoError(t, err)
		assert.Equal(t, lifecycle.Running, e.Value.Status)
		assert.Equal(t, 2, e.Value.Attempt)
	})
}

// handsAtOnce passes the older run to every subscription before it is used.
type handsAtOnce struct {
	*stream.LocalNotifier
	older record.RunEntity
}

func (n *handsAtOnce) OnNotify(f func(*record.RunEntity), what ...string) func() {
	stop := n.LocalNotifier.OnNotify(f, what...)
	n.NotifyEnd(n.older)
	return stop
}

// A wait that may not continue ends as if its time were over.
func TestAWaitEndsWhereThereIsNoRoom(t *testing.T) {
	for _, longest := range []time.Duration{time.Hour, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, slow)
			ctx, clock := waiting.New(t.Context(), b.host.Elapsed)
			clock.Limit(func(lasted time.Duration) time.Duration { return max(0, longest-lasted) })
			began := time.Now()
			e, err := b.hub.UntilEnd(ctx, b.store, record.Of("o"), b.entry.Value.ID(), 0, 10*time.Second)
			require.NoError(t, err)
			assert.Equal(t, lifecycle.Running, e.Value.Status)
			assert.Equal(t, min(longest, 10*time.Second), time.Since(began))
		})
	}
}

// A client that polls for a run checks whether it has changed. It reads the run only then, and at the end. The result
// is the stored run, also if the checks lag.
func TestAWaitLooksBeforeItReads(t *testing.T) {
	for _, c := range []struct {
		seen, lags, ends bool
		reads            int64
	}{
		{seen: true, reads: 1}, {seen: false, reads: 2}, {seen: true, ends: true, reads: 1},
		{seen: true, ends: true, lags: true, reads: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, slow)
			g := &pollCounter{Table: b.reads}
			store, id, seen := record.New(g, &memblob.Store{}, b.host), b.entry.Value.ID(), b.entry.Version()
			g.lags.Store(c.lags)
			if c.ends {
				time.AfterFunc(5*time.Second, func() {
					b.save(func(r *record.Run) { r.Status = lifecycle.AwaitingInput })
				})
			}
			if !c.seen {
				seen = 0
			}
			began := time.Now()
			e, err := b.hub.UntilEnd(t.Context(), store, record.Of("o"), id, seen, 10*time.Second)
			require.NoError(t, err)
			assert.Equal(t, c.ends, e.Value.Status == lifecycle.AwaitingInput, "%+v", c)
			took := 10 * time.Second
			if c.ends && !c.lags {
				took = 5 * time.Second
			}
			assert.InDelta(t, took, time.Since(began), float64(time.Second), "%+v", c)
			assert.Equal(t, c.reads, g.reads.Load(), "%+v", c)
			assert.Greater(t, g.polls.Load(), int64(5), "%+v", c)
		})
	}
}

// Readers that come and go while a run writes each get its text without a gap. Nothing is left of them.
func TestReadersThatComeAndGoMissNothing(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		w := b.writer(ctx, 1, "")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for turn := range 5 {
					short, leave := context.WithTimeout(ctx, time.Duration(turn+1)*700*time.Millisecond)
					text := ""
					err := b.hub.Follow(short, b.store, record.Of("o"), b.entry.Value.ID(), time.Second,
						func(e stream.Event) error {
							switch e.Event {
							case stream.Init:
								text = *e.Text
							case stream.Delta:
								text += *e.Text
							}
							return nil
						})
					leave()
					assert.ErrorIs(b, err, context.DeadlineExceeded)
					assert.True(b, strings.HasPrefix(strings.Repeat("word ", 300), text), text)
					assert.NotEmpty(b, text)
				}
			})
		}
		for range 300 {
			w.Append(ctx, "word ")
			time.Sleep(37 * time.Millisecond)
		}
		all.Wait()
		assert.Zero(b, b.hub.Topics())
		cancel()
	})
}
