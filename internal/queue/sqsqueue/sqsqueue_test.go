package sqsqueue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/queue/sqsqueue"
)

func TestDeliveredReadsAMessageOfATrigger(t *testing.T) {
	d, err := sqsqueue.Delivered(`{"kind":"run","id":"r1"}`, "receipt",
		map[string]string{"ApproximateReceiveCount": "3", "MessageGroupId": "org"})
	require.NoError(t, err)
	assert.Equal(t, events.Nudge{Kind: events.NudgeRun, ID: "r1"}, d.Nudge)
	assert.Equal(t, 3, d.Receives)
	assert.Equal(t, "org", d.Group)
	for _, poison := range []string{"", "hello", "{}", `{"kind":"run"}`, `[]`, `{"kind":1,"id":"x"}`} {
		_, err := sqsqueue.Delivered(poison, "receipt", nil)
		require.Error(t, err, poison)
	}
}
