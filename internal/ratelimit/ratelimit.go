// Package ratelimit limits what a key may do: requests a minute, by a generic cell rate algorithm (GCRA), and answers
// at once.
//
// A [Limiter] alone is exact within its process. With a [Shared] the processes of a deployment tell each other, in a
// table, what they have let through; how far all together may then go over a limit stands there.
//
// The package must not know who a key belongs to, nor what a request asks for. It imports the ports table and host.
package ratelimit

import (
	"context"
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
	Shared *Shared // where processes tell each other what keys have used; nil: this one counts alone

	mu sync.Mutex
	of map[string]*account
}

// account is what a process knows of a key.
type account struct {
	paid   time.Duration // the theoretical arrival time of the next request, by the process's monotonic clock
	met    bool          // the others were asked about the key
	untold int           // requests that were let through and that the others do not know of
}

// pace is a limit as the algorithm has it: the time that a request pays for, and how far ahead of now may be paid.
type pace struct{ interval, tolerance time.Duration }

func (l Limit) pace() pace {
	interval := time.Minute / time.Duration(max(l.PerMinute, 1))
	return pace{interval, interval * time.Duration(max(l.Burst, 1)-1)}
}

// state is that of a key that has paid for so long from now on.
func (p pace) state(ahead time.Duration, allowed bool) State {
	s := State{Allowed: allowed, Limit: int(p.tolerance/p.interval) + 1, Reset: max(0, ahead)}
	if !allowed {
		s.RetryAfter = ahead - p.tolerance
		return s
	}
	s.Remaining = max(0, int((p.tolerance+p.interval-ahead)/p.interval))
	return s
}

// Take counts a request of a key. at is the reading of a monotonic clock. Values of limit below 1 count as 1. Where the
// others cannot be told, what this process knows decides, and they are told with the next request.
func (l *Limiter) Take(ctx context.Context, key string, limit Limit, at time.Duration) State {
	p := limit.pace()
	s, tell := l.count(key, p, at)
	if tell == 0 {
		return s
	}
	ahead, allowed, err := l.Shared.pay(ctx, key, p, tell)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key, at)
	if err != nil {
		a.untold += tell
		return s
	}
	a.paid = at + ahead + time.Duration(a.untold)*p.interval
	return p.state(ahead, allowed)
}

// count counts a request by what this process knows; tell is how many requests the others should be told of now: all
// of a key that this process meets for the first time, and later more than a tenth of what is left.
func (l *Limiter) count(key string, p pace, at time.Duration) (s State, tell int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key, at)
	paid := max(a.paid, at)
	if paid-at > p.tolerance {
		return p.state(paid-at, false), 0
	}
	a.paid = paid + p.interval
	s = p.state(a.paid-at, true)
	if l.Shared == nil {
		return s, 0
	}
	a.untold++
	if !a.met || a.untold > s.Remaining/10 {
		tell, a.met, a.untold = a.untold, true, 0
	}
	return s, tell
}

func (l *Limiter) account(key string, at time.Duration) *account {
	if a, known := l.of[key]; known {
		return a
	}
	if len(l.of) >= maxKeys {
		for k, a := range l.of {
			if a.paid <= at {
				delete(l.of, k)
			}
		}
		if len(l.of) >= maxKeys { // no key is idle: forget all rather than grow
			clear(l.of)
		}
	}
	if l.of == nil {
		l.of = map[string]*account{}
	}
	a := &account{}
	l.of[key] = a
	return a
}
