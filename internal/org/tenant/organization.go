package tenant

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// OrganizationEdit is an edit of an organization: nil leaves a field, a pointer to zero resets it to the deployment's
// default.
type OrganizationEdit struct {
	LimitsEdit

	Name          *string
	RetentionDays *int
	Secret        *string
	Budget        BudgetEdit
	Prices        *[]catalog.Price // pointer to none: no costs
	Currency      *string
	Visibility    *catalog.Visibility
	Ceilings      LimitsEdit // for operators
}

// LimitsEdit is an edit of limits: nil leaves a limit, a pointer to zero removes it.
type LimitsEdit struct {
	UserCap   *int
	Cap       *int
	RateLimit *int
	RateBurst *int

	OrganizationRate  *int
	OrganizationBurst *int
}

// limit is one of an organization's limits with its ceiling: where both are stored, and the edit of each.
type limit struct {
	name        string
	to, from    *int // the stored limit, and its edit (nil: none)
	over, above *int // the stored ceiling, and its edit (nil: none)
	most        int  // no limit may be above
	deployed    int  // the deployment's default; 0: none
}

func (t *Tenants) limits(e OrganizationEdit, o *catalog.Organization) []limit {
	c, d, most := &o.Ceilings, t.defaults, t.Ceilings(*o)
	return []limit{
		{"caps.user", &o.UserCap, e.UserCap, &c.UserCap, e.Ceilings.UserCap, 1_000_000, d.UserCap},
		{"caps.organization", &o.Cap, e.Cap, &c.Cap, e.Ceilings.Cap, 1_000_000, d.OrganizationCap},
		{"rate_limit.requests_per_minute", &o.RateLimit, e.RateLimit, &c.RateLimit, e.Ceilings.RateLimit, 10_000_000,
			d.RateLimit},
		{"rate_limit.burst", &o.RateBurst, e.RateBurst, &c.RateBurst, e.Ceilings.RateBurst, 10_000_000, d.RateBurst},
		{"organization_rate_limit.requests_per_minute", &o.OrganizationRate, e.OrganizationRate, &c.OrganizationRate,
			e.Ceilings.OrganizationRate, 100_000_000, most.OrganizationRate},
		{"organization_rate_limit.burst", &o.OrganizationBurst, e.OrganizationBurst, &c.OrganizationBurst,
			e.Ceilings.OrganizationBurst, 100_000_000, most.OrganizationBurst},
	}
}

// apply sets a limit and its ceiling. Only operators set ceilings; for others the deployment's default is the ceiling
// if none is set. It returns a problem of kind Forbidden or Invalid.
func (l limit) apply(by Principal) error {
	operator := by.Level.Covers(LevelOperator)
	shown := firstSet(*l.over, l.deployed)
	switch {
	case l.above == nil, *l.above == *l.over, !operator && *l.above == shown: // unset, or as it was shown
	case !operator:
		return problem.New(problem.Forbidden, "insufficient_permission",
			"only operators may set ceilings").With("level_needed", LevelOperator)
	case *l.above < 0 || *l.above > l.most:
		return problem.InvalidField("body.ceilings."+l.name, "must be between 1 and %d", l.most)
	default:
		*l.over = *l.above
	}
	if l.from == nil || *l.from == *l.to {
		return nil
	}
	if *l.from < 0 || *l.from > l.most {
		return problem.InvalidField("body."+l.name, "must be between 1 and %d", l.most)
	}
	ceiling := *l.over
	if !operator {
		ceiling = firstSet(ceiling, l.deployed)
	}
	if ceiling > 0 && *l.from > ceiling {
		return problem.InvalidField("body."+l.name, "must be at most %d, the ceiling that operators set", ceiling)
	}
	*l.to = *l.from
	return nil
}

func (e OrganizationEdit) apply(o *catalog.Organization) error {
	set(&o.Name, e.Name)
	set(&o.RetentionDays, e.RetentionDays)
	set(&o.Prices, e.Prices)
	set(&o.Currency, e.Currency)
	setVisibility(&o.ChatVisibility, e.Visibility, catalog.SeesAll)
	if e.Secret != nil {
		o.Secret, o.PreviousSecret, o.PreviousUntil, o.EarlierSecrets = *e.Secret, "", time.Time{}, nil
	}
	return cmp.Or(
		checkName(o.Name),
		problem.InvalidIf(o.RetentionDays < 0 || o.RetentionDays > 36_500,
			"body.run_retention_days", "must be between 1 and 36500"),
		e.Budget.apply(&o.Budget),
		checkPrices(e.Prices),
		checkVisibility("body.chat_visibility", o.ChatVisibility),
		problem.InvalidIf(o.Currency != "" && !isCurrency(o.Currency),
			"body.currency", "must be three capital letters, like USD"),
		problem.InvalidIf(e.Secret != nil && utf8.RuneCountInString(o.Secret) > 4096,
			"body.webhook_secret", "must have at most 4096 characters"),
	)
}

// checkVisibility returns a problem of kind Invalid at the field for a visibility that does not exist.
func checkVisibility(field string, v catalog.Visibility) error {
	known := v == "" || v == catalog.SeesOwn || v == catalog.SeesAll
	return problem.InvalidIf(!known, field, "must be own or organization")
}

// setVisibility sets a visibility that is named and differs from the stored one. empty is the meaning of an empty one.
func setVisibility(to, named *catalog.Visibility, empty catalog.Visibility) {
	if named != nil && *named != cmp.Or(*to, empty) {
		*to = *named
	}
}

// Limits of a price table.
const (
	MaxPrices = 200
	maxPrice  = 1e9 // per million tokens
)

// checkPrices returns a problem of kind Invalid that names the first invalid price.
func checkPrices(edit *[]catalog.Price) error {
	if edit == nil {
		return nil
	}
	if len(*edit) > MaxPrices {
		return problem.InvalidField("body.prices", "must have at most %d prices", MaxPrices)
	}
	seen := map[string]bool{}
	for i, p := range *edit {
		at := fmt.Sprintf("body.prices[%d].", i)
		provider, name, named := strings.Cut(p.Model, "/")
		switch {
		case !named || provider == "" || name == "" || len(p.Model) > catalog.MaxModelName:
			return problem.InvalidField(at+"model", "must be provider/name, like openai/gpt-5")
		case seen[p.Model]:
			return problem.InvalidField(at+"model", "%q has a price already", p.Model)
		case !(p.Input >= 0 && p.Input <= maxPrice):
			return problem.InvalidField(at+"input", "must be between 0 and %.0f", maxPrice)
		case !(p.Output >= 0 && p.Output <= maxPrice):
			return problem.InvalidField(at+"output", "must be between 0 and %.0f", maxPrice)
		}
		seen[p.Model] = true
	}
	return nil
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// apply makes a principal's edit, and seals the secret in it.
func (t *Tenants) apply(ctx context.Context, by Principal, e OrganizationEdit, o *catalog.Organization) error {
	for _, l := range t.limits(e, o) {
		if err := l.apply(by); err != nil {
			return err
		}
	}
	if err := e.apply(o); err != nil || e.Secret == nil || o.Secret == "" {
		return err
	}
	sealed, err := t.sealer.Seal(ctx, o.ID, o.Secret)
	o.Secret = sealed
	return err
}

// CreateOrganization creates an organization; the caller has checked that an operator sent the request. It returns a
// problem of kind Invalid that names the field, or the sealer's error.
func (t *Tenants) CreateOrganization(
	ctx context.Context, e OrganizationEdit,
) (record.Entity[catalog.Organization], error) {
	now := t.host.Now()
	o := catalog.Organization{
		ID: t.host.NewID(), ChatVisibility: catalog.SeesOwn, ListedByUser: true, CreatedAt: now, UpdatedAt: now,
	}
	if e.Name == nil {
		return record.Entity[catalog.Organization]{}, problem.InvalidField("body.name", "is required")
	}
	if err := t.apply(ctx, Platform(), e, &o); err != nil {
		return record.Entity[catalog.Organization]{}, err
	}
	// Every organization has its daily retention job from the start. It costs one read a day while there is nothing to
	// delete.
	tx := t.store.Begin(o.ID)
	tx.PutJob(record.Fresh(record.Job{
		ID: record.DerivedID("retention", o.ID), Organization: o.ID, Kind: record.Retention, Subject: o.ID,
		Due: t.host.Now().Add(24 * time.Hour),
	}))
	record.PutResource(tx, newKeyCount(o.ID, o.ID))
	return record.PutResource(tx, record.Fresh(o)), tx.Commit(ctx)
}

// ReadOrganization reads an organization, strongly. It returns a problem of kind NotFound for one that does not exist
// or is being deleted.
func (t *Tenants) ReadOrganization(ctx context.Context, id string) (record.Entity[catalog.Organization], error) {
	e, err := record.Resource[catalog.Organization](ctx, t.store, record.System(), id)
	if err == nil && e.Value.Deleted {
		err = problem.Missing("organization " + id)
	}
	return e, err
}

// EditOrganization changes an organization. It returns a problem of kind NotFound, and of kind Invalid that names the
// field. The kind is PreconditionFailed when match is not the resource's version. It is Forbidden
// (insufficient_permission) when by is not an operator and changes a ceiling. Or it returns the sealer's error.
func (t *Tenants) EditOrganization(
	ctx context.Context, by Principal, id string, match record.Match, edit OrganizationEdit,
) (record.Entity[catalog.Organization], error) {
	return t.changeOrganization(ctx, id, match, func(o *catalog.Organization, tx *record.Tx) error {
		if err := t.apply(ctx, by, edit, o); err != nil {
			return err
		}
		if !shares(*o) && !o.ListedByUser { // soon, not with the next daily job
			tx.BeginListing(ctx, id)
		}
		return nil
	})
}

// changeOrganization edits an organization that is not being deleted.
func (t *Tenants) changeOrganization(
	ctx context.Context, id string, match record.Match, edit func(o *catalog.Organization, tx *record.Tx) error,
) (record.Entity[catalog.Organization], error) {
	return record.Change(ctx, t.store, record.System(), id, match, func(o *catalog.Organization, tx *record.Tx) error {
		if o.Deleted {
			return problem.Missing("organization " + id)
		}
		o.UpdatedAt = t.host.Now()
		return edit(o, tx)
	})
}

// DefaultOverlap is how long an old secret or key text stays valid after a rotation that names no time.
const DefaultOverlap = 24 * time.Hour

// RotateWebhookSecret gives an organization a new webhook secret and returns it. The old one stays in use for the
// overlap, until the returned time, and earlier secrets keep their ends. The time is zero when no old secret is in use.
// It returns a problem of kind NotFound or Conflict, like [Tenants.RotateKey], or the sealer's error.
func (t *Tenants) RotateWebhookSecret(
	ctx context.Context, id string, overlap time.Duration,
) (secret string, until time.Time, err error) {
	secret = "whsec_" + base64.StdEncoding.EncodeToString(randomBytes(t.host, 32))
	sealed, err := t.sealer.Seal(ctx, id, secret)
	if err != nil {
		return "", until, err
	}
	_, err = t.changeOrganization(ctx, id, 0, func(o *catalog.Organization, _ *record.Tx) error {
		now := t.host.Now()
		earlier, err := rotated(o.EarlierSecrets, o.PreviousSecret, o.PreviousUntil, now, overlap)
		if err != nil {
			return err
		}
		until = time.Time{}
		o.PreviousSecret, o.PreviousUntil, o.EarlierSecrets = "", time.Time{}, earlier
		if o.Secret != "" && overlap > 0 {
			until = now.Add(overlap)
			o.PreviousSecret, o.PreviousUntil = o.Secret, until
		}
		o.Secret = sealed
		return nil
	})
	return secret, until, err
}

// RemoveOrganization marks an organization as deleted: its keys are refused immediately. It stores a job, whose id is
// returned, that deletes everything it owns in the background. It returns a problem of kind NotFound.
func (t *Tenants) RemoveOrganization(ctx context.Context, id string) (job string, err error) {
	_, err = t.changeOrganization(ctx, id, 0, func(o *catalog.Organization, tx *record.Tx) error {
		o.Deleted = true
		job = t.beginRemoval(tx, id, record.RemoveOrganization, id)
		return nil
	})
	return job, err
}

// beginRemoval adds the write of a job that deletes the belongings of a subject in the background. It returns the job's
// id.
func (t *Tenants) beginRemoval(tx *record.Tx, organization string, kind record.JobKind, subject string) (job string) {
	job = tx.WriteID()
	tx.Frees()
	tx.PutJob(record.Fresh(record.Job{
		ID: job, Organization: organization, Kind: kind, Subject: subject, Due: t.host.Now(),
	}))
	return job
}
