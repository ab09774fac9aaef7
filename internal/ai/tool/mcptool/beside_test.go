package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// with sets the arguments of a call.
func with(arguments map[string]any) func(*tool.Invocation) {
	raw, _ := json.Marshal(arguments)
	return func(i *tool.Invocation) { i.Arguments = raw }
}

// outcome is that of a call.
type outcome struct {
	text string
	err  error
}

// long makes a call that lasts until release is called.
func long(t *testing.T, s tool.Session) (release func(), ended <-chan outcome) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	done := make(chan outcome, 1)
	go func() {
		got, err := ask(t.Context(), s, "long", with(map[string]any{"until": l.Addr().String()}))
		done <- outcome{got, err}
	}()
	c, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return func() { _ = c.Close() }, done
}

// A call that fails, or whose server asks, does not end another call of the same program.
func TestACallLeavesTheOthersAlone(t *testing.T) {
	question := with(map[string]any{"method": "elicitation/create",
		"params": json.RawMessage(`{"message":"?","requestedSchema":` + object(`"a":{"type":"string"}`, ``) + `}`)})
	unreadable := with(map[string]any{"raw": `{"jsonrpc":"2.0","method":"notifications/message"}`,
		"result": `{"content":[null]}`})
	for name, c := range map[string]struct {
		givenUp bool // a call before had no answer in time
		tool    string
		with    func(*tool.Invocation)
		waits   bool // until no other call is at work
		want    string
	}{
		"a question":                        {tool: "ask", with: question, waits: true, want: "asks its user: ?"},
		"a question after one that gave up": {givenUp: true, tool: "ask", with: question, waits: true, want: "several"},
		"an answer that is not of MCP":      {tool: "blurt", with: unreadable, want: "not MCP"},
		"such an answer after one that gave up": {givenUp: true, tool: "blurt", with: unreadable,
			want: "not MCP"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &mcptool.Kind{Client: http.DefaultClient}
			s := k.Session(itself(t))
			defer s.End()
			_, err := ask(t.Context(), s, "told")
			require.NoError(t, err)
			if c.givenUp {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err = ask(ctx, s, "mute")
				require.EqualError(t, err, "the server did not respond in time")
			}
			release, ended := long(t, s)
			var failed atomic.Pointer[outcome]
			go func() {
				got, err := ask(t.Context(), s, c.tool, c.with)
				failed.Store(&outcome{got, err})
			}()
			returned := func() bool { return failed.Load() != nil }
			require.Eventually(t, func() bool { return returned() || c.waits && mcptool.Held(s) > 0 }, time.Minute,
				time.Millisecond)
			release()
			got := <-ended
			require.NoError(t, got.err, "it ended with the other")
			assert.NotContains(t, got.text, "opened again")
			require.Eventually(t, returned, time.Minute, time.Millisecond)
			require.ErrorContains(t, failed.Load().err, c.want)
			again, err := ask(t.Context(), s, "told")
			require.NoError(t, err)
			programs, _ := mcptool.Open(k)
			assert.Equal(t, 1, programs, fmt.Sprint("what has broken ends with its last call; ", again))
		})
	}
}
