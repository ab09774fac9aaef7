package accounts

import (
	"context"

	"agentplatform/events"
	"agentplatform/internal/catalog"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

type me struct {
	Level        string                             `json:"level"`
	APIKey       keyView                            `json:"api_key"`
	User         userView                           `json:"user"`
	Organization httpapi.Nullable[organizationView] `json:"organization"`
	Limits       struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization" doc:"0: no limit"`
		RequestsPerMinute        int `json:"requests_per_minute"`
		Burst                    int `json:"burst"`
	} `json:"limits"`
	Activity struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization"`
	} `json:"activity"`
	Budgets []budgetView `json:"budgets" doc:"that hold for what this key sends, besides those of agents"`
}

type budgetView struct {
	Kind string `json:"kind" enum:"organization,group,user,api_key,agent"`
	ID   string `json:"id"`
	record.Budget
	Runs   int64  `json:"runs" doc:"accepted in the period"`
	Tokens int64  `json:"tokens" doc:"used by runs that have ended and, of organizations and users, by embeddings"`
	EndsAt string `json:"ends_at"`
}

func (h *handlers) me(ctx context.Context, p tenant.Principal, _ *struct{}) (*httpapi.Answer[me], error) {
	var m me
	used, err := record.LastUses[catalog.APIKey](ctx, h.Store, p.Key.ID)
	if err != nil {
		return nil, err
	}
	m.Level, m.APIKey, m.User = string(p.Level), viewKey(p.Key, used[0]), viewUser(p.User)
	if p.Organization.ID != record.NoOrganization {
		o := h.viewOrganization(p.Organization)
		m.Organization.Value = &o
	}
	m.Limits.RequestsPerMinute, m.Limits.Burst = h.Tenants.Rate(p.Organization)
	m.Limits.ActiveRunsOfUser, m.Limits.ActiveRunsOfOrganization, err = h.Tenants.Caps(
		ctx, p.Organization.ID, p.User.ID,
	)
	if err != nil {
		return nil, err
	}
	if m.Activity.ActiveRunsOfUser, err = h.Store.CountingRunsOfUser(ctx, p.Organization.ID, p.User.ID); err != nil {
		return nil, err
	}
	if m.Activity.ActiveRunsOfOrganization, err = h.Store.CountingRuns(ctx, p.Organization.ID); err != nil {
		return nil, err
	}
	m.Budgets, err = h.budgets(ctx, p)
	return &httpapi.Answer[me]{Body: m}, err
}

func (h *handlers) budgets(ctx context.Context, p tenant.Principal) ([]budgetView, error) {
	limits, err := h.Tenants.Limits(ctx, p, catalog.Agent{})
	if err != nil {
		return nil, err
	}
	now, list := h.Host.Now(), []budgetView{}
	for _, l := range limits {
		spent, err := h.Store.Spent(ctx, l.Name(now))
		if err != nil {
			return nil, err
		}
		list = append(
			list,
			budgetView{
				Kind:   l.Kind,
				ID:     l.ID,
				Budget: l.Budget,
				Runs:   spent.Runs,
				Tokens: spent.Tokens,
				EndsAt: events.Time(l.Ends(now)),
			},
		)
	}
	return list, nil
}
