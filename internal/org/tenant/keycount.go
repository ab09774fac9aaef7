package tenant

import (
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

// countKey adds to a commit that a user, as read, has one more good key (more is 1) or one less (-1). It writes the
// user. The error is a problem of kind Limited (share_exceeded), or a failure of the store.
func (t *Tenants) countKey(ctx context.Context, tx *record.Tx, user record.Entity[catalog.User], more int) error {
	u := user.Value
	o, err := record.Resource[catalog.Organization](ctx, t.store, record.System(), u.Organization)
	none := u.Organization == record.NoOrganization
	if err != nil && !none {
		return err
	}
	counts := []*keyCount{{"user", t.defaults.UserKeys, u.Keys}}
	if !none {
		counts = append(counts, &keyCount{"organization", t.defaults.OrganizationKeys, o.Value.Keys})
	}
	if err := t.countAgain(ctx, u, counts, more); err != nil {
		return err
	}
	for _, c := range counts {
		if err := c.add(more, t.host.Now()); err != nil {
			return err
		}
	}
	user.Value.Keys = counts[0].keys
	record.PutResource(tx, user)
	if !none {
		o.Value.Keys = counts[1].keys
		record.PutResource(tx, o)
	}
	return nil
}

// keyCount is how many keys a scope may have, and has.
type keyCount struct {
	scope string
	most  int // 0: any number
	keys  *catalog.Keys
}

func (c *keyCount) add(more int, now time.Time) error {
	if c.most == 0 || c.keys == nil { // no key is created
		return nil
	}
	k := *c.keys
	if more > 0 && k.Count >= c.most {
		p := problem.Exceeded("api_keys", c.scope, int64(c.most), int64(k.Count), "")
		p.RetryAfter = countEvery
		return p
	}
	if k.Count = max(0, k.Count+more); more > 0 {
		k.At = now
	}
	c.keys = &k
	return nil
}

// countAgain counts the good keys of a user and its organization in their listing, where a new key finds a count that
// is full, or none.
func (t *Tenants) countAgain(ctx context.Context, u catalog.User, counts []*keyCount, more int) error {
	now, again := t.host.Now(), false
	for _, c := range counts {
		full := c.keys != nil && c.keys.Count >= c.most && now.Sub(c.keys.At) >= countEvery
		again = again || more > 0 && c.most > 0 && (c.keys == nil || full && t.isDue("keys/"+u.ID, now))
	}
	if !again {
		return nil
	}
	ofUser, all := 0, 0
	for e, err := range record.All[catalog.APIKey](ctx, t.store, record.Of(u.Organization), 100) {
		switch {
		case err != nil:
			return err
		case expired(e.Value, now):
			continue
		case e.Value.UserID == u.ID:
			ofUser++
		}
		all++
	}
	for i, n := range []int{ofUser, all}[:len(counts)] {
		if c := counts[i]; c.keys == nil || now.Sub(c.keys.At) >= countEvery {
			c.keys = &catalog.Keys{Count: n, At: now}
		}
	}
	return nil
}

func expired(k catalog.APIKey, now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
