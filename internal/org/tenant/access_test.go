package tenant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// A pause may be decided only by those who are approvers both now and in the version at its begin. Version numbers are
// the order. So an edit in the same millisecond, or by a process whose clock is behind, changes nothing.
func TestPauseNeedsApproverOfItsVersionAndOfNow(t *testing.T) {
	w := newWorld(t)
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
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
		_, err := w.EditAgent(t.Context(), admin, id, 0, true, true,
			func(catalog.AgentSpec) (catalog.AgentSpec, error) { return spec, nil })
		require.NoError(t, err)
	}
	may := func(paused int) bool {
		err := w.MayApprove(t.Context(), member, tenant.ApprovalRequest{
			Agent: id, User: member.User, Began: 1, Version: paused,
		})
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
	require.NoError(t, w.RemoveAgent(t.Context(), admin, id))
	assert.False(t, may(2), "those of the pause, of an agent that is gone")
	assert.True(t, may(3))
}

// Approvers decide about tool calls if the agent names some, and need not be allowed to use it. Else the user of the
// run and managers decide, as far as they may use it. Admins always may. Users may not approve their own calls if the
// agent, or its version at the pause, forbids that.
func TestWhoApprovesACall(t *testing.T) {
	w := newWorld(t)
	users, approvers := w.group(), w.group()
	own, _ := w.person("own@example.com", tenant.Member, tenant.LevelRun)
	colleague, _ := w.person("colleague@example.com", tenant.Member, tenant.LevelRun)
	approver, _ := w.person("approver@example.com", tenant.Member, tenant.LevelRun)
	manager, _ := w.person("manager@example.com", tenant.Manager, tenant.LevelManage)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	own.Groups, colleague.Groups, approver.Groups = []string{users}, []string{users}, []string{approvers}
	for group, p := range map[string]tenant.Principal{users: own, approvers: approver} {
		_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, p.User, true)
		require.NoError(t, err)
	}
	humble, both := admin, own
	humble.Level = tenant.LevelRun // another key of an admin
	both.Groups = []string{users, approvers}
	no := false
	open := w.agent(func(*catalog.AgentSpec) {})
	closed := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{users} })
	named := w.agent(func(s *catalog.AgentSpec) {
		s.GroupIDs, s.ApproverGroupIDs = []string{users}, []string{approvers}
	})
	others := w.agent(func(s *catalog.AgentSpec) { s.Approval.Self = &no })
	strict := w.agent(func(s *catalog.AgentSpec) {
		s.GroupIDs, s.ApproverGroupIDs, s.Approval.Self = []string{users}, []string{approvers}, &no
	})
	for _, c := range []struct {
		name    string
		who     tenant.Principal
		agent   string
		user    tenant.Principal
		rejects bool
		may     bool
	}{
		{"the user", own, open, own, false, true},
		{"the user by a key with another id", tenant.Principal{Organization: w.name, User: own.User, Key: "2",
			Level: tenant.LevelRun}, others, own, false, false},
		{"a colleague", colleague, open, own, false, false},
		{"a colleague who rejects", colleague, open, own, true, false},
		{"a manager", manager, open, own, false, true},
		{"an admin", admin, open, own, false, true},
		{"an admin's humble key", humble, open, own, false, false},
		{"the user, of a group's agent", own, closed, own, false, true},
		{"the user who has left the group", approver, closed, approver, false, false},
		{"a manager who may not use it", manager, closed, own, false, false},
		{"an approver who may not use it", approver, named, own, false, true},
		{"the user who is no approver", own, named, own, false, false},
		{"a manager who is no approver", manager, named, own, false, false},
		{"an admin who is no approver", admin, named, own, false, true},
		{"the user who is an approver", both, named, own, false, true},
		{"the user, of others' approval", own, others, own, false, false},
		{"the user who rejects", own, others, own, true, true},
		{"a manager, of others' approval", manager, others, own, false, true},
		{"a manager who is the user", manager, others, manager, false, false},
		{"an admin who is the user", admin, others, admin, false, false},
		{"an admin who is the user, and rejects", admin, others, admin, true, true},
		{"an approver, of others' approval", approver, strict, own, false, true},
		{"an approver who is the user", both, strict, own, false, false},
		{"an approver who is the user, and rejects", both, strict, own, true, true},
		{"an admin who is the user, and no approver", admin, strict, admin, false, false},
	} {
		for _, version := range []int{0, 1} {
			err := w.MayApprove(t.Context(), c.who, tenant.ApprovalRequest{
				Agent: c.agent, User: c.user.User, Began: 1, Version: version, Rejects: c.rejects,
			})
			require.True(t, err == nil || forbidden(err), "%s: %v", c.name, err)
			assert.Equal(t, c.may, err == nil, "%s: %v", c.name, err)
		}
	}
	_, err := w.EditAgent(t.Context(), admin, others, 0, true, true,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) { s.Approval.Self = nil; return s, nil })
	require.NoError(t, err)
	request := tenant.ApprovalRequest{Agent: others, User: own.User, Began: 2, Version: 2}
	assert.NoError(t, w.MayApprove(t.Context(), own, request))
	request.Version = 1
	assert.True(t, forbidden(w.MayApprove(t.Context(), own, request)), "an edit does not decide what is pending")
}

// A draft decides for its own runs alone. It does not let a user approve whom the published version does not let. The
// rule that others must approve also counts in the version that the run has.
func TestEachVersionThatCountsRulesWhoApproves(t *testing.T) {
	w := newWorld(t)
	own, _ := w.person("own@example.com", tenant.Member, tenant.LevelRun)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	no, approvers := false, w.group()
	others := func(s *catalog.AgentSpec) { s.Approval.Self = &no }
	named := func(s *catalog.AgentSpec) { s.ApproverGroupIDs = []string{approvers} }
	open := func(s *catalog.AgentSpec) { s.Approval.Self, s.ApproverGroupIDs = nil, nil }
	for _, c := range []struct {
		name          string
		first, second func(*catalog.AgentSpec)
		publish       bool // the second
		began, paused int
		may, rejects  bool
	}{
		{"the published version says that others must", others, open, false, 1, 1, false, true},
		{"the published version names approvers", named, open, false, 1, 1, false, false},
		{"the pause's version says that others must", others, open, true, 2, 1, false, true},
		{"the pause's version names approvers", named, open, true, 1, 1, false, false},
		{"the run's version says that others must", others, open, true, 1, 2, false, true},
		{"the run's version names approvers", named, open, true, 1, 2, true, true},
		{"a draft says that others must", open, others, false, 1, 1, true, true},
		{"a draft names approvers", open, named, false, 1, 1, true, true},
		{"the run's draft says that others must", open, others, false, 2, 1, false, true},
		{"the run's draft names approvers", open, named, false, 2, 1, false, false},
		{"all versions are open", open, open, true, 1, 1, true, true},
	} {
		id := w.agent(c.first)
		_, err := w.EditAgent(t.Context(), admin, id, 0, true, c.publish,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) { c.second(&s); return s, nil })
		require.NoError(t, err)
		for rejects, may := range map[bool]bool{false: c.may, true: c.rejects} {
			err := w.MayApprove(t.Context(), own, tenant.ApprovalRequest{
				Agent: id, User: own.User, Began: c.began, Version: c.paused, Rejects: rejects,
			})
			require.True(t, err == nil || forbidden(err), "%s: %v", c.name, err)
			assert.Equal(t, may, err == nil, "%s, rejects: %v: %v", c.name, rejects, err)
		}
	}
}

// A decision by one version of an agent takes one read. Each other version takes another one.
func TestEachVersionOfAnApprovalIsReadOnce(t *testing.T) {
	w := newWorld(t)
	own, _ := w.person("own@example.com", tenant.Member, tenant.LevelRun)
	id := w.agent(func(*catalog.AgentSpec) {})
	w.edit(id, true)
	w.edit(id, true)
	reads, _ := w.checks()
	for _, c := range []struct{ began, paused, reads int }{{3, 3, 1}, {3, 0, 1}, {2, 3, 2}, {2, 2, 2}, {1, 2, 3}} {
		*reads = 0
		require.NoError(t, w.MayApprove(t.Context(), own,
			tenant.ApprovalRequest{Agent: id, User: own.User, Began: c.began, Version: c.paused}))
		assert.Equal(t, c.reads, *reads, "%v", c)
	}
}

// The version that was published when an agent was deleted still decides about approvers of its runs' calls.
func TestThePublishedVersionOfADeletedAgentRulesWhoApproves(t *testing.T) {
	w := newWorld(t)
	own, _ := w.person("own@example.com", tenant.Member, tenant.LevelRun)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	approvers := w.group()
	for published, may := range map[int]bool{1: true, 2: false, 3: true} {
		id := w.agent(func(*catalog.AgentSpec) {})
		for _, groups := range [][]string{{approvers}, nil} { // versions 2 and 3
			_, err := w.EditAgent(t.Context(), admin, id, 0, true, published == 1,
				func(s catalog.AgentSpec) (catalog.AgentSpec, error) { s.ApproverGroupIDs = groups; return s, nil })
			require.NoError(t, err)
		}
		_, err := w.PublishAgent(t.Context(), admin, id, 0, published)
		require.NoError(t, err)
		for range 2 {
			a, err := catalog.Published(t.Context(), w.store, w.home, id)
			require.NoError(t, err)
			assert.Equal(t, published, a.Version)
			err = w.MayApprove(t.Context(), own, tenant.ApprovalRequest{Agent: id, User: own.User, Began: 1})
			require.True(t, err == nil || forbidden(err), "%v", err)
			assert.Equal(t, may, err == nil, "version %d: %v", published, err)
			if err := w.RemoveAgent(t.Context(), admin, id); !problem.Is(err, "not_found") {
				require.NoError(t, err)
			}
		}
	}
}

// Only an admin adds an approver that the newest or the published version does not have, in each way.
func TestOnlyAnAdminAddsApprovers(t *testing.T) {
	w := newWorld(t)
	manager, _ := w.person("manager@example.com", tenant.Manager, tenant.LevelManage)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	one, two, no := w.group(), w.group(), false
	_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, one, manager.User, true)
	require.NoError(t, err)
	spec := func(self *bool, approvers []string) func(*catalog.AgentSpec) {
		return func(s *catalog.AgentSpec) { s.Approval.Self, s.ApproverGroupIDs = self, approvers }
	}
	for _, c := range []struct {
		self     *bool
		was, now []string
		loosens  bool
	}{
		{nil, nil, nil, false}, {nil, nil, []string{one}, false},
		{&no, nil, []string{one}, true}, // it was managers who decided for others
		{nil, []string{one}, []string{one}, false}, {nil, []string{one, two}, []string{two}, false},
		{nil, []string{one, two}, []string{two, one}, false}, {nil, []string{one}, nil, true},
		{nil, []string{one}, []string{}, true}, {nil, []string{one}, []string{two}, true},
		{nil, []string{one}, []string{one, two}, true}, {&no, []string{one}, nil, true},
	} {
		edit := func(by tenant.Principal, id string, publish bool) error {
			_, err := w.EditAgent(t.Context(), by, id, 0, true, publish,
				func(s catalog.AgentSpec) (catalog.AgentSpec, error) { spec(c.self, c.now)(&s); return s, nil })
			return err
		}
		for way, save := range map[string]func(id string) error{
			"an edit": func(id string) error { return edit(manager, id, true) },
			"a draft": func(id string) error { return edit(manager, id, false) },
			"a publication": func(id string) error {
				require.NoError(t, edit(admin, id, false))
				_, err := w.PublishAgent(t.Context(), manager, id, 0, 2)
				return err
			},
		} {
			err := save(w.agent(spec(c.self, c.was)))
			if !c.loosens {
				require.NoError(t, err, "%s from %v to %v", way, c.was, c.now)
			} else {
				assert.True(t, forbidden(err), "%s from %v to %v: %v", way, c.was, c.now, err)
				assert.ErrorContains(t, err, "body.approver_group_ids")
			}
		}
	}
}

// An agent whose calls others must approve needs another approver. The check reads users as they are when it is saved.
func TestSelfNeedsAnotherWhoDecides(t *testing.T) {
	w := newWorld(t)
	no := false
	save := func(change func(*catalog.AgentSpec)) error {
		_, err := w.CreateAgent(t.Context(), w.name, w.spec(func(s *catalog.AgentSpec) {
			s.Approval.Self = &no
			change(s)
		}), true)
		return err
	}
	alone := func(name string, err error) {
		t.Helper()
		p, is := problem.As(err)
		require.True(t, is, "%s: %v", name, err)
		assert.Equal(t, problem.Invalid, p.Kind, name)
		assert.Equal(t, "body.approval.self", p.Fields[0].Location, name)
	}
	anyone := func(*catalog.AgentSpec) {}
	alone("nobody", save(anyone))
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	alone("an admin alone", save(anyone))
	group := w.group()
	mine := func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} }
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	require.NoError(t, save(anyone), "the admin decides for the member")
	alone("a group that is empty: the admin alone may use it", save(mine))
	_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, member.User, true)
	require.NoError(t, err)
	require.NoError(t, save(mine))
	require.NoError(t, save(func(s *catalog.AgentSpec) { s.ApproverGroupIDs = []string{group} }))

	a, err := w.CreateAgent(t.Context(), w.name, w.spec(func(s *catalog.AgentSpec) { s.Approval.Self = &no }), true)
	require.NoError(t, err)
	_, err = w.RemoveUser(t.Context(), tenant.Platform(), w.home, member.User)
	require.NoError(t, err)
	edit := func(change func(*catalog.AgentSpec)) error {
		_, err := w.EditAgent(t.Context(), admin, a.Value.ID, 0, true, true,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) { change(&s); return s, nil })
		return err
	}
	require.NoError(t, edit(func(s *catalog.AgentSpec) { s.Description = "x" }), "what stays is not checked again")
	alone("other groups", edit(func(s *catalog.AgentSpec) { s.ApproverGroupIDs = []string{group} }))
	require.NoError(t, edit(func(s *catalog.AgentSpec) { s.Approval.Self = nil }))
}

// An agent has a problem if none of the approvers of its policy is left. Its group has no members or is gone, and no
// other user decides for its users.
func TestAnAgentWithoutApproversHasAProblem(t *testing.T) {
	w := newWorld(t)
	no := false
	has := func(problem string, self *bool, groups ...string) {
		t.Helper()
		version := func(n int, change func(*catalog.AgentSpec)) catalog.Agent {
			return catalog.Agent{Organization: w.name, Version: n, Spec: w.spec(change)}
		}
		problems, err := w.ApproversProblems(t.Context(), version(1, func(*catalog.AgentSpec) {}),
			version(2, func(s *catalog.AgentSpec) { s.Approval.Self, s.ApproverGroupIDs = self, groups }))
		require.NoError(t, err)
		if problem == "" {
			assert.Empty(t, problems)
			return
		}
		require.Len(t, problems, 1)
		assert.Contains(t, problems[0], "Version 2: ")
		assert.Contains(t, problems[0], problem)
	}
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	group, gone := w.group(), w.group()
	const groups, others = "approver groups", "another user"
	join := func(group string, user tenant.Principal, member bool) {
		t.Helper()
		_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, user.User, member)
		require.NoError(t, err)
	}
	join(gone, admin, true)
	_, err := w.RemoveGroup(t.Context(), w.home, gone)
	require.NoError(t, err)
	has("", nil)
	has(others, &no)
	has(groups, nil, group)
	has(groups, &no, group)
	has(groups, nil, gone)
	join(group, admin, true)
	has("", nil, gone, group)
	has(others, &no, group)
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	has("", &no, group)
	has("", &no)
	join(group, admin, false)
	has(groups, &no, group)
	_, err = w.RemoveUser(t.Context(), tenant.Platform(), w.home, member.User)
	require.NoError(t, err)
	has(others, &no)
}

// A listing reads each agent once. The answer is that of CanAccess and does not change within the listing. A store that
// is away causes no refusal, and is read again.
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
		may, err := reachable(lifecycle.Whose{Agent: c.agent})
		assert.True(t, problem.Is(err, "unavailable"), "%s: %v", c.name, err)
		assert.False(t, may, "%s: nothing is shown meanwhile", c.name)
		*down = false
		for attempt := range 3 {
			before := *reads
			may, err = reachable(lifecycle.Whose{Agent: c.agent})
			require.NoError(t, err, c.name)
			assert.Equal(t, c.may, may, c.name)
			assert.Equal(t, attempt == 0, *reads > before, "%s, try %d", c.name, attempt)
		}
		before := *reads
		_, err = reachable(lifecycle.Whose{Agent: c.agent, Owner: "another"})
		require.NoError(t, err, c.name)
		assert.Equal(t, before, *reads, "%s: an agent is read once for all owners", c.name)
	}
}

// The model of a run sees the things that the run's sender may reach. The sender is its user, with the key that it was
// sent with, both as they are now.
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
			may, err := reaches(lifecycle.Whose{Agent: agent})
			require.NoError(t, err, name)
			assert.Equal(t, want, may, "%s: the open %s, the closed %s: %s", name, open, closed, agent)
		}
	}
}

// A list is read from the user's own rows only if the user sees nothing else, and all rows are listed by user.
func TestAListGoesByTheUserWhereNothingElseIsSeen(t *testing.T) {
	w := newWorld(t)
	shared := w.agent(func(*catalog.AgentSpec) {})
	private := w.agent(func(s *catalog.AgentSpec) { s.ChatVisibility = catalog.SeesOwn })
	gone := "0123456789abcdef01234567"
	_, member := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	_, manager := w.person("manager@example.com", tenant.Manager, tenant.LevelManage)
	monitors, monitor := w.person("monitor@example.com", tenant.Member, tenant.LevelRead)
	_, err := record.Change(t.Context(), w.store, record.System(), monitors.Key, 0,
		func(k *catalog.APIKey, _ *record.Tx) error { k.Sees = catalog.SeesAll; return nil })
	require.NoError(t, err)
	for _, c := range []struct {
		visibility catalog.Visibility
		listed     bool
		key, agent string
		want       bool
	}{
		{catalog.SeesOwn, true, member, "", true}, {catalog.SeesOwn, true, member, shared, true},
		{catalog.SeesOwn, true, member, gone, true}, {catalog.SeesOwn, false, member, "", false},
		{catalog.SeesOwn, true, manager, "", false}, {catalog.SeesOwn, true, monitor, "", false},
		{"", true, member, "", false}, {"", true, member, shared, false}, {"", true, member, gone, false},
		{"", true, member, private, true}, {"", false, member, private, false}, {"", true, manager, private, false},
		{catalog.SeesAll, true, monitor, private, false},
	} {
		_, err := record.Change(t.Context(), w.store, record.System(), w.name, 0,
			func(o *catalog.Organization, _ *record.Tx) error {
				o.ChatVisibility, o.ListedByUser = c.visibility, c.listed
				return nil
			})
		require.NoError(t, err)
		p, err := w.Authenticate(t.Context(), c.key)
		require.NoError(t, err)
		own, err := w.ListsOwn(t.Context(), p, c.agent)
		require.NoError(t, err)
		assert.Equal(t, c.want, own, "%v", c)
	}
}
