package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (s *Server) organizationRoutes() {
	operator, admin := tenant.LevelOperator, tenant.LevelAdmin
	register(s, operation{method: "POST", path: "/organizations", level: operator, status: http.StatusCreated, id: "create-organization", summary: "Create an organization", tag: "organizations"}, s.createOrganization)
	register(s, operation{method: "GET", path: "/organizations", level: operator, id: "list-organizations", summary: "List organizations", tag: "organizations"}, s.listOrganizations)
	register(s, operation{method: "GET", path: "/organizations/{id}", level: operator, id: "read-organization", summary: "Read an organization", tag: "organizations"}, s.readOrganization)
	register(s, operation{method: "PATCH", path: "/organizations/{id}", level: operator, id: "edit-organization", summary: "Change an organization", tag: "organizations"}, s.editOrganization)
	register(s, operation{method: "DELETE", path: "/organizations/{id}", level: operator, status: http.StatusNoContent, id: "delete-organization", summary: "Delete an organization and all it owns", tag: "organizations"}, s.deleteOrganization)
	register(s, operation{method: "GET", path: "/organization", level: admin, id: "read-own-organization", summary: "Read this key's organization", tag: "organizations"}, s.readOwnOrganization)
	register(s, operation{method: "PATCH", path: "/organization", level: admin, id: "edit-own-organization", summary: "Change this key's organization", tag: "organizations"}, s.editOwnOrganization)
	register(s, operation{method: "POST", path: "/organization/webhook-secret/rotate", level: admin, id: "rotate-webhook-secret", summary: "Give the organization a new webhook secret", tag: "organizations"}, s.rotateSecret)
}

type capsView struct {
	User         *int `json:"user,omitempty" nullable:"true" doc:"active runs of a user; null: the deployment's default"`
	Organization *int `json:"organization,omitempty" nullable:"true" doc:"active runs of the organization; null: the deployment's default"`
}

type rateView struct {
	RequestsPerMinute *int `json:"requests_per_minute,omitempty" nullable:"true"`
	Burst             *int `json:"burst,omitempty" nullable:"true"`
}

type ceilingsView struct {
	Caps      *capsView `json:"caps,omitempty"`
	RateLimit *rateView `json:"rate_limit,omitempty"`
}

type organizationView struct {
	OrganizationID          string                  `json:"organization_id"`
	Name                    string                  `json:"name"`
	Caps                    capsView                `json:"caps"`
	RateLimit               rateView                `json:"rate_limit"`
	Ceilings                ceilingsView            `json:"ceilings" doc:"up to which admins may set caps and rates"`
	RunRetentionDays        *int                    `json:"run_retention_days" doc:"null: runs are kept"`
	Budget                  nullable[record.Budget] `json:"budget"`
	WebhookSecretConfigured bool                    `json:"webhook_secret_configured"`
	CreatedAt               string                  `json:"created_at"`
	UpdatedAt               string                  `json:"updated_at"`
}

func (s *Server) viewOrganization(o record.Organization) organizationView {
	userCap, organizationCap := s.Tenants.CapsOf(o, record.User{})
	perMinute, burst := s.Tenants.Rate(o)
	most := s.Tenants.Ceilings(o)
	v := organizationView{
		Ceilings:       ceilingsView{&capsView{&most.UserCap, &most.Cap}, &rateView{&most.RateLimit, &most.RateBurst}},
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
	Ceilings         nullable[ceilingsView]  `json:"ceilings,omitzero" doc:"for operators: up to which admins may set caps and rates; null: the deployment's settings"`
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
	type limits struct {
		Caps      map[string]*int `json:"caps"`
		RateLimit map[string]*int `json:"rate_limit"`
	}
	var raw struct {
		limits

		Ceilings limits                     `json:"ceilings"`
		Rest     map[string]json.RawMessage `json:"-"`
	}
	if err := decode("body", in.RawBody, &raw); err != nil {
		return tenant.OrganizationEdit{}, err
	}
	if err := decode("body", in.RawBody, &raw.Rest); err != nil {
		return tenant.OrganizationEdit{}, err
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
		{raw.Ceilings.Caps, "user", "body.ceilings.caps.user", &e.Ceilings.UserCap},
		{raw.Ceilings.Caps, "organization", "body.ceilings.caps.organization", &e.Ceilings.Cap},
		{raw.Ceilings.RateLimit, "requests_per_minute", "body.ceilings.rate_limit.requests_per_minute", &e.Ceilings.RateLimit},
		{raw.Ceilings.RateLimit, "burst", "body.ceilings.rate_limit.burst", &e.Ceilings.RateBurst},
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
	if string(raw.Rest["ceilings"]) == "null" {
		e.Ceilings = tenant.LimitsEdit{UserCap: new(int), Cap: new(int), RateLimit: new(int), RateBurst: new(int)}
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

func (s *Server) readOrganization(ctx context.Context, _ tenant.Principal, in *IDPath) (*answer[organizationView], error) {
	if err := in.check("organization"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.ReadOrganization(ctx, in.ID)
	return s.organizationAnswer(e), err
}

func (s *Server) editOrganization(ctx context.Context, p tenant.Principal, in *struct {
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
	e, err := s.Tenants.EditOrganization(ctx, p, in.ID, in.precondition(), edit)
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
	e, err := s.Tenants.EditOrganization(ctx, p, id, in.precondition(), edit)
	return s.organizationAnswer(e), err
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
