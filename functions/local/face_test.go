//go:build peers

package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/peertest"
)

// served starts the program and returns a function that runs a client script of scripts/peers.
func served(t *testing.T) (p *program, client func(script, path string, into any, arguments ...string)) {
	p = built(t)
	p.start()
	t.Cleanup(p.stop)
	return p, func(script, path string, into any, arguments ...string) {
		t.Helper()
		command := exec.Command(peertest.Python(t),
			append([]string{"../../scripts/peers/" + script, p.url + path, p.key}, arguments...)...)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NoError(t, json.Unmarshal(out, into), string(out))
	}
}

// The official Python client of MCP calls an agent as a tool.
func TestTheOfficialPythonClientOfMCP(t *testing.T) {
	type result struct {
		Tools      []string
		Text       string
		Structured object
		Error      bool
		Progress   []string
	}
	_, client := served(t)
	var got, failed result
	client("mcp_client.py", "/mcp", &got, "Demo", `{"message":"hello from Python"}`)
	assert.ElementsMatch(t, []string{"Demo", "get_run", "cancel_run"}, got.Tools)
	assert.Equal(t, "You said: hello from Python", got.Text)
	assert.Equal(t, "completed", got.Structured["status"])
	assert.False(t, got.Error)
	assert.Contains(t, strings.Join(got.Progress, ""), "You said: hello from Python")
	client("mcp_client.py", "/mcp", &failed, "Demo", `{"message":"/fail no luck"}`)
	assert.True(t, failed.Error)
}

// The official Python client of A2A speaks version 1.0 with an agent: a streamed answer, a pause that is answered,
// a task that is cancelled.
func TestTheOfficialPythonClientOfA2A(t *testing.T) {
	type result struct {
		Name, Task, Context, Text, Got string
		Version, States                []string
	}
	p, client := served(t)
	agent := p.ask(http.MethodPost, "/agents", object{"name": "Echo"}, http.StatusCreated)["agent_id"].(string)
	tell := func(arguments ...string) (r result) {
		t.Helper()
		client("a2a_client.py", "/a2a/"+agent, &r, arguments...)
		return r
	}
	r := tell("hello\n/stream 5 20ms")
	assert.Equal(t, "Echo", r.Name)
	assert.Equal(t, []string{"1.0", "0.3"}, r.Version)
	assert.Equal(t, "You said: hello\n1 2 3 4 5", r.Text)
	assert.Equal(t, "TASK_STATE_COMPLETED", r.States[len(r.States)-1])
	assert.Equal(t, "TASK_STATE_COMPLETED", r.Got)

	asks := tell("/ask Which city?")
	assert.Equal(t, "TASK_STATE_INPUT_REQUIRED", asks.Got)
	answered := tell("Paris", asks.Task, asks.Context)
	assert.Equal(t, asks.Task, answered.Task)
	assert.Equal(t, "Answer: Paris", answered.Text)
	assert.Equal(t, "TASK_STATE_COMPLETED", answered.Got)

	waits := tell("/ask Which?")
	assert.Equal(t, "TASK_STATE_CANCELED", tell("cancel", waits.Task).Got)
}
