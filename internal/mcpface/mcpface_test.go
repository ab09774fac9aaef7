package mcpface_test

import (
	"bytes"
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

// The library calls tools in goroutines of its own: there, nobody but us keeps a panic from ending the process.
func TestAToolThatPanicsIsARefusal(t *testing.T) {
	h := host.System()
	store := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	tenants := tenant.New(store, store, h, tenant.Defaults{UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	p, err := tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	var log bytes.Buffer
	face := &mcpface.Face{Store: store, Log: slog.New(slog.NewTextHandler(&log, nil)), Window: time.Second} // without a feed to wait at

	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_run","arguments":{"run_id":"000000000000000000000000"}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	face.For(p).ServeHTTP(w, r)
	assert.Contains(t, w.Body.String(), "something went wrong on our side")
	assert.NotContains(t, w.Body.String(), "goroutine", "the stack is for the log")
	assert.Contains(t, log.String(), "mcpface.go")
}
