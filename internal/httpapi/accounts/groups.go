package accounts

import (
	"context"
	"net/http"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/catalog"
	"agentplatform/internal/host"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (h *handlers) groupRoutes() {
	admin := tenant.LevelAdmin
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/groups", Level: admin, Status: http.StatusCreated,
		Needs: []string{"name"}, ID: "create-group", Tag: "groups", Summary: "Create a group of users",
	}, h.createGroup)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/groups", Level: admin,
		ID: "list-groups", Tag: "groups", Summary: "List groups",
	}, h.listGroups)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/groups/{id}", Level: admin,
		ID: "read-group", Tag: "groups", Summary: "Read a group",
	}, h.readGroup)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "PATCH", Path: "/groups/{id}", Level: admin,
		ID: "edit-group", Tag: "groups", Summary: "Change a group",
	}, h.editGroup)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "DELETE", Path: "/groups/{id}", Level: admin, Status: http.StatusNoContent,
		ID: "delete-group", Tag: "groups",
		Summary: "Delete a group; what was for its members alone is closed to all but admins until it is changed",
	}, h.deleteGroup)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/groups/{id}/members", Level: admin,
		ID: "list-members", Tag: "groups", Summary: "List the users who belong to a group",
	}, h.listMembers)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/groups/{id}/members", Level: admin, Status: http.StatusCreated,
		ID: "add-member", Tag: "groups", Summary: "Have a user belong to a group",
	}, h.addMember)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "DELETE", Path: "/groups/{id}/members/{user_id}", Level: admin, Status: http.StatusNoContent,
		ID: "remove-member", Tag: "groups", Summary: "Have a user belong to a group no more",
	}, h.removeMember)
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

func groupAnswer(e record.Entity[catalog.Group]) *httpapi.Answer[groupView] {
	return httpapi.Versioned(e.Version(), viewGroup(e.Value))
}

// GroupInput is the body of what makes or changes a group.
type GroupInput struct {
	Body struct {
		Name        *string                         `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Description *string                         `json:"description,omitempty" nullable:"true"`
		Budget      httpapi.Nullable[record.Budget] `json:"budget,omitzero" doc:"of all its members together; null: none"`
	}
	RawBody []byte
}

func (in GroupInput) edit() tenant.GroupEdit {
	e := tenant.GroupEdit{Name: in.Body.Name, Description: in.Body.Description, Budget: budgetIn(in.RawBody)}
	if isNull(in.RawBody, "description") {
		e.Description = new(string)
	}
	return e
}

func (h *handlers) createGroup(
	ctx context.Context, p tenant.Principal, in *GroupInput,
) (*httpapi.Answer[groupView], error) {
	e, err := h.Tenants.CreateGroup(ctx, p.Organization, in.edit())
	return groupAnswer(e), err
}

type groupList struct {
	Groups     []groupView `json:"groups"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) listGroups(
	ctx context.Context, p tenant.Principal, in *httpapi.Paging,
) (*httpapi.Answer[groupList], error) {
	page, err := httpapi.Resources[catalog.Group](ctx, h.Store, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	list := groupList{Groups: []groupView{}, NextCursor: httpapi.EncodeCursor(page.Next)}
	for _, e := range page.Rows {
		list.Groups = append(list.Groups, viewGroup(e.Value))
	}
	return &httpapi.Answer[groupList]{Body: list}, nil
}

func (h *handlers) readGroup(
	ctx context.Context, p tenant.Principal, in *httpapi.IDPath,
) (*httpapi.Answer[groupView], error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	e, err := record.Resource[catalog.Group](ctx, h.Store, p.Scope(), in.ID)
	return groupAnswer(e), err
}

func (h *handlers) editGroup(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	GroupInput
}) (*httpapi.Answer[groupView], error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	e, err := h.Tenants.EditGroup(ctx, p.Scope(), in.ID, in.Precondition(), in.edit())
	return groupAnswer(e), err
}

func (h *handlers) deleteGroup(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	job, err := h.Tenants.RemoveGroup(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	h.Began(ctx, job, p.Organization)
	return nil, nil
}

type memberList struct {
	Members    []userView `json:"members"`
	NextCursor *string    `json:"next_cursor"`
}

// listMembers looks through the organisation's users; a page may be short and have more to follow.
func (h *handlers) listMembers(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Paging
}) (*httpapi.Answer[memberList], error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	if _, err := record.Resource[catalog.Group](ctx, h.Store, p.Scope(), in.ID); err != nil {
		return nil, err
	}
	rows, next, err := httpapi.ResourcesThat(ctx, h.Store, p.Scope(), in.Paging, func(u catalog.User) bool {
		return slices.Contains(u.GroupIDs, in.ID)
	})
	list := memberList{Members: []userView{}, NextCursor: next}
	for _, e := range rows {
		list.Members = append(list.Members, viewUser(e.Value))
	}
	return &httpapi.Answer[memberList]{Body: list}, err
}

func (h *handlers) addMember(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body struct {
		UserID string `json:"user_id" required:"true"`
	}
}) (*httpapi.Answer[userView], error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	if !host.ValidID(in.Body.UserID) {
		return nil, problem.InvalidField("body.user_id", "must be an identifier of 24 hex digits")
	}
	e, err := h.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.Body.UserID, true)
	return userAnswer(e), err
}

func (h *handlers) removeMember(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	UserID string `path:"user_id"`
}) (*struct{}, error) {
	if err := in.Check("group"); err != nil {
		return nil, err
	}
	if !host.ValidID(in.UserID) {
		return nil, problem.Missing("user " + in.UserID)
	}
	_, err := h.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.UserID, false)
	return nil, err
}
