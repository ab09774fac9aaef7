package stream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

func TestReturningReaderGetsEverythingInOneInit(t *testing.T) {
	both(t, func(b *bench) {
		first, leave := context.WithCancel(b.Context())
		out := b.follow(first)
		next(b.T, out, stream.Init)
		ctx, cancel := context.WithCancel(b.Context())
		w := b.writer(ctx, 1, "")
		written := ""
		for n := range 100 {
			piece := fmt.Sprint(n, " ")
			written += piece
			w.Append(ctx, piece)
			time.Sleep(50 * time.Millisecond)
		}
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "started"})
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "finished"})
		w.Step(ctx, events.StepEvent{Index: 2, Kind: "tool", Name: "t", State: "started"})
		for range 3 { // each reader that reconnects gets the same
			leave()
			for range out {
			}
			require.Zero(b, b.hub.Topics())
			time.Sleep(time.Second)
			again, leaveAgain := context.WithCancel(b.Context())
			leave, out = leaveAgain, b.follow(again)
			init := next(b.T, out, stream.Init)
			assert.Equal(b, written, *init.Text)
			require.Len(b, *init.Steps, 2)
			assert.Equal(b, "finished", (*init.Steps)[0].State)
			assert.Equal(b, "started", (*init.Steps)[1].State)
			w.Append(ctx, "more ")
			written += "more "
			assert.Equal(b, "more ", *next(b.T, out, stream.Delta).Text, "nothing that an init holds is sent again")
		}
		leave()
		cancel()
		for range out {
		}
	})
}

func TestFirstReaderGetsTextThatIsNotJournalledYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		ctx, cancel := context.WithCancel(t.Context())
		w := b.hub.Writer(b.entry.Value.ID(), 1, "", false)
		go w.Run(ctx, time.Second)
		w.Append(ctx, "said to nobody")
		w.Step(ctx, events.StepEvent{Index: 1, Kind: "tool", Name: "t", State: "started"})
		synctest.Wait()
		began := time.Now()
		for range 2 {
			reading, leave := context.WithCancel(t.Context())
			out := b.follow(reading)
			init := next(t, out, stream.Init)
			assert.Equal(t, "said to nobody", *init.Text)
			assert.Len(t, *init.Steps, 1)
			leave()
			for range out {
			}
		}
		assert.Zero(t, time.Since(began), "a worker that is there answers at once")
		cancel()
		synctest.Wait()

		began = time.Now()
		b.save(func(r *record.Run) { r.Attempt = 2 }) // the worker is lost
		reading, leave := context.WithCancel(t.Context())
		out := b.follow(reading)
		assert.Empty(t, *next(t, out, stream.Init).Text)
		assert.Equal(t, 250*time.Millisecond, time.Since(began), "nobody waits for long for one that is not")
		leave()
		for range out {
		}
	})
}

func TestReaderFarBehindGetsAnotherInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		out := b.follow(ctx)
		next(t, out, stream.Init)
		w := b.writer(ctx, 1, "")
		w.Append(ctx, strings.Repeat("x", 300<<10))
		assert.Len(t, *next(t, out, stream.Init).Text, 300<<10)
		w.Append(ctx, "!")
		assert.Equal(t, "!", *next(t, out, stream.Delta).Text)
		cancel()
		for range out {
		}
	})
}

// While the run cannot be read, a stream that has begun waits. It reads no more often than at other times.
func TestReaderWaitsForAStoreThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		out := b.follow(ctx)
		next(t, out, stream.Init)
		time.Sleep(10 * time.Second)
		before := b.reads.n.Load()
		b.reads.last.Store(before)
		b.writer(ctx, 1, "").Append(ctx, strings.Repeat("x", 300<<10))
		time.Sleep(time.Minute)
		assert.Less(t, b.reads.n.Load()-before, int64(1000))
		b.reads.last.Store(0)
		assert.Len(t, *next(t, out, stream.Init).Text, 300<<10)
		cancel()
		for range out {
		}
	})
}

func TestLeavingReaderDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
		ctx, cancel := context.WithCancel(t.Context())
		first, leave := context.WithCancel(t.Context())
		goes, stays := b.follow(first), b.follow(ctx)
		next(t, goes, stream.Init)
		next(t, stays, stream.Init)
		w := b.writer(ctx, 1, "")
		synctest.Wait()
		b.stores.trouble.Store(3) // reads of frames hang until their reader leaves
		w.Append(ctx, "news")
		synctest.Wait()
		began := time.Now()
		b.stores.trouble.Store(0)
		leave()
		for range goes {
		}
		assert.Equal(t, "news", *next(t, stays, stream.Delta).Text)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		cancel()
		for range stays {
		}
	})
}

const length = 100_000

// pieces streams a text of that length in n deltas to one reader.
func pieces(t testing.TB, b *bench, n int) (w *stream.Writer, text string) {
	t.Helper()
	ctx, leave := context.WithCancel(b.Context())
	out := b.follow(ctx)
	<-out
	w = b.writer(b.Context(), 1, "")
	piece := strings.Repeat("x", length/n)
	for range n {
		w.Append(ctx, piece)
	}
	for got := 0; got < length; {
		got += len(*(<-out).Text)
	}
	leave()
	for range out {
	}
	return w, strings.Repeat(piece, n)
}

func TestCostOfReconnectingDoesNotGrowWithTheDeltas(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
			stop, cancel := context.WithCancel(t.Context())
			w, text := pieces(t, b, n)
			before := b.stores.rows.Load()
			ctx, leave := context.WithCancel(stop)
			out := b.follow(ctx)
			assert.Equal(t, text, *next(t, out, stream.Init).Text)
			w.Append(ctx, "!")
			assert.Equal(t, "!", *next(t, out, stream.Delta).Text)
			// Frames of 1 KiB, with any number of deltas, and a few that acknowledge. The number of deltas in a frame
			// depends on the scheduler, so the two counts cannot be compared.
			assert.LessOrEqual(t, b.stores.rows.Load()-before, int64(length/1024+4), "rows of frames that are read")
			leave()
			for range out {
			}
			cancel()
		})
	}
}

func TestConcurrentReadersShareOneSnapshot(t *testing.T) {
	both(t, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		b.writer(ctx, 1, "").Append(ctx, "said")
		next(b.T, out, stream.Delta)
		synctest.Wait()
		const readers = 1000
		before := b.reads.queries.Load()
		streams := []<-chan stream.Event{out}
		var text *byte
		for range readers {
			streams = append(streams, b.follow(ctx))
		}
		for _, s := range streams[1:] {
			got := *next(b.T, s, stream.Init).Text
			assert.Equal(b, "said", got)
			if text == nil {
				text = unsafe.StringData(got)
			}
			assert.Same(b, text, unsafe.StringData(got), "the text is there once")
		}
		assert.Zero(b, b.reads.queries.Load()-before, "who is there has read the journal")
		cancel()
		for _, s := range streams {
			for range s {
			}
		}
	})
}

// BenchmarkReconnect measures the cost of reconnecting to a text of 100 KB that was streamed in n deltas.
func BenchmarkReconnect(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint("pieces=", n), func(b *testing.B) {
			p := newBench(b, func(host.Host) stream.Notifier { return stream.NewLocalNotifier() })
			pieces(b, p, n)
			b.ReportAllocs()
			for b.Loop() {
				err := p.hub.Follow(b.Context(), p.store, record.Of("o"), p.entry.Value.ID(), time.Minute,
					func(e stream.Event) error {
						require.Len(b, *e.Text, 100_000)
						return stream.ErrStop
					})
				require.NoError(b, err)
			}
		})
	}
}
