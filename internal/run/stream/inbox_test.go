package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// pauses makes the run wait for a person, or continue.
func (b *bench) pauses(before, after string) {
	b.Helper()
	of := func(row string) lifecycle.Run {
		r := b.entry.Value.Run
		r.Slots = lifecycle.Slots{User: row, Organization: row}
		return r
	}
	tx := b.store.Begin(b.host.NewID())
	tx.MoveSlots(of(before), of(after))
	require.NoError(b, tx.Commit(b.Context()))
	b.hub.Notifier().Notify(record.InboxOf("o"))
}

// A client that waits for an inbox gets its next change, also one that came before the wait, but at most once a second.
// Without a change the wait ends at its time, and costs little.
func TestAnInboxIsWaitedFor(t *testing.T) {
	both(t, func(b *bench) {
		paused := lifecycle.PausedSlot(time.Now(), b.entry.Value.ID())
		mark := b.mark()
		wait := func(ctx context.Context, d time.Duration) (time.Duration, error) {
			began := time.Now()
			err := b.hub.UntilInbox(ctx, b.store, "o", mark, d)
			return time.Since(began), err
		}
		before := b.reads.queries.Load()
		took, err := wait(b.Context(), 20*time.Second)
		require.NoError(b, err)
		assert.Equal(b, 20*time.Second, took)
		assert.LessOrEqual(b, b.reads.queries.Load()-before, int64(21))

		time.AfterFunc(3*time.Second, func() { b.pauses("0", paused) })
		took, err = wait(b.Context(), 20*time.Second)
		require.NoError(b, err)
		assert.GreaterOrEqual(b, took, 3*time.Second)
		assert.LessOrEqual(b, took, 4*time.Second)
		took, err = wait(b.Context(), 20*time.Second)
		require.NoError(b, err)
		assert.GreaterOrEqual(b, took, time.Second, "it has changed already")
		assert.LessOrEqual(b, took, 2*time.Second)
		took, err = wait(b.Context(), time.Millisecond)
		require.NoError(b, err)
		assert.Equal(b, time.Millisecond, took)

		mark = b.mark()
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		took, err = wait(ctx, 20*time.Second)
		require.ErrorIs(b, err, context.DeadlineExceeded)
		assert.Equal(b, time.Second, took)
	})
}

// With any number of waiting clients and changes, an inbox is read once a second, and each client gets the change.
func TestThoseWhoWaitForAnInboxShareItsReadings(t *testing.T) {
	both(t, func(b *bench) {
		paused, began := lifecycle.PausedSlot(time.Now(), b.entry.Value.ID()), time.Now()
		first, before := b.mark(), b.reads.queries.Load()
		type end struct {
			at  time.Duration
			err error
		}
		ends := make(chan end, 60)
		for range cap(ends) {
			go func() {
				err := b.hub.UntilInbox(b.Context(), b.store, "o", first, 20*time.Second)
				ends <- end{time.Since(began), err}
			}()
		}
		time.Sleep(5 * time.Second)
		assert.Empty(b, ends)
		b.pauses("0", paused)
		for range 20 {
			time.Sleep(90 * time.Millisecond) // never at the moment of a read, which could see it or not
			b.pauses(paused, "0")
			b.pauses("0", paused)
		}
		for range cap(ends) {
			e := <-ends
			require.NoError(b, e.err)
			assert.LessOrEqual(b, e.at, 6*time.Second)
		}
		assert.LessOrEqual(b, b.reads.queries.Load()-before, int64(time.Since(began)/time.Second)+1)
	})
}

// mark is the current mark of the inbox.
func (b *bench) mark() string {
	b.Helper()
	_, mark, err := b.store.PausedRuns(b.Context(), "o")
	require.NoError(b, err)
	return mark
}
