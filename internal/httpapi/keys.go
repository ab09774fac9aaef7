package httpapi

import (
	"context"
	"net/http"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (s *Server) keyRoutes() {
	admin := tenant.LevelAdmin
	register(s, operation{method: "POST", path: "/api-keys", level: admin, status: http.StatusCreated, id: "create-api-key", summary: "Create an API key; its text is shown once", tag: "api keys"}, s.createKey)
	register(s, operation{method: "GET", path: "/api-keys", level: admin, id: "list-api-keys", summary: "List API keys", tag: "api keys"}, s.listKeys)
	register(s, operation{method: "GET", path: "/api-keys/{id}", level: admin, id: "read-api-key", summary: "Read an API key", tag: "api keys"}, s.readKey)
	register(s, operation{method: "PATCH", path: "/api-keys/{id}", level: admin, id: "edit-api-key", summary: "Rename an API key or change its end", tag: "api keys"}, s.editKey)
	register(s, operation{method: "POST", path: "/api-keys/{id}/rotate", level: admin, id: "rotate-api-key", summary: "Give an API key a new text", tag: "api keys"}, s.rotateKey)
	register(s, operation{method: "DELETE", path: "/api-keys/{id}", level: admin, status: http.StatusNoContent, id: "revoke-api-key", summary: "Revoke an API key at once", tag: "api keys"}, s.revokeKey)
}

type keyView struct {
	APIKeyID       string                  `json:"api_key_id"`
	OrganizationID *string                 `json:"organization_id"`
	UserID         string                  `json:"user_id"`
	Name           string                  `json:"name"`
	Level          string                  `json:"level" enum:"read,run,manage,admin,operator"`
	Prefix         string                  `json:"prefix"`
	ExpiresAt      *string                 `json:"expires_at"`
	Budget         nullable[record.Budget] `json:"budget"`
	LastUsedAt     *string                 `json:"last_used_at" doc:"exact to about a minute"`
	CreatedAt      string                  `json:"created_at"`
	UpdatedAt      string                  `json:"updated_at"`
}

func viewKey(k record.APIKey, used time.Time) keyView {
	return keyView{
		APIKeyID: k.ID, OrganizationID: optionalOwner(k.Organization), UserID: k.UserID, Name: k.Name, Level: k.Level, Prefix: k.Prefix,
		ExpiresAt: optionalTime(k.ExpiresAt), Budget: nullable[record.Budget]{k.Budget}, LastUsedAt: optionalTime(used), CreatedAt: events.Time(k.CreatedAt), UpdatedAt: events.Time(k.UpdatedAt),
	}
}

type newKeyView struct {
	keyView
	Key string `json:"key" doc:"the key's text; shown this once"`
}

func (s *Server) createKey(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		Name           string                  `json:"name" required:"true" minLength:"1" maxLength:"200"`
		UserID         string                  `json:"user_id,omitempty" doc:"whose key; the caller's own by default"`
		Level          string                  `json:"level,omitempty" enum:"read,run,manage,admin,operator" default:"run"`
		ExpiresAt      *time.Time              `json:"expires_at,omitempty" nullable:"true"`
		Budget         nullable[record.Budget] `json:"budget,omitzero"`
		OrganizationID *string                 `json:"organization_id,omitempty" nullable:"true" doc:"for operators: the user's organization, or null for none"`
	}
	RawBody []byte
}) (*answer[newKeyView], error) {
	organization, err := s.target(ctx, p, in.Body.OrganizationID, in.RawBody)
	if err != nil {
		return nil, err
	}
	k := tenant.NewKey{Name: in.Body.Name, UserID: in.Body.UserID, Level: tenant.Level(in.Body.Level), Budget: budgetIn(in.RawBody)}
	if k.UserID == "" {
		k.UserID = p.User.ID
	}
	if !host.ValidID(k.UserID) {
		return nil, problem.InvalidField("body.user_id", "must be an identifier of 24 hex digits")
	}
	if in.Body.ExpiresAt != nil {
		k.ExpiresAt = in.Body.ExpiresAt.UTC().Truncate(time.Millisecond)
	}
	e, text, err := s.Tenants.CreateKey(ctx, p, record.Of(organization), k)
	return &answer[newKeyView]{ETag: etag(e.Version()), Body: newKeyView{keyView: viewKey(e.Value, time.Time{}), Key: text}}, err
}

type keyList struct {
	APIKeys    []keyView `json:"api_keys"`
	NextCursor *string   `json:"next_cursor"`
}

func (s *Server) listKeys(ctx context.Context, p tenant.Principal, in *Paging) (*answer[keyList], error) {
	page, err := resources[record.APIKey](ctx, s, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(page.Rows))
	for _, e := range page.Rows {
		ids = append(ids, e.Value.ID)
	}
	used, err := s.Store.KeyUses(ctx, ids...)
	if err != nil {
		return nil, err
	}
	list := keyList{APIKeys: []keyView{}, NextCursor: encodeCursor(page.Next)}
	for i, e := range page.Rows {
		list.APIKeys = append(list.APIKeys, viewKey(e.Value, used[i]))
	}
	return &answer[keyList]{Body: list}, nil
}

func (s *Server) keyAnswer(ctx context.Context, e record.Entity[record.APIKey]) (*answer[keyView], error) {
	used, err := s.Store.KeyUses(ctx, e.Value.ID)
	if err != nil {
		return nil, err
	}
	return &answer[keyView]{ETag: etag(e.Version()), Body: viewKey(e.Value, used[0])}, nil
}

func (s *Server) readKey(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[keyView], error) {
	if err := in.check("api key"); err != nil {
		return nil, err
	}
	e, err := record.Resource[record.APIKey](ctx, s.Store, s.reach(p), in.ID)
	if err != nil {
		return nil, err
	}
	return s.keyAnswer(ctx, e)
}

func (s *Server) editKey(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Match
	Body struct {
		Name      *string                 `json:"name,omitempty" minLength:"1" maxLength:"200"`
		ExpiresAt *time.Time              `json:"expires_at,omitempty" nullable:"true"`
		Budget    nullable[record.Budget] `json:"budget,omitzero" doc:"null: none"`
	}
	RawBody []byte
}) (*answer[keyView], error) {
	if err := in.check("api key"); err != nil {
		return nil, err
	}
	var expiresAt **time.Time
	if in.Body.ExpiresAt != nil || isNull(in.RawBody, "expires_at") {
		expiresAt = &in.Body.ExpiresAt
	}
	e, err := s.Tenants.EditKey(ctx, p, s.reach(p), in.ID, in.precondition(), in.Body.Name, expiresAt, budgetIn(in.RawBody))
	if err != nil {
		return nil, err
	}
	return s.keyAnswer(ctx, e)
}

func (s *Server) rotateKey(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Body *overlap
}) (*answer[newKeyView], error) {
	if err := in.check("api key"); err != nil {
		return nil, err
	}
	e, text, err := s.Tenants.RotateKey(ctx, p, s.reach(p), in.ID, in.Body.duration())
	if err != nil {
		return nil, err
	}
	view := viewKey(e.Value, time.Time{})
	if shown, err := s.keyAnswer(ctx, e); err == nil { // the new text must be told all the same
		view = shown.Body
	}
	return &answer[newKeyView]{ETag: etag(e.Version()), Body: newKeyView{keyView: view, Key: text}}, nil
}

func (s *Server) revokeKey(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("api key"); err != nil {
		return nil, err
	}
	return nil, s.Tenants.RevokeKey(ctx, p, s.reach(p), in.ID)
}
