package httpapi

import (
	"context"
	"net/http"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (s *Server) groupRoutes() {
	admin := tenant.LevelAdmin
	register(s, operation{method: "POST", path: "/groups", level: admin, status: http.StatusCreated, id: "create-group", summary: "Create a group of users", tag: "groups"}, s.createGroup)
	register(s, operation{method: "GET", path: "/groups", level: admin, id: "list-groups", summary: "List groups", tag: "groups"}, s.listGroups)
	register(s, operation{method: "GET", path: "/groups/{id}", level: admin, id: "read-group", summary: "Read a group", tag: "groups"}, s.readGroup)
	register(s, operation{method: "PATCH", path: "/groups/{id}", level: admin, id: "edit-group", summary: "Change a group", tag: "groups"}, s.editGroup)
	register(s, operation{method: "DELETE", path: "/groups/{id}", level: admin, status: http.StatusNoContent, id: "delete-group", summary: "Delete a group; what was for its members alone is closed to all but admins until it is changed", tag: "groups"}, s.deleteGroup)
	register(s, operation{method: "GET", path: "/groups/{id}/members", level: admin, id: "list-members", summary: "List the users who belong to a group", tag: "groups"}, s.listMembers)
	register(s, operation{method: "POST", path: "/groups/{id}/members", level: admin, status: http.StatusCreated, id: "add-member", summary: "Have a user belong to a group", tag: "groups"}, s.addMember)
	register(s, operation{method: "DELETE", path: "/groups/{id}/members/{user_id}", level: admin, status: http.StatusNoContent, id: "remove-member", summary: "Have a user belong to a group no more", tag: "groups"}, s.removeMember)
}

type groupView struct {
	GroupID        string                  `json:"group_id"`
	OrganizationID *string                 `json:"organization_id"`
	Name           string                  `json:"name"`
	Description    string                  `json:"description"`
	Budget         nullable[record.Budget] `json:"budget"`
	CreatedAt      string                  `json:"created_at"`
	UpdatedAt      string                  `json:"updated_at"`
}

func viewGroup(g record.Group) groupView {
	return groupView{
		GroupID: g.ID, OrganizationID: optionalOwner(g.Organization), Name: g.Name, Description: g.Description, Budget: nullable[record.Budget]{g.Budget},
		CreatedAt: events.Time(g.CreatedAt), UpdatedAt: events.Time(g.UpdatedAt),
	}
}

func groupAnswer(e record.Entity[record.Group]) *answer[groupView] {
	return &answer[groupView]{ETag: etag(e.Version()), Body: viewGroup(e.Value)}
}

// GroupInput is the body of what makes or changes a group.
type GroupInput struct {
	Match
	Body struct {
		Name        *string                 `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Description *string                 `json:"description,omitempty" nullable:"true"`
		Budget      nullable[record.Budget] `json:"budget,omitzero" doc:"of all its members together; null: none"`
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

func (s *Server) createGroup(ctx context.Context, p tenant.Principal, in *GroupInput) (*answer[groupView], error) {
	e, err := s.Tenants.CreateGroup(ctx, p.Organization.ID, in.edit())
	return groupAnswer(e), err
}

type groupList struct {
	Groups     []groupView `json:"groups"`
	NextCursor *string     `json:"next_cursor"`
}

func (s *Server) listGroups(ctx context.Context, p tenant.Principal, in *Paging) (*answer[groupList], error) {
	page, err := resources[record.Group](ctx, s, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	list := groupList{Groups: []groupView{}, NextCursor: encodeCursor(page.Next)}
	for _, e := range page.Rows {
		list.Groups = append(list.Groups, viewGroup(e.Value))
	}
	return &answer[groupList]{Body: list}, nil
}

func (s *Server) readGroup(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[groupView], error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	e, err := record.Resource[record.Group](ctx, s.Store, p.Scope(), in.ID)
	return groupAnswer(e), err
}

func (s *Server) editGroup(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	GroupInput
}) (*answer[groupView], error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditGroup(ctx, p.Scope(), in.ID, in.precondition(), in.edit())
	return groupAnswer(e), err
}

func (s *Server) deleteGroup(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	job, err := s.Tenants.RemoveGroup(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	s.began(ctx, job, p.Organization.ID)
	return nil, nil
}

type memberList struct {
	Members    []userView `json:"members"`
	NextCursor *string    `json:"next_cursor"`
}

// listMembers looks through the organisation's users; a page may be short and have more to follow.
func (s *Server) listMembers(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Paging
}) (*answer[memberList], error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	if _, err := record.Resource[record.Group](ctx, s.Store, p.Scope(), in.ID); err != nil {
		return nil, err
	}
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list := memberList{Members: []userView{}}
	for looked := 0; looked < scanned; looked += in.Limit {
		page, err := record.Resources[record.User](ctx, s.Store, p.Scope(), after, in.Limit)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Rows {
			if !slices.Contains(e.Value.GroupIDs, in.ID) {
				continue
			}
			if len(list.Members) == in.Limit { // of the page that follows
				list.NextCursor = encodeCursor(after)
				return &answer[memberList]{Body: list}, nil
			}
			list.Members, after = append(list.Members, viewUser(e.Value)), e.Value.ID
		}
		if after = page.Next; after == "" {
			return &answer[memberList]{Body: list}, nil
		}
	}
	list.NextCursor = encodeCursor(after)
	return &answer[memberList]{Body: list}, nil
}

func (s *Server) addMember(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Body struct {
		UserID string `json:"user_id" required:"true"`
	}
}) (*answer[userView], error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	if !host.ValidID(in.Body.UserID) {
		return nil, problem.InvalidField("body.user_id", "must be an identifier of 24 hex digits")
	}
	e, err := s.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.Body.UserID, true)
	return userAnswer(e), err
}

func (s *Server) removeMember(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	UserID string `path:"user_id"`
}) (*struct{}, error) {
	if err := in.check("group"); err != nil {
		return nil, err
	}
	if !host.ValidID(in.UserID) {
		return nil, problem.Missing("user " + in.UserID)
	}
	_, err := s.Tenants.SetMember(ctx, p, p.Scope(), in.ID, in.UserID, false)
	return nil, err
}
