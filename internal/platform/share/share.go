// Package share divides limited resources: the workers of a process, the memory of request bodies. One rule holds for
// all of them.
//
//   - An organization, a user, and an API key hold at most their limit.
//   - The last part is a reserve. An organization takes at most half of what the others leave of it, rounded up. A user
//     takes from it only while the user holds less than that in all.
//
// So an organization or a user who holds much never stops one who holds little. A disk is measured, as others use it,
// too: see [Disk]. Package share knows nothing of requests and runs. It imports nothing of ours.
package share

import (
	"context"
	"sync"
)

// Holder names the holder of a part. A user's id is unique within the organization, a key's within the user. The empty
// organization is one, too. An empty key has no limit of its own.
type Holder struct{ Organization, User, Key string }

type holderKey struct{}

// With returns a context in which units are taken and waited for in the name of a holder.
func With(ctx context.Context, of Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, of)
}

// Of is the holder that [With] has set, or the empty one.
func Of(ctx context.Context) Holder {
	of, _ := ctx.Value(holderKey{}).(Holder)
	return of
}

// Limits are how much there is, in units of the caller's choice: bytes, workers.
type Limits struct {
	All          int64 // for everybody together, with the reserve
	Reserve      int64 // the part of All that is kept for holders of little; 0: there is none
	Organization int64 // for each organization; 0: no limit of its own
	User         int64 // for each user; 0: no limit of its own
	Key          int64 // for each API key; 0: no limit of its own
}

// Scope is the scope of the limit that refused a request.
type Scope string

// The scopes.
const (
	Process      Scope = "process"
	Organization Scope = "organization"
	User         Scope = "user"
	Key          Scope = "api_key"
)

// Refusal is the error of a request that exceeds a limit.
type Refusal struct {
	Scope     Scope
	Max, Used int64 // of the scope
}

func (r *Refusal) Error() string { return "share: the limit of the " + string(r.Scope) + " is reached" }

// Pool is the divided resource. It is safe for concurrent use.
type Pool struct {
	limits Limits

	mu            sync.Mutex
	all, reserved int64 // reserved: the held part of the reserve
	organizations map[string]*held
	users         map[Holder]int64 // what users hold, by holders without a key, and what keys hold
	line          Line[*waiter]
}

// waiter waits for a unit of a part.
type waiter struct {
	part  *Part
	ready chan struct{} // closed when the part has it
}

// held is how much an organization holds.
type held struct{ all, reserved int64 }

// New makes a pool of which nothing is held.
func New(limits Limits) *Pool {
	if limits.Organization == 0 {
		limits.Organization = limits.All
	}
	if limits.User == 0 {
		limits.User = limits.All
	}
	if limits.Key == 0 {
		limits.Key = limits.All
	}
	return &Pool{limits: limits, organizations: map[string]*held{}, users: map[Holder]int64{}}
}

// Part is the units that a holder has taken: none at first. Its methods are safe for concurrent use.
type Part struct {
	pool           *Pool
	holder         Holder
	open, reserved int64 // outside of the reserve, and of it
}

// Part begins a part of nothing.
func (p *Pool) Part(holder Holder) *Part { return &Part{pool: p, holder: holder} }

// Take adds n units to the part; n is not negative. If the error is a [*Refusal], nothing is added.
func (t *Part) Take(n int64) error {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if refusal := t.take(n); refusal != nil {
		return refusal
	}
	return nil
}

func (t *Part) take(n int64) *Refusal {
	p := t.pool
	if used := p.users[t.holder]; t.holder.Key != "" && used+n > p.limits.Key {
		return &Refusal{Key, p.limits.Key, used}
	}
	reserved, refusal := p.decide(p.organization(t.holder.Organization), p.users[t.holder.user()], n)
	if refusal == nil {
		t.add(n-reserved, reserved)
	}
	return refusal
}

// Wait is Take for one unit, and waits for it. Waiting organizations take turns, and so do their users. If ctx ends,
// the error is ctx's, and nothing is added.
func (t *Part) Wait(ctx context.Context) error { return t.Ask()(ctx) }

// Ask is the first half of [Part.Wait]: the holder waits from now on. The caller must call the second half once.
func (t *Part) Ask() (wait func(ctx context.Context) error) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.take(1) == nil {
		return func(context.Context) error { return nil }
	}
	w := &waiter{part: t, ready: make(chan struct{})}
	t.pool.line.Push(w, t.holder.Organization, t.holder.User)
	return func(ctx context.Context) error {
		select {
		case <-w.ready:
			return nil
		case <-ctx.Done():
		}
		t.pool.mu.Lock()
		defer t.pool.mu.Unlock()
		waited := t.pool.line.Remove(func(one *waiter) bool { return one == w }, t.holder.Organization, t.holder.User)
		if !waited { // its turn came meanwhile
			return nil
		}
		return ctx.Err()
	}
}

// Wanted reports whether a waiter would get a unit if the part were given back.
func (t *Part) Wanted() bool { return t.WantedBy(t.pool.line.First) }

// WantedBy is [Part.Wanted] for waiters in another line. first searches that line. may reports whether a path may have
// a unit then.
func (t *Part) WantedBy(first func(may func(path []string) bool) bool) bool {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	open, reserved := t.open, t.reserved
	t.add(-open, -reserved)
	defer t.add(open, reserved)
	return first(t.pool.may)
}

// serve gives units to waiters, in turn, as long as there are units for them.
func (p *Pool) serve() {
	for p.line.First(p.may) {
		w := p.line.Pop()
		_ = w.part.take(1) // which may has allowed
		close(w.ready)
	}
}

// may reports whether the waiters at a path may have a unit.
func (p *Pool) may(path []string) bool {
	user := int64(0)
	if len(path) > 1 {
		user = p.users[Holder{Organization: path[0], User: path[1]}]
	}
	_, refusal := p.decide(p.organization(path[0]), user, 1)
	return refusal == nil
}

// Held is how much everybody holds together.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// Waiting is how many wait for a unit.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.Len()
}

// Tight reports whether more than half of all is held.
func (p *Pool) Tight() bool { return p.Held() > p.limits.All/2 }

// Admits reports whether a user of the organization who holds nothing may take n units now.
func (p *Pool) Admits(organization string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, refusal := p.decide(p.organization(organization), 0, n)
	return refusal == nil
}

// Full reports whether nobody may take n units now, not even a user of an organization that holds nothing.
func (p *Pool) Full(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, refusal := p.decide(held{}, 0, n)
	return refusal != nil
}

// Give returns all of the part.
func (t *Part) Give() {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	t.add(-t.open, -t.reserved)
	t.pool.line.Yield(t.holder.Organization, t.holder.User)
	t.pool.serve()
}

// user is the holder without its key.
func (h Holder) user() Holder { return Holder{Organization: h.Organization, User: h.User} }

func (p *Pool) organization(name string) held {
	if o := p.organizations[name]; o != nil {
		return *o
	}
	return held{}
}

// decide returns how many of n units come from the reserve. organization is how much the organization holds, user how
// much its user holds.
func (p *Pool) decide(organization held, user, n int64) (reserved int64, refusal *Refusal) {
	limits := p.limits
	open := limits.All - limits.Reserve - (p.all - p.reserved) // the free part outside of the reserve
	reserved = max(0, n-max(0, open))
	left := limits.Reserve - (p.reserved - organization.reserved) // of the reserve, without other organizations
	switch half := left - left/2; {
	case organization.all+n > limits.Organization:
		return 0, &Refusal{Organization, limits.Organization, organization.all}
	case user+n > limits.User:
		return 0, &Refusal{User, limits.User, user}
	case reserved > 0 && (organization.reserved+reserved > half || user+n > half):
		return 0, &Refusal{Process, limits.All, p.all}
	}
	return reserved, nil
}

// add adds to the part, or takes away from it.
func (t *Part) add(open, reserved int64) {
	p := t.pool
	t.open += open
	t.reserved += reserved
	p.all += open + reserved
	p.reserved += reserved
	o := p.organizations[t.holder.Organization]
	if o == nil {
		o = &held{}
		p.organizations[t.holder.Organization] = o
	}
	o.all += open + reserved
	o.reserved += reserved
	if o.all == 0 {
		delete(p.organizations, t.holder.Organization)
	}
	p.count(t.holder.user(), open+reserved)
	if t.holder.Key != "" {
		p.count(t.holder, open+reserved)
	}
}

func (p *Pool) count(holder Holder, n int64) {
	if p.users[holder] += n; p.users[holder] == 0 {
		delete(p.users, holder)
	}
}
