// Package ratelimit limits requests per key: a generic cell rate algorithm (GCRA) in memory, exact within one process.
package ratelimit

import (
	"sync"
	"time"
)

// Limit is how much a key may: so many requests a minute, and so many at once on top of an even flow.
type Limit struct {
	PerMinute int
	Burst     int
}

// State is where a key stands after a request.
type State struct {
	Allowed    bool
	Limit      int           // the size of the burst
	Remaining  int           // how many more would be let through now
	RetryAfter time.Duration // until the next one is let through
	Reset      time.Duration // until the whole burst is there again
}

// maxKeys bounds the memory. When it is reached, keys that are at rest are forgotten.
const maxKeys = 100_000

// Limiter counts for all keys. The zero value is ready.
type Limiter struct {
	mu   sync.Mutex
	next map[string]time.Duration // when the key's last admitted request is paid for: the theoretical arrival time
}

// Take counts a request of key at a monotonic reading.
func (l *Limiter) Take(key string, limit Limit, at time.Duration) State {
	interval := time.Minute / time.Duration(max(limit.PerMinute, 1))
	burst := max(limit.Burst, 1)
	tolerance := interval * time.Duration(burst-1)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = map[string]time.Duration{}
	}
	paid := max(l.next[key], at)
	s := State{Limit: burst}
	if wait := paid - at - tolerance; wait > 0 {
		s.RetryAfter, s.Reset = wait, paid-at
		return s
	}
	paid += interval
	l.forget(at)
	l.next[key] = paid
	s.Allowed, s.Reset = true, paid-at
	s.Remaining = max(0, int((at+tolerance+interval-paid)/interval))
	return s
}

func (l *Limiter) forget(at time.Duration) {
	if len(l.next) < maxKeys {
		return
	}
	for k, paid := range l.next {
		if paid <= at {
			delete(l.next, k)
		}
	}
	if len(l.next) >= maxKeys { // all of them busy: begin anew rather than grow
		clear(l.next)
	}
}
