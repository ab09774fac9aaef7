package stream_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

func slow(host.Host) stream.Notifier { return stream.Polling{Every: 250 * time.Millisecond} }

func TestTenThousandDeltasMakeFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		out := b.follow(ctx)
		next(t, out, stream.Init)
		w := b.writer(ctx, 1, "")
		var written strings.Builder
		for n := range 10_000 { // in ten seconds, about five bytes each
			piece := fmt.Sprint(n, " ")
			written.WriteString(piece)
			w.Append(ctx, piece)
			time.Sleep(time.Millisecond)
		}
		text := ""
		for text != written.String() {
			text += *next(t, out, stream.Delta).Text
			require.True(t, strings.HasPrefix(written.String(), text))
		}
		assert.LessOrEqual(t, b.stores.commits.Load(), int64(40+written.Len()/1024+2),
			"four times a second, and once a KB")
		assert.GreaterOrEqual(t, b.stores.commits.Load(), int64(40))
		cancel()
		for range out {
		}
	})
}

func TestFirstDeltaIsStoredImmediately(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		w := b.writer(ctx, 1, "")
		synctest.Wait()
		began := time.Now()
		w.Append(ctx, "first")
		synctest.Wait()
		assert.Zero(b, time.Since(began))
		assert.EqualValues(b, 1, b.stores.commits.Load())
	})
}

func TestHangingTableDelaysNoWriterAndLosesNoText(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		w := b.writer(ctx, 1, "")
		b.stores.trouble.Store(2)
		began := time.Now()
		w.Append(ctx, "a")
		time.Sleep(10 * time.Second)
		for range 1000 {
			w.Append(ctx, "b")
		}
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "started"})
		w.Append(ctx, "c")
		assert.Equal(b, 10*time.Second, time.Since(began))
		b.stores.trouble.Store(0)
		text := ""
		for !strings.HasSuffix(text, "c") {
			switch e := <-out; e.Event {
			case stream.Delta:
				text += *e.Text
			case stream.StepEvent:
				assert.Equal(b, "a"+strings.Repeat("b", 1000), text)
			}
		}
		assert.Equal(b, "a"+strings.Repeat("b", 1000)+"c", text)
		assert.LessOrEqual(b, b.stores.ops.Load(), int64(4), "they have joined; the reader's question is answered, too")
		cancel()
		for range out {
		}
	})
}

func TestRemainingOutputIsStoredWhenTheAttemptEnds(t *testing.T) {
	both(t, func(b *bench) {
		for _, trouble := range []int64{0, 1, 2} {
			ctx, cancel := context.WithCancel(b.Context())
			w := b.watched(1, "")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				w.Run(ctx, time.Second)
			}()
			w.Append(ctx, "first")
			synctest.Wait()
			before := b.stores.ops.Load()
			b.stores.trouble.Store(trouble)
			w.Append(ctx, "rest")
			w.Step(ctx, events.StepEvent{Index: 1, State: "started"})
			cancel()
			began := time.Now()
			<-ended
			assert.LessOrEqual(b, time.Since(began), 2*time.Second, "whatever the hub does")
			if trouble == 0 {
				assert.EqualValues(b, 2, b.stores.ops.Load()-before)
			}
			b.stores.trouble.Store(0)
		}
	})
}

func TestLongTextIsSplitIntoFramesOfWholeCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		out := b.follow(ctx)
		next(t, out, stream.Init)
		w := b.writer(ctx, 1, "")
		written := strings.Repeat("ein Ü und ein €. ", 60_000) // about a megabyte
		w.Append(ctx, written)
		text := ""
		for len(text) < len(written) {
			switch e := <-out; e.Event {
			case stream.Init: // the reader was too far behind
				text = *e.Text
			case stream.Delta:
				text += *e.Text
			}
		}
		assert.Equal(t, written, text)
		assert.GreaterOrEqual(t, b.stores.ops.Load(), int64(len(written)>>15))
		cancel()
		for range out {
		}
	})
}

// A model streams text, replaces the text since its last step, and calls tools, over a table that fails and hangs. In
// the end a reader has the whole text. It never gets a step before the text that precedes the step.
func TestReadersSeeTheWholeTextDespiteFailuresAndReplacements(t *testing.T) {
	for seed := range uint64(100) {
		both(t, func(b *bench) {
			r := rand.New(rand.NewPCG(seed, 0))
			ctx, cancel := context.WithCancel(b.Context())
			w := b.hub.Writer(b.entry.Value.ID(), 1, "", r.IntN(2) == 0)
			go w.Run(ctx, time.Second)
			out := b.follow(ctx)
			text, kept := "", ""
			var at sync.Map // the text before each step
			shown, want := "", make(chan string, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				whole := ""
				for e := range out {
					switch e.Event {
					case stream.Init:
						shown = *e.Text
					case stream.Delta:
						shown += *e.Text
					case stream.StepEvent:
						if before, _ := at.Load(e.Step.Index); before != shown {
							b.Errorf("seed %d: step %d was shown behind %q", seed, e.Step.Index, shown)
						}
					}
					select {
					case whole = <-want:
					default:
					}
					if whole != "" && shown == whole {
						return
					}
				}
			}()
			for n := range 200 {
				switch r.IntN(20) {
				case 0:
					text = kept
					w.Replace(ctx, text)
				case 1:
					kept = text
					at.Store(n, text)
					w.Step(ctx, events.StepEvent{Index: n, Kind: "tool", Name: "t", State: "started"})
				case 2:
					b.stores.trouble.Store(r.Int64N(3))
				case 3:
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				default:
					piece := strings.Repeat(string(rune('a'+n%26)), 1+r.IntN(300))
					text += piece
					w.Append(ctx, piece)
				}
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
				}
			}
			b.stores.trouble.Store(0)
			w.Append(ctx, ".")
			want <- text + "."
			select {
			case <-done:
			case <-time.After(time.Minute):
				b.Errorf("seed %d: a reader has %d bytes of %d", seed, len(shown), len(text)+1)
			}
			cancel()
			for range out {
			}
			<-done
		})
		if t.Failed() {
			return
		}
	}
}

func TestWriterStoresOnlyTextBeyondTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := b.writer(ctx, 1, "journalled")
		w.Append(ctx, " new")
		synctest.Wait()
		items, err := b.stores.Query(ctx, framesOf(b.entry.Value.ID()))
		require.NoError(t, err)
		require.Len(t, items, 1)
		assert.Contains(t, string(items[0].Body), `"text":" new","offset":10`)
	})
}

func framesOf(run string) table.Range {
	return table.Range{Part: "run/" + run, Prefix: "f/", Limit: 1000}
}

func TestLastFrameGrowsUntilItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		ctx, cancel := context.WithCancel(t.Context())
		out := b.follow(ctx)
		next(t, out, stream.Init)
		w := b.writer(ctx, 1, "")
		text := ""
		for range 5000 {
			w.Append(ctx, "x")
			text += *next(t, out, stream.Delta).Text
		}
		assert.Len(t, text, 5000)
		assert.GreaterOrEqual(t, b.stores.ops.Load(), int64(5000))
		items, err := b.stores.Query(ctx, framesOf(b.entry.Value.ID()))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(items), 5000/1024+3, "one answers the reader")
		cancel()
		for range out {
		}
	})
}

func TestFinishedStepIsNotShownAsStartedLater(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		w := b.writer(ctx, 1, "")
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "finished"})
		assert.Equal(b, "finished", next(b.T, out, stream.StepEvent).Step.State)
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "started"})
		w.Append(ctx, "on")
		assert.Equal(b, "on", *next(b.T, out, stream.Delta).Text)
		cancel()
		for range out {
		}
	})
}

// pollCounter is a table in which a check of a row is a different call from a read, as in DynamoDB. It counts both.
type pollCounter struct {
	table.Table

	reads, polls atomic.Int64
	lags         atomic.Bool // checks return the first result again

	mu    sync.Mutex
	first []table.Mark
}

func (g *pollCounter) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	g.reads.Add(1)
	return g.Table.Get(ctx, keys...)
}

func (g *pollCounter) Poll(ctx context.Context, keys ...table.Key) ([]table.Mark, error) {
	g.polls.Add(1)
	seen, err := table.Poll(ctx, g.Table, keys...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = seen
	}
	if g.lags.Load() {
		return g.first, err
	}
	return seen, err
}

// Most runs never have a reader. The writer uses the cheaper check for the first one, and reads the row only then.
func TestAWriterWithoutReadersOnlyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.System()
		g := &pollCounter{Table: memtable.New(h.Now)}
		hub := stream.New(g, slow(h), h, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		w := hub.Writer("r", 1, "", false)
		var working sync.WaitGroup
		working.Go(func() { w.Run(ctx, time.Second) })
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 10, g.polls.Load())
		assert.Zero(t, g.reads.Load())
		require.NoError(t, g.Commit(ctx, "watch", table.Put(table.Item{
			Key: table.Key{Part: "run/r", Sort: "watch"}, Owner: "-", WriteID: "watch", Body: []byte(`{"asks":"a"}`),
		}, table.Always())))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 11, g.polls.Load(), "it knows its reader")
		assert.EqualValues(t, 5, g.reads.Load())
		cancel()
		working.Wait()
	})
}
