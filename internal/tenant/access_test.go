package tenant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// A pause may be decided only by those who are approvers both now and in the version at its begin. Versions say which
// came first, so that an edit in the same millisecond, or by a process whose clock is behind, changes nothing.
func TestPauseNeedsApproverOfItsVersionAndOfNow(t *testing.T) {
	w := newWorld(t)
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	manager, _ := w.person("manager@example.com", tenant.Manager, tenant.LevelManage)
	name := "approvers"
	group, err := w.CreateGroup(t.Context(), w.name, tenant.GroupEdit{Name: &name})
	require.NoError(t, err)
	open := w.DefaultSpec(w.name)
	open.Name = "A"
	closed := open
	closed.ApproverGroupIDs = []string{group.Value.ID}
	agent, err := w.CreateAgent(t.Context(), w.name, open, true)
	require.NoError(t, err)
	id := agent.Value.ID
	edit := func(spec record.AgentSpec) {
		_, err := w.EditAgent(t.Context(), manager, id, 0, true, true,
			func(record.AgentSpec) (record.AgentSpec, error) { return spec, nil })
		require.NoError(t, err)
	}
	may := func(paused int) bool {
		err := w.MayApprove(t.Context(), member, id, paused)
		require.True(t, err == nil || forbidden(err), "%v", err)
		return err == nil
	}

	assert.True(t, may(1))
	edit(closed) // version 2
	assert.False(t, may(1), "those of now")
	assert.False(t, may(2))
	edit(open) // version 3
	assert.True(t, may(1))
	assert.False(t, may(2), "those of the pause")
	assert.True(t, may(3))
	assert.True(t, may(0), "a pause of an earlier program")
	require.NoError(t, w.RemoveAgent(t.Context(), manager, id))
	assert.False(t, may(2), "those of the pause, of an agent that is gone")
	assert.True(t, may(3))
}
