package tenant

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// The API keys of a user and of an organization are counted in the commits that create and revoke keys. So creations at
// the same moment pass no limit. Keys that have expired, or were deleted with their user, stay in the count until it
// reaches the limit. Then the keys are counted in their listing. So a count is never below the number of valid keys.

// countEvery is for how long the listing may lag, an edit may take, and clocks may differ. The listing is counted that
// long after the last creation, and not more often.
const countEvery = time.Minute

// keyCount is how many keys a user or an organization has, and may have.
type keyCount struct {
	record.Entity[catalog.KeyCount]

	scope string
	most  int // 0: any number
}

func (c *keyCount) full() bool                 { return c.most > 0 && c.Value.Count >= c.most }
func (c *keyCount) settled(now time.Time) bool { return now.Sub(c.Value.At) >= countEvery }

// countKey adds to a commit that a user has one more valid key (more is 1) or one less (-1). The commit must require
// that the user is as it was read. The error is a problem of kind Limited (share_exceeded) or a failure of the store.
// If the keys were counted again, it is record.ErrConflict.
func (t *Tenants) countKey(ctx context.Context, tx *record.Tx, user record.Entity[catalog.User], more int) error {
	u, now := user.Value, t.host.Now()
	counts := []*keyCount{{newKeyCount(u.ID, u.Organization), "user", t.defaults.UserKeys}}
	if u.Organization != record.NoOrganization {
		of := newKeyCount(u.Organization, u.Organization)
		counts = append(counts, &keyCount{of, "organization", t.defaults.OrganizationKeys})
	}
	for _, c := range counts {
		e, err := record.Resource[catalog.KeyCount](ctx, t.store, record.System(), c.Value.ID)
		if err == nil {
			c.Entity = e
		} else if !isGone(err) {
			return err
		}
	}
	if more > 0 && slices.ContainsFunc(counts, func(c *keyCount) bool {
		return c.Version() == 0 || c.full() && c.settled(now)
	}) {
		return cmp.Or(t.recount(ctx, user, counts, now), record.ErrConflict)
	}
	for _, c := range counts {
		if more > 0 && c.full() {
			p := problem.Exceeded("api_keys", c.scope, int64(c.most), int64(c.Value.Count), "")
			p.RetryAfter = countEvery
			return p
		}
		if c.Version() == 0 { // no key is created
			continue
		}
		if c.Value.Count = max(0, c.Value.Count+more); more > 0 {
			c.Value.At = now
		}
		record.PutResource(tx, c.Entity)
	}
	return nil
}

// newKeyCount is the count of a user, or of an organization, without keys.
func newKeyCount(id, organization string) record.Entity[catalog.KeyCount] {
	return record.Fresh(catalog.KeyCount{ID: id, Organization: organization})
}

// recount counts the keys in their listing. It stores those counts for which the listing is new enough.
func (t *Tenants) recount(
	ctx context.Context, user record.Entity[catalog.User], counts []*keyCount, now time.Time,
) error {
	n := map[string]int{}
	for e, err := range record.All[catalog.APIKey](ctx, t.store, record.Of(user.Value.Organization), 100) {
		if err != nil {
			return err
		}
		if !expired(e.Value, now.Add(-countEvery)) { // else it may be good by another clock
			n[e.Value.UserID]++
			n[e.Value.Organization]++
		}
	}
	tx := t.store.Begin(t.host.NewID())
	record.Unchanged(tx, user)
	for _, c := range counts {
		if c.Version() == 0 || c.settled(now) {
			c.Value.Count, c.Value.At = n[c.Value.ID], now
			record.PutResource(tx, c.Entity)
		}
	}
	return tx.Commit(ctx)
}

func expired(k catalog.APIKey, now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
