package localqueue_test

import (
	"testing"

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

func TestABusyGroupDoesNotStarveAQuietOne(t *testing.T) {
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
