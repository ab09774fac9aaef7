package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/stream"
)

// followAsleep is Follow by steps, between which the reader sleeps.
func (b *bench) followAsleep(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration,
	sink func(stream.Event) error) error {
	w := b.hub.Open(ctx, s, scope, run, idle, func(_ context.Context, e stream.Event) error { return sink(e) })
	defer w.Close()
	for {
		if ended, err := w.Step(ctx); ended || err != nil {
			return err
		}
		early, wake := context.WithCancel(ctx)
		awake := w.Sleep(wake)
		_ = b.host.Sleep(early, w.Due())
		awake(ctx.Err() == nil)
		wake()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// What came between a step and the sleep after it wakes the reader at once, and what comes later does then.
func TestAReaderThatSleepsIsWokenByNews(t *testing.T) {
	both(t, func(b *bench) {
		b.save(func(r *record.Run) { r.Status = lifecycle.Queued }) // it says nothing yet: a glance is enough
		events, woken := make(chan stream.Event, 10), make(chan struct{}, 100)
		wake := func() { woken <- struct{}{} }
		w := b.hub.Open(b.Context(), b.store, record.Of("o"), b.entry.Value.ID(), time.Hour,
			func(_ context.Context, e stream.Event) error {
				events <- e
				return nil
			})
		defer w.Close()
		step := func() {
			b.Helper()
			ended, err := w.Step(b.Context())
			require.NoError(b, err)
			require.False(b, ended)
		}
		step()
		require.Equal(b, stream.Init, (<-events).Event)
		assert.Greater(b, w.Due(), 5*time.Second)

		awake := w.Sleep(wake)
		for len(woken) > 0 { // its own watch row is news, too
			<-woken
			awake(true)
			step()
			awake = w.Sleep(wake)
		}
		time.Sleep(5 * time.Second)
		assert.Empty(b, woken, "there is nothing new")
		b.save(func(r *record.Run) { r.Status = lifecycle.AwaitingInput })
		time.Sleep(5 * time.Second)
		assert.NotEmpty(b, woken)
		awake(true)
		step()
		require.Equal(b, string(lifecycle.AwaitingInput), (<-events).Status)

		b.save(func(r *record.Run) { r.Status = lifecycle.Queued })
		time.Sleep(5 * time.Second) // until a glance has seen it, too
		for len(woken) > 0 {
			<-woken
		}
		awake = w.Sleep(wake)
		assert.NotEmpty(b, woken, "nobody told it while it was awake")
		awake(true)
		step()
		require.Equal(b, string(lifecycle.Queued), (<-events).Status)
	})
}

// A reader that leaves when it is woken leaves the news to the others.
func TestNewsGoesToTheReaderThatStays(t *testing.T) {
	both(t, func(b *bench) {
		b.save(func(r *record.Run) { r.Status = lifecycle.Queued }) // it says nothing yet: a glance is enough
		w := b.hub.Open(b.Context(), b.store, record.Of("o"), b.entry.Value.ID(), time.Hour,
			func(context.Context, stream.Event) error { return nil })
		_, err := w.Step(b.Context())
		require.NoError(b, err)
		woken := make(chan struct{}, 100)
		awake := w.Sleep(func() { woken <- struct{}{} }) // it is the first to sleep
		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		next(b.T, out, stream.Init)
		time.Sleep(time.Second)
		for len(woken) > 0 {
			<-woken
		}
		began := time.Now()
		b.save(func(r *record.Run) { r.Status = lifecycle.AwaitingInput })
		<-woken
		assert.Less(b, time.Since(began), 5*time.Second)
		at := time.Now()
		awake(false)
		w.Close()
		next(b.T, out, stream.Status)
		assert.Zero(b, time.Since(at), "it is told at once, and not by the next glance")
		cancel()
		for range out {
		}
	})
}

// A reader that sleeps alone keeps little of the run. Who joins then is sent all of it, and the one that slept what
// changes.
func TestWhoJoinsAReaderThatSleepsIsSentTheRun(t *testing.T) {
	both(t, func(b *bench) {
		b.save(func(r *record.Run) { r.Status = lifecycle.AwaitingInput })
		var sent []stream.Event
		w := b.hub.Open(b.Context(), b.store, record.Of("o"), b.entry.Value.ID(), time.Hour,
			func(_ context.Context, e stream.Event) error {
				sent = append(sent, e)
				return nil
			})
		defer w.Close()
		_, err := w.Step(b.Context())
		require.NoError(b, err)
		require.Len(b, sent, 1)
		awake := w.Sleep(func() {})

		ctx, cancel := context.WithCancel(b.Context())
		out := b.follow(ctx)
		joined := next(b.T, out, stream.Init)
		assert.Equal(b, sent[0].Run, joined.Run)
		cancel()
		for range out {
		}

		awake(true)
		_, err = w.Step(b.Context())
		require.NoError(b, err)
		assert.Len(b, sent, 1, "nothing is new")
		w.Sleep(func() {})(true)
		b.save(func(r *record.Run) { r.Status = lifecycle.Queued })
		for len(sent) == 1 {
			_, err = w.Wait(b.Context(), time.Minute)
			require.NoError(b, err)
			_, err = w.Step(b.Context())
			require.NoError(b, err)
		}
		assert.Equal(b, string(lifecycle.Queued), sent[1].Status)
		assert.Empty(b, *sent[1].Interrupts)
	})
}
