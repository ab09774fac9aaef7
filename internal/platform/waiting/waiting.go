// Package waiting counts how much of an answer's time is spent waiting for others at the client's request. Examples are
// waits for a run or a document to go on, and for the broker. The rest is the service's own time. (A program without a
// broker sends such requests itself; there this time counts as its own.)
//
// The code that answers makes a [Clock] and hands it down in the context, with a [Clock.Limit] if long waits need room.
// The code that waits calls [Start], and calls [Left] for the time that it may wait. The package must not know what is
// answered or waited for. It imports only the standard library.
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

	left func(lasted time.Duration) time.Duration // nil: no limit
}

type clockKey struct{}

// New returns a clock, and a context whose waits it counts. elapsed is a monotonic clock.
func New(ctx context.Context, elapsed func() time.Duration) (context.Context, *Clock) {
	c := &Clock{elapsed: elapsed}
	return context.WithValue(ctx, clockKey{}, c), c
}

// Limit sets the function that [Left] calls for the rest of a wait. It must be called before the first wait.
func (c *Clock) Limit(left func(lasted time.Duration) time.Duration) { c.left = left }

// Left returns for how much longer a wait may go on that has lasted so long. After that time the caller must call Left
// again. If it is 0, the wait ends as if its time were over. Without a limit it is the longest duration.
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

// Start starts a wait, and returns a function that ends it. Without a clock in ctx it does nothing.
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
