package tenant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
)

// An agent is refused, when it is made and when it is changed, whose model would be offered too many tools.
func TestAnAgentWithTooManyToolsIsRefused(t *testing.T) {
	w := newWorld(t)
	count, broken := 128, error(nil)
	tenants := w.with(tenant.Defaults{ActiveLimit: time.Minute,
		CountTools: func(_ context.Context, organization string, s catalog.AgentSpec) (int, error) {
			assert.Equal(t, w.name, organization)
			if s.CanAsk {
				return count + 1, broken
			}
			return count, broken
		}}, plain{})
	spec := w.spec(func(s *catalog.AgentSpec) { s.CanAsk = false })
	made, err := tenants.CreateAgent(t.Context(), w.name, spec, true)
	require.NoError(t, err)
	curious := spec
	curious.CanAsk = true
	_, err = tenants.CreateAgent(t.Context(), w.name, curious, true)
	require.ErrorContains(t, err, "body.toolkit_ids: the agent would have 129 tools, and a model takes at most 128")
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
