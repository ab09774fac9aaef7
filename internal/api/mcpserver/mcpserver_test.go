package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// ticking is a host whose clock advances with each reading.
type ticking struct {
	host.Host

	looks atomic.Int64
}

func (h *ticking) Now() time.Time {
	return h.Host.Now().Add(time.Duration(h.looks.Add(1)) * time.Millisecond)
}

// newServer is a server without streams: waiting for a run panics.
func newServer(
	t *testing.T,
) (server *mcpserver.Server, tenants *tenant.Tenants, p tenant.Principal, log *bytes.Buffer) {
	h := &ticking{Host: host.System()}
	store := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	tenants = tenant.New(store, store.Known(), h, tenant.Defaults{
		UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	p, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	log = &bytes.Buffer{}
	return &mcpserver.Server{Bridge: bridge.Bridge{
		Store: store, Log: slog.New(slog.NewTextHandler(log, nil)), Window: time.Second,
	}}, tenants, p, log
}

// ask sends a body, as a client of the given protocol version where there is one.
func ask(server *mcpserver.Server, p tenant.Principal, body, version string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if version != "" {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return serve(server, p, r)
}

func serve(server *mcpserver.Server, p tenant.Principal, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler, err := server.For(r.Context(), p, nil, 0, gone(r))
	if err != nil {
		panic(err)
	}
	handler(r.Context()).ServeHTTP(w, r)
	return w
}

const getRun = `{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
	`"params":{"name":"get_run","arguments":{"run_id":"000000000000000000000000"}}}`

// The library calls tools in goroutines of its own, where an unrecovered panic would end the process.
func TestAPanicInAToolIsAFailedCall(t *testing.T) {
	server, _, p, log := newServer(t)
	w := ask(server, p, getRun, "")
	assert.Contains(t, w.Body.String(), "something went wrong on our side")
	assert.NotContains(t, w.Body.String(), "goroutine", "the stack is for the log")
	assert.Contains(t, log.String(), "mcpserver.go")
}

// No state is kept between requests, so nothing is ever sent to a subscriber: a subscription would hold a
// connection for nothing, even after its key has expired.
func TestSubscriptionsAreRefused(t *testing.T) {
	server, _, p, _ := newServer(t)
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
	assert.Contains(t, serve(server, p, r).Body.String(), "-32601")
	assert.NoError(t, ctx.Err(), "it is answered at once")
}

// A tool name stays with the agent that had it first: a client that knows it continues to reach the same agent.
func TestAnAgentKeepsItsToolNameWhenOthersChange(t *testing.T) {
	server, tenants, p, _ := newServer(t)
	make := func(name string) string {
		spec := tenants.DefaultSpec(p.Organization)
		spec.Name = name
		a, err := tenants.CreateAgent(t.Context(), p.Organization, spec, true)
		require.NoError(t, err)
		return a.Value.ID
	}
	rename := func(agent, name string) {
		_, err := tenants.EditAgent(t.Context(), p, agent, 0, true, true,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
				s.Name = name
				return s, nil
			})
		require.NoError(t, err)
	}
	tools := func() map[string]string { // agent ids by tool name
		var said struct {
			Result struct {
				Tools []struct {
					Name string `json:"name"`
					Meta struct {
						Agent string `json:"agent_id"`
					} `json:"_meta"`
				} `json:"tools"`
			} `json:"result"`
		}
		require.NoError(t, json.Unmarshal(ask(server, p, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			"").Body.Bytes(), &said))
		agents := map[string]string{}
		for _, one := range said.Result.Tools {
			agents[one.Name] = one.Meta.Agent
		}
		return agents
	}
	short := func(agent string) string { return agent[len(agent)-8:] }

	elder, first := make("Elder"), make("O")
	assert.Equal(t, first, tools()["O"])
	second := make("O")
	same := make("O!") // the same tool name
	now := tools()
	assert.Equal(t, first, now["O"], "a newcomer takes nothing")
	assert.Equal(t, second, now["O_"+short(second)])
	assert.Equal(t, same, now["O_"+short(same)])
	rename(elder, "O")
	now = tools()
	assert.Equal(t, first, now["O"], "nor does one that is older and takes the name later")
	assert.Equal(t, elder, now["O_"+short(elder)])
	rename(first, "O")
	assert.Equal(t, first, tools()["O"], "an edit that keeps the name keeps it")

	impostor := make("Elder_" + short(elder)) // claims a name that will be generated
	younger := make("Elder")
	rename(elder, "Elder")
	now = tools()
	assert.Equal(t, younger, now["Elder"])
	assert.Equal(t, impostor, now["Elder_"+short(elder)])
	assert.Equal(t, elder, now["Elder_"+short(elder)+"_2"])
	getRun := make("get run")
	now = tools()
	assert.Equal(t, getRun, now["get_run_"+short(getRun)])
	assert.Empty(t, now["get_run"], "that is ours")

	for range 100 {
		make("O")
	}
	assert.Equal(t, first, tools()["O"], "however many come")
	assert.Equal(t, second, tools()["O_"+short(second)])
}

// gone says whether the client of a request has left.
func gone(r *http.Request) func() bool { return func() bool { return r.Context().Err() != nil } }
