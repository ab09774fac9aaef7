package intake_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
)

// A message that answers a question needs only a text; the fields for a new run are not checked. Those of other
// messages are.
func TestAnswerNeedsNoRunFields(t *testing.T) {
	for name, m := range map[string]intake.Message{
		"no agent":                 {},
		"an agent that is nowhere": {AgentID: "0123456789abcdef01234567"},
		"no such version":          {AgentID: "agent", Version: 7},
		"what its door refused":    {AgentID: "agent", Wrong: problem.InvalidField("callback_url", "is wrong")},
		"a title too long":         {AgentID: "agent", Title: strings.Repeat("x", 201)},
		"metadata too long":        {AgentID: "agent", Metadata: map[string]string{"a": strings.Repeat("x", 1025)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if m.AgentID == "agent" {
				m.AgentID = w.agent
			}
			m.Text, m.ChatID, m.Enqueue, m.Key = "yes", "c", true, "k"
			asks := w.post(intake.Message{Text: "x", ChatID: "c"}).Run
			before := w.stored()
			_, err := w.Post(t.Context(), w.who, m)
			require.Error(t, err, "the chat is busy: it would wait for a run of its own")
			assert.Equal(t, before, w.stored())

			w.ask(asks.ID(), lifecycle.Clarification)
			posted, err := w.Post(t.Context(), w.who, m)
			require.NoError(t, err)
			assert.Equal(t, asks.ID(), posted.Run.ID())
			assert.Equal(t, lifecycle.Queued, w.run(asks.ID()).Status)
			again, err := w.Post(t.Context(), w.who, m)
			require.NoError(t, err)
			assert.True(t, again.Replayed)

			m.Key = "another"
			_, err = w.Post(t.Context(), w.who, m)
			require.Error(t, err, "it answers nothing any more")
		})
	}
}
