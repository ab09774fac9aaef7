package tenant_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// A chat is seen by its user, managers and keys for monitoring. All members see it if both the organization and the
// agent share chats. A chat of an unknown user belongs to no user, also for a principal without a user.
func TestWhoSeesAChat(t *testing.T) {
	w := newWorld(t)
	open := w.agent(func(*catalog.AgentSpec) {})
	narrow := w.agent(func(s *catalog.AgentSpec) { s.ChatVisibility = catalog.SeesOwn })
	member := tenant.Principal{Organization: w.name, User: "u", Level: tenant.LevelRun}
	nobody, reader, monitor, manager, admin := member, member, member, member, member
	nobody.User, nobody.Level, reader.Level, monitor.SeesAll = "", "", tenant.LevelRead, true
	manager.Level, admin.Level = tenant.LevelManage, tenant.LevelAdmin
	for _, c := range []struct {
		who         string
		p           tenant.Principal
		own, others bool // in an organization that shares no chats
	}{
		{"member", member, true, false}, {"reader", reader, true, false}, {"monitor", monitor, true, true},
		{"manager", manager, true, true}, {"admin", admin, true, true}, {"nobody", nobody, false, false},
	} {
		for _, shared := range []bool{false, true} {
			for _, agent := range []string{"", open, narrow} {
				for owner, sees := range map[string]bool{"u": c.own, "v": c.others, "": c.others} {
					c.p.Shared = shared
					err := w.CanAccess(t.Context(), c.p, lifecycle.Whose{Agent: agent, Owner: owner})
					what := fmt.Sprintf("%s, shared: %v, agent %q, owner %q: %v", c.who, shared, agent, owner, err)
					assert.Equal(t, sees || shared && agent != narrow, err == nil, what)
					assert.True(t, err == nil || forbidden(err), what)
				}
			}
		}
	}
}

// A refusal to show a colleague's chat is the same for each agent, so it hides the groups of the agent.
func TestARefusalOfAChatHidesItsGroups(t *testing.T) {
	w := newWorld(t)
	open := w.agent(func(*catalog.AgentSpec) {})
	closed := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{w.group()} })
	member := tenant.Principal{Organization: w.name, User: "u", Level: tenant.LevelRun}
	refusal := w.CanAccess(t.Context(), member, lifecycle.Whose{Agent: open, Owner: "v"})
	assert.True(t, forbidden(refusal))
	assert.Equal(t, refusal, w.CanAccess(t.Context(), member, lifecycle.Whose{Agent: closed, Owner: "v"}))
	assert.NotEqual(t, refusal, w.CanAccess(t.Context(), member, lifecycle.Whose{Agent: closed, Owner: "u"}))
}

// A file is seen with at least one of the runs that have held it. Before that, its uploader and admins see it, and all
// members if chats are shared.
func TestWhoReadsAFileOfOwnChats(t *testing.T) {
	w := newWorld(t)
	agent := w.agent(func(*catalog.AgentSpec) {})
	member := tenant.Principal{Organization: w.name, User: "u", Level: tenant.LevelRun}
	manager, admin := member, member
	manager.Level, admin.Level = tenant.LevelManage, tenant.LevelAdmin
	held := func(f record.File, owners ...string) record.File {
		f.ID, f.Organization, f.Uploaded, f.Due = w.clock.NewID(), w.name, true, w.clock.Now()
		tx := w.store.Begin(f.ID)
		record.PutResource(tx, record.Fresh(f))
		require.NoError(t, tx.Commit(t.Context()))
		for n, owner := range owners {
			run := fmt.Sprint(f.ID, "/", n)
			tx := w.store.Begin(run)
			tx.ReferenceFiles(t.Context(), w.name, lifecycle.Whose{Agent: agent, Owner: owner}, run,
				[]record.FileRef{f.Ref()})
			require.NoError(t, tx.Commit(t.Context()))
		}
		e, err := w.store.File(t.Context(), w.home, f.ID)
		require.NoError(t, err)
		return e.Value
	}
	sent, made := record.File{UserID: "v"}, record.File{UserID: "u", Made: true}
	former := made // by an earlier version
	former.References, former.Agents = 1, []string{agent}
	many := []string{"u"}
	for n := range 70 {
		many = append(many, fmt.Sprint("v", n))
	}
	slices.Reverse(many)
	for _, c := range []struct {
		f               record.File
		member, manager bool
	}{
		{held(sent), false, false}, {held(sent, "v"), false, true}, {held(sent, "v", "u"), true, true},
		{held(sent, many...), true, true}, {held(made, "v"), false, true}, {held(made, "v", "u"), true, true},
		{held(former), true, true}, {held(former, "v"), false, true}, {record.File{UserID: "u"}, true, true},
		{record.File{UserID: "v", References: 1}, false, true},
	} {
		for p, may := range map[*tenant.Principal]bool{&member: c.member, &manager: c.manager, &admin: true} {
			err := w.MayReadFile(t.Context(), *p, c.f)
			assert.Equal(t, may, err == nil, "%s, %+v: %v", p.Level, c.f, err)
			shared := *p
			shared.Shared = true
			require.NoError(t, w.MayReadFile(t.Context(), shared, c.f))
		}
	}
}
