package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// leave calls a tool, as a client of a version that leaves after 1 s.
func (s *stage) leave(version, name string, arguments object, progress bool, left bool) {
	s.t.Helper()
	meta := object{}
	if version >= "2026-07-28" {
		meta = object{"io.modelcontextprotocol/protocolVersion": version,
			"io.modelcontextprotocol/clientCapabilities": object{},
			"io.modelcontextprotocol/clientInfo":         object{"name": "x", "version": "1"}}
	}
	if progress {
		meta["progressToken"] = 1
	}
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": object{"name": name, "arguments": arguments, "_meta": meta}})
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	defer time.AfterFunc(time.Second, cancel).Stop()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", name)
	r.Header.Set("Mcp-Protocol-Version", version)
	r.Header.Set("Mcp-Session-Id", "s")
	away := func() bool { return left && ctx.Err() != nil }
	w := httptest.NewRecorder()
	handler, streamed, err := s.For(ctx, s.p, r.Header, body, 10*time.Second, away)
	require.NoError(s.t, err)
	assert.Equal(s.t, progress, streamed)
	handler(s.t.Context()).ServeHTTP(w, r)
	assert.NotContains(s.t, w.Body.String(), `"error":{`)
	synctest.Wait()
	assert.False(s.t, s.Open(), "a call that has ended cannot be given up")
}

// Clients of earlier versions have a tool for it. A cancelled run is a success of that tool.
func TestARunIsCancelledByItsTool(t *testing.T) {
	s := newStage(t)
	run := s.begin()
	for range 2 {
		a := s.call("cancel_run", of(run))
		assert.False(t, a.IsError)
		assert.Contains(t, string(a.Structured), `"status":"cancelled"`)
		assert.Equal(t, lifecycle.Cancelled, s.run(run).Status)
	}
	claimed := s.begin()
	s.claim(claimed)
	a := s.call("cancel_run", of(claimed))
	assert.False(t, a.IsError)
	assert.True(t, s.run(claimed).CancelRequested, "its worker ends it")
	assert.True(t, s.call("cancel_run", of("?")).IsError)
	assert.True(t, s.call("cancel_run", of("000000000000000000000000")).IsError)
}

// The client that began the run still waits for it: the message only answered its question.
func TestWhoLeavesAnAnswerHasNotCancelledItsRun(t *testing.T) {
	for _, progress := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.Window = time.Minute
			run := s.begin()
			s.ask(run, lifecycle.Clarification)
			s.leave("2026-07-28", "Demo", object{"message": "Paris", "chat_id": s.run(run).Chat}, progress, true)
			time.Sleep(2 * time.Minute)
			assert.Equal(t, lifecycle.Queued, s.run(run).Status)
		})
	}
}

// "The server MUST treat a client disconnect as cancellation of that request", since 2026-07-28. A stop of the server
// does not cancel, and neither does a client that leaves a call of get_run.
func TestWhoLeavesACallHasCancelledIt(t *testing.T) {
	for _, progress := range []bool{false, true} {
		for _, c := range []struct {
			version string
			left    bool
			status  lifecycle.Status
		}{
			{"2026-07-28", true, lifecycle.Cancelled},
			{"2026-07-28", false, lifecycle.Queued},
			{"2025-11-25", true, lifecycle.Queued},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.Window = time.Minute
				s.leave(c.version, "Demo", object{"message": "x"}, progress, c.left)
				time.Sleep(2 * time.Minute) // everything that goes on ends
				runs, err := s.Store.RunsOfOrganization(t.Context(), s.p.Scope(), "", 2)
				require.NoError(t, err)
				require.Len(t, runs.Rows, 1)
				assert.Equal(t, c.status, runs.Rows[0].Value.Status, "%v %v", progress, c)
			})
		}
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.Window = time.Minute
			run := s.begin()
			s.leave("2026-07-28", "get_run", of(run), progress, true)
			time.Sleep(2 * time.Minute)
			e, err := s.Store.Run(t.Context(), record.System(), run)
			require.NoError(t, err)
			assert.Equal(t, lifecycle.Queued, e.Value.Status)
		})
	}
}
