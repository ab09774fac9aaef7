package tenant

import (
	"context"
	"encoding/base64"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// OrganizationEdit changes what is set; pointers to zero reset to the deployment's default.
type OrganizationEdit struct {
	Name          *string
	UserCap       *int
	Cap           *int
	RateLimit     *int
	RateBurst     *int
	RetentionDays *int
	Secret        *string
	Budget        BudgetEdit
}

func (e OrganizationEdit) apply(o *record.Organization) error {
	if e.Name != nil {
		if *e.Name == "" || len(*e.Name) > 200 {
			return problem.InvalidField("body.name", "must have 1 to 200 characters")
		}
		o.Name = *e.Name
	}
	for _, n := range []struct {
		name string
		from *int
		to   *int
		most int
	}{
		{"body.caps.user", e.UserCap, &o.UserCap, 1_000_000},
		{"body.caps.organization", e.Cap, &o.Cap, 1_000_000},
		{"body.rate_limit.requests_per_minute", e.RateLimit, &o.RateLimit, 10_000_000},
		{"body.rate_limit.burst", e.RateBurst, &o.RateBurst, 10_000_000},
		{"body.run_retention_days", e.RetentionDays, &o.RetentionDays, 36_500},
	} {
		if n.from == nil {
			continue
		}
		if *n.from < 0 || *n.from > n.most {
			return problem.InvalidField(n.name, "must be between 1 and %d", n.most)
		}
		*n.to = *n.from
	}
	if err := e.Budget.apply(&o.Budget); err != nil {
		return err
	}
	if e.Secret != nil {
		if len(*e.Secret) > 4096 {
			return problem.InvalidField("body.webhook_secret", "must have at most 4096 characters")
		}
		o.Secret, o.PreviousSecret, o.PreviousUntil = *e.Secret, "", time.Time{}
	}
	return nil
}

// apply makes an edit, and seals the secret that it brings.
func (t *Tenants) apply(ctx context.Context, e OrganizationEdit, o *record.Organization) error {
	if err := e.apply(o); err != nil || e.Secret == nil || o.Secret == "" {
		return err
	}
	sealed, err := t.sealer.Seal(ctx, o.ID, o.Secret)
	o.Secret = sealed
	return err
}

// CreateOrganization makes a tenant. The principal is an operator.
func (t *Tenants) CreateOrganization(ctx context.Context, e OrganizationEdit) (record.Entity[record.Organization], error) {
	now := t.host.Now()
	o := record.Organization{ID: t.host.NewID(), CreatedAt: now, UpdatedAt: now}
	if e.Name == nil {
		return record.Entity[record.Organization]{}, problem.InvalidField("body.name", "is required")
	}
	if err := t.apply(ctx, e, &o); err != nil {
		return record.Entity[record.Organization]{}, err
	}
	return t.createOrganization(ctx, o)
}

func (t *Tenants) createOrganization(ctx context.Context, o record.Organization) (record.Entity[record.Organization], error) {
	// Every organisation has its daily retention job from the start; while nothing is to be removed it costs a look a day.
	job, err := record.PutJob(record.Fresh(record.Job{
		ID: retentionJob(o.ID), Organization: o.ID, Kind: record.Retention, Subject: o.ID, Due: t.host.Now().Add(24 * time.Hour),
	}), o.ID)
	if err != nil {
		return record.Entity[record.Organization]{}, err
	}
	return record.Create(ctx, t.store, o, o.ID, job)
}

func retentionJob(organization string) string { return record.DerivedID("retention", organization) }

// ReadOrganization reads an organisation that is there.
func (t *Tenants) ReadOrganization(ctx context.Context, id string) (record.Entity[record.Organization], error) {
	e, err := record.Resource[record.Organization](ctx, t.store, record.System(), id)
	if err == nil && e.Value.Deleted {
		err = problem.Missing("organization " + id)
	}
	return e, err
}

// EditOrganization changes an organisation.
func (t *Tenants) EditOrganization(
	ctx context.Context, id string, match record.Match, edit OrganizationEdit,
) (record.Entity[record.Organization], error) {
	return t.changeOrganization(ctx, id, match, func(o *record.Organization, _ string) ([]table.Op, error) {
		return nil, t.apply(ctx, edit, o)
	})
}

// changeOrganization edits an organisation that is there.
func (t *Tenants) changeOrganization(
	ctx context.Context, id string, match record.Match, edit func(o *record.Organization, move string) ([]table.Op, error),
) (record.Entity[record.Organization], error) {
	return record.Change(ctx, t.store, record.System(), id, match, func(o *record.Organization, move string) ([]table.Op, error) {
		if o.Deleted {
			return nil, problem.Missing("organization " + id)
		}
		o.UpdatedAt = t.host.Now()
		return edit(o, move)
	})
}

// DefaultOverlap is how long an old secret or key stays good after a rotation that names no time.
const DefaultOverlap = 24 * time.Hour

// RotateWebhookSecret gives an organisation a new webhook secret. The old one stays in use for the overlap.
func (t *Tenants) RotateWebhookSecret(ctx context.Context, id string, overlap time.Duration) (secret string, until time.Time, err error) {
	secret = "whsec_" + base64.StdEncoding.EncodeToString(randomBytes(t.host, 32))
	sealed, err := t.sealer.Seal(ctx, id, secret)
	if err != nil {
		return "", until, err
	}
	_, err = t.changeOrganization(ctx, id, 0, func(o *record.Organization, _ string) ([]table.Op, error) {
		until = time.Time{}
		o.PreviousSecret, o.PreviousUntil = "", time.Time{}
		if o.Secret != "" && overlap > 0 {
			until = t.host.Now().Add(overlap)
			o.PreviousSecret, o.PreviousUntil = o.Secret, until
		}
		o.Secret = sealed
		return nil, nil
	})
	return secret, until, err
}

// RemoveOrganization refuses the organisation's keys at once and has everything it owns removed.
func (t *Tenants) RemoveOrganization(ctx context.Context, id string) (job string, err error) {
	_, err = t.changeOrganization(ctx, id, 0, func(o *record.Organization, move string) ([]table.Op, error) {
		job, o.Deleted = move, true
		return t.removalJob(job, id, record.RemoveOrganization, id)
	})
	return job, err
}

// removalJob is the write of a job that removes in the background what hangs on a subject.
func (t *Tenants) removalJob(id, organization string, kind record.JobKind, subject string) ([]table.Op, error) {
	op, err := record.PutJob(record.Fresh(record.Job{ID: id, Organization: organization, Kind: kind, Subject: subject, Due: t.host.Now()}), id)
	return []table.Op{op}, err
}
