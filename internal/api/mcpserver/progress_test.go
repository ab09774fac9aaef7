package mcpserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/table/memtable"
)

// streaming is the header of a call that takes a stream.
var streaming = http.Header{
	"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
}

func TestOnlyACallWithATokenWantsProgress(t *testing.T) {
	for body, token := range map[string]string{
		`{"method":"tools/call","params":{"_meta":{"progressToken":"x"}}}`:              `"x"`,
		`{"method":"tools/call","params":{"_meta":{"progressToken":0}}}`:                `0`,
		`{"method":"tools/call","params":{"_meta":{"progressToken":9007199254740993}}}`: `9007199254740993`,
		`{"method":"tools/call","params":{"_meta":{"progressToken":null}}}`:             "",
		`{"method":"tools/call","params":{"_meta":{}}}`:                                 "",
		`{"method":"tools/call"}`: "",
		`{"method":"tools/list","params":{"_meta":{"progressToken":"x"}}}`: "",
		`[{"method":"tools/call","params":{"_meta":{"progressToken":1}}}]`: "",
		`{"method":"tools/call","params":[]}`:                              "",
		`{`:                                                                "", ``: "",
	} {
		assert.Equal(t, token, string(mcpserver.Token(streaming, []byte(body))), body)
	}
}

// waiting is a server whose runs are never executed. Its parts end with the test.
func waiting(t *testing.T) (*mcpserver.Server, tenant.Principal) {
	server, tenants, p, _ := newServer(t)
	h, log := host.System(), slog.New(slog.DiscardHandler)
	queue := localqueue.New()
	t.Cleanup(queue.Close)
	notifier := stream.NewLocalNotifier()
	server.Intake = &intake.Intake{
		Executor: &transition.Executor{
			Store: server.Store, Host: h, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour,
			Notifier: notifier, Queue: queue,
		},
		Store: server.Store, Host: h, Tenants: tenants,
	}
	server.Hub = stream.New(memtable.New(h.Now), notifier, h, log)
	server.Files = &files.Files{Store: server.Store, Log: log}
	return server, p
}

// listen calls an agent, and returns the messages; onWrite is called with each of them.
func listen(ctx context.Context, server *mcpserver.Server, p tenant.Principal, onWrite func() error) []string {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":9007199254740993},
		"name":"Demo","arguments":{"message":"hello"}}}`
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := &hookedRecorder{httptest.NewRecorder(), onWrite}
	handler, _, err := server.For(r.Context(), p, r.Header, []byte(body), 10*time.Second, gone(r))
	if err != nil {
		panic(err)
	}
	handler(ctx).ServeHTTP(w, r)
	return strings.Split(strings.TrimSpace(w.Body.String()), "\n\n")
}

type hookedRecorder struct {
	*httptest.ResponseRecorder

	onWrite func() error
}

func (h *hookedRecorder) Write(p []byte) (int, error) {
	if err := h.onWrite(); err != nil {
		return 0, err
	}
	return h.ResponseRecorder.Write(p)
}

// A stream that is about to end sends the run's present state. While nothing happens, empty notifications are sent.
func TestACallIsAnsweredBeforeItsStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, p := waiting(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		messages := listen(ctx, server, p, func() error { return nil })
		require.NoError(t, ctx.Err())
		require.Len(t, messages, 7)
		assert.Contains(t, messages[0], `"event":"init"`)
		for i, m := range messages[:6] {
			assert.Contains(t, m, fmt.Sprintf(`"progress":%d}`, i+1))
			assert.Contains(t, m, `"progressToken":9007199254740993,`, "with all its digits")
		}
		assert.Contains(t, messages[6], `"status":"queued"`)
		assert.Contains(t, messages[6], "call get_run for ")
	})
}

// The library lets a call go on after its stream has ended; the answer has the run, which goes on.
func TestACallEndsWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which demands that no goroutine remains
		server, p := waiting(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun, n := time.Now(), 0
		messages := listen(ctx, server, p, func() error {
			if n++; n == 2 {
				cancel()
			}
			return nil
		})
		assert.Equal(t, 10*time.Second, time.Since(begun))
		assert.Contains(t, messages[len(messages)-1], "call get_run for ")
	})
}

// Files are counted before any of them is stored.
func TestTooManyFilesAreRefusedUnread(t *testing.T) {
	server, p := waiting(t)
	server.Files = nil // no file is read
	files := strings.Repeat(`{"name":"a","data":"YQ=="},`, 11)
	w := ask(server, p, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Demo","arguments":{
		"message":"x","files":[`+files[:len(files)-1]+`]}}}`, "")
	assert.Contains(t, w.Body.String(), "files: at most 10 files may be sent")
	large := `{"method":"tools/call","params":{"_meta":{"progressToken":1},"x":"` + strings.Repeat("x", 64<<10) + `"}}`
	_, streamed, err := server.For(t.Context(), p, streaming, []byte(large), 0, nil)
	require.NoError(t, err)
	assert.False(t, streamed, "it would be kept for long")
}
