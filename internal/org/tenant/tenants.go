package tenant

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// Defaults are the deployment's settings for organizations that set none; 0: no limit.
type Defaults struct {
	UserCap         int
	OrganizationCap int
	RateLimit       int // requests per minute and key
	RateBurst       int
	// OrganizationRate and OrganizationBurst hold for all keys of an organization. 0: ten times those of a key.
	OrganizationRate, OrganizationBurst int
	UserKeys, OrganizationKeys          int           // API keys that are good; 0: any number
	ActiveLimit                         time.Duration // active time of a run
	// CheckModel returns a problem of kind Invalid if an agent may not name a model, nil if it may. skip leaves out the
	// call to the provider. A nil CheckModel allows all models.
	CheckModel func(ctx context.Context, provider, name string, skip bool) error
	// Tools are the tools of toolkits: those that an agent gets, and those that are off. Without it, an agent may have
	// and name any tools.
	Tools func(ctx context.Context, organization string, toolkits []string) (on, off []tool.Offer, err error)
	// Alone means that no other process changes the store: each change of rights is known here.
	Alone bool
}

// Tenants is the use case. It is safe for concurrent use.
type Tenants struct {
	store    *record.Store
	known    record.CachedReader // the reads of each request
	host     host.Host
	defaults Defaults
	sealer   seal.Sealer

	changes changes // of rights, in this process

	usedMu sync.Mutex
	used   *simplelru.LRU[string, time.Time] // when a key's use was last written, or keys were counted
}

// New makes the use case. known is the cached reader of the same store as s. Keys with their owners, caps, and the
// agents of new runs are read through it. The sealer encrypts organizations' webhook secrets.
func New(s *record.Store, known record.CachedReader, h host.Host, d Defaults, sealer seal.Sealer) *Tenants {
	used, _ := simplelru.NewLRU[string, time.Time](keysInUse, nil) // the only error is for a size below 1
	return &Tenants{sealer: sealer, store: s, known: known, host: h, defaults: d, used: used}
}

var errNoKey = problem.New(problem.Unauthenticated, "missing_api_key",
	"an API key is required: send the header Authorization: Bearer <API_KEY>")

// One error for every key that is not valid: it does not contain the reason.
var errBadKey = problem.New(problem.Unauthenticated, "invalid_api_key", "the API key is not valid")

// Authenticate returns the principal of a bearer token: the text of an API key, or a run token. Its reads may be some
// seconds old. It returns a problem of kind Unauthenticated. The code is missing_api_key for an empty token. It is
// invalid_api_key for one that is unknown, revoked or expired, or whose user or organization no longer exists.
func (t *Tenants) Authenticate(ctx context.Context, token string) (Principal, error) {
	if token == "" {
		return Principal{}, errNoKey
	}
	if isText(token, runTokenPrefix, runTokenSize) {
		return t.ofRunToken(ctx, token)
	}
	public, ok := parseKeyText(token)
	if !ok {
		return Principal{}, errBadKey
	}
	pointer, err := record.Resource[catalog.KeyPointer](ctx, t.known, record.System(), public)
	if err != nil {
		return Principal{}, hide(err)
	}
	p, read, err := t.principalOf(ctx, t.known, pointer.Value.KeyID, hashText(token))
	if err != nil {
		return Principal{}, err
	}
	t.noteUse(ctx, read.Key, t.host.Now())
	return p.Of(read), nil
}

// hide turns NotFound and Forbidden into the one error for bad keys, and returns any other error unchanged.
func hide(err error) error {
	if isGone(err) {
		return errBadKey
	}
	return err
}

// principalOf is the principal of a key's text, given by its hash. The text is the key's current one, or the previous
// one during its overlap. The principal has no account; read is the account.
func (t *Tenants) principalOf(
	ctx context.Context, s record.Reader, keyID, text string,
) (p Principal, read Account, err error) {
	p.Key, p.text = keyID, text
	key, err := record.Resource[catalog.APIKey](ctx, s, record.System(), keyID)
	if err != nil {
		return p, read, hide(err)
	}
	read.Key, p.ends = key.Value, key.Value.ExpiresAt
	switch {
	case sameHash(read.Key.Hash, text):
	case sameHash(read.Key.PreviousHash, text):
		p.ends = earlier(p.ends, read.Key.PreviousUntil)
	default:
		n := slices.IndexFunc(read.Key.Earlier, func(e catalog.Earlier) bool { return sameHash(e.Value, text) })
		if n < 0 {
			return p, read, errBadKey
		}
		p.ends = earlier(p.ends, read.Key.Earlier[n].Until)
	}
	if !p.ends.IsZero() && !t.host.Now().Before(p.ends) {
		return p, read, errBadKey
	}
	user, err := record.Resource[catalog.User](ctx, s, record.Of(read.Key.Organization), read.Key.UserID)
	if err != nil {
		return p, read, hide(err)
	}
	read.User, p.User = user.Value, user.Value.ID
	if p.Groups, err = record.Existing[catalog.Group](
		ctx, s, record.Of(read.Key.Organization), read.User.GroupIDs,
	); err != nil {
		return p, read, err
	}
	read.User.GroupIDs = p.Groups
	read.Home, err = organization(ctx, s, read.Key.Organization)
	if err != nil {
		return p, read, hide(err)
	}
	if read.Home.Deleted {
		return p, read, errBadKey
	}
	read.Organization, p.Organization = read.Home, read.Home.ID
	p.Level = lower(Level(read.Key.Level), Role(read.User.Role).Most())
	p.Shared, p.SeesAll = shares(read.Home), read.Key.Sees == catalog.SeesAll
	return p, read, nil
}

// ActIn is an operator as an admin of the organization that it names. Its reads may be some seconds old. It returns a
// problem of kind Forbidden (insufficient_permission) for a principal that is not an operator, and for a run token. For
// an organization that does not exist it returns NotFound.
func (t *Tenants) ActIn(ctx context.Context, p Principal, organization string) (Principal, error) {
	return actIn(ctx, t.known, p, organization)
}

func actIn(ctx context.Context, s record.Reader, p Principal, id string) (Principal, error) {
	if err := p.Authorize(LevelOperator); err != nil {
		return p, err
	}
	if !host.ValidID(id) {
		return p, problem.InvalidField("header.x-organization", "must be an identifier of 24 hex digits")
	}
	o, err := organization(ctx, s, id)
	if err == nil && o.Deleted {
		err = problem.Missing("organization " + id)
	}
	if err != nil {
		return p, err
	}
	read := *p.Account()
	read.Organization, read.User.GroupIDs = o, nil // the groups are those of its own organization
	p.Organization, p.Groups, p.Level, p.Acting = o.ID, nil, LevelAdmin, true
	return p.Of(read), nil
}

// earlier is the first of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// CheckRight returns nil while a principal's right to read a run lasts. It checks the key and its text, their owner,
// the run token's own time, and the access to the agent and to the chat. For an operator who acts in another
// organization it checks the level and that organization. Without an agent it is the right to send requests at all.
// ends is when the right expires by itself; zero: never. It reads strongly.
//
// It returns a problem of kind Unauthenticated (invalid_api_key), or the error of [Tenants.CanAccess].
func (t *Tenants) CheckRight(ctx context.Context, p Principal, of lifecycle.Whose) (ends time.Time, err error) {
	if !p.until.IsZero() && !t.host.Now().Before(p.until) {
		return p.until, errBadKey
	}
	strong := t.store.Cached()
	now, read, err := t.principalOf(ctx, strong, p.Key, p.text)
	if err == nil && p.Acting {
		now, err = actIn(ctx, strong, now.Of(read), p.Organization)
	}
	if err != nil {
		return ends, err
	}
	if of.Agent != "" {
		err = mayReach(ctx, strong, now, of)
	}
	return earlier(now.ends, p.until), err
}

// useEvery is the shortest time between two writes of a key's last use; otherwise each request would cost a write.
const useEvery = time.Minute

// keysInUse bounds the keys for which a process remembers the time of that write; the use of others is written more
// often.
const keysInUse = 10_000

func (t *Tenants) noteUse(ctx context.Context, k catalog.APIKey, now time.Time) {
	if t.isDue(k.ID, now) {
		t.store.NoteUse(ctx, k, now)
	}
}

// isDue reports whether an act of a name is due. It is due at most once in useEvery.
func (t *Tenants) isDue(name string, now time.Time) bool {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	last, noted := t.used.Get(name)
	due := !noted || now.Sub(last) >= useEvery
	if due {
		t.used.Add(name, now)
	}
	return due
}

// Organization reads an organization, which may be some seconds old; for record.NoOrganization it returns an empty one.
// It returns a problem of kind NotFound.
func (t *Tenants) Organization(ctx context.Context, id string) (catalog.Organization, error) {
	return organization(ctx, t.known, id)
}

func organization(ctx context.Context, s record.Reader, id string) (catalog.Organization, error) {
	if id == record.NoOrganization {
		return catalog.Organization{ID: record.NoOrganization}, nil
	}
	e, err := record.Resource[catalog.Organization](ctx, s, record.System(), id)
	return e.Value, err
}

// Caps are the caps on concurrent runs of a user and its organization. For record.NoOrganization there is no cap of an
// organization. A user or organization that does not exist has the deployment's. They may be some seconds old. The only
// errors are failures of the store.
func (t *Tenants) Caps(ctx context.Context, organization, user string) (ofUser, ofOrganization int, err error) {
	o, err := t.Organization(ctx, organization)
	if err != nil && !isGone(err) {
		return 0, 0, err
	}
	u, err := record.Resource[catalog.User](ctx, t.known, record.Of(organization), user)
	if err != nil && !isGone(err) {
		return 0, 0, err
	}
	ofUser, ofOrganization = t.CapsOf(o, u.Value)
	if organization == record.NoOrganization {
		ofOrganization = record.Uncapped
	}
	return ofUser, ofOrganization, nil
}

// CapsOf are the caps of a user of an organization, both read already.
func (t *Tenants) CapsOf(o catalog.Organization, u catalog.User) (ofUser, ofOrganization int) {
	return under(o.Ceilings.UserCap, u.Cap, o.UserCap, t.defaults.UserCap),
		under(o.Ceilings.Cap, o.Cap, t.defaults.OrganizationCap)
}

// Rate is the rate limit of each of an organization's keys.
func (t *Tenants) Rate(o catalog.Organization) (perMinute, burst int) {
	return under(o.Ceilings.RateLimit, o.RateLimit, t.defaults.RateLimit),
		under(o.Ceilings.RateBurst, o.RateBurst, t.defaults.RateBurst)
}

// RateOf is the rate limit of a principal's key. It is that of the key's organization, also for an operator who acts in
// another one. For an anonymous connection it is the deployment's.
func (t *Tenants) RateOf(p Principal) (perMinute, burst int) {
	if p.account == nil {
		return t.Rate(catalog.Organization{})
	}
	return t.Rate(p.account.Home)
}

// tenfold is how many keys at their limit fit into the rate of an organization that has no rate of its own.
const tenfold = 10

// OrganizationRate is the rate limit of all of an organization's keys together.
func (t *Tenants) OrganizationRate(o catalog.Organization) (perMinute, burst int) {
	perMinute, burst = t.Rate(o)
	return under(o.Ceilings.OrganizationRate, o.OrganizationRate, t.defaults.OrganizationRate, tenfold*perMinute),
		under(o.Ceilings.OrganizationBurst, o.OrganizationBurst, t.defaults.OrganizationBurst, tenfold*burst)
}

// OrganizationRateOf is the rate limit of the organization of a principal's key. Operators have that of the deployment
// together, not that of the organization of one of them.
func (t *Tenants) OrganizationRateOf(p Principal) (perMinute, burst int) {
	if p.Level.Covers(LevelOperator) {
		return t.OrganizationRate(catalog.Organization{})
	}
	return t.OrganizationRate(p.Account().Home)
}

// Ceilings are the limits that an organization's admins may not exceed: those that an operator has set, else the
// deployment's settings.
func (t *Tenants) Ceilings(o catalog.Organization) catalog.Limits {
	c, d := o.Ceilings, t.defaults
	return catalog.Limits{
		UserCap: firstSet(c.UserCap, d.UserCap), Cap: firstSet(c.Cap, d.OrganizationCap),
		RateLimit: firstSet(c.RateLimit, d.RateLimit), RateBurst: firstSet(c.RateBurst, d.RateBurst),
		OrganizationRate: firstSet(c.OrganizationRate, d.OrganizationRate, tenfold*firstSet(c.RateLimit, d.RateLimit)),
		OrganizationBurst: firstSet(
			c.OrganizationBurst, d.OrganizationBurst, tenfold*firstSet(c.RateBurst, d.RateBurst)),
	}
}

// under is the first value that is set, but at most the ceiling, if one is set; 0 is not set.
func under(ceiling int, values ...int) int {
	v := firstSet(values...)
	if ceiling > 0 && v > ceiling {
		return ceiling
	}
	return v
}

func firstSet(values ...int) int {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

// set sets a field that an edit names.
func set[T any](to, named *T) {
	if named != nil {
		*to = *named
	}
}

// isGone separates a refusal (Forbidden, NotFound) from a failure such as a store that cannot be reached.
func isGone(err error) bool {
	p, ok := problem.As(err)
	return ok && (p.Kind == problem.NotFound || p.Kind == problem.Forbidden)
}
