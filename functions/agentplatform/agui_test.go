//go:build peers

package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// The official client of AG-UI talks with an agent: a conversation, a tool that it executes, one that it leaves, and an
// approval. It also has a question, a connection that it cuts and resumes, and a run that it stops in order to send
// another message. Last are errors, and a cancelled run. It checks each event against the protocol's schema and order.
// The version before 1.0 is that of front ends made with CopilotKit.
func TestTheOfficialClientOfAGUI(t *testing.T) {
	t.Run("1.0", func(t *testing.T) { talksByAGUI(t, "@ag-ui/client", 1) })
	t.Run("0.0.59", func(t *testing.T) { talksByAGUI(t, "ag-ui-client-0", 0) })
}

// talksByAGUI runs a client. pending is the number of pending calls that it expects.
func talksByAGUI(t *testing.T, client string, pending int) {
	p, _ := served(t)
	agent := p.ask(http.MethodPost, "/agents", object{"name": "Echo"}, http.StatusCreated)["agent_id"].(string)
	careful := p.ask(http.MethodPost, "/agents",
		object{"name": "Careful", "approval": object{"mode": "always"}}, http.StatusCreated)["agent_id"].(string)
	scripts, err := filepath.Abs("../../scripts/peers/clients")
	require.NoError(t, err)
	folder, err := filepath.Abs("../../.cache/peers/made")
	require.NoError(t, err)
	w := workshop{T: t, folder: folder, scripts: scripts}
	w.take("agui", "agui.mjs")
	var seen struct {
		Conversation struct {
			Said   []string
			Answer string
		}
		FrontEndTool struct {
			Color   string
			Pending int
			Said    []string
		}
		NoOutput   struct{ Said []string }
		Interrupts struct {
			Approved, Asked string
			Same            bool
			Said            []string
		}
		Cut struct {
			Heard bool
			Said  []string
		}
		Stopped struct{ Roles, Said []string }
		Failure struct {
			Message, Field string
			Status         int
		}
		Cancelled struct{ End string }
		Warned    []string
	}
	out := w.run("agui", "node", "agui.mjs", client, p.url, p.key, agent, careful)
	require.NoError(t, json.Unmarshal(out, &seen), string(out))
	assert.Equal(t, []string{"You said: hello", "You said: again\n1 2 3 4 5"}, seen.Conversation.Said)
	assert.Equal(t, "You said: again\n1 2 3 4 5", seen.Conversation.Answer)
	assert.Equal(t, "red", seen.FrontEndTool.Color)
	assert.Equal(t, pending, seen.FrontEndTool.Pending)
	assert.Equal(t, []string{"Answer: painted red"}, trimmed(seen.FrontEndTool.Said))
	assert.Equal(t, []string{"Answer: (no output: the user continued without it)", "You said: never mind"},
		trimmed(seen.NoOutput.Said))
	assert.Equal(t, "a", seen.Interrupts.Approved)
	assert.True(t, seen.Interrupts.Same, "the result is of the call that was approved")
	assert.Equal(t, "Which city?", seen.Interrupts.Asked)
	assert.Equal(t, []string{"echo → a", "Answer: Paris"}, trimmed(seen.Interrupts.Said))
	assert.True(t, seen.Cut.Heard, "a part of the text before the connection was cut")
	require.Len(t, seen.Cut.Said, 1, "the message goes on, and is not there twice")
	assert.True(t, strings.HasPrefix(seen.Cut.Said[0], "You said: count\n1 2 3 "), seen.Cut.Said[0])
	assert.True(t, strings.HasSuffix(seen.Cut.Said[0], " 29 30"), seen.Cut.Said[0])
	assert.Equal(t, []string{"user", "assistant", "user", "assistant"}, seen.Stopped.Roles, "each where it was said")
	require.Len(t, seen.Stopped.Said, 2)
	assert.True(t, strings.HasSuffix(seen.Stopped.Said[0], " 19 20"), seen.Stopped.Said[0])
	assert.Equal(t, "You said: and now?", seen.Stopped.Said[1])
	assert.Contains(t, seen.Failure.Message, "no luck")
	assert.Equal(t, http.StatusBadRequest, seen.Failure.Status)
	assert.Equal(t, "body.threadId", seen.Failure.Field)
	assert.Equal(t, "cancelled", seen.Cancelled.End)
	assert.Empty(t, seen.Warned, "the client leaves nothing out")
	version := peertest.NPM(t, client)
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "AG-UI, `@ag-ui/client`", Version: version,
		Works: "conversation, front-end tools, approval, question, cut connection, errors, cancel",
	})
}

func trimmed(list []string) []string {
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}
