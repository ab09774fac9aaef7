package localqueue_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/queue"
	"agentplatform/internal/queue/localqueue"
	"agentplatform/internal/queue/queuetest"
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
		require.NoError(t, q.Send(t.Context(), queue.Message{Nudge: events.Nudge{ID: id}, Group: group}))
	}
	for range 100 {
		send("busy", "busy")
	}
	send("quiet", "quiet")
	var second queue.Delivery
	for range 2 {
		var err error
		second, err = q.Receive(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, "quiet", second.Nudge.ID)
}

func TestGroupHoldsNoMoreThanItsShare(t *testing.T) { synctest.Test(t, groupHoldsNoMoreThanItsShare) }

func groupHoldsNoMoreThanItsShare(t *testing.T) {
	q := localqueue.Shared(2)
	for _, group := range []string{"slow", "slow", "slow", "quick"} {
		require.NoError(t, q.Send(t.Context(), queue.Message{Nudge: events.Nudge{ID: group}, Group: group}))
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
