package accounts

import (
	"context"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) groupRoutes() {
	r := h.admins("groups", "group")
	httpapi.Route(r, "POST /groups", "create-group",
		"Create a group of users", h.createGroup, httpapi.Created, httpapi.Needs("name"))
	httpapi.Route(r, "GET /groups", "list-groups", "List groups", h.listGroups)
	httpapi.Route(r, "GET /groups/{id}", "read-group", "Read a group", h.readGroup)
	httpapi.Route(r, "PATCH /groups/{id}", "edit-group", "Change a group", h.editGroup)
	httpapi.Route(r, "DELETE /groups/{id}", "delete-group",
		"Delete a group; only admins keep access to resources of this group alone", h.deleteGroup)
	httpapi.Route(r, "GET /groups/{id}/members", "list-members", "List the members of a group", h.listMembers)
	httpapi.Route(r, "POST /groups/{id}/members", "add-member",
		"Add a user to a group", h.addMember, httpapi.Created)
	httpapi.Route(r, "DELETE /groups/{id}/members/{user_id}", "remove-member",
		"Remove a user from a group", h.removeMember)
}

type groupView struct {
	GroupID        string                          `json:"group_id"`
	OrganizationID *string                         `json:"organization_id"`
	Name           string                          `json:"name"`
	Description    string                          `json:"description"`
	Budget         httpapi.Nullable[record.Budget] `json:"budget"`
	CreatedAt      string                          `json:"created_at"`
	UpdatedAt      string                          `json:"updated_at"`
}

func viewGroup(g catalog.Group) groupView {
	return groupView{
		GroupID:        g.ID,
		OrganizationID: httpapi.OptionalOwner(g.Organization),
		Name:           g.Name,
		Description:    g.Description,
		Budget:         httpapi.Nullable[record.Budget]{Value: g.Budget},
		CreatedAt:      events.Time(g.CreatedAt),
		UpdatedAt:      events.Time(g.UpdatedAt),
	}
}

var groupAnswer = httpapi.Shows(viewGroup)

// GroupInput is the body of a request that makes or changes a group.
type GroupInput struct {
	Body struct {
		Name        *string                      `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Description httpapi.Nullable[string]     `json:"description,omitzero"`
		Budget      httpapi.Patch[record.Budget] `json:"budget,omitzero" doc:"for all members together; null: no budget"`
	}
}

func (in GroupInput) edit() tenant.GroupEdit {
	return tenant.GroupEdit{
		Name: in.Body.Name, Description: in.Body.Description.Edit(),
		Budget: tenant.BudgetEdit(in.Body.Budget.RawMessage),
	}
}

func (h *handlers) createGroup(ctx context.Context, p tenant.Principal, in *GroupInput) (*answer[groupView], error) {
	return groupAnswer(h.Tenants.CreateGroup(ctx, p.Organization, in.edit()))
}

type groupList struct {
	Groups     []groupView `json:"groups"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) listGroups(ctx context.Context, p tenant.Principal, in *httpapi.Paging) (*answer[groupList], error) {
	rows, next, err := httpapi.Resources(ctx, h.Store, p.Scope(), *in, func(catalog.Group) bool { return true })
	return httpapi.Body(groupList{httpapi.Views(rows, viewGroup), next}), err
}

func (h *handlers) readGroup(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[groupView], error) {
	return groupAnswer(record.Resource[catalog.Group](ctx, h.Store, p.Scope(), in.ID))
}

func (h *handlers) editGroup(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	GroupInput
}) (*answer[groupView], error) {
	return groupAnswer(h.Tenants.EditGroup(ctx, p.Scope(), in.ID, in.Precondition(), in.edit()))
}

func (h *handlers) deleteGroup(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	job, err := h.Tenants.RemoveGroup(ctx, p.Scope(), in.ID)
	return h.Began(ctx, job, p.Organization, err)
}

type memberList struct {
	Members    []userView `json:"members"`
	NextCursor *string    `json:"next_cursor"`
}

// listMembers reads the organisation's users; a page may be short and have a next page.
func (h *handlers) listMembers(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Paging
}) (*answer[memberList], error) {
	if _, err := record.Resource[catalog.Group](ctx, h.Store, p.Scope(), in.ID); err != nil {
		return nil, err
	}
	rows, next, err := httpapi.Resources(ctx, h.Store, p.Scope(), in.Paging, func(u catalog.User) bool {
		return slices.Contains(u.GroupIDs, in.ID)
	})
	return httpapi.Body(memberList{httpapi.Views(rows, viewUser), next}), err
}

func (h *handlers) addMember(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body struct {
		UserID string `json:"user_id" required:"true"`
	}
}) (*answer[userView], error) {
	if !host.ValidID(in.Body.UserID) {
		return nil, problem.InvalidField("body.user_id", "must be an identifier of 24 hex digits")
	}
	return userAnswer(h.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.Body.UserID, true))
}

func (h *handlers) removeMember(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	UserID string `path:"user_id"`
}) (*struct{}, error) {
	if !host.ValidID(in.UserID) {
		return nil, problem.Missing("user " + in.UserID)
	}
	_, err := h.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.UserID, false)
	return nil, err
}
