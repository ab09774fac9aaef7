// Package sim is a deterministic simulation of the whole service: the real use cases over a table in memory, in
// virtual time, with faults, observed by a checker of invariants.
//
// Actors (clients, workers, heartbeats, the sweeper, senders) are goroutines of which exactly one runs at a time.
// At every call of a port a seeded scheduler chooses which actor continues, whether a fault happens, and whether
// the process dies there. The same seed gives the same trace.
package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"agentplatform/internal/platform/host"
)

// scheduler runs actors one at a time.
type scheduler struct {
	now     time.Time
	elapsed time.Duration
	pick    *rand.Rand // choice of the next actor
	actors  []*actor   // alive, in the order of creation
	born    int
	yielded chan struct{}
	alarms  []*alarm
	trace   uint64
	steps   int
	awake   *actor
	tail    uint64
	failure string
	log     io.Writer // events, a line each; nil: nowhere
}

type actor struct {
	id      int
	name    string
	process *process
	resume  chan bool // false: die
	// ready reports whether the actor can continue; nil: it can.
	ready func() bool
	wake  time.Time // zero: it does not sleep
	ctx   context.Context
	done  bool
}

// alarm is an event at an instant, outside of any actor.
type alarm struct {
	at   time.Time
	do   func()
	dead bool
}

// process is a set of actors that die together.
type process struct {
	name   string
	dead   bool
	frozen time.Time // until then none of its actors runs
	ids    host.Sequence
	astray time.Duration // error of its wall clock
}

// die unwinds an actor whose process has died. It does not panic, because the use cases would recover that as their
// own.
func die() { runtime.Goexit() }

func newScheduler(seed uint64) *scheduler {
	return &scheduler{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), pick: rand.New(rand.NewPCG(seed, 1)),
		yielded: make(chan struct{}),
	}
}

// logf writes a line of the log: the virtual time, the step, the active actor, and the event.
func (s *scheduler) logf(format string, args ...any) {
	if s.log == nil {
		return
	}
	who := "world"
	if a := s.awake; a != nil {
		who = a.name
	}
	at, what := s.now.Format("01-02 15:04:05.000"), fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintf(s.log, "%s %7d %s: %s\n", at, s.steps, who, what)
}

// Write writes a logger's line into the log.
func (s *scheduler) Write(line []byte) (int, error) {
	s.logf("%s", bytes.TrimSpace(line))
	return len(line), nil
}

// note adds an event and its time to the trace's hash.
func (s *scheduler) note(what string, n int) {
	if what != "" {
		s.logf("%s %d", what, n)
	}
	const prime = 1099511628211 // of FNV-1a
	mix := func(v uint64) { s.trace = (s.trace ^ v) * prime }
	mix(uint64(s.now.UnixNano()))
	mix(uint64(n))
	for i := range len(what) {
		mix(uint64(what[i]))
	}
}

// spawn makes an actor; it starts when it is chosen.
func (s *scheduler) spawn(p *process, name string, f func(a *actor)) *actor {
	s.born++
	a := &actor{id: s.born, name: name, process: p, resume: make(chan bool)}
	s.actors = append(s.actors, a)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.fail(fmt.Sprintf("%s panicked: %v\n%s", a.name, r, stackOf(r)))
			}
			a.done = true
			s.yielded <- struct{}{}
		}()
		if !<-a.resume {
			return
		}
		f(a)
	}()
	return a
}

// stackOf returns the stack of a panic.
func stackOf(r any) []byte {
	if p, ok := r.(*host.Panic); ok {
		return p.Stack
	}
	return debug.Stack()
}

func (s *scheduler) fail(reason string) {
	if s.failure == "" {
		s.failure = fmt.Sprintf("at %s, step %d: %s", s.now.Format(time.RFC3339Nano), s.steps, reason)
		s.logf("FAILED: %s", reason)
	}
}

// yield returns control to the scheduler until the actor is chosen again.
func (s *scheduler) yield(a *actor) {
	if a.process.dead {
		die()
	}
	s.yielded <- struct{}{}
	if !<-a.resume {
		die()
	}
}

// until blocks an actor until ready returns true.
func (s *scheduler) until(a *actor, ready func() bool) {
	a.ready = ready
	s.yield(a)
	a.ready = nil
}

// sleep blocks an actor for d, or until its context ends.
func (s *scheduler) sleep(a *actor, ctx context.Context, d time.Duration) error {
	if d > 0 {
		a.wake, a.ctx = s.now.Add(d), ctx
		s.yield(a)
		a.wake, a.ctx = time.Time{}, nil
	}
	return ctx.Err()
}

func (s *scheduler) at(at time.Time, do func()) *alarm {
	al := &alarm{at: at, do: do}
	s.alarms = append(s.alarms, al)
	return al
}

func (s *scheduler) runnable(a *actor) bool {
	if a.process.dead {
		return true // to unwind
	}
	if a.process.frozen.After(s.now) {
		return false
	}
	if a.ctx != nil && a.ctx.Err() != nil {
		return true
	}
	if !a.wake.IsZero() && a.wake.After(s.now) {
		return false
	}
	return a.ready == nil || a.ready()
}

// maxSteps is the number of steps after which a world counts as never settling. A healthy one takes 15,000, the
// longest a few hundred thousand.
const maxSteps = 1_000_000

// run steps the world until end, until no actor can ever continue, or until something failed.
func (s *scheduler) run(end time.Time, after func()) {
	for s.failure == "" {
		if s.steps >= maxSteps {
			s.fail("the world does not come to rest")
			return
		}
		s.fire()
		var able []*actor
		for _, a := range s.actors {
			if s.runnable(a) {
				able = append(able, a)
			}
		}
		if len(able) == 0 {
			if !s.advance(end) {
				return
			}
			continue
		}
		s.step(able[s.pick.IntN(len(able))])
		after()
	}
}

func (s *scheduler) step(a *actor) {
	s.steps++
	s.note("", a.id)
	s.awake = a
	a.resume <- !a.process.dead
	<-s.yielded
	if a.done {
		s.actors = slices.DeleteFunc(s.actors, func(other *actor) bool { return other == a })
	}
}

// fire runs the alarms that are due.
func (s *scheduler) fire() {
	for {
		due := -1
		for i, al := range s.alarms {
			if !al.dead && !al.at.After(s.now) && (due < 0 || al.at.Before(s.alarms[due].at)) {
				due = i
			}
		}
		if due < 0 {
			s.alarms = slices.DeleteFunc(s.alarms, func(al *alarm) bool { return al.dead })
			return
		}
		al := s.alarms[due]
		al.dead = true
		al.do()
	}
}

// advance moves time to the next event. It returns false if there is none before the end.
func (s *scheduler) advance(end time.Time) bool {
	next := time.Time{}
	consider := func(t time.Time) {
		if t.After(s.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, a := range s.actors {
		consider(a.wake)
		consider(a.process.frozen)
	}
	for _, al := range s.alarms {
		if !al.dead {
			consider(al.at)
		}
	}
	last := next.IsZero() || next.After(end)
	if last {
		next = end
	}
	if next.After(s.now) {
		s.elapsed += next.Sub(s.now)
		s.now = next
	}
	return !last
}

// stop ends all remaining actors.
func (s *scheduler) stop() {
	for len(s.actors) > 0 {
		a := s.actors[0]
		a.process.dead = true
		s.step(a)
	}
}

// machine is host.Host for the actors of a process. The calling actor is known, as only one runs.
type machine struct {
	*scheduler
	process *process
	work    *rand.Rand
}

func (m *machine) current() *actor { return m.awake }

func (m *machine) Now() time.Time         { return m.now.Add(m.process.astray).Truncate(time.Millisecond) }
func (m *machine) Elapsed() time.Duration { return m.elapsed }

func (m *machine) Sleep(ctx context.Context, d time.Duration) error {
	return m.sleep(m.current(), ctx, d)
}

func (m *machine) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	timed, cancel := context.WithCancelCause(ctx)
	if d <= 0 {
		cancel(context.DeadlineExceeded)
		return timed, func() {}
	}
	al := m.at(m.now.Add(d), func() { cancel(context.DeadlineExceeded) })
	return timed, func() {
		al.dead = true
		cancel(nil)
	}
}

func (m *machine) Go(f func()) func() {
	var died *host.Panic
	a := m.spawn(m.process, m.current().name+"+", func(*actor) { died = host.Catch(f) })
	return func() {
		m.until(m.current(), func() bool { return a.done })
		died.Again()
	}
}

func (m *machine) Gate() (open, wait func()) {
	opened := false
	return func() { opened = true }, func() { m.until(m.current(), func() bool { return opened }) }
}

func (m *machine) NewID() string {
	m.tail += 1 << 20 // room for the ids of a clock that was set back
	return m.process.ids.Next(m.Now(), m.tail)
}

func (m *machine) Int64N(n int64) int64 { return m.work.Int64N(n) }
