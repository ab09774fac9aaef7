package localqueue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/queue/queuetest"
)

func TestContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Pair {
		q := localqueue.New()
		t.Cleanup(q.Close)
		return q
	})
}

func TestBusyGroupDoesNotStarveAQuietOne(t *testing.T) {
	q := localqueue.New()
	send := func(id, group string) {
		require.NoError(t, q.Send(t.Context(), queue.Message{Wakeup: events.Wakeup{ID: id}, Group: group}))
	}
	for n := range 100 {
		send(fmt.Sprint("busy-", n), "busy")
	}
	send("quiet", "quiet")
	var second queue.Delivery
	for range 2 {
		var err error
		second, err = q.Receive(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, "quiet", second.Wakeup.ID)
}

// A message that waits for long is sent again and again. It does not fill the queue.
func TestEqualMessagesWaitOnce(t *testing.T) { synctest.Test(t, equalMessagesWaitOnce) }

func equalMessagesWaitOnce(t *testing.T) {
	q := localqueue.New()
	m := queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: "run"}, Group: "o", User: "u"}
	for range 100_001 {
		require.NoError(t, q.Send(t.Context(), m))
	}
	d, err := q.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, q.Send(t.Context(), m), "whoever handles the first may have looked already")
	require.NoError(t, q.Ack(t.Context(), d))
	again, err := q.Receive(t.Context())
	require.NoError(t, err)
	assert.Equal(t, m, again.Message)
	require.NoError(t, q.Ack(t.Context(), again))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err = q.Receive(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestGroupTakesNoMoreThanItsShare(t *testing.T) { synctest.Test(t, groupTakesNoMoreThanItsShare) }

func groupTakesNoMoreThanItsShare(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 10, Organization: 2})
	for n, group := range []string{"slow", "slow", "slow", "quick"} {
		require.NoError(t, q.Send(t.Context(), queue.Message{Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: group}))
	}
	var slow []queue.Delivery
	for range 3 {
		d, err := q.Receive(t.Context())
		require.NoError(t, err)
		if d.Group == "slow" {
			slow = append(slow, d)
		}
	}
	assert.Len(t, slow, 2, "the third was the quick one, though it came last")
	received := make(chan queue.Delivery)
	go func() {
		d, err := q.Receive(t.Context())
		assert.NoError(t, err)
		received <- d
	}()
	synctest.Wait()
	select {
	case <-received:
		assert.Fail(t, "it holds three")
	default:
	}
	require.NoError(t, q.Ack(t.Context(), slow[0]))
	assert.Equal(t, "slow", (<-received).Group)
}
