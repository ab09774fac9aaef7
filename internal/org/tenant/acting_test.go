package tenant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// An operator acts in any organization as its admin, with no further rights. Other users act in no other organization.
func TestOperatorsAloneActInOtherOrganizations(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	boss, _ := w.person("boss@example.com", tenant.Admin, tenant.LevelOperator)
	boss.Groups = []string{w.group()}
	for _, at := range []*world{w, other} {
		there, err := w.ActIn(t.Context(), boss, at.name)
		require.NoError(t, err)
		assert.Equal(t, at.name, there.Organization)
		assert.Equal(t, []any{tenant.LevelAdmin, true, boss.User, boss.Key},
			[]any{there.Level, there.Acting, there.User, there.Key})
		assert.Empty(t, there.Groups)
		assert.True(t, forbidden(there.Authorize(tenant.LevelOperator)))
		assert.ErrorContains(t, there.Authorize(tenant.LevelOperator), "in the organization of the request")
		assert.True(t, forbidden(there.MayManage("the key", tenant.LevelOperator)))
		_, err = w.ActIn(t.Context(), there, at.name)
		assert.True(t, forbidden(err), "who acts is an admin, and names no further one")
	}
	for _, level := range []tenant.Level{tenant.LevelRead, tenant.LevelRun, tenant.LevelManage, tenant.LevelAdmin} {
		p, _ := w.person(string(level)+"@example.com", tenant.Admin, level)
		for _, id := range []string{w.name, other.name, "x", ""} {
			_, err := w.ActIn(t.Context(), p, id)
			assert.True(t, forbidden(err), "%s: %v", level, err)
		}
	}
	token := boss
	token.Run = "a run"
	_, err := w.ActIn(t.Context(), token, w.name)
	assert.True(t, forbidden(err))
	_, err = w.ActIn(t.Context(), boss, "x")
	assert.Equal(t, "header.x-organization", about(t, err))
	_, err = w.ActIn(t.Context(), boss, "0123456789abcdef01234567")
	assert.True(t, problem.Is(err, "not_found"))
	_, err = w.RemoveOrganization(t.Context(), other.name)
	require.NoError(t, err)
	_, err = w.ActIn(t.Context(), boss, other.name)
	assert.True(t, problem.Is(err, "not_found"))
}

// The right of an acting operator ends with its base. So do the rights of its run tokens and of its runs.
func TestActingEndsWithTheOperatorsRight(t *testing.T) {
	for name, end := range map[string]func(w, other *world, boss tenant.Principal) error{
		"it stays": func(*world, *world, tenant.Principal) error { return nil },
		"the key is revoked": func(w, _ *world, boss tenant.Principal) error {
			return w.RevokeKey(w.Context(), tenant.Platform(), w.home, boss.Key)
		},
		"its user falls": func(w, _ *world, boss tenant.Principal) error {
			_, err := w.EditUser(w.Context(), tenant.Platform(), w.home, boss.User, 0,
				tenant.UserEdit{Role: to("manager")})
			return err
		},
		"the organization is deleted": func(w, other *world, _ tenant.Principal) error {
			_, err := w.RemoveOrganization(w.Context(), other.name)
			return err
		},
	} {
		w := newWorld(t)
		other := w.another()
		boss, _ := w.person("boss@example.com", tenant.Admin, tenant.LevelOperator)
		agent := other.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{other.group()} })
		there, err := w.ActIn(t.Context(), boss, other.name)
		require.NoError(t, err)
		run := "0123456789abcdef01234567"
		token, _, err := w.RunToken(t.Context(), there, run, time.Hour)
		require.NoError(t, err)
		sender := func() bool {
			p, err := w.Sender(t.Context(), other.name, boss.User, boss.Key)
			require.NoError(t, err)
			assert.Equal(t, other.name, p.Organization)
			return w.CanAccess(t.Context(), p, lifecycle.Whose{Agent: agent}) == nil
		}
		bearer := func() error {
			p, err := w.Authenticate(t.Context(), token)
			if err == nil {
				assert.Equal(t, []string{other.name, run}, []string{p.Organization, p.Run})
			}
			return err
		}
		still := func() error {
			_, err := w.CheckRight(t.Context(), there, lifecycle.Whose{Agent: agent})
			return err
		}
		require.NoError(t, still(), name)
		require.NoError(t, bearer(), name)
		require.True(t, sender(), name)
		require.NoError(t, end(w, other, boss), name)
		stays := name == "it stays"
		assert.Equal(t, stays, still() == nil, name)
		assert.Equal(t, stays, bearer() == nil, name)
		if name != "the organization is deleted" { // with which its runs end
			assert.Equal(t, stays, sender(), name)
		}
	}
}

// A sender that is not an operator, or has sent with another's key, has no rights in another organization.
func TestSendersOfOtherOrganizationsAreNobody(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	agent := other.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{other.group()} })
	boss, _ := w.person("boss@example.com", tenant.Admin, tenant.LevelOperator)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	for _, c := range []struct{ user, key string }{
		{admin.User, admin.Key}, {admin.User, boss.Key}, {boss.User, admin.Key},
		{boss.User, "0123456789abcdef01234567"},
	} {
		p, err := w.Sender(t.Context(), other.name, c.user, c.key)
		require.NoError(t, err)
		assert.Error(t, w.CanAccess(t.Context(), p, lifecycle.Whose{Agent: agent}))
		assert.Equal(t, tenant.Level(""), p.Level)
	}
}

// The rate limit is that of the key, in any organization in which its operator acts.
func TestRatesAreThoseOfTheKey(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	_, err := w.EditOrganization(t.Context(), tenant.Platform(), other.name, 0,
		tenant.OrganizationEdit{LimitsEdit: tenant.LimitsEdit{RateLimit: to(7)}})
	require.NoError(t, err)
	boss, _ := w.person("boss@example.com", tenant.Admin, tenant.LevelOperator)
	there, err := w.ActIn(t.Context(), boss, other.name)
	require.NoError(t, err)
	perMinute, burst := w.RateOf(there)
	assert.Equal(t, []int{100, 10}, []int{perMinute, burst})
	perMinute, _ = w.RateOf(boss)
	assert.Equal(t, 100, perMinute)
}
