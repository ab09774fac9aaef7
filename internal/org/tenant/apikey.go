package tenant

import (
	"cmp"
	"context"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// NewKey has the values of a new key.
type NewKey struct {
	Name      string
	UserID    string
	Level     Level
	Sees      catalog.Visibility // empty: SeesOwn
	ExpiresAt time.Time
	Budget    BudgetEdit
}

// CreateKey creates a key of a user of the scope, and returns its text, which is stored nowhere.
//
// It returns a problem of kind Invalid that names the field. The kind is Limited (share_exceeded) when the user or the
// organization has as many keys as it may have. It is Forbidden (insufficient_permission) when the level is above that
// of by or above the user's role. It is Forbidden, too, when by may not manage the user.
func (t *Tenants) CreateKey(
	ctx context.Context, by Principal, scope record.Scope, k NewKey,
) (record.Entity[catalog.APIKey], string, error) {
	none := record.Entity[catalog.APIKey]{}
	err := cmp.Or(
		checkName(k.Name),
		problem.InvalidIf(rank[k.Level] == 0, "body.level", "must be read, run, manage or admin"),
		problem.InvalidIf(!k.ExpiresAt.IsZero() && !k.ExpiresAt.After(t.host.Now()),
			"body.expires_at", "must be in the future"),
		by.MayManage("the key", k.Level),
		checkSees(k.Sees, k.Level),
		problem.InvalidIf(!host.ValidID(k.UserID), "body.user_id", "must be the id of a user"),
	)
	if err != nil {
		return none, "", err
	}
	text := ""
	e, err := record.DespiteConflicts(ctx, t.store, func() (e record.Entity[catalog.APIKey], err error) {
		user, err := record.Resource[catalog.User](ctx, t.store, scope, k.UserID)
		if problem.Is(err, "not_found") {
			return none, problem.InvalidField("body.user_id", "user %s does not exist", k.UserID)
		}
		if err == nil {
			err = t.mayHaveKey(ctx, by, user.Value, k.Level)
		}
		if err == nil { // a conflict: the 8 digits are taken, or the user or the organization has changed
			e, text, err = t.createKey(ctx, user, k)
		}
		return e, err
	})
	if err != nil {
		return none, "", err
	}
	return e, text, nil
}

// checkSees returns a problem of kind Invalid (body.sees) for a key whose level cannot see that much.
func checkSees(v catalog.Visibility, level Level) error {
	return cmp.Or(
		checkVisibility("body.sees", v),
		problem.InvalidIf(v == catalog.SeesAll && level.Covers(LevelManage), "body.sees",
			"must be own for a key of level manage or above: its level already includes the chats of others"),
	)
}

// mayHaveKey returns nil when a principal may create a key of a level for a user, else a problem of kind Forbidden. An
// admin may create keys for its own user, even if other keys put that user above the admin. The new key never gets more
// than its creator has.
func (t *Tenants) mayHaveKey(ctx context.Context, by Principal, u catalog.User, level Level) error {
	if u.ID != by.User {
		if err := t.mayManageUser(ctx, by, &u); err != nil {
			return err
		}
	}
	if most := Role(u.Role).Most(); !most.Covers(level) {
		return problem.New(problem.Forbidden, "insufficient_permission",
			"a %s may have keys up to level %s, not %s", u.Role, most, level)
	}
	return nil
}

// maxAttempts bounds how many times a write is attempted with a new draw or a new read, because of a conflict.
const maxAttempts = 16

// createKey creates a key on condition that the user has not changed since it was read. Otherwise, or if the drawn
// public part is taken, the error is record.ErrConflict.
func (t *Tenants) createKey(
	ctx context.Context, user record.Entity[catalog.User], n NewKey,
) (record.Entity[catalog.APIKey], string, error) {
	none, now, u := record.Entity[catalog.APIKey]{}, t.host.Now(), user.Value
	var budget *record.Budget
	if err := n.Budget.apply(&budget); err != nil {
		return none, "", err
	}
	public := newPublic(t.host)
	text := newKeyText(t.host, public)
	k := catalog.APIKey{
		ID: t.host.NewID(), Public: public, Organization: u.Organization, UserID: u.ID, Name: n.Name,
		Level: string(n.Level), Sees: n.Sees,
		Prefix: keyPrefix + public, Hash: hashText(text), ExpiresAt: n.ExpiresAt, Budget: budget, CreatedAt: now,
		UpdatedAt: now,
	}
	tx := t.store.Begin(k.ID)
	e := record.PutResource(tx, record.Fresh(k)) // first: the audit log's entry is of the first resource
	pointer := catalog.KeyPointer{Public: k.Public, Organization: k.Organization, KeyID: k.ID}
	record.PutResource(tx, record.Fresh(pointer))
	if err := t.adjustKeyCounts(ctx, tx, user, k, 1); err != nil {
		return none, "", err
	}
	return e, text, tx.Commit(ctx)
}

// RotateKey gives a key a new text and returns it. The old text stays valid for the overlap, and earlier texts keep
// their ends. An overlap of 0 ends all of them. It returns a problem of kind NotFound. It returns one of kind Forbidden
// when by stands below the key's level, and of kind Conflict when too many texts are valid.
func (t *Tenants) RotateKey(
	ctx context.Context, by Principal, scope record.Scope, id string, overlap time.Duration,
) (after record.Entity[catalog.APIKey], text string, err error) {
	after, err = record.Change(ctx, t.store, scope, id, 0, func(k *catalog.APIKey, _ *record.Tx) error {
		if err := by.MayManage("the key", Level(k.Level)); err != nil {
			return err
		}
		text = newKeyText(t.host, k.Public)
		now := t.host.Now()
		earlier, err := rotated(k.Earlier, k.PreviousHash, k.PreviousUntil, now, overlap)
		if err != nil {
			return err
		}
		k.PreviousHash, k.PreviousUntil, k.Earlier = "", time.Time{}, earlier
		if overlap > 0 {
			k.PreviousHash, k.PreviousUntil = k.Hash, now.Add(overlap)
		}
		k.Hash, k.UpdatedAt = hashText(text), now
		return nil
	})
	return after, text, err
}

// maxEarlier is how many values from before rotations may be valid at one time.
const maxEarlier = 8

// rotated are the earlier values that stay valid after a rotation with an overlap: previous and those before it, the
// newest first. Without an overlap there are none. It returns a problem of kind Conflict when there are too many: no
// value ends before its promised time.
func rotated(
	before []catalog.Earlier, previous string, until, now time.Time, overlap time.Duration,
) (earlier []catalog.Earlier, err error) {
	if overlap <= 0 {
		return nil, nil
	}
	ends := until
	for _, e := range append([]catalog.Earlier{{Value: previous, Until: until}}, before...) {
		if e.Value != "" && now.Before(e.Until) {
			earlier = append(earlier, e)
			if e.Until.Before(ends) {
				ends = e.Until
			}
		}
	}
	if len(earlier) >= maxEarlier {
		return nil, problem.New(problem.Conflict, "conflict",
			"the secrets of the last %d rotations are still valid; the "+
				"next ends at %s: rotate then, or send overlap_seconds 0 to end all of them",
			maxEarlier, ends.UTC().Format(time.RFC3339))
	}
	return earlier, nil
}

// KeyEdit is an edit of a key; nil leaves a field as it is.
type KeyEdit struct {
	Name      *string
	Sees      *catalog.Visibility
	ExpiresAt *time.Time // zero: never
	Budget    BudgetEdit
}

// EditKey changes a key. It returns a problem of kind NotFound or Forbidden, and of kind Invalid that names the field.
// It returns one of kind PreconditionFailed when match is not the resource's version. The kind is Limited
// (share_exceeded) when the edit would renew an expired key beyond the limit.
func (t *Tenants) EditKey(
	ctx context.Context, by Principal, scope record.Scope, id string, match record.Match, edit KeyEdit,
) (record.Entity[catalog.APIKey], error) {
	return record.Change(ctx, t.store, scope, id, match, func(k *catalog.APIKey, tx *record.Tx) error {
		if err := by.MayManage("the key", Level(k.Level)); err != nil {
			return err
		}
		now := t.host.Now()
		ended := expired(*k, now)
		set(&k.Name, edit.Name)
		setVisibility(&k.Sees, edit.Sees, catalog.SeesOwn)
		set(&k.ExpiresAt, edit.ExpiresAt)
		k.ExpiresAt, k.UpdatedAt = k.ExpiresAt.UTC(), now
		err := cmp.Or(checkName(k.Name), checkSees(k.Sees, Level(k.Level)), edit.Budget.apply(&k.Budget))
		if err != nil || !ended || expired(*k, now) {
			return err
		}
		user, err := record.Resource[catalog.User](ctx, t.store, record.Of(k.Organization), k.UserID)
		if err != nil {
			return err
		}
		record.Unchanged(tx, user)
		return t.countKey(ctx, tx, user, 1) // it is good again
	})
}

// RevokeKey ends a key immediately. It returns a problem of kind NotFound, or of kind Forbidden when by stands below
// the key's level.
func (t *Tenants) RevokeKey(ctx context.Context, by Principal, scope record.Scope, id string) error {
	_, err := record.Remove(ctx, t.store, scope, id, func(e record.Entity[catalog.APIKey], tx *record.Tx) error {
		if err := by.MayManage("the key", Level(e.Value.Level)); err != nil {
			return err
		}
		tx.DeleteUse(e.Value)
		user, err := record.Resource[catalog.User](ctx, t.store, record.Of(e.Value.Organization), e.Value.UserID)
		if err == nil {
			err = t.adjustKeyCounts(ctx, tx, user, e.Value, -1)
		}
		if err != nil && !isGone(err) {
			return err
		}
		pointer, err := record.Resource[catalog.KeyPointer](ctx, t.store, record.System(), e.Value.Public)
		if err == nil {
			record.DeleteResource(tx, pointer)
		} else if !isGone(err) {
			return err
		}
		return nil
	})
	return err
}
