package tenant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
)

// BudgetEdit is a client's edit of a budget, as JSON. An empty edit leaves the budget, null removes it, and an object
// is merged into it.
type BudgetEdit json.RawMessage

func (e BudgetEdit) apply(b **record.Budget) error {
	if e == nil {
		return nil
	}
	var after *record.Budget
	if *b != nil {
		before := **b
		after = &before
	}
	err := strictjson.Unmarshal(e, &after)
	if wrong, ok := errors.AsType[*strictjson.TypeError](err); ok {
		return problem.InvalidField("body.budget"+wrong.Location, "%s", wrong.Wanted)
	}
	if err != nil {
		return problem.InvalidField("body.budget", "%s", err)
	}
	*b = after
	return checkBudget(after)
}

func checkBudget(b *record.Budget) error {
	if b == nil {
		return nil
	}
	return cmp.Or(
		problem.InvalidIf(b.Period != "day" && b.Period != "month", "body.budget.period", "must be day or month"),
		problem.InvalidIf(b.MaxTokens == nil && b.MaxRuns == nil,
			"body.budget", "must have max_tokens or max_runs"),
		problem.InvalidIf(b.MaxTokens != nil && *b.MaxTokens < 1, "body.budget.max_tokens", "must be at least 1"),
		problem.InvalidIf(b.MaxRuns != nil && *b.MaxRuns < 1, "body.budget.max_runs", "must be at least 1"),
	)
}

// Limits are the budgets that hold for a principal's run of an agent: those of organization, user, key, agent and the
// user's groups. The agent is given as it is now. Groups may be some seconds old; a deleted one is left out. The only
// errors are failures of the store.
func (t *Tenants) Limits(ctx context.Context, p Principal, agent catalog.Agent) ([]record.Limit, error) {
	read := p.Account()
	list := limited(nil, "organization", p.Organization, read.Organization.Budget)
	list = limited(list, "user", p.User, read.User.Budget)
	list = limited(list, "api_key", p.Key, read.Key.Budget)
	list = limited(list, "agent", agent.ID, agent.Spec.Budget)
	for _, id := range p.Groups {
		g, err := record.Resource[catalog.Group](ctx, t.known, p.Scope(), id)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = limited(list, "group", id, g.Value.Budget)
	}
	return list, nil
}

// limited adds the limit of a budget to a list, if there is a budget.
func limited(list []record.Limit, kind, id string, b *record.Budget) []record.Limit {
	if b == nil {
		return list
	}
	return append(list, record.Limit{Kind: kind, ID: id, Budget: *b})
}

// EmbeddingLimits are the budgets that tokens of embeddings count against: those of the organization and of the user.
// These may be some seconds old; a deleted one has no budget. The user may be of another organization, an operator who
// acted here. Its own budget counts in every organization, as it does for runs. The only errors are failures of the
// store.
func (t *Tenants) EmbeddingLimits(ctx context.Context, organization, user string) ([]record.Limit, error) {
	o, err := t.Organization(ctx, organization)
	if err != nil && !isGone(err) {
		return nil, err
	}
	u, err := record.Resource[catalog.User](ctx, t.known, record.System(), user)
	if err != nil && !isGone(err) {
		return nil, err
	}
	return limited(limited(nil, "organization", organization, o.Budget), "user", user, u.Value.Budget), nil
}

// Exhausted is the problem of a request that needs more than the rest of a budget, with RetryAfter to the end of the
// period. used is the used amount, as text for a human.
func Exhausted(l record.Limit, used string, now time.Time) error {
	p := problem.New(problem.Limited, "budget_exhausted", "the budget of %s %s for this %s is used up: %s",
		strings.Replace(l.Kind, "api_key", "API key", 1), l.ID, l.Period, used)
	p = p.With("budget", map[string]string{"kind": l.Kind, "id": l.ID, "period": l.Period})
	p.RetryAfter = l.Ends(now).Sub(now)
	return p
}
