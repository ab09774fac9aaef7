package extract

import (
	"context"
	"slices"
	"sync"
)

// turns limits how many files are read at once. Waiting groups take turns, so that a group that sends many files
// delays only its own.
type turns struct {
	places, share int // the limits of all groups together, and of one group

	mu      sync.Mutex
	taken   int                        // places in use
	held    map[string]int             // places in use, by group
	waiting map[string][]chan struct{} // closed when their place is free, by group
	order   []string                   // waiting groups, in the order of their turns
}

func newTurns(places, share int) *turns {
	return &turns{places: places, share: share, held: map[string]int{}, waiting: map[string][]chan struct{}{}}
}

// take waits for a place and returns the function that frees it. The error is ctx's, or [ErrBusy] after maxWait.
func (t *turns) take(ctx context.Context, group string) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	let := t.join(group)
	leave = sync.OnceFunc(func() { t.leave(group) })
	select {
	case <-let:
		return leave, nil
	case <-wait.Done():
	}
	if !t.giveUp(group, let) {
		leave() // it got a place meanwhile
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrBusy
}

// join adds a waiter; the channel is closed when it has a place.
func (t *turns) join(group string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[group]) == 0 {
		t.order = append(t.order, group)
	}
	let := make(chan struct{})
	t.waiting[group] = append(t.waiting[group], let)
	t.admit()
	return let
}

// admit gives free places to waiters. The caller holds mu.
func (t *turns) admit() {
	for t.taken < t.places {
		next := slices.IndexFunc(t.order, func(group string) bool { return t.held[group] < t.share })
		if next < 0 {
			return
		}
		group := t.order[next]
		let := t.waiting[group][0]
		t.order = slices.Delete(t.order, next, next+1)
		if t.waiting[group] = t.waiting[group][1:]; len(t.waiting[group]) > 0 {
			t.order = append(t.order, group)
		} else {
			delete(t.waiting, group)
		}
		t.taken++
		t.held[group]++
		close(let)
	}
}

// giveUp removes a waiter. It returns false if the waiter has got a place.
func (t *turns) giveUp(group string, let chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting[group], let)
	if at < 0 {
		return false
	}
	if t.waiting[group] = slices.Delete(t.waiting[group], at, at+1); len(t.waiting[group]) == 0 {
		delete(t.waiting, group)
		t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == group })
	}
	return true
}

// leave frees a place.
func (t *turns) leave(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.held[group]--; t.held[group] == 0 {
		delete(t.held, group)
	}
	t.admit()
}
