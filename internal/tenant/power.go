package tenant

import (
	"context"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// Who may make, change, give a new text to, or take away a key or a user is decided here. Each change asks about the
// thing as it was read for that very change, so that no other change comes between the question and the write.

// Platform is the service itself: its first start, and tests that stand in for that.
func Platform() Principal { return Principal{Level: LevelOperator} }

// MayManage is nil when the principal administers, and stands at least as high as the key, the user or the role in
// question.
func (p Principal) MayManage(what string, stands Level) error {
	if err := p.May(LevelAdmin); err != nil {
		return err
	}
	if rank[stands] == 0 || !p.Level.Covers(stands) {
		return problem.New(problem.Forbidden, "insufficient_permission",
			"%s stands at level %s, above this API key's %s", what, stands, p.Level).
			With("level_needed", stands)
	}
	return nil
}

// standing is how high a user stands: its role, or the level of its keys where that is higher. Operators' keys alone
// reach above a role, and how many of them a user has stands with the user.
func standing(u record.User) Level {
	if u.OperatorKeys != nil && *u.OperatorKeys > 0 {
		return LevelOperator
	}
	return Role(u.Role).Level()
}

// mayManageUser is MayManage for a user that is about to be written.
func (t *Tenants) mayManageUser(ctx context.Context, p Principal, u *record.User) error {
	if err := t.countKeys(ctx, u); err != nil {
		return err
	}
	return p.MayManage("the user", standing(*u))
}

// countKeys counts the operators' keys of a user that was stored before they were counted. Keys made since then are
// counted in the commit that makes them; so a listing that lags does no harm.
func (t *Tenants) countKeys(ctx context.Context, u *record.User) error {
	if u.OperatorKeys != nil {
		return nil
	}
	n := 0
	for after := ""; ; {
		page, err := record.Resources[record.APIKey](ctx, t.store, record.Of(u.Organization), after, 100)
		if err != nil {
			return err
		}
		for _, e := range page.Rows {
			if e.Value.UserID == u.ID && Level(e.Value.Level) == LevelOperator {
				n++
			}
		}
		if after = page.Next; after == "" {
			u.OperatorKeys = &n
			return nil
		}
	}
}

// holds notes with a user that it has so many operators' keys more, or fewer, in the unit of work that makes or takes
// away the key.
func (t *Tenants) holds(ctx context.Context, tx *record.Tx, user record.Entity[record.User], more int) error {
	if err := t.countKeys(ctx, &user.Value); err != nil {
		return err
	}
	n := max(0, *user.Value.OperatorKeys+more)
	user.Value.OperatorKeys = &n
	record.PutResource(tx, user)
	return nil
}
