package mcpserver_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/files"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/mcpserver"
	"agentplatform/internal/queue/localqueue"
	"agentplatform/internal/stream"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/tenant"
	"agentplatform/internal/timer/localtimer"
	"agentplatform/internal/transition"
)

func TestOnlyACallWithATokenWantsProgress(t *testing.T) {
	for body, wants := range map[string]bool{
		`{"method":"tools/call","params":{"_meta":{"progressToken":"x"}}}`:  true,
		`{"method":"tools/call","params":{"_meta":{"progressToken":0}}}`:    true,
		`{"method":"tools/call","params":{"_meta":{"progressToken":null}}}`: false,
		`{"method":"tools/call","params":{"_meta":{}}}`:                     false,
		`{"method":"tools/call"}`:                                           false,
		`{"method":"tools/list","params":{"_meta":{"progressToken":"x"}}}`:  false,
		`[{"method":"tools/call","params":{"_meta":{"progressToken":1}}}]`:  false,
		`{"method":"tools/call","params":[]}`:                               false,
		`{`:                                                                 false, ``: false,
	} {
		assert.Equal(t, wants, (&mcpserver.Server{}).WantsProgress([]byte(body)), body)
	}
}

func TestARefusalNamesItsRequest(t *testing.T) {
	for body, id := range map[string]string{`{"id":7}`: "7", `{"id":"a"}`: `"a"`, `{}`: "null", `{`: "null"} {
		raw, err := json.Marshal((&mcpserver.Server{}).Refusal([]byte(body), "no"))
		require.NoError(t, err)
		assert.JSONEq(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,"message":"no"}}`, string(raw))
	}
}

// waiting is a server whose runs are never executed. Its parts end with the test.
func waiting(t *testing.T) (*mcpserver.Server, tenant.Principal) {
	server, tenants, p, _ := newServer(t)
	h, log := host.System(), slog.New(slog.DiscardHandler)
	nudges := localqueue.New()
	t.Cleanup(nudges.Close)
	alarms := localtimer.New(nudges)
	t.Cleanup(alarms.Close)
	notifier := stream.NewLocalNotifier()
	server.Intake = &intake.Intake{
		Executor: &transition.Executor{
			Store: server.Store, Host: h, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour,
			Notifier: notifier, Queue: nudges, Timer: alarms,
		},
		Store: server.Store, Host: h, Tenants: tenants,
	}
	server.Hub = stream.New(memtable.New(h.Now), notifier, h, log)
	server.Files = &files.Files{Store: server.Store, Log: log}
	return server, p
}

func listen(ctx context.Context, server *mcpserver.Server, p tenant.Principal, beat func() error) []string {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,
		"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"Demo","arguments":{"message":"hello"}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	server.Telling(ctx, p, 10*time.Second, beat).ServeHTTP(w, r)
	return strings.Split(strings.TrimSpace(w.Body.String()), "\n\n")
}

// A stream that is about to end says where the run stands, and beats while nothing happens.
func TestACallIsAnsweredBeforeItsStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, p := waiting(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		beats := 0
		heard := listen(ctx, server, p, func() error { beats++; return nil })
		require.NoError(t, ctx.Err())
		assert.Equal(t, 5, beats)
		require.Len(t, heard, 2)
		assert.Contains(t, heard[0], `"notifications/progress"`)
		assert.Contains(t, heard[1], `"status":"queued"`)
		assert.Contains(t, heard[1], "ask get_run for ")
	})
}

// The library lets a call go on whose client has left; what waits for the run ends with the stream.
func TestACallEndsWithItsStream(t *testing.T) {
	for name, leave := range map[string]func(context.CancelFunc) error{
		"its client has left":    func(cancel context.CancelFunc) error { cancel(); return nil },
		"nothing can be written": func(context.CancelFunc) error { return context.Canceled },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which demands that no goroutine remains
				server, p := waiting(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				listen(ctx, server, p, func() error { return leave(cancel) })
				assert.Equal(t, 10*time.Second, time.Since(begun))
			})
		})
	}
}
