package httpapi

import (
	"context"
	"net/http"

	"agentplatform/events"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (s *Server) userRoutes() {
	admin := tenant.LevelAdmin
	register(s, operation{method: "POST", path: "/users", level: admin, status: http.StatusCreated, id: "create-user", summary: "Create a user", tag: "users"}, s.createUser)
	register(s, operation{method: "GET", path: "/users", level: admin, id: "list-users", summary: "List users", tag: "users"}, s.listUsers)
	register(s, operation{method: "GET", path: "/users/{id}", level: admin, id: "read-user", summary: "Read a user", tag: "users"}, s.readUser)
	register(s, operation{method: "PATCH", path: "/users/{id}", level: admin, id: "edit-user", summary: "Change a user", tag: "users"}, s.editUser)
	register(s, operation{method: "DELETE", path: "/users/{id}", level: admin, status: http.StatusNoContent, id: "delete-user", summary: "Delete a user and what it owns", tag: "users"}, s.deleteUser)
}

type userView struct {
	UserID         string                  `json:"user_id"`
	OrganizationID *string                 `json:"organization_id"`
	Email          string                  `json:"email"`
	Name           string                  `json:"name"`
	Role           string                  `json:"role" enum:"member,manager,admin"`
	GroupIDs       []string                `json:"group_ids"`
	ConcurrencyCap *int                    `json:"concurrency_cap" doc:"null: the organization's"`
	Budget         nullable[record.Budget] `json:"budget"`
	CreatedAt      string                  `json:"created_at"`
	UpdatedAt      string                  `json:"updated_at"`
}

func viewUser(u record.User) userView {
	v := userView{
		UserID: u.ID, OrganizationID: optionalOwner(u.Organization), Email: u.Email, Name: u.Name, Role: u.Role, GroupIDs: append([]string{}, u.GroupIDs...), Budget: nullable[record.Budget]{u.Budget},
		CreatedAt: events.Time(u.CreatedAt), UpdatedAt: events.Time(u.UpdatedAt),
	}
	if u.Cap > 0 {
		v.ConcurrencyCap = &u.Cap
	}
	return v
}

func userAnswer(e record.Entity[record.User]) *answer[userView] {
	return &answer[userView]{ETag: etag(e.Version()), Body: viewUser(e.Value)}
}

// UserInput is the body of what makes or changes a user.
type UserInput struct {
	Match
	Body struct {
		Email          *string                 `json:"email,omitempty"`
		Name           *string                 `json:"name,omitempty"`
		Role           *string                 `json:"role,omitempty" enum:"member,manager,admin"`
		GroupIDs       *[]string               `json:"group_ids,omitempty"`
		ConcurrencyCap *int                    `json:"concurrency_cap,omitempty" minimum:"1" maximum:"1000000" nullable:"true"`
		Budget         nullable[record.Budget] `json:"budget,omitzero" doc:"null: none"`
		OrganizationID *string                 `json:"organization_id,omitempty" nullable:"true" doc:"for operators: an organization, or null for none"`
	}
	RawBody []byte
}

func (in UserInput) edit() tenant.UserEdit {
	e := tenant.UserEdit{Email: in.Body.Email, Name: in.Body.Name, Role: in.Body.Role, GroupIDs: in.Body.GroupIDs, Cap: in.Body.ConcurrencyCap, Budget: budgetIn(in.RawBody)}
	if isNull(in.RawBody, "concurrency_cap") {
		e.Cap = new(int)
	}
	return e
}

func (s *Server) createUser(ctx context.Context, p tenant.Principal, in *UserInput) (*answer[userView], error) {
	organization, err := s.target(ctx, p, in.Body.OrganizationID, in.RawBody)
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.CreateUser(ctx, p, organization, in.edit())
	return userAnswer(e), err
}

type userList struct {
	Users      []userView `json:"users"`
	NextCursor *string    `json:"next_cursor"`
}

func (s *Server) listUsers(ctx context.Context, p tenant.Principal, in *Paging) (*answer[userList], error) {
	page, err := resources[record.User](ctx, s, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	list := userList{Users: []userView{}, NextCursor: encodeCursor(page.Next)}
	for _, e := range page.Rows {
		list.Users = append(list.Users, viewUser(e.Value))
	}
	return &answer[userList]{Body: list}, nil
}

func (s *Server) readUser(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[userView], error) {
	if err := in.check("user"); err != nil {
		return nil, err
	}
	e, err := record.Resource[record.User](ctx, s.Store, s.reach(p), in.ID)
	return userAnswer(e), err
}

func (s *Server) editUser(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	UserInput
}) (*answer[userView], error) {
	if err := in.check("user"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditUser(ctx, p, s.reach(p), in.ID, in.precondition(), in.edit())
	return userAnswer(e), err
}

func (s *Server) deleteUser(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("user"); err != nil {
		return nil, err
	}
	job, err := s.Tenants.RemoveUser(ctx, p, s.reach(p), in.ID)
	if err != nil {
		return nil, err
	}
	s.began(ctx, job, p.Organization.ID)
	return nil, nil
}
