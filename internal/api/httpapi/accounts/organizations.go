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
		"Delete an organization and all its resources", h.deleteOrganization)
	httpapi.Route(r, "GET /organization", "read-own-organization",
		"Read this key's organization", h.readOwnOrganization)
	httpapi.Route(r, "PATCH /organization", "edit-own-organization",
		"Change this key's organization", h.editOwnOrganization)
	httpapi.Route(r, "POST /organization/webhook-secret/rotate", "rotate-webhook-secret",
		"Rotate the organization's webhook secret", h.rotateSecret)
}

type capsView struct {
	User         httpapi.Nullable[int] `json:"user,omitzero" doc:"active runs of a user; null: the deployment's default"`
	Organization httpapi.Nullable[int] `json:"organization,omitzero" doc:"active runs of the organization; null: the deployment's default"`
}

type rateView struct {
	RequestsPerMinute httpapi.Nullable[int] `json:"requests_per_minute,omitzero"`
	Burst             httpapi.Nullable[int] `json:"burst,omitzero"`
}

type ceilingsView struct {
	Caps      *capsView `json:"caps,omitempty"`
	RateLimit *rateView `json:"rate_limit,omitempty"`

	OrganizationRateLimit *rateView `json:"organization_rate_limit,omitempty"`
}

type organizationView struct {
	OrganizationID          string                          `json:"organization_id"`
	Name                    string                          `json:"name"`
	Caps                    capsView                        `json:"caps"`
	RateLimit               rateView                        `json:"rate_limit"`
	OrganizationRateLimit   rateView                        `json:"organization_rate_limit" doc:"for all keys together"`
	Ceilings                ceilingsView                    `json:"ceilings" doc:"the highest caps and rates that admins may set"`
	RunRetentionDays        *int                            `json:"run_retention_days" doc:"null: runs are kept"`
	Budget                  httpapi.Nullable[record.Budget] `json:"budget"`
	Prices                  []catalog.Price                 `json:"prices" doc:"prices for the costs in analytics, per million tokens; empty: no costs"`
	Currency                string                          `json:"currency" doc:"the currency of the prices"`
	ChatVisibility          catalog.Visibility              `json:"chat_visibility" enum:"own,organization" doc:"access to chats, their runs and files. own: the user and managers; organization: all users with access to the agent"`
	WebhookSecretConfigured bool                            `json:"webhook_secret_configured"`
	CreatedAt               string                          `json:"created_at"`
	UpdatedAt               string                          `json:"updated_at"`
}

func caps(user, organization int) *capsView {
	return &capsView{httpapi.Nullable[int]{Value: &user}, httpapi.Nullable[int]{Value: &organization}}
}

func rate(perMinute, burst int) *rateView {
	return &rateView{httpapi.Nullable[int]{Value: &perMinute}, httpapi.Nullable[int]{Value: &burst}}
}

func (h *handlers) viewOrganization(o catalog.Organization) organizationView {
	userCap, organizationCap := h.Tenants.CapsOf(o, catalog.User{})
	perMinute, burst := h.Tenants.Rate(o)
	allPerMinute, allBurst := h.Tenants.OrganizationRate(o)
	most := h.Tenants.Ceilings(o)
	return organizationView{
		OrganizationID:        o.ID,
		Name:                  o.Name,
		Caps:                  *caps(userCap, organizationCap),
		RateLimit:             *rate(perMinute, burst),
		OrganizationRateLimit: *rate(allPerMinute, allBurst),
		Ceilings: ceilingsView{
			caps(most.UserCap, most.Cap), rate(most.RateLimit, most.RateBurst),
			rate(most.OrganizationRate, most.OrganizationBurst),
		},
		Prices:                  append([]catalog.Price{}, o.Prices...),
		Currency:                cmp.Or(o.Currency, catalog.DefaultCurrency),
		ChatVisibility:          cmp.Or(o.ChatVisibility, catalog.SeesAll),
		WebhookSecretConfigured: o.Secret != "",
		RunRetentionDays:        httpapi.Optional(o.RetentionDays),
		Budget:                  httpapi.Nullable[record.Budget]{Value: o.Budget},
		CreatedAt:               events.Time(o.CreatedAt),
		UpdatedAt:               events.Time(o.UpdatedAt),
	}
}

// organizationBody is a client's edit of an organisation. A member that is null goes back to its default.
type organizationBody struct {
	Name             *string                           `json:"name,omitempty" maxLength:"200"`
	Caps             *capsView                         `json:"caps,omitempty"`
	RateLimit        *rateView                         `json:"rate_limit,omitempty"`
	OrganizationRate *rateView                         `json:"organization_rate_limit,omitempty" doc:"for all keys together"`
	Ceilings         httpapi.Nullable[ceilingsView]    `json:"ceilings,omitzero" doc:"for operators: the highest caps and rates that admins may set; null: the deployment's settings"`
	RunRetentionDays httpapi.Nullable[int]             `json:"run_retention_days,omitzero" minimum:"1" maximum:"36500"`
	Budget           httpapi.Patch[record.Budget]      `json:"budget,omitzero" doc:"null: none"`
	Prices           httpapi.Nullable[[]catalog.Price] `json:"prices,omitzero" maxItems:"200" doc:"null or empty: no costs"`
	Currency         httpapi.Nullable[string]          `json:"currency,omitzero" pattern:"^[A-Z]{3}$"`
	ChatVisibility   *catalog.Visibility               `json:"chat_visibility,omitempty" enum:"own,organization" doc:"access to chats, their runs and files. own: the user and managers; organization: all users with access to the agent"`
	WebhookSecret    httpapi.Nullable[string]          `json:"webhook_secret,omitzero" maxLength:"4096" doc:"write-only; any text"`
}

// OrganizationInput is the body of a request that makes or changes an organisation.
type OrganizationInput struct{ Body organizationBody }

func (in OrganizationInput) edit() (e tenant.OrganizationEdit, err error) {
	b := in.Body
	e = tenant.OrganizationEdit{
		Name:          b.Name,
		RetentionDays: b.RunRetentionDays.Edit(),
		Secret:        b.WebhookSecret.Edit(),
		Budget:        tenant.BudgetEdit(b.Budget.RawMessage),
		Prices:        b.Prices.Edit(),
		Currency:      b.Currency.Edit(),
		Visibility:    b.ChatVisibility,
	}
	if e.LimitsEdit, err = limitsIn("body.", b.Caps, b.RateLimit, b.OrganizationRate); err != nil {
		return e, err
	}
	if c := b.Ceilings.Value; c != nil {
		e.Ceilings, err = limitsIn("body.ceilings.", c.Caps, c.RateLimit, c.OrganizationRateLimit)
	} else if b.Ceilings.Present {
		e.Ceilings = tenant.LimitsEdit{
			UserCap: new(int), Cap: new(int), RateLimit: new(int), RateBurst: new(int), OrganizationRate: new(int),
			OrganizationBurst: new(int),
		}
	}
	return e, err
}

// limitsIn is the edit of limits at a place in the body.
func limitsIn(at string, c *capsView, r, of *rateView) (tenant.LimitsEdit, error) {
	c, r, of = cmp.Or(c, &capsView{}), cmp.Or(r, &rateView{}), cmp.Or(of, &rateView{})
	positive := func(n httpapi.Nullable[int], member string) error {
		return problem.InvalidIf(n.Value != nil && *n.Value < 1,
			at+member, "must be at least 1, or null for the default")
	}
	return tenant.LimitsEdit{
			UserCap: c.User.Edit(), Cap: c.Organization.Edit(),
			RateLimit: r.RequestsPerMinute.Edit(), RateBurst: r.Burst.Edit(),
			OrganizationRate: of.RequestsPerMinute.Edit(), OrganizationBurst: of.Burst.Edit(),
		}, cmp.Or(
			positive(c.User, "caps.user"), positive(c.Organization, "caps.organization"),
			positive(r.RequestsPerMinute, "rate_limit.requests_per_minute"), positive(r.Burst, "rate_limit.burst"),
			positive(of.RequestsPerMinute, "organization_rate_limit.requests_per_minute"),
			positive(of.Burst, "organization_rate_limit.burst"),
		)
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
	PreviousUntil *string `json:"previous_until" doc:"the previous secret also signs until this time"`
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
