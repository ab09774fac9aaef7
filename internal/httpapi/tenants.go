package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (s *Server) tenantRoutes() {
	operator, admin := tenant.LevelOperator, tenant.LevelAdmin
	register(s, operation{method: "POST", path: "/organizations", level: operator, status: http.StatusCreated, id: "create-organization", summary: "Create an organization", tag: "organizations"}, s.createOrganization)
	register(s, operation{method: "GET", path: "/organizations", level: operator, id: "list-organizations", summary: "List organizations", tag: "organizations"}, s.listOrganizations)
	register(s, operation{method: "GET", path: "/organizations/{id}", level: operator, id: "read-organization", summary: "Read an organization", tag: "organizations"}, s.readOrganization)
	register(s, operation{method: "PATCH", path: "/organizations/{id}", level: operator, id: "edit-organization", summary: "Change an organization", tag: "organizations"}, s.editOrganization)
	register(s, operation{method: "DELETE", path: "/organizations/{id}", level: operator, status: http.StatusNoContent, id: "delete-organization", summary: "Delete an organization and all it owns", tag: "organizations"}, s.deleteOrganization)
	register(s, operation{method: "GET", path: "/organization", level: admin, id: "read-own-organization", summary: "Read this key's organization", tag: "organizations"}, s.readOwnOrganization)
	register(s, operation{method: "PATCH", path: "/organization", level: admin, id: "edit-own-organization", summary: "Change this key's organization", tag: "organizations"}, s.editOwnOrganization)
	register(s, operation{method: "POST", path: "/organization/webhook-secret/rotate", level: admin, id: "rotate-webhook-secret", summary: "Give the organization a new webhook secret", tag: "organizations"}, s.rotateSecret)

	register(s, operation{method: "POST", path: "/users", level: admin, status: http.StatusCreated, id: "create-user", summary: "Create a user", tag: "users"}, s.createUser)
	register(s, operation{method: "GET", path: "/users", level: admin, id: "list-users", summary: "List users", tag: "users"}, s.listUsers)
	register(s, operation{method: "GET", path: "/users/{id}", level: admin, id: "read-user", summary: "Read a user", tag: "users"}, s.readUser)
	register(s, operation{method: "PATCH", path: "/users/{id}", level: admin, id: "edit-user", summary: "Change a user", tag: "users"}, s.editUser)
	register(s, operation{method: "DELETE", path: "/users/{id}", level: admin, status: http.StatusNoContent, id: "delete-user", summary: "Delete a user and what it owns", tag: "users"}, s.deleteUser)

	register(s, operation{method: "POST", path: "/api-keys", level: admin, status: http.StatusCreated, id: "create-api-key", summary: "Create an API key; its text is shown once", tag: "api keys"}, s.createKey)
	register(s, operation{method: "GET", path: "/api-keys", level: admin, id: "list-api-keys", summary: "List API keys", tag: "api keys"}, s.listKeys)
	register(s, operation{method: "GET", path: "/api-keys/{id}", level: admin, id: "read-api-key", summary: "Read an API key", tag: "api keys"}, s.readKey)
	register(s, operation{method: "PATCH", path: "/api-keys/{id}", level: admin, id: "edit-api-key", summary: "Rename an API key or change its end", tag: "api keys"}, s.editKey)
	register(s, operation{method: "POST", path: "/api-keys/{id}/rotate", level: admin, id: "rotate-api-key", summary: "Give an API key a new text", tag: "api keys"}, s.rotateKey)
	register(s, operation{method: "DELETE", path: "/api-keys/{id}", level: admin, status: http.StatusNoContent, id: "revoke-api-key", summary: "Revoke an API key at once", tag: "api keys"}, s.revokeKey)

	register(s, operation{method: "GET", path: "/analytics/usage", level: admin, id: "usage", summary: "The ledger: one entry for each ended run", tag: "analytics"}, s.usage)
}

// IDPath is the path of a resource.
type IDPath struct {
	ID string `path:"id"`
}

func (in IDPath) check(what string) error {
	if !host.ValidID(in.ID) {
		return problem.Missing(what + " " + in.ID)
	}
	return nil
}

type capsView struct {
	User         *int `json:"user,omitempty" nullable:"true" doc:"active runs of a user; null: the deployment's default"`
	Organization *int `json:"organization,omitempty" nullable:"true" doc:"active runs of the organization; null: the deployment's default"`
}

type rateView struct {
	RequestsPerMinute *int `json:"requests_per_minute,omitempty" nullable:"true"`
	Burst             *int `json:"burst,omitempty" nullable:"true"`
}

type organizationView struct {
	OrganizationID          string                  `json:"organization_id"`
	Name                    string                  `json:"name"`
	Caps                    capsView                `json:"caps"`
	RateLimit               rateView                `json:"rate_limit"`
	RunRetentionDays        *int                    `json:"run_retention_days" doc:"null: runs are kept"`
	Budget                  nullable[record.Budget] `json:"budget"`
	WebhookSecretConfigured bool                    `json:"webhook_secret_configured"`
	CreatedAt               string                  `json:"created_at"`
	UpdatedAt               string                  `json:"updated_at"`
}

func (s *Server) viewOrganization(o record.Organization) organizationView {
	userCap, organizationCap := s.Tenants.CapsOf(o, record.User{})
	perMinute, burst := s.Tenants.Rate(o)
	v := organizationView{
		OrganizationID: o.ID, Name: o.Name, Caps: capsView{User: &userCap, Organization: &organizationCap},
		RateLimit: rateView{RequestsPerMinute: &perMinute, Burst: &burst}, WebhookSecretConfigured: o.Secret != "", Budget: nullable[record.Budget]{o.Budget},
		CreatedAt: events.Time(o.CreatedAt), UpdatedAt: events.Time(o.UpdatedAt),
	}
	if o.RetentionDays > 0 {
		v.RunRetentionDays = &o.RetentionDays
	}
	return v
}

// organizationBody is what a client may say about an organisation. A member that is null goes back to its default.
type organizationBody struct {
	Name             *string                 `json:"name,omitempty" maxLength:"200"`
	Caps             *capsView               `json:"caps,omitempty"`
	RateLimit        *rateView               `json:"rate_limit,omitempty"`
	RunRetentionDays *int                    `json:"run_retention_days,omitempty" minimum:"1" maximum:"36500" nullable:"true"`
	Budget           nullable[record.Budget] `json:"budget,omitzero" doc:"null: none"`
	WebhookSecret    *string                 `json:"webhook_secret,omitempty" maxLength:"4096" nullable:"true" doc:"write-only; any text"`
}

// OrganizationInput is the body of what makes or changes an organisation.
type OrganizationInput struct {
	Match
	Body    organizationBody
	RawBody []byte
}

// edit tells a member that is null (reset) from one that is absent (leave).
func (in OrganizationInput) edit() (tenant.OrganizationEdit, error) {
	var raw struct {
		Caps      map[string]*int            `json:"caps"`
		RateLimit map[string]*int            `json:"rate_limit"`
		Rest      map[string]json.RawMessage `json:"-"`
	}
	if err := json.Unmarshal(in.RawBody, &raw); err != nil {
		return tenant.OrganizationEdit{}, problem.InvalidField("body", "%s", err)
	}
	if err := json.Unmarshal(in.RawBody, &raw.Rest); err != nil {
		return tenant.OrganizationEdit{}, problem.InvalidField("body", "%s", err)
	}
	e := tenant.OrganizationEdit{Name: in.Body.Name, RetentionDays: in.Body.RunRetentionDays, Secret: in.Body.WebhookSecret, Budget: tenant.BudgetEdit(raw.Rest["budget"])}
	for _, m := range []struct {
		from map[string]*int
		name string
		at   string
		to   **int
	}{
		{raw.Caps, "user", "body.caps.user", &e.UserCap},
		{raw.Caps, "organization", "body.caps.organization", &e.Cap},
		{raw.RateLimit, "requests_per_minute", "body.rate_limit.requests_per_minute", &e.RateLimit},
		{raw.RateLimit, "burst", "body.rate_limit.burst", &e.RateBurst},
	} {
		v, there := m.from[m.name]
		if !there {
			continue
		}
		if v == nil {
			v = new(int)
		} else if *v < 1 {
			return e, problem.InvalidField(m.at, "must be at least 1, or null for the default")
		}
		*m.to = v
	}
	if string(raw.Rest["run_retention_days"]) == "null" {
		e.RetentionDays = new(int)
	}
	if string(raw.Rest["webhook_secret"]) == "null" {
		e.Secret = new(string)
	}
	return e, nil
}

func (s *Server) organizationAnswer(e record.Entity[record.Organization]) *answer[organizationView] {
	return &answer[organizationView]{ETag: etag(e.Version()), Body: s.viewOrganization(e.Value)}
}

func (s *Server) createOrganization(ctx context.Context, _ tenant.Principal, in *OrganizationInput) (*answer[organizationView], error) {
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.CreateOrganization(ctx, edit)
	return s.organizationAnswer(e), err
}

type organizationList struct {
	Organizations []organizationView `json:"organizations"`
	NextCursor    *string            `json:"next_cursor"`
}

func (s *Server) listOrganizations(ctx context.Context, _ tenant.Principal, in *Paging) (*answer[organizationList], error) {
	page, err := resources[record.Organization](ctx, s, record.System(), *in)
	if err != nil {
		return nil, err
	}
	list := organizationList{Organizations: []organizationView{}, NextCursor: encodeCursor(page.Next)}
	for _, e := range page.Rows {
		if !e.Value.Deleted {
			list.Organizations = append(list.Organizations, s.viewOrganization(e.Value))
		}
	}
	return &answer[organizationList]{Body: list}, nil
}

// resources reads a page of a listing.
func resources[T record.Resourceful](ctx context.Context, s *Server, scope record.Scope, in Paging) (record.Page[record.Entity[T]], error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return record.Page[record.Entity[T]]{}, err
	}
	return record.Resources[T](ctx, s.Store, scope, after, in.Limit)
}

func (s *Server) readOrganization(ctx context.Context, _ tenant.Principal, in *IDPath) (*answer[organizationView], error) {
	if err := in.check("organization"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.ReadOrganization(ctx, in.ID)
	return s.organizationAnswer(e), err
}

func (s *Server) editOrganization(ctx context.Context, _ tenant.Principal, in *struct {
	IDPath
	OrganizationInput
}) (*answer[organizationView], error) {
	if err := in.check("organization"); err != nil {
		return nil, err
	}
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditOrganization(ctx, in.ID, in.precondition(), edit)
	return s.organizationAnswer(e), err
}

func (s *Server) deleteOrganization(ctx context.Context, _ tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("organization"); err != nil {
		return nil, err
	}
	job, err := s.Tenants.RemoveOrganization(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	s.began(ctx, job, in.ID)
	return nil, nil
}

// own is the principal's organisation; there is none in the scope of none.
func own(p tenant.Principal) (string, error) {
	if p.Organization.ID == record.Nobody {
		return "", problem.New(problem.NotFound, "not_found", "this key belongs to no organization")
	}
	return p.Organization.ID, nil
}

func (s *Server) readOwnOrganization(ctx context.Context, p tenant.Principal, _ *struct{}) (*answer[organizationView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.ReadOrganization(ctx, id)
	return s.organizationAnswer(e), err
}

func (s *Server) editOwnOrganization(ctx context.Context, p tenant.Principal, in *OrganizationInput) (*answer[organizationView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditOrganization(ctx, id, in.precondition(), edit)
	return s.organizationAnswer(e), err
}

type overlap struct {
	OverlapSeconds *int `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"how long the old one stays good; a day by default, 0 ends it at once"`
}

func (o *overlap) duration() time.Duration {
	if o == nil || o.OverlapSeconds == nil {
		return tenant.DefaultOverlap
	}
	return time.Duration(*o.OverlapSeconds) * time.Second
}

type secretView struct {
	Secret        string  `json:"secret"`
	PreviousUntil *string `json:"previous_until" doc:"until then the previous secret is used as well"`
}

func (s *Server) rotateSecret(ctx context.Context, p tenant.Principal, in *struct{ Body *overlap }) (*answer[secretView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	secret, until, err := s.Tenants.RotateWebhookSecret(ctx, id, in.Body.duration())
	return &answer[secretView]{Body: secretView{Secret: secret, PreviousUntil: optionalTime(until)}}, err
}

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := events.Time(t)
	return &s
}

func optionalOwner(organization string) *string {
	if organization == record.Nobody {
		return nil
	}
	return &organization
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

// budgetIn is what a body says about a budget.
func budgetIn(body []byte) tenant.BudgetEdit {
	var raw struct {
		Budget json.RawMessage `json:"budget"`
	}
	_ = json.Unmarshal(body, &raw) // it has been read before
	return tenant.BudgetEdit(raw.Budget)
}

func isNull(body []byte, member string) bool {
	var raw map[string]json.RawMessage
	return json.Unmarshal(body, &raw) == nil && string(raw[member]) == "null"
}

// target is the organisation that a creation is for: the principal's own, or the one that an operator names.
func (s *Server) target(ctx context.Context, p tenant.Principal, named *string, body []byte) (string, error) {
	null := isNull(body, "organization_id")
	switch {
	case named == nil && !null:
		return p.Organization.ID, nil
	case named != nil && *named == "":
		return "", problem.InvalidField("body.organization_id", "must be an identifier, or null for none")
	}
	wanted := record.Nobody
	if !null {
		wanted = *named
		if !host.ValidID(wanted) {
			return "", problem.InvalidField("body.organization_id", "must be an identifier of 24 hex digits, or null for none")
		}
	}
	if wanted == p.Organization.ID {
		return wanted, nil
	}
	if !p.Level.Covers(tenant.LevelOperator) {
		return "", problem.Outside("organization")
	}
	if wanted == record.Nobody {
		return wanted, nil
	}
	_, err := s.Tenants.ReadOrganization(ctx, wanted)
	return wanted, err
}

func (s *Server) createUser(ctx context.Context, p tenant.Principal, in *UserInput) (*answer[userView], error) {
	organization, err := s.target(ctx, p, in.Body.OrganizationID, in.RawBody)
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.CreateUser(ctx, organization, in.edit())
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

// reach is the scope in which a principal may manage users and keys: operators manage those of all organisations.
func (s *Server) reach(p tenant.Principal) record.Scope {
	if p.Level.Covers(tenant.LevelOperator) {
		return record.System()
	}
	return p.Scope()
}

func (s *Server) editUser(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	UserInput
}) (*answer[userView], error) {
	if err := in.check("user"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditUser(ctx, s.reach(p), in.ID, in.precondition(), in.edit())
	return userAnswer(e), err
}

func (s *Server) deleteUser(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("user"); err != nil {
		return nil, err
	}
	job, err := s.Tenants.RemoveUser(ctx, s.reach(p), in.ID)
	if err != nil {
		return nil, err
	}
	s.began(ctx, job, p.Organization.ID)
	return nil, nil
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
	e, err := s.Tenants.EditKey(ctx, s.reach(p), in.ID, in.precondition(), in.Body.Name, expiresAt, budgetIn(in.RawBody))
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
	e, text, err := s.Tenants.RotateKey(ctx, s.reach(p), in.ID, in.Body.duration())
	return &answer[newKeyView]{ETag: etag(e.Version()), Body: newKeyView{keyView: viewKey(e.Value, time.Time{}), Key: text}}, err
}

func (s *Server) revokeKey(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("api key"); err != nil {
		return nil, err
	}
	return nil, s.Tenants.RevokeKey(ctx, s.reach(p), in.ID)
}
