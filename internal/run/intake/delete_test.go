package intake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
)

// A client that may not withdraw a parked message cannot drop it by deleting its chat either.
func TestChatWithForeignParkedMessageIsNotDeleted(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	group := w.group()
	closed := w.closed(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	open := w.post(intake.Message{Text: "open", ChatID: "c"})
	parked, err := w.Post(ctx, w.who, intake.Message{AgentID: closed, Text: "secret", ChatID: "c", Enqueue: true})
	require.NoError(t, err)
	outsider := w.who
	outsider.Level, outsider.Groups = tenant.LevelManage, nil
	before := w.stored()
	_, err = w.DeleteChat(ctx, outsider, "c")
	assert.Equal(t, "insufficient_permission", code(err))
	assert.Equal(t, before, w.stored(), "nothing is half done")
	require.NoError(t, w.Withdraw(ctx, w.who, open.Run.ID(), parked.Parked.ParkedID))
	_, err = w.DeleteChat(ctx, outsider, "c")
	require.NoError(t, err)
}
