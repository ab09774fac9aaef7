package s3index

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"agentplatform/internal/platform/host"
)

// group is an errgroup whose owner panics with the first panic of its functions. It would end the process else, with
// all that the process does for others.
type group struct {
	*errgroup.Group

	died atomic.Pointer[host.Panic]
}

func newGroup(ctx context.Context) (*group, context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	return &group{Group: g}, ctx
}

// Go runs f, whose error or panic ends the context of the others.
func (g *group) Go(f func() error) {
	g.Group.Go(func() (err error) {
		if died := host.Catch(func() { err = f() }); died != nil {
			g.died.CompareAndSwap(nil, died)
			return died
		}
		return err
	})
}

// Wait returns the first error when all have returned.
func (g *group) Wait() error {
	err := g.Group.Wait()
	g.died.Load().Again()
	return err
}
