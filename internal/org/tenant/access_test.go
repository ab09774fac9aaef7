package tenant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
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
	edit := func(spec catalog.AgentSpec) {
		_, err := w.EditAgent(t.Context(), manager, id, 0, true, true,
			func(catalog.AgentSpec) (catalog.AgentSpec, error) { return spec, nil })
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

// A listing asks about each agent once: the answer is that of MayReach and does not change within the listing. A store
// that is away refuses nobody, and is asked again.
func TestReachableAnswersAsMayReachAndAsksOnce(t *testing.T) {
	w := newWorld(t)
	group := w.group()
	closed := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	open, gone := w.agent(func(*catalog.AgentSpec) {}), "0123456789abcdef01234567"
	outsider, _ := w.person("outsider@example.com", tenant.Manager, tenant.LevelManage)
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	member.Groups = []string{group}
	reads, down := w.checks()
	for _, c := range []struct {
		name  string
		who   tenant.Principal
		agent string
		may   bool
	}{
		{"an open one", outsider, open, true}, {"a closed one", outsider, closed, false},
		{"the members'", member, closed, true}, {"one that is not there", member, gone, false},
	} {
		reachable := w.Reachable(t.Context(), c.who)
		*down = true
		may, err := reachable(c.agent)
		assert.True(t, problem.Is(err, "unavailable"), "%s: %v", c.name, err)
		assert.False(t, may, "%s: nothing is shown meanwhile", c.name)
		*down = false
		for try := range 3 {
			before := *reads
			may, err = reachable(c.agent)
			require.NoError(t, err, c.name)
			assert.Equal(t, c.may, may, c.name)
			assert.Equal(t, try == 0, *reads > before, "%s, try %d", c.name, try)
		}
	}
}

// What the model of a run is shown is what the run's sender may reach: its user, with the key that it was sent with,
// both as they are now.
func TestASenderReachesWhatItsUserAndKeyReachNow(t *testing.T) {
	revoke := func(w *world, p tenant.Principal, _ string) error {
		return w.RevokeKey(w.Context(), tenant.Platform(), w.home, p.Key)
	}
	remove := func(w *world, p tenant.Principal, _ string) error {
		return second(w.RemoveUser(w.Context(), tenant.Platform(), w.home, p.User))
	}
	nothing := func(*world, tenant.Principal, string) error { return nil }
	for name, c := range map[string]struct {
		role   tenant.Role
		level  tenant.Level
		member bool // of the closed agent's group
		then   func(w *world, p tenant.Principal, group string) error
		closed bool // whether it reaches the closed agent
		gone   bool // and one that is not there, as only admins do
	}{
		"a member of the group":  {tenant.Member, tenant.LevelRun, true, nothing, true, false},
		"an outsider":            {tenant.Manager, tenant.LevelManage, false, nothing, false, false},
		"an admin":               {tenant.Admin, tenant.LevelAdmin, false, nothing, true, true},
		"an admin's lesser key":  {tenant.Admin, tenant.LevelManage, false, nothing, false, false},
		"an admin's revoked key": {tenant.Admin, tenant.LevelAdmin, false, revoke, false, false},
		"a member's revoked key": {tenant.Member, tenant.LevelRun, true, revoke, true, false},
		"a removed admin":        {tenant.Admin, tenant.LevelAdmin, false, remove, false, false},
		"a removed member":       {tenant.Member, tenant.LevelRun, true, remove, false, false},
		"a demoted admin": {tenant.Admin, tenant.LevelAdmin, false, func(w *world, p tenant.Principal, _ string) error {
			return second(w.EditUser(w.Context(), tenant.Platform(), w.home, p.User, 0,
				tenant.UserEdit{Role: to("member")}))
		}, false, false},
		"a member of a deleted group": {tenant.Member, tenant.LevelRun, true,
			func(w *world, _ tenant.Principal, group string) error {
				return second(w.RemoveGroup(w.Context(), w.home, group))
			}, false, false},
		"one who left the group": {tenant.Member, tenant.LevelRun, true,
			func(w *world, p tenant.Principal, group string) error {
				return second(w.SetMember(w.Context(), tenant.Platform(), w.home, group, p.User, false))
			}, false, false},
	} {
		w := newWorld(t)
		group := w.group()
		closed := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
		open, gone := w.agent(func(*catalog.AgentSpec) {}), "0123456789abcdef01234567"
		p, _ := w.person("a@example.com", c.role, c.level)
		if c.member {
			_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, p.User, true)
			require.NoError(t, err, name)
		}
		require.NoError(t, c.then(w, p, group), name)
		reaches := w.SenderMayReach(t.Context(), w.name, p.User, p.Key)
		for agent, want := range map[string]bool{open: true, closed: c.closed, gone: c.gone} {
			may, err := reaches(agent)
			require.NoError(t, err, name)
			assert.Equal(t, want, may, "%s: the open %s, the closed %s: %s", name, open, closed, agent)
		}
	}
}
