// Package queuetest is the conformance suite of the queue port. Every adapter runs all of it.
package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/store/queue"
)

// Pair is both ends of one queue.
type Pair interface {
	queue.Queue
	queue.Source
}

// Run runs the suite; open makes a fresh, empty queue.
func Run(t *testing.T, open func(*testing.T) Pair) {
	message := func(id, group string) queue.Message {
		return queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: id}, Group: group}
	}
	receive := func(t *testing.T, q Pair) queue.Delivery {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		d, err := q.Receive(ctx)
		require.NoError(t, err)
		return d
	}
	t.Run("a sent message is delivered unchanged", func(t *testing.T) {
		q := open(t)
		require.NoError(t, q.Send(t.Context(), message("a", "org")))
		d := receive(t, q)
		assert.Equal(t, message("a", "org"), d.Message)
		assert.Equal(t, 1, d.Receives)
		require.NoError(t, q.Ack(t.Context(), d))
	})
	t.Run("receive ends with its context", func(t *testing.T) {
		q := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := q.Receive(ctx)
		require.Error(t, err)
	})
	t.Run("a retried message is delivered again, not before its delay", func(t *testing.T) {
		q := open(t)
		require.NoError(t, q.Send(t.Context(), message("a", "org")))
		d := receive(t, q)
		began := time.Now()
		require.NoError(t, q.Retry(t.Context(), d, time.Second))
		again := receive(t, q)
		assert.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
		assert.Equal(t, "a", again.Wakeup.ID)
		assert.Equal(t, 2, again.Receives)
	})
	t.Run("messages sent together are all delivered, with their groups", func(t *testing.T) {
		q := open(t)
		assert.Empty(t, queue.SendAll(t.Context(), q, nil))
		const n = 23 // no multiple of a batch
		want := map[queue.Message]bool{}
		var all []queue.Message
		for i := range n {
			m := message(fmt.Sprint(i), fmt.Sprintf("org-%d", i%3))
			all, want[m] = append(all, m), true
		}
		errs := queue.SendAll(t.Context(), q, all)
		require.Len(t, errs, n)
		for _, err := range errs {
			require.NoError(t, err)
		}
		for len(want) > 0 {
			d := receive(t, q)
			require.NoError(t, q.Ack(t.Context(), d))
			delete(want, d.Message)
		}
	})
	t.Run("messages sent together after the end of their context are reported each", func(t *testing.T) {
		q := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Len(t, queue.SendAll(ctx, q, []queue.Message{message("a", "org"), message("b", "org")}), 2)
	})
	t.Run("many senders and receivers: each message is delivered", func(t *testing.T) {
		q := open(t)
		const senders, each = 8, 25
		var wg sync.WaitGroup
		for s := range senders {
			wg.Go(func() {
				for n := range each {
					assert.NoError(t, q.Send(t.Context(), message(fmt.Sprintf("%d-%d", s, n), fmt.Sprint(s))))
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var mu sync.Mutex
		seen := map[string]bool{}
		for range 4 {
			wg.Go(func() {
				for {
					d, err := q.Receive(ctx)
					if err != nil {
						return
					}
					assert.NoError(t, q.Ack(t.Context(), d))
					mu.Lock()
					seen[d.Wakeup.ID] = true
					done := len(seen) == senders*each
					mu.Unlock()
					if done {
						cancel()
					}
				}
			})
		}
		wg.Wait()
		assert.Len(t, seen, senders*each)
	})
}
