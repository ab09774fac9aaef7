package tenant

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/seal"
)

// Defaults are the deployment's numbers for organisations that set none.
type Defaults struct {
	UserCap         int
	OrganizationCap int
	RateLimit       int
	RateBurst       int
	ActiveLimit     time.Duration
	// CheckModel says why an agent may not name a model, if it may not; skip asks nobody outside. Nil allows all.
	CheckModel func(ctx context.Context, provider, name string, skip bool) error
}

// Tenants is the use case.
type Tenants struct {
	store    *record.Store
	known    *record.Store // what is read with each request; it may be some seconds old
	host     host.Host
	defaults Defaults
	sealer   seal.Sealer
	secret   []byte // signs run tokens

	usedMu sync.Mutex
	used   map[string]time.Time // when a key's use was last written
}

// New makes the use case; secret signs tokens. Known is the same store, or one that answers for a while from what it read
// before: who a key belongs to, caps, and the agents of new runs come from it. The sealer keeps the secrets of organisations.
func New(s, known *record.Store, h host.Host, d Defaults, secret []byte, sealer seal.Sealer) *Tenants {
	return &Tenants{sealer: sealer, store: s, known: known, host: h, defaults: d, secret: secret, used: map[string]time.Time{}}
}

var errNoKey = problem.New(problem.Unauthenticated, "missing_api_key", "an API key is needed: Authorization: Bearer <API_KEY>")

// One answer for every key that is not good, so that nothing leaks.
var errBadKey = problem.New(problem.Unauthenticated, "invalid_api_key", "the API key is not valid")

// Authenticate finds who a bearer token belongs to: an API key's text, or a run token.
func (t *Tenants) Authenticate(ctx context.Context, token string) (Principal, error) {
	if token == "" {
		return Principal{}, errNoKey
	}
	if run, keyID, ok := t.openRunToken(token); ok {
		p, err := t.principalOf(ctx, keyID)
		p.Run = run
		return p, err
	}
	public, ok := parseKeyText(token)
	if !ok {
		return Principal{}, errBadKey
	}
	pointer, err := record.Resource[record.KeyPointer](ctx, t.known, record.System(), public)
	if err != nil {
		return Principal{}, hide(err)
	}
	p, err := t.principalOf(ctx, pointer.Value.KeyID)
	if err != nil {
		return Principal{}, err
	}
	now, hash := t.host.Now(), hashText(token)
	current := sameHash(p.Key.Hash, hash)
	previous := sameHash(p.Key.PreviousHash, hash) && now.Before(p.Key.PreviousUntil)
	if !current && !previous {
		return Principal{}, errBadKey
	}
	t.noteUse(ctx, p.Key, now)
	return p, nil
}

// hide turns "not there" into the one answer for bad keys; a store that is down stays what it is.
func hide(err error) error {
	if p, ok := problem.As(err); ok && (p.Kind == problem.NotFound || p.Kind == problem.Forbidden) {
		return errBadKey
	}
	return err
}

func (t *Tenants) principalOf(ctx context.Context, keyID string) (Principal, error) {
	var p Principal
	key, err := record.Resource[record.APIKey](ctx, t.known, record.System(), keyID)
	if err != nil {
		return p, hide(err)
	}
	p.Key = key.Value
	if !p.Key.ExpiresAt.IsZero() && !t.host.Now().Before(p.Key.ExpiresAt) {
		return p, errBadKey
	}
	user, err := record.Resource[record.User](ctx, t.known, record.Of(p.Key.Organization), p.Key.UserID)
	if err != nil {
		return p, hide(err)
	}
	p.User = user.Value
	p.Organization, err = t.Organization(ctx, p.Key.Organization)
	if err != nil {
		return p, hide(err)
	}
	if p.Organization.Deleted {
		return p, errBadKey
	}
	p.Level = lower(Level(p.Key.Level), Role(p.User.Role).Most())
	return p, nil
}

// StillValid says whether a key that began a stream may go on.
func (t *Tenants) StillValid(ctx context.Context, p Principal) bool {
	_, err := t.principalOf(ctx, p.Key.ID)
	return err == nil || problem.Is(err, "unavailable")
}

// useEvery is how often a key's last use is written at most: it is a write for each request otherwise.
const useEvery = time.Minute

func (t *Tenants) noteUse(ctx context.Context, k record.APIKey, now time.Time) {
	t.usedMu.Lock()
	due := now.Sub(t.used[k.ID]) >= useEvery
	if due {
		t.used[k.ID] = now
	}
	t.usedMu.Unlock()
	if !due {
		return
	}
	if op, err := record.PutKeyUse(k, now); err == nil {
		_ = t.store.Commit(ctx, "use", op) // worth no more than a try
	}
}

// Organization reads an organisation; that of nobody is made up on the spot.
func (t *Tenants) Organization(ctx context.Context, id string) (record.Organization, error) {
	if id == record.Nobody {
		return record.Organization{ID: record.Nobody}, nil
	}
	e, err := record.Resource[record.Organization](ctx, t.known, record.System(), id)
	return e.Value, err
}

// Caps are the concurrency caps that hold for a user.
func (t *Tenants) Caps(ctx context.Context, organization, user string) (ofUser, ofOrganization int, err error) {
	o, err := t.Organization(ctx, organization)
	if err != nil && !isGone(err) {
		return 0, 0, err
	}
	u, err := record.Resource[record.User](ctx, t.known, record.Of(organization), user)
	if err != nil && !isGone(err) {
		return 0, 0, err
	}
	ofUser, ofOrganization = t.CapsOf(o, u.Value)
	if organization == record.Nobody {
		ofOrganization = record.Uncapped
	}
	return ofUser, ofOrganization, nil
}

// CapsOf are the caps of a user of an organisation, both read already.
func (t *Tenants) CapsOf(o record.Organization, u record.User) (ofUser, ofOrganization int) {
	return firstSet(u.Cap, o.UserCap, t.defaults.UserCap), firstSet(o.Cap, t.defaults.OrganizationCap)
}

// Rate is the rate limit of an organisation's keys.
func (t *Tenants) Rate(o record.Organization) (perMinute, burst int) {
	return firstSet(o.RateLimit, t.defaults.RateLimit), firstSet(o.RateBurst, t.defaults.RateBurst)
}

func firstSet(values ...int) int {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

func isGone(err error) bool {
	p, ok := problem.As(err)
	return ok && (p.Kind == problem.NotFound || p.Kind == problem.Forbidden)
}
