package host

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each calls f with each number below n, at most limit of them at a time, and returns the first error. An error or a
// panic ends the context of the others. A panic of f is raised again in the caller's goroutine: otherwise it would end
// the process with all its other work. It is for adapters: its goroutines are not those of a Host.
func Each(ctx context.Context, n, limit int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	var first atomic.Pointer[Panic]
	for i := range n {
		group.Go(func() (err error) {
			if died := Catch(func() { err = f(ctx, i) }); died != nil {
				first.CompareAndSwap(nil, died)
				return died
			}
			return err
		})
	}
	err := group.Wait()
	first.Load().Again()
	return err
}
