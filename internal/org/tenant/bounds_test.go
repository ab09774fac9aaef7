package tenant_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// about returns the field that an error names, empty for no error.
func about(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	p, ok := problem.As(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, problem.Invalid, p.Kind, "%v", err)
	require.Len(t, p.Fields, 1)
	return p.Fields[0].Location
}

func to[T any](v T) *T { return &v }

// spec returns a valid spec of an agent.
func (w *world) spec(change func(s *catalog.AgentSpec)) catalog.AgentSpec {
	s := w.DefaultSpec(w.name)
	s.Name = "A"
	change(&s)
	return s
}

// Each number and each text is accepted at its least and greatest value and refused one beyond, with the field named.
func TestValuesBeyondBoundsAreRefusedWithTheirField(t *testing.T) {
	w := newWorld(t)
	ctx, operator := t.Context(), tenant.Platform()
	person, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	var groups []string
	for n := range 21 {
		g, err := w.CreateGroup(ctx, w.name, tenant.GroupEdit{Name: to(fmt.Sprint(n))})
		require.NoError(t, err)
		groups = append(groups, g.Value.ID)
	}
	text := func(n int) *string { return to(strings.Repeat("ü", n)) } // n characters
	names := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	organization := func(e tenant.OrganizationEdit) error {
		_, err := w.EditOrganization(ctx, operator, w.name, 0, e)
		return err
	}
	user := func(e tenant.UserEdit) error {
		_, err := w.EditUser(ctx, operator, w.home, person.User, 0, e)
		return err
	}
	group := func(e tenant.GroupEdit) error {
		_, err := w.EditGroup(ctx, w.home, groups[0], 0, e)
		return err
	}
	agent := func(change func(s *catalog.AgentSpec)) error {
		return w.CheckAgent(ctx, w.name, w.spec(change), true)
	}
	none := -1 // no minimum
	for field, c := range map[string]struct {
		least, most int
		set         func(n int) error
	}{
		"body.name": {1, 200, func(n int) error { return organization(tenant.OrganizationEdit{Name: text(n)}) }},
		"body.run_retention_days": {0, 36_500, func(n int) error {
			return organization(tenant.OrganizationEdit{RetentionDays: &n})
		}},
		"body.webhook_secret": {none, 4096, func(n int) error {
			return organization(tenant.OrganizationEdit{Secret: text(n)})
		}},
		"body.prices": {none, tenant.MaxPrices, func(n int) error {
			var prices []catalog.Price
			for i := range n {
				prices = append(prices, catalog.Price{Model: fmt.Sprint("p/", i)})
			}
			return organization(tenant.OrganizationEdit{Prices: &prices})
		}},
		"body.prices[0].model": {3, 300, func(n int) error { // bytes
			return organization(tenant.OrganizationEdit{Prices: &[]catalog.Price{
				{Model: "p/" + strings.Repeat("x", max(n-2, 0))},
			}})
		}},
		"body.prices[0].input": {0, 1_000_000_000, func(n int) error {
			return organization(tenant.OrganizationEdit{Prices: &[]catalog.Price{{Model: "p/m", Input: float64(n)}}})
		}},
		"body.prices[0].output": {0, 1_000_000_000, func(n int) error {
			return organization(tenant.OrganizationEdit{Prices: &[]catalog.Price{{Model: "p/m", Output: float64(n)}}})
		}},
		"body.caps.user": {0, 1_000_000, func(n int) error {
			return organization(tenant.OrganizationEdit{LimitsEdit: tenant.LimitsEdit{UserCap: &n}})
		}},
		"body.rate_limit.burst": {0, 10_000_000, func(n int) error {
			return organization(tenant.OrganizationEdit{LimitsEdit: tenant.LimitsEdit{RateBurst: &n}})
		}},
		"body.ceilings.caps.organization": {0, 1_000_000, func(n int) error {
			return organization(tenant.OrganizationEdit{Ceilings: tenant.LimitsEdit{Cap: &n}})
		}},
		"body.name ":       {1, 200, func(n int) error { return group(tenant.GroupEdit{Name: text(n)}) }},
		"body.description": {none, 10_000, func(n int) error { return group(tenant.GroupEdit{Description: text(n)}) }},
		"body.name  ":      {none, 200, func(n int) error { return user(tenant.UserEdit{Name: text(n)}) }},
		"body.email": {none, 320, func(n int) error {
			return user(tenant.UserEdit{Email: to(strings.Repeat("x", n-4) + "@b.c")})
		}},
		"body.group_ids": {none, 20, func(n int) error { return user(tenant.UserEdit{GroupIDs: to(groups[:n])}) }},
		"body.group_ids ": {none, 20, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.GroupIDs = groups[:n] })
		}},
		"body.name   ": {1, 200, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Name = *text(n) })
		}},
		"body.description ": {none, 10_000, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Description = *text(n) })
		}},
		"body.concurrency_cap": {0, 1_000_000, func(n int) error {
			return user(tenant.UserEdit{Cap: &n})
		}},
		"body.name    ": {1, 200, func(n int) error {
			_, _, err := w.CreateKey(ctx, operator, w.home,
				tenant.NewKey{Name: *text(n), UserID: person.User, Level: "run"})
			return err
		}},
		"body.name     ": {1, 200, func(n int) error {
			_, err := w.EditKey(ctx, operator, w.home, person.Key, 0, tenant.KeyEdit{Name: text(n)})
			return err
		}},
		"body.approver_group_ids": {none, 20, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.ApproverGroupIDs = groups[:n] })
		}},
		"body.instructions": {none, 256 << 10, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Instructions = strings.Repeat("x", n) })
		}},
		"body.model.provider": {none, 64, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Model.Provider = *text(n) })
		}},
		"body.callback_url": {none, 2048, func(n int) error { // bytes
			return agent(func(s *catalog.AgentSpec) { s.CallbackURL = "https://" + strings.Repeat("x", n-8) })
		}},
		"body.model.name": {none, 300, func(n int) error { // bytes, with the provider
			return agent(func(s *catalog.AgentSpec) { s.Model.Name = strings.Repeat("x", max(0, n-len("demo/"))) })
		}},
		"body.approval.tools": {none, 2000, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Approval.Tools = names(n) })
		}},
		"body.approval.tools[1]": {none, 200, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Approval.Tools = []string{"", *text(n)} })
		}},
		"body.model.max_tokens": {1, none, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Model.MaxTokens = &n })
		}},
		"body.limits.max_tokens": {1, none, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Limits.MaxTokens = &n })
		}},
		"body.limits.max_steps": {1, 1000, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Limits.MaxSteps = &n })
		}},
		"body.limits.max_active_seconds": {10, 4 * 60 * 60, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Limits.MaxActiveSeconds = &n })
		}},
		"body.toolkit_ids": {none, 100, func(n int) error {
			return agent(func(s *catalog.AgentSpec) {
				s.ToolkitIDs = nil
				for range n {
					s.ToolkitIDs = append(s.ToolkitIDs, catalog.BuiltinToolkit(w.name))
				}
			})
		}},
		"body.metadata": {none, 16, func(n int) error {
			return agent(func(s *catalog.AgentSpec) {
				s.Metadata = map[string]string{}
				for i := range n {
					s.Metadata[fmt.Sprint(i)] = ""
				}
			})
		}},
		"body.metadata ": {none, 64, func(n int) error { // characters
			return agent(func(s *catalog.AgentSpec) { s.Metadata = map[string]string{strings.Repeat("ü", n): ""} })
		}},
		"body.metadata  ": {none, 1024, func(n int) error {
			return agent(func(s *catalog.AgentSpec) { s.Metadata = map[string]string{"": strings.Repeat("ü", n)} })
		}},
		"body.output_schema": {none, 64 << 10, func(n int) error {
			return agent(func(s *catalog.AgentSpec) {
				s.OutputSchema = fmt.Appendf(nil, `{"title":"%s"}`, strings.Repeat("x", n-12))
			})
		}},
		"body.budget.max_tokens": {1, none, func(n int) error {
			return agent(func(s *catalog.AgentSpec) {
				s.Budget = &record.Budget{Period: "day", MaxTokens: to(int64(n))}
			})
		}},
		"body.budget.max_runs": {1, none, func(n int) error {
			return user(tenant.UserEdit{Budget: tenant.BudgetEdit(fmt.Sprintf(`{"period":"month","max_runs":%d}`, n))})
		}},
	} {
		name := strings.TrimSpace(field)
		if c.most != none {
			assert.Empty(t, about(t, c.set(c.most)), "%s of %d", field, c.most)
			assert.Equal(t, name, about(t, c.set(c.most+1)), "%s of %d", field, c.most+1)
		}
		if c.least != none { // 0 resets to the default
			assert.Empty(t, about(t, c.set(c.least)), "%s of %d", field, c.least)
			assert.Equal(t, name, about(t, c.set(c.least-1)), "%s of %d", field, c.least-1)
		}
	}
	for degrees, ok := range map[float64]bool{-0.1: false, 0: true, 2: true, 2.1: false} {
		err := agent(func(s *catalog.AgentSpec) { s.Model.Temperature = &degrees })
		assert.Equal(t, ok, about(t, err) != "body.model.temperature", degrees)
	}
}

// Malformed values and ids of things that do not exist are refused, with the field named.
func TestInvalidFieldsAreNamed(t *testing.T) {
	w := newWorld(t)
	ctx, operator := t.Context(), tenant.Platform()
	person, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	user := func(e tenant.UserEdit) error {
		_, err := w.EditUser(ctx, operator, w.home, person.User, 0, e)
		return err
	}
	key := func(change func(k *tenant.NewKey)) error {
		k := tenant.NewKey{Name: "k", UserID: person.User, Level: tenant.LevelRun}
		change(&k)
		_, _, err := w.CreateKey(ctx, operator, w.home, k)
		return err
	}
	agent := func(change func(s *catalog.AgentSpec)) error { return w.CheckAgent(ctx, w.name, w.spec(change), true) }
	budget := func(text string) error { return user(tenant.UserEdit{Budget: tenant.BudgetEdit(text)}) }
	missing := []string{"0123456789abcdef01234567"}
	foreign := w.another()
	for name, c := range map[string]struct {
		err   error
		field string
	}{
		"no organization's name": {second(w.CreateOrganization(ctx, tenant.OrganizationEdit{})), "body.name"},
		"a nameless organization": {
			second(w.CreateOrganization(ctx, tenant.OrganizationEdit{Name: to("")})), "body.name",
		},
		"no e-mail address":         {second(w.CreateUser(ctx, operator, w.name, tenant.UserEdit{})), "body.email"},
		"not an address":            {user(tenant.UserEdit{Email: to("nobody")}), "body.email"},
		"an address with a name":    {user(tenant.UserEdit{Email: to("A <a@example.com>")}), "body.email"},
		"an unknown role":           {user(tenant.UserEdit{Role: to("king")}), "body.role"},
		"each role":                 {user(tenant.UserEdit{Role: to("manager")}), ""},
		"a group that is not there": {user(tenant.UserEdit{GroupIDs: &missing}), "body.group_ids[0]"},
		"an unknown level":          {key(func(k *tenant.NewKey) { k.Level = "king" }), "body.level"},
		"a key of nobody":           {key(func(k *tenant.NewKey) { k.UserID = missing[0] }), "body.user_id"},
		"a key of no user's id":     {key(func(k *tenant.NewKey) { k.UserID = "nobody" }), "body.user_id"},
		"a key's strange budget": {
			key(func(k *tenant.NewKey) { k.Budget = tenant.BudgetEdit(`[]`) }), "body.budget",
		},
		"a key that has ended": {key(func(k *tenant.NewKey) { k.ExpiresAt = w.clock.Now() }), "body.expires_at"},
		"a key that will end":  {key(func(k *tenant.NewKey) { k.ExpiresAt = w.clock.Now().Add(time.Hour) }), ""},
		"a toolkit that is not there": {
			agent(func(s *catalog.AgentSpec) { s.ToolkitIDs = missing }), "body.toolkit_ids[0]",
		},
		"another organization's toolkit": {
			agent(func(s *catalog.AgentSpec) { s.ToolkitIDs = []string{foreign.toolkit()} }), "body.toolkit_ids[0]",
		},
		"another organization's group": {
			agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{foreign.group()} }), "body.group_ids[0]",
		},
		"a knowledge base": {agent(func(s *catalog.AgentSpec) {
			s.KnowledgeBaseIDs = missing
		}), "body.knowledge_base_ids[0]"},
		"a missing group": {agent(func(s *catalog.AgentSpec) { s.GroupIDs = missing }), "body.group_ids[0]"},
		"a missing approver": {agent(func(s *catalog.AgentSpec) {
			s.ApproverGroupIDs = missing
		}), "body.approver_group_ids[0]"},
		"an unknown approval": {agent(func(s *catalog.AgentSpec) {
			s.Approval.Mode = "perhaps"
		}), "body.approval.mode"},
		"approval of all": {agent(func(s *catalog.AgentSpec) { s.Approval.Mode = "always" }), ""},
		"no schema": {agent(func(s *catalog.AgentSpec) {
			s.OutputSchema = json.RawMessage(`{"type":"king"}`)
		}), "body.output_schema"},
		"a schema": {agent(func(s *catalog.AgentSpec) {
			s.OutputSchema = json.RawMessage(`{"type":"object"}`)
		}), ""},
		"an empty schema": {agent(func(s *catalog.AgentSpec) {
			s.OutputSchema = json.RawMessage{}
		}), "body.output_schema"},
		"no schema at all": {agent(func(s *catalog.AgentSpec) { s.OutputSchema = json.RawMessage(`null`) }), ""},
		"a short no schema": {agent(func(s *catalog.AgentSpec) {
			s.OutputSchema = json.RawMessage(`1`)
		}), "body.output_schema"},
		"no budget's form":    {budget(`[]`), "body.budget"},
		"a budget of nothing": {budget(`{"period":"day"}`), "body.budget"},
		"a strange period":    {budget(`{"period":"year","max_runs":1}`), "body.budget.period"},
		"a budget":            {budget(`{"period":"day","max_runs":1}`), ""},
		"a budget taken away": {budget(`null`), ""},
	} {
		assert.Equal(t, c.field, about(t, c.err), name)
	}
}

// Each text may be within its own bound while the whole spec is too large to store. The reason is the sum of the texts,
// or the escapes of JSON.
func TestAgentTooLargeToStoreIsRefused(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 5<<20)
	for name, c := range map[string]struct {
		change func(s *catalog.AgentSpec)
		field  string
	}{
		"instructions of control characters": {
			func(s *catalog.AgentSpec) { s.Instructions = strings.Repeat("\x01", 200_000) }, "body.instructions",
		},
		"instructions of signs": {
			func(s *catalog.AgentSpec) { s.Instructions = strings.Repeat("<", 200_000) }, "body.instructions",
		},
		"names of signs": {func(s *catalog.AgentSpec) {
			for range 2000 {
				s.Approval.Tools = append(s.Approval.Tools, strings.Repeat("&", 64))
			}
		}, "body.approval"},
		"two that are large": {func(s *catalog.AgentSpec) {
			s.Instructions = strings.Repeat("x", 256<<10)
			s.OutputSchema = fmt.Appendf(nil, `{"title":"%s"}`, strings.Repeat("<", 50_000))
		}, "body.output_schema"},
		"a provider":         {func(s *catalog.AgentSpec) { s.Model.Provider = long }, "body.model.provider"},
		"an address":         {func(s *catalog.AgentSpec) { s.CallbackURL = "https://" + long }, "body.callback_url"},
		"an approval's mode": {func(s *catalog.AgentSpec) { s.Approval.Mode = long }, "body.approval.mode"},
		"a toolkit's id":     {func(s *catalog.AgentSpec) { s.ToolkitIDs = []string{long} }, "body.toolkit_ids[0]"},
		"a group's id":       {func(s *catalog.AgentSpec) { s.GroupIDs = []string{long} }, "body.group_ids[0]"},
		"a knowledge base's": {func(s *catalog.AgentSpec) {
			s.KnowledgeBaseIDs = []string{long}
		}, "body.knowledge_base_ids[0]"},
		"a budget's period": {func(s *catalog.AgentSpec) {
			s.Budget = &record.Budget{Period: long}
		}, "body.budget.period"},
		"the largest there is": {func(s *catalog.AgentSpec) {
			s.Instructions, s.Description = strings.Repeat("x", 256<<10), strings.Repeat("ü", 10_000)
			s.OutputSchema = fmt.Appendf(nil, `{"title":"%s"}`, strings.Repeat("x", 60_000))
		}, ""},
	} {
		_, err := w.CreateAgent(t.Context(), w.name, w.spec(c.change), true)
		assert.Equal(t, c.field, about(t, err), name)
		if err != nil {
			assert.Less(t, len(err.Error()), 500, name)
		}
	}
}

// An agent may have as many bytes as the refusal of a larger one names, and not one more.
func TestAgentOfTheMostBytesIsStoredAndOneMoreRefused(t *testing.T) {
	const most = record.MaxItemBytes - 16<<10
	w := newWorld(t)
	size := func(s catalog.AgentSpec) int {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		return len(b)
	}
	const escaped = len(`\u003c`) // the bytes of a sign
	spec := w.spec(func(*catalog.AgentSpec) {})
	left := most - size(spec)
	spec.Instructions = strings.Repeat("<", left/escaped) + strings.Repeat("x", left%escaped)
	require.Equal(t, most, size(spec))
	a, err := w.CreateAgent(t.Context(), w.name, spec, true)
	require.NoError(t, err)
	stored, err := record.Resource[catalog.Agent](t.Context(), w.store, w.home, a.Value.ID)
	require.NoError(t, err)
	assert.Equal(t, spec.Instructions, stored.Value.Spec.Instructions)
	spec.Instructions += "x"
	_, err = w.CreateAgent(t.Context(), w.name, spec, true)
	assert.Equal(t, "body.instructions", about(t, err))
	assert.ErrorContains(t, err, fmt.Sprint(most))
}

func second[T any](_ T, err error) error { return err }

// A budget is merged member by member.
func TestBudgetEditMergesMembers(t *testing.T) {
	w := newWorld(t)
	person, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	for _, c := range []struct {
		edit string
		want *record.Budget
	}{
		{`{"period":"day","max_runs":3}`, &record.Budget{Period: "day", MaxRuns: to(int64(3))}},
		{`{"max_tokens":5}`, &record.Budget{Period: "day", MaxRuns: to(int64(3)), MaxTokens: to(int64(5))}},
		{`{"period":"month","max_runs":null}`, &record.Budget{Period: "month", MaxTokens: to(int64(5))}},
		{``, &record.Budget{Period: "month", MaxTokens: to(int64(5))}},
		{`null`, nil},
	} {
		var edit tenant.BudgetEdit
		if c.edit != "" {
			edit = tenant.BudgetEdit(c.edit)
		}
		u, err := w.EditUser(t.Context(), tenant.Platform(), w.home, person.User, 0, tenant.UserEdit{Budget: edit})
		require.NoError(t, err)
		assert.Equal(t, c.want, u.Value.Budget)
		k, err := w.EditKey(t.Context(), tenant.Platform(), w.home, person.Key, 0, tenant.KeyEdit{Budget: edit})
		require.NoError(t, err)
		assert.Equal(t, c.want, k.Value.Budget)
	}
}

// Prices are of models by provider and name, each once, and are finite numbers. A currency has three letters.
func TestPricesAreChecked(t *testing.T) {
	w := newWorld(t)
	edit := func(e tenant.OrganizationEdit) string {
		_, err := w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0, e)
		return about(t, err)
	}
	for _, c := range []struct {
		want   string
		prices []catalog.Price
	}{
		{"", []catalog.Price{{Model: "a/b/c", Input: 0.5}, {Model: "a/b"}}},
		{"body.prices[0].model", []catalog.Price{{Model: "a"}}},
		{"body.prices[0].model", []catalog.Price{{Model: "/a"}}},
		{"body.prices[0].model", []catalog.Price{{Model: "a/"}}},
		{"body.prices[1].model", []catalog.Price{{Model: "a/b"}, {Model: "a/b"}}},
		{"body.prices[0].input", []catalog.Price{{Model: "a/b", Input: math.NaN()}}},
		{"body.prices[0].output", []catalog.Price{{Model: "a/b", Output: math.Inf(1)}}},
		{"", nil},
	} {
		assert.Equal(t, c.want, edit(tenant.OrganizationEdit{Prices: &c.prices}), "%v", c.prices)
	}
	for currency, want := range map[string]string{
		"EUR": "", "": "", "eur": "body.currency", "EURO": "body.currency", "E R": "body.currency",
		"ÄUR": "body.currency",
	} {
		assert.Equal(t, want, edit(tenant.OrganizationEdit{Currency: &currency}), currency)
	}
}
