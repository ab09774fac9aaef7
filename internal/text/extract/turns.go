package extract

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turns limits how many files are read at once. A file waits for a slot of its group, then for one of all. So only as
// many files of a group as it may have stand in the way of other groups.
type turns struct {
	slots *semaphore.Weighted
	share int64 // slots of one group

	mu     sync.Mutex
	groups map[string]*group // that have a slot or wait for one
}

type group struct {
	slots *semaphore.Weighted
	users int
}

func newTurns(slots, share int64) *turns {
	return &turns{slots: semaphore.NewWeighted(slots), share: share, groups: map[string]*group{}}
}

// take waits for a slot and returns the function that frees it. The error is ctx's, or [ErrBusy] after maxWait.
func (t *turns) take(ctx context.Context, name string) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	g := t.join(name)
	if err = g.slots.Acquire(wait, 1); err == nil {
		if err = t.slots.Acquire(wait, 1); err != nil {
			g.slots.Release(1)
		}
	}
	if err != nil {
		t.part(name)
		return nil, cmp.Or(ctx.Err(), ErrBusy)
	}
	return func() {
		t.slots.Release(1)
		g.slots.Release(1)
		t.part(name)
	}, nil
}

// join returns a group, which the caller parts from.
func (t *turns) join(name string) *group {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		g = &group{slots: semaphore.NewWeighted(t.share)}
		t.groups[name] = g
	}
	g.users++
	return g
}

func (t *turns) part(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups[name].users--; t.groups[name].users == 0 {
		delete(t.groups, name)
	}
}
