package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"agentplatform/internal/store/ratelimit"
)

func TestBurstIsAllowedThenAnEvenRate(t *testing.T) {
	ctx := t.Context()
	var l ratelimit.Limiter
	limit := ratelimit.Limit{PerMinute: 60, Burst: 3}
	for want := 2; want >= 0; want-- {
		s := l.Take(ctx, "k", limit, 0)
		assert.True(t, s.Allowed)
		assert.Equal(t, want, s.Remaining)
	}
	s := l.Take(ctx, "k", limit, 0)
	assert.False(t, s.Allowed)
	assert.Equal(t, time.Second, s.RetryAfter)
	assert.False(t, l.Take(ctx, "k", limit, 999*time.Millisecond).Allowed)
	assert.True(t, l.Take(ctx, "k", limit, time.Second).Allowed)
	assert.True(t, l.Take(ctx, "other", limit, 0).Allowed)
}

// For any arrivals, a period of any length allows at most the burst plus the rate's share. A request after RetryAfter
// is allowed.
func TestNeverMoreThanBurstPlusRate(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		limit := ratelimit.Limit{PerMinute: rapid.IntRange(1, 1000).Draw(t, "rate"),
			Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		var l ratelimit.Limiter
		at := time.Duration(0)
		var admitted []time.Duration
		for range 200 {
			at += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "gap"))
			s := l.Take(ctx, "k", limit, at)
			if !s.Allowed {
				at += s.RetryAfter
				if s = l.Take(ctx, "k", limit, at); !s.Allowed {
					t.Fatalf("refused after waiting as told")
				}
			}
			admitted = append(admitted, at)
		}
		interval := time.Minute / time.Duration(limit.PerMinute)
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				if most := limit.Burst + int((admitted[j]-admitted[i])/interval); j-i+1 > most {
					t.Fatalf("%d admitted in %s", j-i+1, admitted[j]-admitted[i])
				}
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	var l ratelimit.Limiter
	for i := range b.N {
		l.Take(b.Context(), fmt.Sprint(i%100), ratelimit.Limit{PerMinute: 600, Burst: 100}, time.Duration(i))
	}
}
