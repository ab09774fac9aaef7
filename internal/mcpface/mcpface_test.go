package mcpface_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/mcpface"
	"agentplatform/internal/record"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/tenant"
)

// newFace is a face without a feed: whoever waits for a run there panics.
func newFace(t *testing.T) (face *mcpface.Face, tenants *tenant.Tenants, p tenant.Principal, log *bytes.Buffer) {
	h := host.System()
	store := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	tenants = tenant.New(store, store, h, tenant.Defaults{
		UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	p, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	log = &bytes.Buffer{}
	return &mcpface.Face{Store: store, Log: slog.New(slog.NewTextHandler(log, nil)), Window: time.Second}, tenants, p, log
}

// ask sends a body, as a version of the protocol where one is given.
func ask(face *mcpface.Face, p tenant.Principal, body, version string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if version != "" {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return serve(face, p, r)
}

func serve(face *mcpface.Face, p tenant.Principal, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	face.For(p).ServeHTTP(w, r)
	return w
}

const getRun = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_run","arguments":{"run_id":"000000000000000000000000"}}}`

// The library calls tools in goroutines of its own: there, nobody but us keeps a panic from ending the process.
func TestAToolThatPanicsIsARefusal(t *testing.T) {
	face, _, p, log := newFace(t)
	w := ask(face, p, getRun, "")
	assert.Contains(t, w.Body.String(), "something went wrong on our side")
	assert.NotContains(t, w.Body.String(), "goroutine", "the stack is for the log")
	assert.Contains(t, log.String(), "mcpface.go")
}

// One request is one call, whatever version of the protocol the client speaks: it counts once against the rate.
func TestABatchIsRefused(t *testing.T) {
	for _, version := range []string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, body := range []string{
			"[" + getRun + "]", " \t\r\n[" + getRun + "," + getRun + "]", "[]", `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`,
		} {
			face, _, p, log := newFace(t)
			w := ask(face, p, body, version)
			assert.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", version, body)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			assert.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request is one call: batches are not taken"}}`,
				w.Body.String(), "%s: %s", version, body)
			assert.Empty(t, log.String(), "nothing was called")
		}
	}
}

// Nothing is kept between requests, so nothing is ever told to who listens: it would hold a connection for nothing, past the end
// of its right.
func TestNobodyListens(t *testing.T) {
	face, _, p, _ := newFace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,
		"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
			"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Method", "subscriptions/listen")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	assert.Contains(t, serve(face, p, r).Body.String(), "-32601")
	assert.NoError(t, ctx.Err(), "it is answered at once")
}
