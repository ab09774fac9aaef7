package tenant

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/problem"
)

// lookAgain is after how long a stream's right is looked at where nothing was heard of a change: other processes
// change rights, too.
const lookAgain = 20 * time.Second

// Right is that of a reader to a stream. It is looked at again when rights have changed in this process, when it ends
// by itself, and now and then.
type Right struct {
	tenants   *Tenants
	principal Principal
	agent     string // whose run it is

	mu    sync.Mutex
	seen  int64         // how many changes there had been at the last look; -1: there was none yet
	next  time.Duration // when the next look is due, with or without a change
	ended bool
}

// RightTo is a principal's right to read a run of an agent, which has not been looked at yet.
func (t *Tenants) RightTo(p Principal, agent string) *Right {
	return &Right{tenants: t, principal: p, agent: agent, seen: -1}
}

// Lasts says whether the reader may be shown more.
func (r *Right) Lasts(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, _ := r.tenants.Changes(r.principal)
	now := r.tenants.host.Elapsed()
	if r.ended || n == r.seen && now < r.next {
		return !r.ended
	}
	ends, err := r.tenants.Still(ctx, r.principal, r.agent)
	if p, ok := problem.As(err); ok && (p.Kind == problem.Unauthenticated || p.Kind == problem.Forbidden || p.Kind == problem.NotFound) {
		r.ended = true
		return false
	}
	r.seen, r.next = n, now+lookAgain // a store that cannot be reached ends no stream
	if !ends.IsZero() {
		r.next = min(r.next, now+max(0, ends.Sub(r.tenants.host.Now())))
	}
	return true
}

// Due says after how long the next look is due, unless rights change before.
func (r *Right) Due(changes int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != changes {
		return 0
	}
	return r.next - r.tenants.host.Elapsed()
}
