package tenant

import (
	"cmp"
	"context"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// How many API keys a user and an organization have is counted in the commits that create and revoke keys, so that
// creations at the same moment pass no limit. Keys that have expired, or went with their user, stay in the count until
// it reaches the limit. Then the keys are counted in their listing.

// countEvery is how long after a creation the listing, which may lag, is not counted, and how often it is at most.
const countEvery = time.Minute

// keyCount is how many keys a user or an organization has, and may have.
type keyCount struct {
	record.Entity[catalog.KeyCount]

	scope string
	most  int // 0: any number
}

// countKey adds to a commit that a user has one more good key (more is 1) or one less (-1). The error is a problem of
// kind Limited (share_exceeded), a failure of the store, or record.ErrConflict where the keys were counted again.
func (t *Tenants) countKey(ctx context.Context, tx *record.Tx, u catalog.User, more int) error {
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
	now := t.host.Now()
	if more > 0 {
		if err := t.mayAddKey(ctx, counts, now); err != nil {
			return err
		}
	}
	for _, c := range counts {
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

// mayAddKey returns the error of countKey where a count has no room for another key. Where one is full, or was never
// made, counts are made from the listing first.
func (t *Tenants) mayAddKey(ctx context.Context, counts []*keyCount, now time.Time) (refusal error) {
	var again []*keyCount
	missing := false
	for _, c := range counts {
		full := c.most > 0 && c.Value.Count >= c.most
		settled := now.Sub(c.Value.At) >= countEvery
		if full && refusal == nil {
			p := problem.Exceeded("api_keys", c.scope, int64(c.most), int64(c.Value.Count), "")
			p.RetryAfter = countEvery
			refusal = p
		}
		missing = missing || c.Version() == 0 || full && settled
		if c.Version() == 0 || settled {
			again = append(again, c)
		}
	}
	if !missing {
		return refusal
	}
	n := map[string]int{}
	for e, err := range record.All[catalog.APIKey](ctx, t.store, record.Of(counts[0].Value.Organization), 100) {
		if err != nil {
			return err
		}
		if !expired(e.Value, now) {
			n[e.Value.UserID]++
			n[e.Value.Organization]++
		}
	}
	tx := t.store.Begin(t.host.NewID())
	for _, c := range again {
		c.Value.Count, c.Value.At = n[c.Value.ID], now
		record.PutResource(tx, c.Entity)
	}
	return cmp.Or(tx.Commit(ctx), record.ErrConflict)
}

func expired(k catalog.APIKey, now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
