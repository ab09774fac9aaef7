package accounts

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

func (h *handlers) activityRoutes() {
	httpapi.Route(h.admins("organizations", ""), "GET /organization/activity", "read-activity",
		"Read the number of active runs, by user", h.readActivity)
}

type activityOfUser struct {
	UserID string `json:"user_id"`
	Active int    `json:"active" doc:"queued and running runs, which count towards the cap"`
	Limit  int    `json:"limit"`
}

type activity struct {
	Queued        int              `json:"queued"`
	Running       int              `json:"running"`
	AwaitingInput int              `json:"awaiting_input"`
	Active        int              `json:"active" doc:"runs that count towards the cap"`
	Limit         int              `json:"limit" doc:"0: no limit"`
	Users         []activityOfUser `json:"users" doc:"users with active runs, in descending order of runs"`
}

// readActivity counts the slots that runs hold, so its cost grows with the active runs, and not with past ones.
func (h *handlers) readActivity(ctx context.Context, p tenant.Principal, _ *struct{}) (*answer[activity], error) {
	now := activity{Users: []activityOfUser{}}
	paused, _, err := h.Store.PausedRuns(ctx, p.Organization)
	if err != nil {
		return nil, err
	}
	counted, err := h.Store.CountedRuns(ctx, p.Organization)
	if err != nil {
		return nil, err
	}
	runs, err := h.Store.Runs(ctx, p.Scope(), counted...)
	if err != nil {
		return nil, err
	}
	now.AwaitingInput = len(paused)
	of := map[string]int{}
	for _, e := range runs {
		switch e.Value.Status {
		case lifecycle.Queued:
			now.Queued++
		case lifecycle.Running:
			now.Running++
		default:
			continue // it has ended, or paused, since
		}
		of[e.Value.User]++
	}
	now.Active = now.Queued + now.Running
	_, now.Limit, err = h.Tenants.Caps(ctx, p.Organization, p.User)
	if err == nil {
		now.Users, err = h.activityOf(ctx, p, of)
	}
	return httpapi.Body(now), err
}

func (h *handlers) activityOf(ctx context.Context, p tenant.Principal, of map[string]int) ([]activityOfUser, error) {
	users, err := record.Several[catalog.User](ctx, h.Store, p.Scope(), slices.Sorted(maps.Keys(of)))
	if err != nil {
		return nil, err
	}
	list := make([]activityOfUser, 0, len(of))
	organization := p.Account().Organization
	for id, n := range of {
		limit, _ := h.Tenants.CapsOf(organization, users[id].Value) // an operator who acts here has the default one
		list = append(list, activityOfUser{id, n, limit})
	}
	slices.SortFunc(list, func(a, b activityOfUser) int {
		return cmp.Or(b.Active-a.Active, cmp.Compare(a.UserID, b.UserID))
	})
	return list, nil
}
