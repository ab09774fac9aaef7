package tenant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Embeddings count against the budgets of organization and user as they are now, if there are some.
func TestBudgetsOfEmbeddings(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	limits, err := w.EmbeddingLimits(t.Context(), w.name, p.User)
	require.NoError(t, err)
	assert.Empty(t, limits)
	_, err = w.EditUser(t.Context(), tenant.Platform(), w.home, p.User, 0,
		tenant.UserEdit{Budget: tenant.BudgetEdit(`{"period":"day","max_tokens":5}`)})
	require.NoError(t, err)
	_, err = w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
		tenant.OrganizationEdit{Budget: tenant.BudgetEdit(`{"period":"month","max_runs":6}`)})
	require.NoError(t, err)
	tokens, runs := int64(5), int64(6)
	ofOrganization := record.Limit{
		Kind: "organization", ID: w.name, Budget: record.Budget{Period: "month", MaxRuns: &runs},
	}
	ofUser := record.Limit{Kind: "user", ID: p.User, Budget: record.Budget{Period: "day", MaxTokens: &tokens}}
	for user, want := range map[string][]record.Limit{
		p.User: {ofOrganization, ofUser}, "0123456789abcdef01234567": {ofOrganization},
	} {
		limits, err = w.EmbeddingLimits(t.Context(), w.name, user)
		require.NoError(t, err)
		assert.Equal(t, want, limits)
	}
	limits, err = w.EmbeddingLimits(t.Context(), record.NoOrganization, "0123456789abcdef01234567")
	require.NoError(t, err)
	assert.Empty(t, limits)

	limits, err = w.EmbeddingLimits(t.Context(), w.another().name, p.User) // where an operator acts
	require.NoError(t, err)
	assert.Equal(t, []record.Limit{ofUser}, limits)

	now := time.Date(2026, 5, 5, 23, 59, 0, 0, time.UTC)
	refused, is := problem.As(tenant.Exhausted(ofUser, "5 of 5 tokens", now))
	require.True(t, is)
	assert.Equal(t, []any{problem.Limited, "budget_exhausted", time.Minute},
		[]any{refused.Kind, refused.Code, refused.RetryAfter})
	assert.Contains(t, refused.Message, "the budget of user "+p.User+" for this day is used up: 5 of 5 tokens")
}

// A user who names a group twice has its budget once: its tokens would count twice.
func TestAGroupThatIsNamedTwiceHasOneBudget(t *testing.T) {
	w := newWorld(t)
	p, key := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	name := "g"
	group, err := w.CreateGroup(t.Context(), w.name, tenant.GroupEdit{
		Name: &name, Budget: tenant.BudgetEdit(`{"period":"day","max_tokens":5}`),
	})
	require.NoError(t, err)
	_, err = w.EditUser(t.Context(), tenant.Platform(), w.home, p.User, 0,
		tenant.UserEdit{GroupIDs: &[]string{group.Value.ID, group.Value.ID}})
	require.NoError(t, err)
	p, err = w.Authenticate(t.Context(), key)
	require.NoError(t, err)
	limits, err := w.Limits(t.Context(), p, catalog.Agent{})
	require.NoError(t, err)
	assert.Len(t, limits, 1)
}
