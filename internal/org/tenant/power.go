package tenant

import (
	"context"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Rights over keys and users. Each change of one checks the thing as it was read for that very change. So no other
// change comes between the check and the write.

// Platform is the service itself as a principal: its first start, and tests.
func Platform() Principal { return Principal{Level: LevelOperator} }

// MayManage returns nil when the principal is an admin and stands at least as high as the key, user or role in
// question. Otherwise it returns a problem of kind Forbidden (insufficient_permission) with level_needed. The parameter
// what names the thing in the message.
func (p Principal) MayManage(what string, stands Level) error {
	if err := p.Authorize(LevelAdmin); err != nil {
		return err
	}
	if rank[stands] == 0 || !p.Level.Covers(stands) {
		return problem.New(problem.Forbidden, "insufficient_permission",
			"%s has level %s, above level %s of this API key", what, stands, p.Level).
			With("level_needed", stands)
	}
	return nil
}

// standing is the level of a user: that of its role, or operator when it has an operator's key. No other key is above
// its user's role. The user's item counts its operator keys.
func standing(u catalog.User) Level {
	if u.OperatorKeys != nil && *u.OperatorKeys > 0 {
		return LevelOperator
	}
	return Role(u.Role).Level()
}

// mayManageUser is MayManage for a user that is about to be written. It completes the user's count of operator keys.
func (t *Tenants) mayManageUser(ctx context.Context, p Principal, u *catalog.User) error {
	if err := t.countKeys(ctx, u); err != nil {
		return err
	}
	return p.MayManage("the user", standing(*u))
}

// countKeys counts the operator keys of a user that was stored before they were counted. Keys created since then are
// counted in the commit that creates them, so a listing that lags does no harm.
func (t *Tenants) countKeys(ctx context.Context, u *catalog.User) error {
	if u.OperatorKeys != nil {
		return nil
	}
	n := 0
	for e, err := range record.All[catalog.APIKey](ctx, t.store, record.Of(u.Organization), 100) {
		if err != nil {
			return err
		}
		if e.Value.UserID == u.ID && Level(e.Value.Level) == LevelOperator {
			n++
		}
	}
	u.OperatorKeys = &n
	return nil
}

// adjustKeyCounts adds more (1 or -1) to the counts of valid keys, and to the user's count of operator keys, in the
// commit that creates or deletes a key. The commit requires that the user is as it was read.
func (t *Tenants) adjustKeyCounts(
	ctx context.Context, tx *record.Tx, user record.Entity[catalog.User], k catalog.APIKey, more int,
) error {
	if Level(k.Level) == LevelOperator {
		if err := t.countKeys(ctx, &user.Value); err != nil {
			return err
		}
		n := max(0, *user.Value.OperatorKeys+more)
		user.Value.OperatorKeys = &n
		record.PutResource(tx, user)
	} else {
		record.Unchanged(tx, user)
	}
	if expired(k, t.host.Now()) {
		return nil
	}
	return t.countKey(ctx, tx, user, more)
}
