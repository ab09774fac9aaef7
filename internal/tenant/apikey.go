package tenant

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// NewKey is what a new key should be.
type NewKey struct {
	Name      string
	UserID    string
	Level     Level
	ExpiresAt time.Time
	Budget    BudgetEdit
}

// CreateKey makes a key and returns its text, which is stored nowhere. The scope is where its user lives.
func (t *Tenants) CreateKey(ctx context.Context, by Principal, scope record.Scope, k NewKey) (record.Entity[record.APIKey], string, error) {
	none := record.Entity[record.APIKey]{}
	if k.Name == "" || len(k.Name) > 200 {
		return none, "", problem.InvalidField("body.name", "must have 1 to 200 characters")
	}
	if rank[k.Level] == 0 {
		return none, "", problem.InvalidField("body.level", "must be read, run, manage or admin")
	}
	if !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(t.host.Now()) {
		return none, "", problem.InvalidField("body.expires_at", "must be in the future")
	}
	user, err := record.Resource[record.User](ctx, t.store, scope, k.UserID)
	if problem.Is(err, "not_found") {
		return none, "", problem.InvalidField("body.user_id", "user %s does not exist", k.UserID)
	}
	if err != nil {
		return none, "", err
	}
	most := Role(user.Value.Role).Most()
	if most == LevelOperator && !by.Level.Covers(LevelOperator) {
		most = LevelAdmin
	}
	if !most.Covers(k.Level) {
		return none, "", problem.New(problem.Forbidden, "insufficient_permission",
			"a %s may have keys up to level %s, and %s was asked for", user.Value.Role, most, k.Level)
	}
	return t.createKey(ctx, user.Value, k)
}

// drawTries bounds how often other digits are drawn because a key has them.
const drawTries = 16

func (t *Tenants) createKey(ctx context.Context, u record.User, n NewKey) (record.Entity[record.APIKey], string, error) {
	for range drawTries {
		now := t.host.Now()
		var budget *record.Budget
		if err := n.Budget.apply(&budget); err != nil {
			return record.Entity[record.APIKey]{}, "", err
		}
		public := newPublic(t.host)
		text := newKeyText(t.host, public)
		k := record.APIKey{
			ID: t.host.NewID(), Public: public, Organization: u.Organization, UserID: u.ID, Name: n.Name, Level: string(n.Level),
			Prefix: keyPrefix + public, Hash: hashText(text), ExpiresAt: n.ExpiresAt, Budget: budget, CreatedAt: now, UpdatedAt: now,
		}
		pointer, err := record.PutResource(record.Fresh(record.KeyPointer{Public: k.Public, Organization: k.Organization, KeyID: k.ID}), k.ID)
		if err != nil {
			return record.Entity[record.APIKey]{}, "", err
		}
		e, err := record.Create(ctx, t.store, k, k.ID, pointer)
		if errors.Is(err, record.ErrStale) {
			continue // the 8 digits are taken: draw others
		}
		return e, text, err
	}
	return record.Entity[record.APIKey]{}, "", problem.Retry(errors.New("no free key id"))
}

// RotateKey gives a key a new text. The old one stays good for the overlap.
func (t *Tenants) RotateKey(
	ctx context.Context, scope record.Scope, id string, overlap time.Duration,
) (after record.Entity[record.APIKey], text string, err error) {
	after, err = record.Change(ctx, t.store, scope, id, 0, func(k *record.APIKey, _ string) ([]table.Op, error) {
		text = newKeyText(t.host, k.Public)
		k.PreviousHash, k.PreviousUntil = "", time.Time{}
		if overlap > 0 {
			k.PreviousHash, k.PreviousUntil = k.Hash, t.host.Now().Add(overlap)
		}
		k.Hash, k.UpdatedAt = hashText(text), t.host.Now()
		return nil, nil
	})
	return after, text, err
}

// EditKey renames a key, or changes when it ends or its budget.
func (t *Tenants) EditKey(
	ctx context.Context, scope record.Scope, id string, match record.Match, name *string, expiresAt **time.Time, budget BudgetEdit,
) (record.Entity[record.APIKey], error) {
	return record.Change(ctx, t.store, scope, id, match, func(k *record.APIKey, _ string) ([]table.Op, error) {
		if name != nil {
			if *name == "" || len(*name) > 200 {
				return nil, problem.InvalidField("body.name", "must have 1 to 200 characters")
			}
			k.Name = *name
		}
		if expiresAt != nil {
			k.ExpiresAt = time.Time{}
			if *expiresAt != nil {
				k.ExpiresAt = (*expiresAt).UTC()
			}
		}
		k.UpdatedAt = t.host.Now()
		return nil, budget.apply(&k.Budget)
	})
}

// RevokeKey ends a key at once.
func (t *Tenants) RevokeKey(ctx context.Context, scope record.Scope, id string) error {
	_, err := record.Remove(ctx, t.store, scope, id, func(e record.Entity[record.APIKey], _ string) ([]table.Op, error) {
		ops := []table.Op{record.DeleteKeyUse(e.Value.ID)}
		pointer, err := record.Resource[record.KeyPointer](ctx, t.store, record.System(), e.Value.Public)
		if isGone(err) {
			return ops, nil
		}
		return append(ops, record.DeleteResource(pointer)), err
	})
	return err
}
