package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// powers has the rights in worlds where they change. Users join and leave groups, roles rise and fall, keys are made,
// rotated and removed, and agents name groups. Each request there is made with a key's text. The rights at a time are
// derived from the items stored then, by rules written for the simulation. Package tenant is not used.
type powers struct {
	*world

	groups map[string]string // by organization
	texts  map[string]text   // the newest of a user
	keys   []string
	past   map[string][]rights          // by organization, in order
	paused map[string]catalog.AgentSpec // a run's agent at the beginning of its pause
}

// text is an API key's text that a user knows.
type text struct{ key, text, hash string }

// rights are an organization's rights from a time on.
type rights struct {
	since  time.Time
	there  bool
	users  map[string]catalog.User
	keys   map[string]catalog.APIKey
	groups map[string]bool
	agents map[string]catalog.AgentSpec
	shared bool // chats are for the whole organization
}

// remembered is how long a process with a cache may use outdated rights.
const remembered = 30 * time.Second

func newText(key, plain string) text {
	sum := sha256.Sum256([]byte(plain))
	return text{key, plain, hex.EncodeToString(sum[:])}
}

// snapshot records the current rights.
func (p *powers) snapshot() {
	store, ctx := p.checker.store(), context.Background()
	for _, organization := range sortedKeys(p.groups) {
		now := rights{since: p.now, users: map[string]catalog.User{}, keys: map[string]catalog.APIKey{},
			groups: map[string]bool{}, agents: map[string]catalog.AgentSpec{}}
		o, err := record.Resource[catalog.Organization](ctx, store, record.System(), organization)
		now.there = err == nil && !o.Value.Deleted
		now.shared = o.Value.ChatVisibility != catalog.SeesOwn
		for _, one := range p.people {
			if u, err := record.Resource[catalog.User](ctx, store, record.Of(organization), one.User); err == nil {
				u.Value.UpdatedAt, u.Value.OperatorKeys = time.Time{}, nil
				now.users[one.User] = u.Value
			}
		}
		for _, id := range p.keys {
			if k, err := record.Resource[catalog.APIKey](ctx, store, record.Of(organization), id); err == nil {
				k.Value.UpdatedAt = time.Time{}
				now.keys[id] = k.Value
			}
		}
		_, err = record.Resource[catalog.Group](ctx, store, record.Of(organization), p.groups[organization])
		now.groups[p.groups[organization]] = err == nil
		for _, id := range p.agents {
			if a, err := record.Resource[catalog.Agent](ctx, store, record.Of(organization), id); err == nil {
				now.agents[id] = a.Value.Spec
			}
		}
		past := p.past[organization]
		if len(past) > 0 {
			now.since = past[len(past)-1].since
			if reflect.DeepEqual(now, past[len(past)-1]) {
				continue
			}
			now.since = p.now
		}
		p.past[organization] = append(past, now)
	}
}

// need has the rights that a request requires.
type need struct {
	level  tenant.Level
	agents []string   // that it must reach
	owner  string     // owner of a chat that it must see; empty: none
	groups [][]string // each of which must admit
	call   *call      // that it decides
}

// call is a call that waits for an approval.
type call struct {
	agent, user string            // of its run
	then        catalog.AgentSpec // the agent when the pause began
	rejected    bool
}

// ranks are the levels of keys, and the highest level of each role.
var ranks = map[string]int{"read": 1, "run": 2, "manage": 3, "admin": 4, "member": 2, "manager": 3}

// allow reports whether the holder of a key's text has the right at a time.
func (r rights) allow(t text, n need, at time.Time) bool {
	k, there := r.keys[t.key]
	u, owned := r.users[k.UserID]
	good := k.Hash == t.hash
	for _, e := range append(slices.Clone(k.Earlier), catalog.Earlier{Value: k.PreviousHash, Until: k.PreviousUntil}) {
		good = good || e.Value == t.hash && at.Before(e.Until)
	}
	if !there || !owned || !r.there || !good {
		return false
	}
	rank := ranks[k.Level]
	if u.Role != "admin" {
		rank = min(rank, ranks[u.Role])
	}
	return rank >= ranks[string(n.level)] && r.lets(u, k, rank, n)
}

// lets reports whether a user with a key of a rank meets a request's requirements other than its level.
func (r rights) lets(u catalog.User, k catalog.APIKey, rank int, n need) bool {
	in := func(groups []string) bool {
		return len(groups) == 0 || rank >= ranks["admin"] ||
			slices.ContainsFunc(groups, func(g string) bool { return r.groups[g] && slices.Contains(u.GroupIDs, g) })
	}
	if n.call != nil && !r.decides(n.call, u.ID, rank, in) {
		return false
	}
	for _, groups := range n.groups {
		if !in(groups) {
			return false
		}
	}
	for _, a := range n.agents {
		if !in(r.agents[a].GroupIDs) {
			return false
		}
	}
	return r.sees(u, k, rank, n)
}

// decides reports whether a user may decide a call. It checks the present agent and the agent of the beginning of the
// pause.
func (r rights) decides(c *call, user string, rank int, in func(groups []string) bool) bool {
	now := r.agents[c.agent]
	for _, agent := range []catalog.AgentSpec{now, c.then} {
		self, own := agent.Approval.Self, user == c.user
		switch {
		case own && !c.rejected && self != nil && !*self:
			return false
		case len(agent.ApproverGroupIDs) > 0:
			if !in(agent.ApproverGroupIDs) {
				return false
			}
		case !own && rank < ranks["manager"], !in(now.GroupIDs):
			return false
		}
	}
	return true
}

// certain reports whether a user had, or had not, the right all the time since an instant. Its second result is false
// if the rights changed more than once, or changed the first result. Values read at different times may then not belong
// together.
func (p *powers) certain(organization string, t text, n need, since time.Time) (may, certain bool) {
	return p.always(organization, since, func(r rights, at time.Time) bool { return r.allow(t, n, at) })
}

// always reports whether a condition was true, or false, all the time since an instant; see [powers.certain].
func (p *powers) always(
	organization string, since time.Time, is func(r rights, at time.Time) bool,
) (so, certain bool) {
	past := p.past[organization]
	changes := 0
	for i, r := range past {
		if i+1 < len(past) && past[i+1].since.Before(since) {
			continue // it had ended by then
		}
		if changes++; changes > 2 {
			return false, false
		}
		// a key may expire between the two
		first, last := is(r, since.Add(-p.skew)), is(r, p.now.Add(p.skew))
		if first != last || changes == 2 && first != so {
			return false, false
		}
		so = first
	}
	return so, true
}

// refused reports whether an error means that a user lacks a right.
func refused(err error) bool {
	p, is := problem.As(err)
	return is && (p.Kind == problem.Unauthenticated || p.Code == "insufficient_permission")
}

// checkRights checks a response against the rights during the request. It includes the time before it for which a
// process may use outdated rights.
func (c *client) checkRights(d *deployment, t text, began time.Time, must, may need, err error) {
	if c.powers == nil || c.left[c.who.User] {
		return
	}
	if d.remembers {
		began = began.Add(-remembered)
	}
	organization := c.who.Organization
	if allowed, certain := c.powers.certain(organization, t, must, began); certain && !allowed && err == nil {
		c.checker.violated(22, "user %s was let do what it may not: %+v", c.who.User, must)
	}
	if allowed, certain := c.powers.certain(organization, t, may, began); certain && allowed && refused(err) {
		c.checker.violated(22, "user %s was refused what it may do, %+v: %v", c.who.User, may, err)
	}
	if refused(err) {
		c.text = c.powers.texts[c.who.User]
	}
}

// as returns the client's principal from a process, if it has the right level.
func (c *client) as(ctx context.Context, d *deployment, level tenant.Level) (tenant.Principal, text, error) {
	if c.powers == nil {
		return c.who, text{}, nil
	}
	if c.text.key == "" || c.work.IntN(2) == 0 {
		c.text = c.powers.texts[c.who.User]
	}
	t := c.text
	p, err := d.tenants.Authenticate(ctx, t.text)
	if err == nil {
		err = p.Authorize(level)
	}
	return p, t, err
}

// all returns the agents of the client's organization.
func (c *client) all() []string {
	at := 0
	if c.who.Organization != c.people[0].Organization {
		at = 2
	}
	return c.agents[at : at+2]
}

// found makes an organization's group and restricts its agents to it.
func (p *powers) found(ctx context.Context, tenants *tenant.Tenants, organization string) string {
	name := "group"
	g, err := tenants.CreateGroup(ctx, organization, tenant.GroupEdit{Name: &name})
	must(err)
	p.groups[organization] = g.Value.ID
	return g.Value.ID
}

// boss changes the rights of an organization's users.
func (w *world) boss(organization string) {
	c := &client{world: w, name: "boss of " + organization, own: &process{name: "boss"}}
	p, scope, by := w.powers, record.Of(organization), tenant.Platform()
	group := p.groups[organization]
	var users []string
	for _, one := range w.people {
		if one.Organization == organization {
			users = append(users, one.User)
		}
	}
	agents := w.agents[:2]
	if organization != w.people[0].Organization {
		agents = w.agents[2:]
	}
	change := func(ctx context.Context, d *deployment) error {
		user := c.any(users)
		if hasSight(w.seed) && w.work.IntN(3) == 0 {
			return w.sight(ctx, d, organization, user, c.any(agents))
		}
		switch n := w.work.IntN(16); {
		case n < 5:
			_, err := d.tenants.SetMember(ctx, by, scope, group, user, w.work.IntN(2) == 0)
			return err
		case n < 8:
			role := []string{"member", "manager", "admin"}[w.work.IntN(3)]
			_, err := d.tenants.EditUser(ctx, by, scope, user, 0, tenant.UserEdit{Role: &role})
			return err
		case n < 10:
			if err := d.tenants.RevokeKey(ctx, by, scope, p.texts[user].key); err != nil {
				return err
			}
			fallthrough
		case n < 11:
			k, plain, err := d.tenants.CreateKey(ctx, by, scope, tenant.NewKey{
				Name: "k", UserID: user, Level: []tenant.Level{tenant.LevelRead, tenant.LevelRun, tenant.LevelRun,
					tenant.LevelAdmin}[w.work.IntN(4)],
			})
			if err == nil {
				p.hand(user, newText(k.Value.ID, plain))
			}
			return err
		case n < 12:
			t := p.texts[user]
			_, plain, err := d.tenants.RotateKey(ctx, by, scope, t.key,
				time.Duration(w.work.Int64N(int64(2*time.Minute))))
			if err == nil {
				p.hand(user, newText(t.key, plain))
			}
			return err
		default:
			of := []string{}
			if w.work.IntN(3) > 0 {
				of = append(of, group)
			}
			approvers, self := w.work.IntN(2) == 0, w.work.IntN(3) > 0
			admin := tenant.Principal{Organization: organization, Level: tenant.LevelAdmin}
			_, err := d.tenants.EditAgent(ctx, admin, c.any(agents), 0, true, true,
				func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
					if approvers {
						s.ApproverGroupIDs, s.Approval.Self = of, &self
					} else {
						s.GroupIDs = of
					}
					return s, nil
				})
			return err
		}
	}
	w.spawn(c.own, c.name, func(a *actor) {
		for end := w.now.Add(w.trouble); w.now.Before(end); {
			_ = w.sleep(a, context.Background(), time.Duration(w.work.Int64N(int64(3*time.Minute))))
			c.ask(a, func(ctx context.Context, d *deployment) {
				err := change(ctx, d)
				d.tenants.Change(by)
				c.expect(err, "unavailable", "not_found", "insufficient_permission", "validation_error",
					"invalid_request", "outside_organization")
			})
		}
	})
}

// hand gives a user the text of a key.
func (p *powers) hand(user string, t text) {
	p.texts[user] = t
	if !slices.Contains(p.keys, t.key) {
		p.keys = append(p.keys, t.key)
	}
	p.snapshot()
}

// waits records a run's agent at the beginning of its pause. If the version of the run requires other approvers, that
// counts, too.
func (p *powers) waits(r record.Run) {
	past := p.past[r.Organization]
	then := past[len(past)-1].agents[r.Agent]
	began, err := record.Version[catalog.Agent](context.Background(), p.checker.store(), record.Of(r.Organization),
		r.Agent, r.AgentVersion)
	if err == nil && began.Spec.Approval.OthersOnly() {
		then.Approval.Self = began.Spec.Approval.Self
	}
	p.paused[r.ID()] = then
}

// begun checks that a waiting message whose key was removed before does not start.
func (p *powers) begun(r record.Run) {
	if !r.Waited || r.Attempt != 1 { // rights are checked only at the start
		return
	}
	there := false
	for _, then := range p.past[r.Organization] {
		if _, has := then.keys[r.APIKey]; then.since.Before(r.StartedAt.Add(-p.skew)) || has {
			there = has
		}
	}
	if !there {
		p.checker.violated(22, "run %s, which had waited, works for key %s, which was gone", r.ID(), r.APIKey)
	}
}

// to returns the rights that access to a run requires.
func (c *client) to(run string) need {
	n := need{level: tenant.LevelRun}
	if of, there := c.checker.whose[run]; there {
		n.agents, n.owner = []string{of.Agent}, of.Owner
	}
	return n
}

// streamsOn returns how long a stream may continue after the right to it has ended. That is until the next check, which
// faults delay.
func (c *client) streamsOn() time.Duration {
	const again = 20 * time.Second
	if c.rate == 0 {
		return again + 5*time.Second
	}
	return 3*again + 4*lease
}
