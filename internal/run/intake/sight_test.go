package intake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
)

// A user cannot start a run without access to it: with an agent that keeps its chats private, in the chat of a
// colleague. The chat itself stays open to both, and its user may use that agent there.
func TestAgentThatKeepsItsChatsToUsersJoinsTheirOwn(t *testing.T) {
	for _, enqueue := range []bool{false, true} {
		w := newWorld(t)
		w.who.Level, w.who.Shared = tenant.LevelRun, true
		colleague := w.who
		colleague.User = "colleague"
		open := w.closed(func(*catalog.AgentSpec) {})
		narrow := w.closed(func(s *catalog.AgentSpec) { s.ChatVisibility = catalog.SeesOwn })
		first := w.post(intake.Message{AgentID: open, Text: "x", ChatID: "c"})
		if !enqueue {
			w.complete(first.Run.ID())
		}
		m := intake.Message{AgentID: narrow, Text: "x", ChatID: "c", Enqueue: enqueue}
		_, err := w.Post(t.Context(), colleague, m)
		assert.Equal(t, "insufficient_permission", code(err))
		_, err = w.Run(t.Context(), colleague, first.Run.ID())
		require.NoError(t, err)
		_, err = w.Post(t.Context(), w.who, m)
		require.NoError(t, err)
	}
}
