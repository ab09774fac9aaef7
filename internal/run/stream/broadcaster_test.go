package stream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// metered is a table that counts the calls of DynamoDB that its reads would need: one for a hundred keys.
type metered struct {
	table.Table
	host  host.Host
	calls *atomic.Int64
	takes *atomic.Int64 // nanoseconds that a call takes
	dies  *atomic.Value // a text: the panic of a read of several keys, as of a poll
}

// call is n calls, one after the other; they end with ctx. The host's Sleep sets no timer if a call takes no time.
// Otherwise two goroutines of one bubble that read channels of timers which are already due crash the race detector.
// (Go 1.26: runtime.(*timer).maybeRunChan gives both the bubble's one race context.)
func (m metered) call(ctx context.Context, n int) error {
	m.calls.Add(int64(n))
	if m.host.Sleep(ctx, time.Duration(int64(n)*m.takes.Load())) != nil {
		return errDown
	}
	return nil
}

func (m metered) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if text, _ := m.dies.Load().(string); text != "" && len(keys) > 1 {
		panic(text)
	}
	if err := m.call(ctx, (len(keys)+table.MaxGetKeys-1)/table.MaxGetKeys); err != nil {
		return nil, err
	}
	return m.Table.Get(ctx, keys...)
}

func (m metered) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := m.call(ctx, 1); err != nil {
		return nil, err
	}
	return m.Table.Query(ctx, r)
}

// crowd is many runs, each with a worker in one process and a reader in another.
type crowd struct {
	*testing.T

	host     host.Host
	store    *record.Store // the workers'
	frames   table.Table
	panics   atomic.Int64 // of readers
	entries  []record.RunEntity
	writers  []*stream.Writer
	calls    atomic.Int64 // of the readers' process
	takes    atomic.Int64 // nanoseconds that each of those takes
	dies     atomic.Value // the panic of its polls
	received []atomic.Int64
	stop     func()

	mu    sync.Mutex
	texts []string // what each reader received
	log   bytes.Buffer
}

func (c *crowd) text(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[i]
}

// settle waits for two ticks, in which output is stored and read. Events at the same instant have no order.
func settle() {
	time.Sleep(600 * time.Millisecond)
	synctest.Wait()
}

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{T: t, host: host.System(), received: make([]atomic.Int64, n), texts: make([]string, n)}
	core, frames := memtable.New(c.host.Now), memtable.New(c.host.Now)
	c.store, c.frames = record.New(core, &memblob.Store{}, c.host), frames
	log := slog.New(slog.NewTextHandler(&c.log, nil))
	working := stream.New(frames, slow(c.host), c.host, log)
	store := record.New(metered{core, c.host, &c.calls, &c.takes, &c.dies}, &memblob.Store{}, c.host)
	hub := stream.New(metered{frames, c.host, &c.calls, &c.takes, &c.dies}, slow(c.host), c.host, log)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c.stop = func() { cancel(); all.Wait() }
	for i := range n {
		now := c.host.Now()
		run := record.Run{Input: &record.Input{Message: "m"}, Run: lifecycle.Accept(
			lifecycle.RunSpec{
				RunID: c.host.NewID(), Organization: "o", User: "u", Chat: fmt.Sprint(i), LimitMS: 60_000,
			},
			lifecycle.ChatPosition{Turn: 1}, now, now.Add(time.Minute))}
		run.Status, run.Attempt = lifecycle.Running, 1
		run.Lease = lifecycle.Lease{Holder: "w", Until: now.Add(time.Hour)}
		c.entries = append(c.entries, record.Fresh(run))
		c.change(i)
		w := working.Writer(run.ID(), 1, "", true)
		c.writers = append(c.writers, w)
		all.Go(func() { w.Run(ctx, 2*time.Second) })
		receive := func(e stream.Event) error {
			if e.Event != stream.Heartbeat {
				c.received[i].Add(1)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			switch e.Event {
			case stream.Init:
				c.texts[i] = *e.Text
			case stream.Delta:
				c.texts[i] += *e.Text
			}
			return nil
		}
		all.Go(func() {
			var err error
			if host.Catch(func() {
				err = hub.Follow(ctx, store, record.Of("o"), run.ID(), 15*time.Second, receive)
			}) != nil {
				c.panics.Add(1)
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		time.Sleep(7 * time.Millisecond) // they do not begin at the same instant
	}
	return c
}

// change stores a run again, as the renewal of its lease does.
func (c *crowd) change(i int) {
	c.Helper()
	tx := c.store.Begin(c.host.NewID())
	c.entries[i] = tx.PutRun(c.entries[i])
	require.NoError(c, tx.Commit(c.Context()))
}

// within is the number of calls of the tables that the readers' process makes while f runs.
func (c *crowd) within(f func()) int64 {
	synctest.Wait()
	before := c.calls.Load()
	f()
	synctest.Wait()
	return c.calls.Load() - before
}

// While calls take long, there are no more of them: each would take even longer.
func TestSlowCallsMakeNoMoreCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 100
		c := newCrowd(t, streams)
		defer c.stop()
		speak := func(words int, each time.Duration) {
			for range words {
				for _, w := range c.writers {
					w.Append(c.Context(), "word ")
				}
				time.Sleep(each)
			}
		}
		speak(20, 250*time.Millisecond)
		c.takes.Store(int64(900 * time.Millisecond))
		n := c.within(func() { speak(20, time.Second) })
		assert.LessOrEqual(t, n, int64(80), "in twenty seconds")
		for i := range streams {
			assert.GreaterOrEqual(t, len(c.text(i)), len("word ")*(20+15), "and what is said arrives meanwhile")
		}
		c.takes.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for i := range streams {
			require.Equal(t, strings.Repeat("word ", 40), c.text(i))
		}
	})
}

// If two frames were stored between two ticks, there are no others: no call reads more.
func TestTwoFramesOfATickAreReadInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		defer c.stop()
		speak := func(words int) {
			for range words {
				c.writers[0].Append(c.Context(), "word ")
				time.Sleep(255 * time.Millisecond)
			}
		}
		speak(12)

		c.takes.Store(int64(100 * time.Millisecond)) // a tick is 350 ms then
		n := c.within(func() { speak(80) })
		ticks := int64(80 * 255 / 350)
		assert.LessOrEqual(t, n, 2*ticks+4, "a look at the head, a read of two frames, which are both there at times")
		settle()
		assert.Equal(t, strings.Repeat("word ", 92), c.text(0))
	})
}

// A step after a word is read in the same tick as the step before the word: they were stored together.
func TestStepsAroundAWordAreReadInOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		defer c.stop()
		w := c.writers[0]
		for range 12 {
			w.Append(c.Context(), "word ")
			time.Sleep(250 * time.Millisecond)
		}
		settle()
		before := c.received[0].Load()
		w.Append(c.Context(), "and ") // stored immediately
		time.Sleep(10 * time.Millisecond)
		w.Step(c.Context(), events.StepEvent{Index: 1, Kind: "tool", Name: "a", State: "finished"})
		w.Append(c.Context(), "now ")
		w.Step(c.Context(), events.StepEvent{Index: 2, Kind: "tool", Name: "b", State: "started"})
		time.Sleep(530 * time.Millisecond) // a tick for the word, and the one after these are stored
		synctest.Wait()
		assert.EqualValues(t, 4, c.received[0].Load()-before)
	})
}

// If a run writes much more than the frames that are read ahead, the whole text still arrives.
func TestABurstOfASpeakingStreamArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		defer c.stop()
		var written strings.Builder
		write := func(word string) {
			written.WriteString(word)
			c.writers[0].Append(c.Context(), word)
		}
		for range 12 {
			write("word ")
			time.Sleep(250 * time.Millisecond)
		}
		settle()
		require.Equal(t, written.String(), c.text(0))
		for n := range 80 { // each a separate frame, within less than a tick
			write(fmt.Sprint(n, strings.Repeat("x", 1<<10)))
			time.Sleep(2 * time.Millisecond)
		}
		settle() // with six frames in each of its ticks it would take thirteen ticks
		assert.Len(t, c.text(0), written.Len())
		assert.Equal(t, written.String(), c.text(0))
	})
}

// A frame that makes a poll panic ends the stream of a reader of its run, as the reader's own read would, and no other
// stream.
func TestPanickingPollEndsNoOtherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2)
		defer c.stop()
		var written string
		speak := func() {
			for range 12 {
				written += "word "
				for _, w := range c.writers {
					w.Append(c.Context(), "word ")
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
		speak()
		settle() // the last word is stored: the next number is free
		rows, err := c.frames.Query(c.Context(), framesOf(c.entries[0].Value.ID()))
		require.NoError(t, err)
		bad := *rows[len(rows)-1]
		bad.Sort = fmt.Sprintf("f/000001/%012d", len(rows)+1)
		bad.Body = fmt.Appendf(nil, `{"kind":"step","attempt":1,"seq":%d}`, len(rows)+1) // and no step
		require.NoError(t, c.frames.Commit(c.Context(), "frame", table.Put(bad, table.Always())))
		c.writers = c.writers[1:]
		n := c.within(speak)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, c.panics.Load())
		assert.Equal(t, written, c.text(1))
		assert.LessOrEqual(t, n, int64(60), "it is polled as before")
		assert.Equal(t, 1, strings.Count(c.log.String(), "level=ERROR"))
		assert.Contains(t, c.log.String(), `msg="a poll of streams panicked"`)
		assert.Contains(t, c.log.String(), "stream.(*broadcaster).readRound", "the stack is that of the poll")
	})
}

// A panic at each tick is logged once. Readers read without polls in that time.
func TestPollsThatPanicAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2)
		defer c.stop()
		written := ""
		speak := func() {
			for range 12 {
				written += "word "
				for _, w := range c.writers {
					w.Append(c.Context(), "word ")
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
		speak()
		for n, text := range []string{"one thing", "another"} {
			c.dies.Store(text)
			speak()
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, n+1, strings.Count(c.log.String(), "level=ERROR"))
			assert.Contains(t, c.log.String(), text)
		}
		for i := range c.writers {
			assert.Equal(t, written, c.text(i))
		}
		assert.Zero(t, c.panics.Load(), "of readers")
	})
}

// While the topic reads its run, no poll changes the known state: both would write after the same text.
func TestNoPollReadsWhatATopicReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		streams := make([]<-chan stream.Event, 10) // one topic
		for i := range streams {
			streams[i] = b.follow(ctx)
			next(t, streams[i], stream.Init)
		}
		w := b.writer(ctx, 1, "")
		written, received := "", [10]string{}
		write := func(word string) {
			written += word
			w.Append(ctx, word)
			time.Sleep(300 * time.Millisecond)
		}
		listen := func() {
			synctest.Wait()
			for i, s := range streams {
				for len(s) > 0 {
					if e := <-s; e.Event == stream.Delta {
						received[i] += *e.Text
					}
				}
			}
		}
		for range 8 {
			write("word ")
		}
		b.stores.trouble.Store(3)    // frames can be read one by one, but not in pages
		b.save(func(*record.Run) {}) // so that a reader reads
		time.Sleep(300 * time.Millisecond)
		listen()
		before := received
		write("meanwhile ")
		time.Sleep(300 * time.Millisecond) // the reader's call ends after a second
		listen()
		assert.Equal(t, before, received)
		b.stores.trouble.Store(0)
		for range 8 {
			write("word ")
		}
		time.Sleep(2 * time.Second)
		listen()
		for _, h := range received {
			assert.Equal(t, written, h)
		}
		cancel()
		for _, s := range streams {
			for range s {
			}
		}
	})
}

// A thousand running runs without a change for ten seconds are polled a hundred in a call.
func TestThousandQuietStreamsMakeFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 1000
		c := newCrowd(t, streams)
		defer c.stop()
		time.Sleep(12 * time.Second)
		n := c.within(func() { time.Sleep(10 * time.Second) })
		t.Logf("quiet: %.1f calls a second", float64(n)/10)
		assert.LessOrEqual(t, n, int64(10*25), "they were over a thousand a second when each stream polled by itself")

		n = c.within(func() {
			for i := range streams { // their leases are renewed
				c.change(i)
				time.Sleep(10 * time.Millisecond)
			}
		})
		t.Logf("each changes once in 10 s: %.1f calls a second", float64(n)/10)
		for i := range streams {
			c.received[i].Store(0)
			c.writers[i].Append(c.Context(), "news")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		for i := range streams {
			assert.EqualValues(t, 1, c.received[i].Load(), "news of each is seen, once")
		}
	})
}

// The constant output of a thousand runs is read a hundred frames in a call. Each reader gets each word once.
func TestThousandSpeakingStreamsMakeFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, words = 1000, 10
		c := newCrowd(t, streams)
		defer c.stop()
		time.Sleep(5 * time.Second)
		speak := func(words int) {
			for range words {
				for _, w := range c.writers {
					w.Append(c.Context(), "word ")
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
		speak(8)
		n := c.within(func() { speak(words) })
		t.Logf("%.1f calls a second", float64(n)/words*4)
		assert.LessOrEqual(t, n, int64(words*60), "2,000 a word if each were read by itself")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range streams {
			require.Equal(t, strings.Repeat("word ", 8+words), c.text(i))
		}
	})
}

// A reader finds the next frame by its number. So there are no gaps after a failure, whether or not the frames were
// stored then. Later output is added in between.
func TestFramesHaveNoGapsAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := b.writer(ctx, 1, "")
		for n := range 6 {
			b.stores.trouble.Store(int64(n % 3)) // none, commits fail, calls hang
			for range 10 {
				w.Append(ctx, "x")
				time.Sleep(200 * time.Millisecond)
			}
		}
		b.stores.trouble.Store(0)
		time.Sleep(5 * time.Second)
		items, err := b.stores.Query(ctx, framesOf(b.entry.Value.ID()))
		require.NoError(t, err)
		text := ""
		for i, item := range items {
			var frame events.Frame
			require.NoError(t, json.Unmarshal(item.Body, &frame))
			assert.EqualValues(t, i+1, frame.Seq)
			assert.Equal(t, len(text), frame.Offset)
			text += frame.Text
		}
		assert.Equal(t, strings.Repeat("x", 60), text)
		assert.Less(t, len(items), 45)
	})
}

// Streams of a run whose worker acknowledges nothing read for themselves until the first frame is known. Earlier frames
// may have expired, and then the number of the next frame is unknown.
func TestFirstFrameIsFoundWithAnyNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		w := b.writer(ctx, 1, "")
		for range 3 {
			w.Append(ctx, "x")
			time.Sleep(time.Second)
		}
		time.Sleep(6 * time.Minute) // there is no reader, and the frames expire
		out := b.follow(ctx)
		text := *next(t, out, stream.Init).Text
		w.Append(ctx, "!")
		for n := 0; text != "xxx!"; n++ {
			e := <-out
			require.Less(t, n, 100, "%q, then %+v", text, e)
			if e.Event == stream.Delta {
				text += *e.Text
			}
		}
		before := b.reads.n.Load()
		w.Append(ctx, "?")
		assert.Equal(t, "?", *next(t, out, stream.Delta).Text)
		assert.LessOrEqual(t, b.reads.n.Load()-before, int64(3), "the next one is found by its number")
		cancel()
		for range out {
		}
	})
}
