package tenant

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
)

// checkEvery is after how long a stream's right is checked again without a notification, if other processes change
// rights, too; see [Defaults.Alone].
const (
	checkEvery      = 20 * time.Second
	aloneCheckEvery = 10 * time.Minute
)

// Right is a reader's right to a stream. It is checked again when rights have changed in this process, when it expires,
// and from time to time.
type Right struct {
	tenants   *Tenants
	principal *Principal
	of        lifecycle.Whose // the agent and owner of the run; empty if the right is not about a run

	mu    sync.Mutex
	seen  int64         // the count of changes at the last check; -1 before the first
	ends  time.Time     // when it expires; zero: never
	next  time.Duration // of Host.Elapsed: when the next check is due without a change
	ended bool
}

// RightTo is a principal's right to read a run, by its agent and owner. Without an agent it is the right to send
// requests at all. It is not checked before the first call of Lasts. The principal must not change.
func (t *Tenants) RightTo(p *Principal, of lifecycle.Whose) *Right {
	return &Right{tenants: t, principal: p, of: of, seen: -1}
}

// Lasts reports whether the reader may read more. A store that cannot be reached does not end the right.
func (r *Right) Lasts(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.tenants.Changes(*r.principal)
	now := r.tenants.host.Elapsed()
	if r.ended || n == r.seen && now < r.next && !r.expired() {
		return !r.ended
	}
	ends, err := r.tenants.CheckRight(ctx, *r.principal, r.of)
	if err != nil && ctx.Err() != nil {
		return true // the caller has gone, which does not end the right: the next caller checks
	}
	if p, ok := problem.As(err); ok &&
		(p.Kind == problem.Unauthenticated || p.Kind == problem.Forbidden || p.Kind == problem.NotFound) {
		r.ended = true
		return false
	}
	every := checkEvery
	if r.tenants.defaults.Alone && err == nil {
		every = aloneCheckEvery
	}
	r.seen, r.ends, r.next = n, ends, now+every // also if the store cannot be reached
	if !ends.IsZero() {
		r.next = min(r.next, now+max(0, ends.Sub(r.tenants.host.Now())))
	}
	return true
}

// expired reads the wall clock, too, which goes on while the machine sleeps. The caller holds the lock.
func (r *Right) expired() bool { return !r.ends.IsZero() && !r.tenants.host.Now().Before(r.ends) }

// Due returns after how long the next check is due. It is 0 when rights have changed since the last check, and when the
// right has ended.
func (r *Right) Due() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.seen != r.tenants.Changes(*r.principal) || r.expired() {
		return 0
	}
	return r.next - r.tenants.host.Elapsed()
}
