package tenant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// The newest version of an agent decides about its chats, published or not. Only an admin takes it from own to
// organization, by any edit. The publication of another version changes nothing.
func TestOnlyAnAdminShowsTheChatsOfAnAgent(t *testing.T) {
	w := newWorld(t)
	manager, _ := w.person("manager@example.com", tenant.Manager, tenant.LevelManage)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	shows := func(v catalog.Visibility) func(*catalog.AgentSpec) {
		return func(s *catalog.AgentSpec) { s.ChatVisibility = v }
	}
	for _, c := range []struct {
		was, now catalog.Visibility
		widens   bool
	}{
		{"", "", false}, {"", catalog.SeesAll, false}, {"", catalog.SeesOwn, false},
		{catalog.SeesAll, "", false}, {catalog.SeesAll, catalog.SeesOwn, false},
		{catalog.SeesOwn, catalog.SeesOwn, false}, {catalog.SeesOwn, "", true},
		{catalog.SeesOwn, catalog.SeesAll, true},
	} {
		for _, publish := range []bool{true, false} {
			id := w.agent(shows(c.was))
			edit := func(by tenant.Principal) (record.Entity[catalog.Agent], error) {
				return w.EditAgent(t.Context(), by, id, 0, true, publish,
					func(s catalog.AgentSpec) (catalog.AgentSpec, error) { shows(c.now)(&s); return s, nil })
			}
			a, err := edit(manager)
			if c.widens {
				assert.True(t, forbidden(err), "from %q to %q: %v", c.was, c.now, err)
				p, _ := problem.As(err)
				assert.Equal(t, tenant.LevelAdmin, p.Extras["level_needed"])
				a, err = edit(admin)
			}
			require.NoError(t, err, "from %q to %q", c.was, c.now)
			own := c.now == catalog.SeesOwn
			assert.Equal(t, own, a.Value.Spec.ChatVisibility == catalog.SeesOwn)
			a, err = w.PublishAgent(t.Context(), manager, id, 0, 1)
			require.NoError(t, err)
			assert.Equal(t, own, a.Value.Spec.ChatVisibility == catalog.SeesOwn, "the newest counts")
		}
	}
}

// All that a new organization owns is listed by user from the start.
func TestNewOrganizationsAreListedByUser(t *testing.T) {
	w := newWorld(t)
	o, err := w.CreateOrganization(t.Context(), tenant.OrganizationEdit{Name: to("new")})
	require.NoError(t, err)
	assert.True(t, o.Value.ListedByUser)
	assert.Equal(t, catalog.SeesOwn, o.Value.ChatVisibility)
}
