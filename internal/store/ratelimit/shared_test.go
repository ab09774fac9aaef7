package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/ratelimit"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// clock is a host whose time only moves when a test moves it.
type clock struct {
	host.Host

	at time.Duration
}

func (c *clock) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(c.at) }

func (c *clock) Elapsed() time.Duration { return c.at }

// processes of a deployment, that share a table.
func processes(n int) (*clock, []*ratelimit.Limiter) {
	c := &clock{Host: host.System()}
	shared := &ratelimit.Shared{Table: memtable.New(c.Now), Host: c}
	all := make([]*ratelimit.Limiter, n)
	for i := range all {
		all[i] = &ratelimit.Limiter{Shared: shared}
	}
	return c, all
}

// Requests may come to any process in any order. At any time a key has got no more than its rate, its burst, and a
// tenth of that for each process. A key that always wants more gets its rate.
func TestProcessesTogetherKeepToTheLimit(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		limit := ratelimit.Limit{PerMinute: rapid.IntRange(60, 6000).Draw(t, "rate"),
			Burst: rapid.IntRange(1, 100).Draw(t, "burst")}
		interval := time.Minute / time.Duration(limit.PerMinute)
		n := rapid.IntRange(1, 20).Draw(t, "processes")
		c, all := processes(n)
		most := n * (limit.Burst/10 + 1)
		var admitted []time.Duration
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			if rapid.Bool().Draw(t, "waits") {
				c.at += time.Duration(rapid.IntRange(0, 20*limit.Burst).Draw(t, "for")) * interval / 10
			}
			s := all[rapid.IntRange(0, n-1).Draw(t, "at")].Take(ctx, "k", limit, c.at)
			if s.Allowed {
				admitted = append(admitted, c.at)
			}
			if s.Remaining < 0 || s.Remaining >= limit.Burst || s.Reset < 0 {
				t.Fatalf("%+v", s)
			}
		}
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				if may := limit.Burst + most + int((admitted[j]-admitted[i])/interval); j-i+1 > may {
					t.Fatalf("%d admitted in %s, of %d", j-i+1, admitted[j]-admitted[i], may)
				}
			}
		}
	})
}

// A client that hammers all processes gets its rate from all of them together, no more and no less. Its refused
// requests do not count.
func TestWhoAlwaysWantsMoreGetsTheRate(t *testing.T) {
	const n, seconds = 20, 120
	c, all := processes(n)
	limit := ratelimit.Limit{PerMinute: 600, Burst: 100}
	got := 0
	for range 10 * seconds {
		c.at += 100 * time.Millisecond // in which one more is allowed
		for _, one := range all {
			if one.Take(t.Context(), "k", limit, c.at).Allowed {
				got++
			}
		}
	}
	assert.InDelta(t, 10*seconds+limit.Burst, got, n*10, "of each process alone it would be %d", n*10*seconds)
}

// A client that stays below its rate is never refused. It may spread over any number of processes, and each of them may
// report late.
func TestWhoStaysBelowTheRateIsNeverRefused(t *testing.T) {
	for _, is := range []struct{ perMinute, processes int }{{300, 100}, {540, 180}, {100, 100}, {580, 1}, {590, 7}} {
		c, all := processes(is.processes)
		for i := range 15 * is.perMinute {
			c.at += time.Minute / time.Duration(is.perMinute)
			s := all[i%len(all)].Take(t.Context(), "k", ratelimit.Limit{PerMinute: 600, Burst: 100}, c.at)
			require.True(t, s.Allowed, "%+v, request %d: %+v", is, i, s)
		}
	}
}

// Requests that were let through while the table was away do not lock out a client that stayed below its rate.
func TestAfterAnOutageNobodyIsLockedOut(t *testing.T) {
	c := &clock{Host: host.System()}
	rows := &counting{Table: memtable.New(c.Now)}
	shared := &ratelimit.Shared{Table: rows, Host: c}
	one, other := &ratelimit.Limiter{Shared: shared}, &ratelimit.Limiter{Shared: shared}
	limit := ratelimit.Limit{PerMinute: 600, Burst: 100}
	requests := 0
	for c.at < 20*time.Minute {
		c.at += 200 * time.Millisecond
		rows.err = nil
		if c.at > time.Minute && c.at < 11*time.Minute {
			rows.err = &table.Error{Kind: table.Down, Err: errors.New("away")}
		}
		require.True(t, one.Take(t.Context(), "k", limit, c.at).Allowed, "after %s", c.at)
		require.True(t, other.Take(t.Context(), "k", ratelimit.Limit{PerMinute: 600, Burst: 100}, c.at).Allowed)
		requests++
	}
	assert.Less(t, rows.failed, 2*10*60/5+10, "requests do not wait for a table that fails")
	assert.NotZero(t, rows.failed)
}

// If others change the row all the time, the last read decides. A client that comes to many processes at the same
// moment is not let through because they conflict. Its refused requests do not count.
func TestTheLimitHoldsWhereOthersAreAlwaysFaster(t *testing.T) {
	c := &clock{Host: host.System()}
	rows := &counting{Table: memtable.New(c.Now)}
	shared := &ratelimit.Shared{Table: rows, Host: c}
	one, other := &ratelimit.Limiter{Shared: shared}, &ratelimit.Limiter{Shared: shared}
	limit := ratelimit.Limit{PerMinute: 60, Burst: 20}
	for range 2 { // the second is not reported yet
		require.True(t, one.Take(t.Context(), "k", limit, 0).Allowed)
	}
	for range 19 {
		require.True(t, other.Take(t.Context(), "k", limit, 0).Allowed)
	}
	require.False(t, other.Take(t.Context(), "k", limit, 0).Allowed)
	rows.faster = true
	s := one.Take(t.Context(), "k", limit, 0)
	assert.False(t, s.Allowed)
	assert.Equal(t, 2*time.Second, s.RetryAfter, "twenty, and the one that is not told")
	rows.faster, c.at = false, 10*time.Second
	s = one.Take(t.Context(), "k", limit, c.at)
	assert.True(t, s.Allowed)
	assert.Equal(t, 20+10-22, s.Remaining, "the twenty, the one that was not told, and this one")
}

// A report that may have been written is not written again.
func TestAnUnknownOutcomeIsNotReportedAgain(t *testing.T) {
	c := &clock{Host: host.System()}
	rows := &counting{Table: memtable.New(c.Now), unknown: true}
	shared := &ratelimit.Shared{Table: rows, Host: c}
	one, other := &ratelimit.Limiter{Shared: shared}, &ratelimit.Limiter{Shared: shared}
	limit := ratelimit.Limit{PerMinute: 1, Burst: 10}
	assert.True(t, one.Take(t.Context(), "k", limit, 0).Allowed)
	rows.unknown, c.at = false, 6*time.Second
	assert.True(t, one.Take(t.Context(), "k", limit, c.at).Allowed)
	assert.Equal(t, 10-3, other.Take(t.Context(), "k", limit, c.at).Remaining)
}

// A process reads the row once of a key that comes seldom, and then once for each tenth of the rest.
func TestRequestsSeldomWaitForTheTable(t *testing.T) {
	c := &clock{Host: host.System()}
	counted := &counting{Table: memtable.New(c.Now)}
	l := &ratelimit.Limiter{Shared: &ratelimit.Shared{Table: counted, Host: c}}
	limit := ratelimit.Limit{PerMinute: 600, Burst: 100}
	for range 100 {
		c.at += time.Second
		require.True(t, l.Take(t.Context(), "k", limit, c.at).Allowed)
	}
	assert.Equal(t, 10, counted.commits)
}

// Requests go on while the table is away. They are reported later.
func TestTheTableIsAway(t *testing.T) {
	c := &clock{Host: host.System()}
	rows := &counting{Table: memtable.New(c.Now), err: &table.Error{Kind: table.Down, Err: errors.New("away")}}
	shared := &ratelimit.Shared{Table: rows, Host: c}
	one, other := &ratelimit.Limiter{Shared: shared}, &ratelimit.Limiter{Shared: shared}
	limit := ratelimit.Limit{PerMinute: 60, Burst: 20}
	for range 19 {
		assert.True(t, one.Take(t.Context(), "k", limit, 0).Allowed)
	}
	rows.err, c.at = nil, 5*time.Second // until when it is left alone
	assert.True(t, one.Take(t.Context(), "k", limit, c.at).Allowed)
	s := other.Take(t.Context(), "k", limit, c.at)
	assert.True(t, s.Allowed)
	assert.Equal(t, 20+5-21, s.Remaining, "the other process was told of twenty")
}

// A client that leaves is counted, and so are all others.
func TestWhoLeavesIsCounted(t *testing.T) {
	c := &clock{Host: host.System()}
	shared := &ratelimit.Shared{Table: &counting{Table: memtable.New(c.Now)}, Host: c}
	all := []*ratelimit.Limiter{{Shared: shared}, {Shared: shared}}
	limit := ratelimit.Limit{PerMinute: 60, Burst: 2}
	left, leave := context.WithCancel(t.Context())
	leave()
	assert.True(t, all[0].Take(left, "k", limit, c.at).Allowed)
	assert.True(t, all[1].Take(left, "k", limit, c.at).Allowed)
	assert.False(t, all[0].Take(left, "k", limit, c.at).Allowed)
	assert.False(t, all[1].Take(t.Context(), "k", limit, c.at).Allowed)
}

// The number of stream slots is the same for every process. A slot that was left or has ended is free.
func TestPlaces(t *testing.T) {
	ctx := t.Context()
	c := &clock{Host: host.System()}
	rows := &counting{Table: memtable.New(c.Now)}
	shared := &ratelimit.Shared{Table: rows, Host: c}
	const most = 5
	var mu sync.Mutex
	var slots []int
	var entering sync.WaitGroup
	for range 20 {
		entering.Go(func() {
			slot, taken, err := shared.Enter(ctx, "k", most, c.Now().Add(time.Minute))
			mu.Lock()
			defer mu.Unlock()
			if err == nil && taken {
				slots = append(slots, slot)
			}
		})
	}
	entering.Wait()
	for len(slots) < most { // some may have been beaten too often
		slot, taken, err := shared.Enter(ctx, "k", most, c.Now().Add(time.Minute))
		require.NoError(t, err)
		require.True(t, taken)
		slots = append(slots, slot)
	}
	assert.ElementsMatch(t, []int{0, 1, 2, 3, 4}, slots)
	enter := func() bool {
		_, taken, err := shared.Enter(ctx, "k", most, c.Now().Add(time.Minute))
		require.NoError(t, err)
		return taken
	}
	assert.False(t, enter())
	require.NoError(t, shared.Leave(ctx, "k", 3))
	assert.True(t, enter())
	assert.False(t, enter())
	c.at += 2 * time.Minute
	assert.True(t, enter(), "they ended by themselves")
	rows.faster = true
	assert.False(t, enter(), "somebody else took each")
}

// counting counts commits, and fails.
type counting struct {
	table.Table

	mu      sync.Mutex
	commits int
	failed  int
	err     error
	faster  bool // others are, at each commit
	unknown bool // whether a commit was applied, which it was
}

func (c *counting) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, &table.Error{Kind: table.Down, Err: err}
	}
	if c.err != nil {
		c.failed++
		return nil, c.err
	}
	return c.Table.Query(ctx, r)
}

func (c *counting) Commit(ctx context.Context, token string, ops ...table.Op) error {
	c.mu.Lock()
	c.commits++
	c.mu.Unlock()
	if c.faster {
		return &table.Refused{}
	}
	if err := c.Table.Commit(ctx, token, ops...); err != nil || !c.unknown {
		return err
	}
	return &table.Error{Kind: table.Unknown, Err: errors.New("no answer")}
}
