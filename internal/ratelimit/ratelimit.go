// Package ratelimit limits requests per key: a generic cell rate algorithm (GCRA) in memory, exact within one process.
package ratelimit

import (
	"sync"
	"time"
)

// Limit is the limit of a key: a rate in requests per minute, and how many requests may come at once.
type Limit struct {
	PerMinute int
	Burst     int
}

// State is the state of a key after a request.
type State struct {
	Allowed    bool
	Limit      int           // the burst
	Remaining  int           // how many more requests would be allowed now
	RetryAfter time.Duration // until the next request is allowed; 0 if this one was
	Reset      time.Duration // until the whole burst is available again
}

// maxKeys bounds the memory. When it is reached, idle keys are removed.
const maxKeys = 100_000

// Limiter counts the requests of all keys. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	mu   sync.Mutex
	next map[string]time.Duration // the theoretical arrival time of each key's next request
}

// Take counts a request of a key. at is the reading of a monotonic clock. Values of limit below 1 count as 1.
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
	if len(l.next) >= maxKeys { // no key is idle: forget all rather than grow
		clear(l.next)
	}
}
