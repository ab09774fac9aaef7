package tenant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/cachetable"
)

// An agent whose model would get too many tools is refused, when it is made and when it is changed.
func TestAnAgentWithTooManyToolsIsRefused(t *testing.T) {
	w := newWorld(t)
	count, broken := tool.MaxOffered, error(nil)
	tenants := w.with(tenant.Defaults{ActiveLimit: time.Minute,
		Tools: func(_ context.Context, organization string, _ []string) (on, off []tool.Offer, err error) {
			assert.Equal(t, w.name, organization)
			return make([]tool.Offer, count), nil, broken
		}}, plain{})
	spec := w.spec(func(s *catalog.AgentSpec) { s.CanAsk = false })
	made, err := tenants.CreateAgent(t.Context(), w.name, spec, true)
	require.NoError(t, err)
	curious := spec
	curious.CanAsk = true
	_, err = tenants.CreateAgent(t.Context(), w.name, curious, true)
	require.ErrorContains(t, err, "body.toolkit_ids: the agent would have 129 tools, but the limit is 128")
	admin, _ := w.person("a@example.com", "admin", tenant.LevelAdmin)
	_, err = tenants.EditAgent(t.Context(), admin, made.Value.ID, 0, true, true,
		func(catalog.AgentSpec) (catalog.AgentSpec, error) { return curious, nil })
	require.ErrorContains(t, err, "129 tools")
	require.NoError(t, tenants.CheckTools(t.Context(), w.name, spec, "context.functions", 0))
	require.ErrorContains(t, tenants.CheckTools(t.Context(), w.name, spec, "context.functions", 2),
		"context.functions: the agent and its client have 130 tools")
	broken = errors.New("the store is down")
	require.ErrorIs(t, tenants.CheckTools(t.Context(), w.name, spec, "x", 0), broken)
}

// Each request of an MCP client needs the names, and they seldom change: the store is read if one is missing.
func TestKnownNamesOfToolsAreNotReadAgain(t *testing.T) {
	w := newWorld(t)
	agent := func(id, name string) catalog.Agent {
		return catalog.Agent{ID: id, Spec: catalog.AgentSpec{Name: name}}
	}
	agents := []catalog.Agent{agent("0123456789abcdef01234567", "A"), agent("0123456789abcdef01234568", "A")}
	_, err := w.ToolNames(t.Context(), w.name, agents, "get_run")
	require.NoError(t, err)

	reads := 0
	counted := &faulttable.Table{Inner: w.items, After: func(c faulttable.Call) {
		if !c.Commit {
			reads++
		}
	}}
	hour := cachetable.Life{Found: time.Hour, Missing: time.Hour}
	cached := cachetable.New(w.items, hour, func() time.Duration { return 0 })
	tenants := tenant.New(record.New(counted, &memblob.Store{}, w.clock),
		record.New(cached, &memblob.Store{}, w.clock).Cached(), w.clock, tenant.Defaults{}, plain{})
	names := func(of ...catalog.Agent) []string {
		list, err := tenants.ToolNames(t.Context(), w.name, of, "get_run")
		require.NoError(t, err)
		return list
	}
	want := []string{"A", "A_01234568"}
	assert.Equal(t, want, names(agents...))
	assert.Zero(t, reads)
	assert.Equal(t, []string{"A", "B"}, names(agents[0], agent("0123456789abcdef01234569", "B")))
	assert.Equal(t, 1, reads, "one is new")
	assert.Equal(t, want, names(agents...))
	assert.Equal(t, 1, reads)
	assert.Equal(t, []string{"B_0123456a"}, names(agent("0123456789abcdef0123456a", "B")), "the copy is old")
}
