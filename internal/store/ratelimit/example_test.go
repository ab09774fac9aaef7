package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"agentplatform/internal/store/ratelimit"
)

// A key may make two requests immediately, then one every second.
func ExampleLimiter_Take() {
	var limiter ratelimit.Limiter
	limit := ratelimit.Limit{PerMinute: 60, Burst: 2}
	for _, at := range []time.Duration{0, 0, 0, time.Second} {
		s := limiter.Take(context.Background(), "key-1", limit, at)
		fmt.Println(s.Allowed, s.Remaining, s.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1s
	// true 0 0s
}
