package accounts

import (
	"context"
	"slices"
	"strings"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

func (h *handlers) userRoutes() {
	r := h.admins("users", "user")
	httpapi.Route(r, "POST /users", "create-user",
		"Create a user", h.createUser, httpapi.Created, httpapi.Needs("email"))
	httpapi.Route(r, "GET /users", "list-users", "List users", h.listUsers)
	httpapi.Route(r, "GET /users/{id}", "read-user", "Read a user", h.readUser)
	httpapi.Route(r, "PATCH /users/{id}", "edit-user", "Change a user", h.editUser)
	httpapi.Route(r, "DELETE /users/{id}", "delete-user", "Delete a user and its resources", h.deleteUser)
}

type userView struct {
	UserID         string                          `json:"user_id"`
	OrganizationID *string                         `json:"organization_id"`
	Email          string                          `json:"email"`
	Name           string                          `json:"name"`
	Role           string                          `json:"role" enum:"member,manager,admin"`
	GroupIDs       []string                        `json:"group_ids"`
	ConcurrencyCap *int                            `json:"concurrency_cap" doc:"null: the organization's cap"`
	Budget         httpapi.Nullable[record.Budget] `json:"budget"`
	CreatedAt      string                          `json:"created_at"`
	UpdatedAt      string                          `json:"updated_at"`
}

func viewUser(u catalog.User) userView {
	return userView{
		UserID:         u.ID,
		OrganizationID: httpapi.OptionalOwner(u.Organization),
		Email:          u.Email,
		Name:           u.Name,
		Role:           u.Role,
		GroupIDs:       append([]string{}, u.GroupIDs...),
		Budget:         httpapi.Nullable[record.Budget]{Value: u.Budget},
		ConcurrencyCap: httpapi.Optional(u.Cap),
		CreatedAt:      events.Time(u.CreatedAt),
		UpdatedAt:      events.Time(u.UpdatedAt),
	}
}

var userAnswer = httpapi.Shows(viewUser)

// UserInput is the body of a request that makes or changes a user.
type UserInput struct {
	Body struct {
		Email          *string                      `json:"email,omitempty"`
		Name           *string                      `json:"name,omitempty"`
		Role           *string                      `json:"role,omitempty" enum:"member,manager,admin"`
		GroupIDs       *[]string                    `json:"group_ids,omitempty"`
		ConcurrencyCap httpapi.Nullable[int]        `json:"concurrency_cap,omitzero" minimum:"1" maximum:"1000000"`
		Budget         httpapi.Patch[record.Budget] `json:"budget,omitzero" doc:"null: none"`
		OrganizationID httpapi.Nullable[string]     `json:"organization_id,omitzero" doc:"for operators: an organization, or null for none"`
	}
}

func (in UserInput) edit() tenant.UserEdit {
	return tenant.UserEdit{
		Email:    in.Body.Email,
		Name:     in.Body.Name,
		Role:     in.Body.Role,
		GroupIDs: in.Body.GroupIDs,
		Cap:      in.Body.ConcurrencyCap.Edit(),
		Budget:   tenant.BudgetEdit(in.Body.Budget.RawMessage),
	}
}

func (h *handlers) createUser(ctx context.Context, p tenant.Principal, in *UserInput) (*answer[userView], error) {
	organization, err := h.target(ctx, p, in.Body.OrganizationID)
	if err != nil {
		return nil, err
	}
	return userAnswer(h.Tenants.CreateUser(ctx, p, organization, in.edit()))
}

type userList struct {
	Users      []userView `json:"users"`
	NextCursor *string    `json:"next_cursor"`
}

func (h *handlers) listUsers(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	Q       string     `query:"q" maxLength:"300" doc:"a part of the name or e-mail address; case is ignored"`
	Role    string     `query:"role" enum:"member,manager,admin"`
	GroupID httpapi.ID `query:"group_id" doc:"members of this group"`
}) (*answer[userList], error) {
	q := strings.ToLower(in.Q)
	rows, next, err := httpapi.Resources(ctx, h.Store, p.Scope(), in.Paging, func(u catalog.User) bool {
		return (in.Role == "" || u.Role == in.Role) &&
			(in.GroupID == "" || slices.Contains(u.GroupIDs, string(in.GroupID))) &&
			(strings.Contains(strings.ToLower(u.Name), q) || strings.Contains(strings.ToLower(u.Email), q))
	})
	return httpapi.Body(userList{httpapi.Views(rows, viewUser), next}), err
}

func (h *handlers) readUser(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[userView], error) {
	return userAnswer(record.Resource[catalog.User](ctx, h.Store, h.reach(p), in.ID))
}

func (h *handlers) editUser(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	UserInput
}) (*answer[userView], error) {
	return userAnswer(h.Tenants.EditUser(ctx, p, h.reach(p), in.ID, in.Precondition(), in.edit()))
}

func (h *handlers) deleteUser(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	job, err := h.Tenants.RemoveUser(ctx, p, h.reach(p), in.ID)
	return h.Began(ctx, job, p.Organization, err)
}
