package accounts

import (
	"context"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

type me struct {
	Level        string                             `json:"level" enum:"read,run,manage,admin,operator"`
	Sees         catalog.Visibility                 `json:"sees" enum:"own,organization" doc:"chats that this key sees. own: the chats of its user; organization: all chats with agents that it may use, except agents that limit chats to their users"`
	APIKey       KeyView                            `json:"api_key"`
	User         userView                           `json:"user"`
	Organization httpapi.Nullable[organizationView] `json:"organization"`
	Limits       struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization" doc:"0: no limit"`
		RequestsPerMinute        int `json:"requests_per_minute"`
		Burst                    int `json:"burst"`

		OrganizationRequestsPerMinute int `json:"organization_requests_per_minute" doc:"for all its keys together"`
		OrganizationBurst             int `json:"organization_burst"`
	} `json:"limits"`
	Activity struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization"`
	} `json:"activity"`
	Files struct {
		record.FileUse

		Limit record.FileUse `json:"limit" doc:"the limit of a user; the organization has its own limit"`
	} `json:"files" doc:"all files of the user, including announced files"`
	Budgets []BudgetView `json:"budgets" doc:"budgets that apply to requests of this key; budgets of agents apply too"`
}

func (h *handlers) me(ctx context.Context, p tenant.Principal, _ *struct{}) (*answer[me], error) {
	var m me
	used, err := record.LastUses[catalog.APIKey](ctx, h.Store, p.Key)
	if err != nil {
		return nil, err
	}
	read := p.Account()
	m.Level, m.Sees = string(p.Level), p.Sees()
	m.APIKey, m.User = viewKey(read.Key, used[0]), viewUser(read.User)
	if p.Organization != record.NoOrganization {
		o := h.viewOrganization(read.Organization)
		m.Organization.Value = &o
	}
	m.Limits.RequestsPerMinute, m.Limits.Burst = h.Tenants.RateOf(p)
	m.Limits.OrganizationRequestsPerMinute, m.Limits.OrganizationBurst = h.Tenants.OrganizationRateOf(p)
	m.Limits.ActiveRunsOfUser, m.Limits.ActiveRunsOfOrganization, err = h.Tenants.Caps(ctx, p.Organization, p.User)
	if err != nil {
		return nil, err
	}
	ofUser, ofOrganization := record.UserSlots(p.Organization, p.User), record.OrganizationSlots(p.Organization)
	if m.Activity.ActiveRunsOfUser, err = h.Store.CountingRuns(ctx, ofUser); err != nil {
		return nil, err
	}
	if m.Activity.ActiveRunsOfOrganization, err = h.Store.CountingRuns(ctx, ofOrganization); err != nil {
		return nil, err
	}
	m.Files.Limit = h.Store.FileLimits().User
	if m.Files.FileUse, err = h.Store.FilesOf(ctx, p.Organization, p.User); err != nil {
		return nil, err
	}
	m.Budgets, err = h.budgets(ctx, p)
	return httpapi.Body(m), err
}
