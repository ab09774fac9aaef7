// Package timertest is the conformance suite of the timer port. Every adapter runs all of it.
package timertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/timer"
)

// Bench is a timer and the queue that receives its wakeups.
type Bench struct {
	Timer timer.Timer
	Queue queue.Source
	// Tick is an interval that the adapter keeps reliably; the suite waits for nothing shorter.
	Tick time.Duration
}

// Run runs the suite; open makes a fresh timer.
func Run(t *testing.T, open func(*testing.T) Bench) {
	message := func(id string) queue.Message {
		return queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: id}, Group: "org"}
	}
	receive := func(t *testing.T, b Bench) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*b.Tick+10*time.Second)
		defer cancel()
		d, err := b.Queue.Receive(ctx)
		require.NoError(t, err)
		require.NoError(t, b.Queue.Ack(t.Context(), d))
		return d.Wakeup.ID
	}
	t.Run("a nudge is sent at its time, not before", func(t *testing.T) {
		b := open(t)
		at := time.Now().Add(b.Tick)
		require.NoError(t, b.Timer.At(t.Context(), "run1-p1", at, message("a")))
		assert.Equal(t, "a", receive(t, b))
		assert.False(t, time.Now().Before(at))
	})
	t.Run("a time in the past sends the nudge at once", func(t *testing.T) {
		b := open(t)
		require.NoError(t, b.Timer.At(t.Context(), "run1-p1", time.Now().Add(-time.Hour), message("a")))
		assert.Equal(t, "a", receive(t, b))
	})
	t.Run("a second alarm of the same name is ignored", func(t *testing.T) {
		b := open(t)
		require.NoError(t, b.Timer.At(t.Context(), "run1-p1", time.Now().Add(b.Tick), message("first")))
		require.NoError(t, b.Timer.At(t.Context(), "run1-p1", time.Now().Add(b.Tick), message("second")))
		assert.Equal(t, "first", receive(t, b))
	})
	t.Run("a stopped alarm sends nothing, others do", func(t *testing.T) {
		b := open(t)
		// Many ticks: a slow machine stops it in time.
		require.NoError(t, b.Timer.At(t.Context(), "run1-p1", time.Now().Add(10*b.Tick), message("stopped")))
		require.NoError(t, b.Timer.At(t.Context(), "run1-p2", time.Now().Add(12*b.Tick), message("other")))
		require.NoError(t, b.Timer.Stop(t.Context(), "run1-p1"))
		require.NoError(t, b.Timer.Stop(t.Context(), "run1-p1"))
		require.NoError(t, b.Timer.Stop(t.Context(), "never set"))
		assert.Equal(t, "other", receive(t, b))
	})
}
