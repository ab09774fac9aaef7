package accounts

import (
	"cmp"
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) keyRoutes() {
	r := h.admins("api keys", "api key")
	httpapi.Route(r, "POST /api-keys", "create-api-key",
		"Create an API key; the response alone contains its secret", h.createKey, httpapi.Created)
	httpapi.Route(r, "GET /api-keys", "list-api-keys", "List API keys", h.listKeys)
	httpapi.Route(r, "GET /api-keys/{id}", "read-api-key", "Read an API key", h.readKey)
	httpapi.Route(r, "PATCH /api-keys/{id}", "edit-api-key",
		"Change an API key", h.editKey)
	httpapi.Route(r, "POST /api-keys/{id}/rotate", "rotate-api-key", "Rotate the secret of an API key", h.rotateKey)
	httpapi.Route(r, "DELETE /api-keys/{id}", "revoke-api-key", "Revoke an API key immediately", h.revokeKey)
}

// KeyView is an API key as clients see it. It is exported because it is embedded: the framework reads only exported
// fields.
type KeyView struct {
	APIKeyID       string                          `json:"api_key_id"`
	OrganizationID *string                         `json:"organization_id"`
	UserID         string                          `json:"user_id"`
	Name           string                          `json:"name"`
	Level          string                          `json:"level" enum:"read,run,manage,admin,operator"`
	Sees           catalog.Visibility              `json:"sees" enum:"own,organization" doc:"organization: all chats with agents that its user may use, for monitoring; own: the chats that its user sees"`
	Prefix         string                          `json:"prefix"`
	ExpiresAt      *string                         `json:"expires_at"`
	PreviousUntil  *string                         `json:"previous_until" doc:"the previous secret is valid until this time; older secrets keep their own end times"`
	Budget         httpapi.Nullable[record.Budget] `json:"budget"`
	LastUsedAt     *string                         `json:"last_used_at" doc:"accurate to about one minute"`
	CreatedAt      string                          `json:"created_at"`
	UpdatedAt      string                          `json:"updated_at"`
}

func viewKey(k catalog.APIKey, used time.Time) KeyView {
	return KeyView{
		APIKeyID:       k.ID,
		OrganizationID: httpapi.OptionalOwner(k.Organization),
		UserID:         k.UserID,
		Name:           k.Name,
		Level:          k.Level,
		Sees:           cmp.Or(k.Sees, catalog.SeesOwn),
		Prefix:         k.Prefix,
		ExpiresAt:      httpapi.OptionalTime(k.ExpiresAt),
		PreviousUntil:  httpapi.OptionalTime(k.PreviousUntil),
		Budget:         httpapi.Nullable[record.Budget]{Value: k.Budget},
		LastUsedAt:     httpapi.OptionalTime(used),
		CreatedAt:      events.Time(k.CreatedAt),
		UpdatedAt:      events.Time(k.UpdatedAt),
	}
}

type newKeyView struct {
	KeyView
	Key string `json:"key" doc:"the secret; only this response contains it"`
}

func (h *handlers) createKey(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		Name           string                       `json:"name" required:"true" minLength:"1" maxLength:"200"`
		UserID         string                       `json:"user_id,omitempty" doc:"the owner; by default the caller, except with X-Organization"`
		Level          string                       `json:"level,omitempty" enum:"read,run,manage,admin,operator" default:"run"`
		Sees           catalog.Visibility           `json:"sees,omitempty" enum:"own,organization" default:"own" doc:"organization: all chats with agents that its user may use, for monitoring; only for levels read and run"`
		ExpiresAt      *time.Time                   `json:"expires_at,omitempty" nullable:"true"`
		Budget         httpapi.Patch[record.Budget] `json:"budget,omitzero"`
		OrganizationID httpapi.Nullable[string]     `json:"organization_id,omitzero" doc:"for operators: the user's organization, or null for none"`
	}
}) (*answer[newKeyView], error) {
	organization, err := h.target(ctx, p, in.Body.OrganizationID)
	if err != nil {
		return nil, err
	}
	k := tenant.NewKey{
		Name:   in.Body.Name,
		UserID: in.Body.UserID,
		Level:  tenant.Level(in.Body.Level),
		Sees:   in.Body.Sees,
		Budget: tenant.BudgetEdit(in.Body.Budget.RawMessage),
	}
	if k.UserID == "" && p.Acting {
		return nil, problem.InvalidField("body.user_id",
			"is required, because an operator is not a user of this organization")
	}
	if k.UserID == "" {
		k.UserID = p.User
	}
	if !host.ValidID(k.UserID) {
		return nil, problem.InvalidField("body.user_id", "must be an identifier of 24 hex digits")
	}
	if in.Body.ExpiresAt != nil {
		k.ExpiresAt = in.Body.ExpiresAt.UTC().Truncate(time.Millisecond)
	}
	e, text, err := h.Tenants.CreateKey(ctx, p, record.Of(organization), k)
	return httpapi.Versioned(e.Version(), newKeyView{KeyView: viewKey(e.Value, time.Time{}), Key: text}), err
}

type keyList struct {
	APIKeys    []KeyView `json:"api_keys"`
	NextCursor *string   `json:"next_cursor"`
}

func (h *handlers) listKeys(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	UserID httpapi.ID `query:"user_id" doc:"whose keys"`
}) (*answer[keyList], error) {
	rows, next, err := httpapi.Resources(ctx, h.Store, p.Scope(), in.Paging, func(k catalog.APIKey) bool {
		return in.UserID == "" || k.UserID == string(in.UserID)
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(rows))
	for _, e := range rows {
		ids = append(ids, e.Value.ID)
	}
	used, err := record.LastUses[catalog.APIKey](ctx, h.Store, ids...)
	if err != nil {
		return nil, err
	}
	list := keyList{APIKeys: []KeyView{}, NextCursor: next}
	for i, e := range rows {
		list.APIKeys = append(list.APIKeys, viewKey(e.Value, used[i]))
	}
	return httpapi.Body(list), nil
}

func (h *handlers) keyAnswer(
	ctx context.Context, e record.Entity[catalog.APIKey], err error,
) (*answer[KeyView], error) {
	if err != nil {
		return nil, err
	}
	used, err := record.LastUses[catalog.APIKey](ctx, h.Store, e.Value.ID)
	if err != nil {
		return nil, err
	}
	return httpapi.Versioned(e.Version(), viewKey(e.Value, used[0])), nil
}

func (h *handlers) readKey(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[KeyView], error) {
	e, err := record.Resource[catalog.APIKey](ctx, h.Store, h.reach(p), in.ID)
	return h.keyAnswer(ctx, e, err)
}

func (h *handlers) editKey(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	Body struct {
		Name      *string                      `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Sees      *catalog.Visibility          `json:"sees,omitempty" enum:"own,organization" doc:"as at creation"`
		ExpiresAt httpapi.Nullable[time.Time]  `json:"expires_at,omitzero"`
		Budget    httpapi.Patch[record.Budget] `json:"budget,omitzero" doc:"null: none"`
	}
}) (*answer[KeyView], error) {
	e, err := h.Tenants.EditKey(ctx, p, h.reach(p), in.ID, in.Precondition(), tenant.KeyEdit{
		Name: in.Body.Name, Sees: in.Body.Sees, ExpiresAt: in.Body.ExpiresAt.Edit(),
		Budget: tenant.BudgetEdit(in.Body.Budget.RawMessage),
	})
	return h.keyAnswer(ctx, e, err)
}

func (h *handlers) rotateKey(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body *overlap
}) (*answer[newKeyView], error) {
	e, text, err := h.Tenants.RotateKey(ctx, p, h.reach(p), in.ID, in.Body.duration())
	if err != nil {
		return nil, err
	}
	view := viewKey(e.Value, time.Time{})
	if shown, err := h.keyAnswer(ctx, e, nil); err == nil { // the answer must have the new text all the same
		view = shown.Body
	}
	return httpapi.Versioned(e.Version(), newKeyView{KeyView: view, Key: text}), nil
}

func (h *handlers) revokeKey(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	return nil, h.Tenants.RevokeKey(ctx, p, h.reach(p), in.ID)
}
