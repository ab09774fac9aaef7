package accounts

import (
	"cmp"
	"context"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) organizationRoutes() {
	r := h.admins("organizations", "organization")
	operators := r
	operators.Read, operators.Write = tenant.LevelOperator, tenant.LevelOperator
	httpapi.Route(operators, "POST /organizations", "create-organization",
		"Create an organization", h.createOrganization, httpapi.Created, httpapi.Needs("name"))
	httpapi.Route(operators, "GET /organizations", "list-organizations", "List organizations", h.listOrganizations)
	httpapi.Route(operators, "GET /organizations/{id}", "read-organization", "Read an organization", h.readOrganization)
	httpapi.Route(operators, "PATCH /organizations/{id}", "edit-organization",
		"Change an organization", h.editOrganization)
	httpapi.Route(operators, "DELETE /organizations/{id}", "delete-organization",
		"Delete an organization and all it owns", h.deleteOrganization)
	httpapi.Route(r, "GET /organization", "read-own-organization",
		"Read this key's organization", h.readOwnOrganization)
	httpapi.Route(r, "PATCH /organization", "edit-own-organization",
		"Change this key's organization", h.editOwnOrganization)
	httpapi.Route(r, "POST /organization/webhook-secret/rotate", "rotate-webhook-secret",
		"Give the organization a new webhook secret", h.rotateSecret)
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
	OrganizationID          string                          `json:"organization_id"`
	Name                    string                          `json:"name"`
	Caps                    capsView                        `json:"caps"`
	RateLimit               rateView                        `json:"rate_limit"`
	Ceilings                ceilingsView                    `json:"ceilings" doc:"up to which admins may set caps and rates"`
	RunRetentionDays        *int                            `json:"run_retention_days" doc:"null: runs are kept"`
	Budget                  httpapi.Nullable[record.Budget] `json:"budget"`
	Prices                  []catalog.Price                 `json:"prices" doc:"by which the analytics show costs: per million tokens; none: no costs"`
	Currency                string                          `json:"currency" doc:"of the prices"`
	WebhookSecretConfigured bool                            `json:"webhook_secret_configured"`
	CreatedAt               string                          `json:"created_at"`
	UpdatedAt               string                          `json:"updated_at"`
}

func (h *handlers) viewOrganization(o catalog.Organization) organizationView {
	userCap, organizationCap := h.Tenants.CapsOf(o, catalog.User{})
	perMinute, burst := h.Tenants.Rate(o)
	most := h.Tenants.Ceilings(o)
	return organizationView{
		Ceilings:       ceilingsView{&capsView{&most.UserCap, &most.Cap}, &rateView{&most.RateLimit, &most.RateBurst}},
		OrganizationID: o.ID,
		Name:           o.Name,
		Caps:           capsView{User: &userCap, Organization: &organizationCap},
		RateLimit: rateView{
			RequestsPerMinute: &perMinute,
			Burst:             &burst,
		},
		Prices:                  append([]catalog.Price{}, o.Prices...),
		Currency:                cmp.Or(o.Currency, catalog.DefaultCurrency),
		WebhookSecretConfigured: o.Secret != "",
		RunRetentionDays:        httpapi.Optional(o.RetentionDays),
		Budget:                  httpapi.Nullable[record.Budget]{Value: o.Budget},
		CreatedAt:               events.Time(o.CreatedAt),
		UpdatedAt:               events.Time(o.UpdatedAt),
	}
}

// organizationBody is what a client may say about an organisation. A member that is null goes back to its default.
type organizationBody struct {
	Name             *string                         `json:"name,omitempty" maxLength:"200"`
	Caps             *capsView                       `json:"caps,omitempty"`
	RateLimit        *rateView                       `json:"rate_limit,omitempty"`
	Ceilings         httpapi.Nullable[ceilingsView]  `json:"ceilings,omitzero" doc:"for operators: up to which admins may set caps and rates; null: the deployment's settings"`
	RunRetentionDays *int                            `json:"run_retention_days,omitempty" minimum:"1" maximum:"36500" nullable:"true"`
	Budget           httpapi.Nullable[record.Budget] `json:"budget,omitzero" doc:"null: none"`
	Prices           *[]catalog.Price                `json:"prices,omitempty" maxItems:"200" nullable:"true" doc:"null or none: no costs"`
	Currency         *string                         `json:"currency,omitempty" pattern:"^[A-Z]{3}$" nullable:"true"`
	WebhookSecret    *string                         `json:"webhook_secret,omitempty" maxLength:"4096" nullable:"true" doc:"write-only; any text"`
}

// OrganizationInput is the body of what makes or changes an organisation.
type OrganizationInput struct {
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

		Ceilings limits `json:"ceilings"`
	}
	if err := httpapi.Decode("body", in.RawBody, &raw); err != nil {
		return tenant.OrganizationEdit{}, err
	}
	e := tenant.OrganizationEdit{
		Name:          in.Body.Name,
		RetentionDays: in.Body.RunRetentionDays,
		Secret:        in.Body.WebhookSecret,
		Budget:        budgetIn(in.RawBody),
		Prices:        in.Body.Prices,
		Currency:      in.Body.Currency,
	}
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
		{raw.Ceilings.RateLimit, "requests_per_minute", "body.ceilings.rate_limit.requests_per_minute",
			&e.Ceilings.RateLimit},
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
	null := nullsIn(in.RawBody)
	if null["ceilings"] {
		e.Ceilings = tenant.LimitsEdit{UserCap: new(int), Cap: new(int), RateLimit: new(int), RateBurst: new(int)}
	}
	reset(null, "run_retention_days", &e.RetentionDays)
	reset(null, "prices", &e.Prices)
	reset(null, "currency", &e.Currency)
	reset(null, "webhook_secret", &e.Secret)
	return e, nil
}

func (h *handlers) organizationAnswer(
	e record.Entity[catalog.Organization], err error,
) (*answer[organizationView], error) {
	return httpapi.Shows(h.viewOrganization)(e, err)
}

func (h *handlers) createOrganization(
	ctx context.Context, _ tenant.Principal, in *OrganizationInput,
) (*answer[organizationView], error) {
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	return h.organizationAnswer(h.Tenants.CreateOrganization(ctx, edit))
}

type organizationList struct {
	Organizations []organizationView `json:"organizations"`
	NextCursor    *string            `json:"next_cursor"`
}

func (h *handlers) listOrganizations(
	ctx context.Context, _ tenant.Principal, in *httpapi.Paging,
) (*answer[organizationList], error) {
	rows, next, err := httpapi.Resources(ctx, h.Store, record.System(), *in, func(o catalog.Organization) bool {
		return !o.Deleted
	})
	return httpapi.Body(organizationList{httpapi.Views(rows, h.viewOrganization), next}), err
}

func (h *handlers) readOrganization(
	ctx context.Context, _ tenant.Principal, in *httpapi.IDPath,
) (*answer[organizationView], error) {
	return h.organizationAnswer(h.Tenants.ReadOrganization(ctx, in.ID))
}

func (h *handlers) editOrganization(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	OrganizationInput
}) (*answer[organizationView], error) {
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	return h.organizationAnswer(h.Tenants.EditOrganization(ctx, p, in.ID, in.Precondition(), edit))
}

func (h *handlers) deleteOrganization(ctx context.Context, _ tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	job, err := h.Tenants.RemoveOrganization(ctx, in.ID)
	return h.Began(ctx, job, in.ID, err)
}

func (h *handlers) readOwnOrganization(
	ctx context.Context, p tenant.Principal, _ *struct{},
) (*answer[organizationView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	return h.organizationAnswer(h.Tenants.ReadOrganization(ctx, id))
}

func (h *handlers) editOwnOrganization(
	ctx context.Context, p tenant.Principal, in *struct {
		httpapi.Match
		OrganizationInput
	},
) (*answer[organizationView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	return h.organizationAnswer(h.Tenants.EditOrganization(ctx, p, id, in.Precondition(), edit))
}

type secretView struct {
	Secret        string  `json:"secret"`
	PreviousUntil *string `json:"previous_until" doc:"until then the previous secret is used as well"`
}

func (h *handlers) rotateSecret(
	ctx context.Context, p tenant.Principal, in *struct{ Body *overlap },
) (*answer[secretView], error) {
	id, err := own(p)
	if err != nil {
		return nil, err
	}
	secret, until, err := h.Tenants.RotateWebhookSecret(ctx, id, in.Body.duration())
	return &answer[secretView]{
		Body: secretView{Secret: secret, PreviousUntil: httpapi.OptionalTime(until)},
	}, err
}
