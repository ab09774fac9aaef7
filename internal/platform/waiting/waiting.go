// Package waiting counts how much of the time that an answer takes is spent waiting for others, because that is what
// was asked for: for a run or a document to go on, for what the broker is asked for. What is left is the service's own
// time. (A program that has no broker asks others itself; there that is in its own time.)
//
// Who answers makes a [Clock] and hands it down in the context, with a [Clock.Limit] where long waits need room. Who
// waits says so with [Start], and asks [Left] for how long it may. The package must not know what is answered or waited
// for. It imports only the standard library.
package waiting

import (
	"context"
	"math"
	"sync"
	"time"
)

// Clock counts the time of one answer in which something waited. It is safe for concurrent use.
type Clock struct {
	elapsed func() time.Duration

	mu    sync.Mutex
	waits int // that have not ended
	since time.Duration
	total time.Duration

	left func(lasted time.Duration) time.Duration // nil: nobody need be asked
}

type clockKey struct{}

// New returns a clock, and a context whose waits it counts. elapsed is a monotonic clock.
func New(ctx context.Context, elapsed func() time.Duration) (context.Context, *Clock) {
	c := &Clock{elapsed: elapsed}
	return context.WithValue(ctx, clockKey{}, c), c
}

// Limit has waits ask for how much longer they may go on, as [Left] has it. It must be called before the first wait.
func (c *Clock) Limit(left func(lasted time.Duration) time.Duration) { c.left = left }

// Left is for how much longer a wait may go on that has lasted so long, before it has to ask again; 0: no longer, and
// the wait ends as if its time were over. Without a limit it is without end.
func Left(ctx context.Context, lasted time.Duration) time.Duration {
	c, _ := ctx.Value(clockKey{}).(*Clock)
	if c == nil || c.left == nil {
		return math.MaxInt64
	}
	return c.left(lasted)
}

// Total is the time in which at least one wait had begun and not ended.
func (c *Clock) Total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits > 0 {
		return c.total + c.elapsed() - c.since
	}
	return c.total
}

// Start starts a wait, and returns what ends it. Without a clock in ctx it does nothing.
func Start(ctx context.Context) (end func()) {
	c, _ := ctx.Value(clockKey{}).(*Clock)
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits++; c.waits == 1 {
		c.since = c.elapsed()
	}
	return sync.OnceFunc(c.end)
}

func (c *Clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits--; c.waits == 0 {
		c.total += c.elapsed() - c.since
	}
}
