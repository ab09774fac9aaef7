package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// ticking is a host whose clock advances with each reading.
type ticking struct {
	host.Host

	ticks atomic.Int64
}

func (h *ticking) Now() time.Time {
	return h.Host.Now().Add(time.Duration(h.ticks.Add(1)) * time.Millisecond)
}

// newServer is a server without streams: waiting for a run panics.
func newServer(
	t *testing.T,
) (server *mcpserver.Server, tenants *tenant.Tenants, p tenant.Principal, log *bytes.Buffer) {
	h := &ticking{Host: host.System()}
	store := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	tenants = tenant.New(store, store.Cached(), h, tenant.Defaults{
		UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	p, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	log = &bytes.Buffer{}
	return &mcpserver.Server{Bridge: bridge.Bridge{
		WhileAllowed: func(
			ctx context.Context, _ tenant.Principal, _ lifecycle.Whose, wait func(context.Context) error,
		) error {
			return wait(ctx)
		},
		Intake: &intake.Intake{Tenants: tenants}, Store: store, Log: slog.New(slog.NewTextHandler(log, nil)),
		Window: time.Second,
	}}, tenants, p, log
}

// ask sends a body, as a client of the given protocol version if there is one.
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
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	handler, _, err := server.For(r.Context(), p, r.Header, body, 0, gone(r))
	if err != nil {
		panic(err)
	}
	handler(r.Context()).ServeHTTP(w, r)
	return w
}

const getRun = `{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
	`"params":{"name":"get_run","arguments":{"run_id":"000000000000000000000000"}}}`

// The library calls tools in its own goroutines, where an unrecovered panic would end the process.
func TestAPanicInAToolIsAFailedCall(t *testing.T) {
	server, _, p, log := newServer(t)
	w := ask(server, p, getRun, "")
	assert.Contains(t, w.Body.String(), "the service had an internal error; try again later")
	assert.NotContains(t, w.Body.String(), "goroutine", "the stack is for the log")
	assert.Contains(t, log.String(), "mcpserver.go")
}

// Subscriptions are refused. No state is kept between requests, so a subscriber would never receive anything. It would
// hold a connection for nothing, even after its key has expired.
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

// lists are the agents that a principal may use, their ids by the names of their tools.
func lists(t *testing.T, server *mcpserver.Server, p tenant.Principal) map[string]string {
	var list struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
				Meta struct {
					Agent string `json:"agent_id"`
				} `json:"_meta"`
			} `json:"tools"`
		} `json:"result"`
	}
	w := ask(server, p, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "")
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	agents := map[string]string{}
	for _, one := range list.Result.Tools {
		if one.Meta.Agent != "" {
			agents[one.Name] = one.Meta.Agent
		}
	}
	return agents
}

// A tool name stays with the agent that had it first, also when that agent is renamed or deleted. A client that knows
// the name reaches this agent or none.
func TestAToolNameNeverPassesToAnotherAgent(t *testing.T) {
	for text, tool := range map[string]string{"客服": "tool", "a b": "a_b", "Plain": "Plain"} {
		other := map[string]string{"客服": "財務", "a b": "a_b", "Plain": "Plain"}[text]
		for what, change := range map[string]func(w world, agent string){
			"deleted": func(w world, agent string) {
				require.NoError(t, w.tenants.RemoveAgent(t.Context(), w.who, agent))
			},
			"renamed": func(w world, agent string) {
				w.edit(t, agent,
					func(s *catalog.AgentSpec) { s.Name = "X" })
			},
			"not published": func(w world, agent string) { w.draft(t, agent, "X") },
			"out of reach": func(w world, agent string) {
				w.edit(t, agent, func(s *catalog.AgentSpec) { s.GroupIDs = []string{w.group} })
			},
		} {
			t.Run(text+" "+what, func(t *testing.T) {
				w := newWorld(t)
				first, second := w.make(t, text), w.make(t, other)
				assert.Equal(t, first, lists(t, w.server, w.member)[tool])
				change(w, first)
				for _, who := range []tenant.Principal{w.member, w.who} {
					now := lists(t, w.server, who)
					assert.Contains(t, []string{"", first}, now[tool])
					assert.Equal(t, second, now[tool+"_"+short(second)])
				}
				third := w.make(t, text)
				assert.Equal(t, third, lists(t, w.server, w.member)[tool+"_"+short(third)])
				if what == "deleted" {
					called := ask(w.server, w.member,
						`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+
							tool+`","arguments":{"message":"x"}}}`, "")
					assert.Contains(t, called.Body.String(), `unknown tool`)
				}
			})
		}
	}
}

// Users who may use different agents know the same agent by the same name.
func TestAnAgentHasOneToolNameForAllUsers(t *testing.T) {
	w := newWorld(t)
	first, second := w.make(t, "O"), w.make(t, "O")
	w.edit(t, first, func(s *catalog.AgentSpec) { s.GroupIDs = []string{w.group} })
	assert.Equal(t, second, lists(t, w.server, w.member)["O"])
	all := lists(t, w.server, w.who)
	assert.Equal(t, []string{second, first}, []string{all["O"], all["O_"+short(first)]})
}

func TestAToolNameIsThatOfItsAgentAlone(t *testing.T) {
	w := newWorld(t)
	elder, first := w.make(t, "Elder"), w.make(t, "O")
	same := w.make(t, "O!") // the same tool name
	now := lists(t, w.server, w.who)
	assert.Equal(t, []string{elder, first, same}, []string{now["Elder"], now["O"], now["O_"+short(same)]})
	w.edit(t, elder, func(s *catalog.AgentSpec) { s.Name = "O" })
	now = lists(t, w.server, w.who)
	assert.Equal(t, []string{"", first, elder}, []string{now["Elder"], now["O"], now["O_"+short(elder)]})
	w.edit(t, elder, func(s *catalog.AgentSpec) { s.Name = "Elder" })
	assert.Equal(t, elder, lists(t, w.server, w.who)["Elder"], "its old name is its own")

	getRun := w.make(t, "get run")
	younger := w.make(t, "Young")
	impostor := w.make(t, "Young_"+younger) // claims the name that ends with another's id
	now = lists(t, w.server, w.who)
	assert.Equal(t, getRun, now["get_run_"+short(getRun)])
	assert.Empty(t, now["get_run"], "that is ours")
	assert.Equal(t, impostor, now["Young_"+younger+"_"+short(impostor)])
	for range 100 {
		w.make(t, "O")
	}
	assert.Equal(t, first, lists(t, w.server, w.who)["O"], "however many come")
}

func short(agent string) string { return agent[len(agent)-8:] }

// world is a server with an admin, a member, and a group without members.
type world struct {
	server      *mcpserver.Server
	tenants     *tenant.Tenants
	who, member tenant.Principal
	group       string
}

func newWorld(t *testing.T) world {
	server, tenants, p, _ := newServer(t)
	name := "nobody"
	g, err := tenants.CreateGroup(t.Context(), p.Organization, tenant.GroupEdit{Name: &name})
	require.NoError(t, err)
	member := p
	member.Level = tenant.LevelRun
	return world{server: server, tenants: tenants, who: p, member: member, group: g.Value.ID}
}

func (w world) make(t *testing.T, name string) string {
	spec := w.tenants.DefaultSpec(w.who.Organization)
	spec.Name = name
	a, err := w.tenants.CreateAgent(t.Context(), w.who.Organization, spec, true)
	require.NoError(t, err)
	return a.Value.ID
}

func (w world) edit(t *testing.T, agent string, edit func(*catalog.AgentSpec)) {
	_, err := w.tenants.EditAgent(t.Context(), w.who, agent, 0, true, true,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
			edit(&s)
			return s, nil
		})
	require.NoError(t, err)
}

// draft renames an agent in a version that is not published.
func (w world) draft(t *testing.T, agent, name string) {
	_, err := w.tenants.EditAgent(t.Context(), w.who, agent, 0, true, false,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
			s.Name = name
			return s, nil
		})
	require.NoError(t, err)
}

// gone reports whether the client of a request has left.
func gone(r *http.Request) func() bool { return func() bool { return r.Context().Err() != nil } }
