// Package ratelimit limits the use of a key: requests a minute, by a generic cell rate algorithm (GCRA), and streams
// that are open at the same time.
//
// A [Limiter] alone is exact within its process. With a [Shared], the processes of a deployment exchange the requests
// that they have let through, in a table. How far all of them together may exceed a limit is described there.
//
// The package must not know the owner of a key, nor the content of a request. It imports the ports table and host, and
// an LRU cache.
package ratelimit

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/store/table"
)

// Limit is the limit of a key: a rate in requests per minute, and how many requests may come together.
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

// maxKeys bounds the memory. Beyond it the key that was used least recently is forgotten.
const maxKeys = 100_000

// Limiter counts the requests of all keys. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	Shared *Shared // where processes exchange the use of keys; nil: this one counts alone

	mu    sync.Mutex
	of    *lru.LRU[string, *account]
	until time.Duration // when requests may be reported again, after the table has failed
}

// account is the state of a key in this process.
type account struct {
	paid       time.Duration // the theoretical arrival time of the next request, by the process's monotonic clock
	met        bool          // the others' row of the key was read
	unreported int           // requests that were let through and that the others do not know of
	since      time.Duration // when the first of them came
	reporting  int           // requests whose report is under way
}

// quiet is how long a process reports nothing after the table has failed, so that requests do not wait for it.
const quiet = 5 * time.Second

// pace is a limit in the algorithm's form. A request pays for interval, and tolerance is how far ahead of now may be
// paid.
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

// Take counts a request of a key. at is the reading of a monotonic clock. Values of limit below 1 count as 1. If the
// others cannot be reached, this process decides alone, and reports the request with a later one.
func (l *Limiter) Take(ctx context.Context, key string, limit Limit, at time.Duration) State {
	p := limit.pace()
	a, s, toReport, since := l.count(key, p, at)
	if toReport == 0 {
		return s
	}
	began := l.Shared.Host.Elapsed()
	answer, err := l.Shared.pay(ctx, key, p, lot{toReport, at - since})
	at += l.Shared.Host.Elapsed() - began
	l.mu.Lock()
	defer l.mu.Unlock()
	a.reporting -= toReport
	others := a.unreported + a.reporting // that the answer does not count
	unreported := toReport
	switch {
	case err != nil:
		l.until = at + quiet
		if table.IsKind(err, table.Unknown) {
			unreported = 0 // they may know it, and would count it once more
		}
	case answer.recorded:
		unreported = 0
	case !answer.allowed:
		unreported-- // all but this one
	}
	if unreported > 0 {
		if a.unreported == 0 || since < a.since {
			a.since = since
		}
		a.unreported += unreported
	}
	if err != nil {
		return s
	}
	ahead := answer.ahead
	if answer.allowed {
		ahead = max(ahead, p.interval) // for this request at least
	}
	a.paid = at + ahead + time.Duration(others)*p.interval
	return p.state(ahead, answer.allowed)
}

// count counts a request by the state of this process. toReport is how many requests to report to the others now; the
// first of them came at since. A key that is new to this process is reported immediately. Later, requests are reported
// when they are more than a tenth of the rest.
func (l *Limiter) count(key string, p pace, at time.Duration) (a *account, s State, toReport int, since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a = l.account(key)
	paid := max(a.paid, at)
	if paid-at > p.tolerance {
		return a, p.state(paid-at, false), 0, 0
	}
	a.paid = paid + p.interval
	s = p.state(a.paid-at, true)
	if l.Shared == nil {
		return a, s, 0, 0
	}
	if a.unreported == 0 {
		a.since = at
	}
	a.unreported++
	if at < l.until || a.met && a.unreported <= s.Remaining/10 {
		return a, s, 0, 0
	}
	toReport, since = a.unreported, a.since
	a.met, a.unreported = true, 0
	a.reporting += toReport
	return a, s, toReport, since
}

func (l *Limiter) account(key string) *account {
	if l.of == nil {
		l.of, _ = lru.NewLRU[string, *account](maxKeys, nil) // errs only on a size below 1
	}
	a, known := l.of.Get(key)
	if !known {
		a = &account{}
		l.of.Add(key, a)
	}
	return a
}
