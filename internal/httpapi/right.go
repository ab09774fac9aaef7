package httpapi

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
)

// lookAgain is after how long a stream's right is looked at where nothing was heard of a change: other processes
// change rights, too.
const lookAgain = 20 * time.Second

// right is that of a reader to a stream. It is looked at again when rights have changed in this process, when it ends
// by itself, and now and then.
type right struct {
	server    *Server
	principal tenant.Principal
	agent     string // whose run it is

	mu    sync.Mutex
	seen  int64         // how many changes there had been at the last look; -1: there was none yet
	next  time.Duration // when the next look is due, with or without a change
	ended bool
}

// lasts says whether the reader may be shown more.
func (r *right) lasts(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, _ := r.server.Tenants.Changes(r.principal)
	now := r.server.Host.Elapsed()
	if r.ended || n == r.seen && now < r.next {
		return !r.ended
	}
	ends, err := r.server.Tenants.Still(ctx, r.principal, r.agent)
	if p, ok := problem.As(err); ok && (p.Kind == problem.Unauthenticated || p.Kind == problem.Forbidden || p.Kind == problem.NotFound) {
		r.ended = true
		return false
	}
	r.seen, r.next = n, now+lookAgain // a store that cannot be reached ends no stream
	if !ends.IsZero() {
		r.next = min(r.next, now+max(0, ends.Sub(r.server.Host.Now())))
	}
	return true
}

// due says after how long the next look is due, unless rights change before.
func (r *right) due(changes int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != changes {
		return 0
	}
	return r.next - r.server.Host.Elapsed()
}

// watch calls end when the right has ended; it returns with the context at the latest. It waits beside every stream, so
// that it must stay small: a look, whose stack is large, has a goroutine of its own.
func (r *right) watch(ctx context.Context, end func()) {
	for ctx.Err() == nil {
		changes, changed := r.server.Tenants.Changes(r.principal)
		wait := r.due(changes)
		if wait <= 0 {
			lasts := make(chan bool, 1)
			go func() { lasts <- r.lasts(ctx) }()
			if !<-lasts {
				end()
				return
			}
			continue
		}
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due.C:
		}
		due.Stop()
	}
}
