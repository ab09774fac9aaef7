package host

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Group is an errgroup whose owner panics with the first panic of its functions. It would end the process else, with
// all that the process does for others. It is for adapters: its goroutines are not those of a Host.
type Group struct {
	*errgroup.Group

	died atomic.Pointer[Panic]
}

// NewGroup makes a group, and the context of its functions.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	return &Group{Group: g}, ctx
}

// Go runs f, whose error or panic ends the context of the others.
func (g *Group) Go(f func() error) {
	g.Group.Go(func() (err error) {
		if died := Catch(func() { err = f() }); died != nil {
			g.died.CompareAndSwap(nil, died)
			return died
		}
		return err
	})
}

// Wait returns the first error when all have returned.
func (g *Group) Wait() error {
	err := g.Group.Wait()
	g.died.Load().Again()
	return err
}
