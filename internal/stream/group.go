package stream

import (
	"context"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/view"
)

// group is the readers of one run in this process. They share the result of each read, so that a run is read once at
// a time however many readers it has, and its text is held once.
type group struct {
	hub     *Hub
	store   *record.Store
	place   place
	number  int    // counts the groups of the hub
	readers int    // guarded by the hub's mutex
	asks    string // the worker acknowledges this id in a frame; all of its earlier output is stored before that

	mu       sync.Mutex
	wait     func()        // waits for the read under way; nil if there is none
	begun    int           // number of reads begun
	lastRead int           // number of the last read with a result
	failed   error         // the error of that read; not_found is final
	polledAt time.Duration // when that read ended, or a glance has heard a frame since
	changed  time.Duration // when something new was found last
	silent   int           // looks for a frame since it last said something that found none
	speaks   bool          // it was few before that, too
	glanced  time.Duration // when a glance last looked for news
	late     bool          // it was longer ago than usual when it did
	news     bool          // one has seen some that no reader has begun to read
	asleep   []*sleeper    // readers that wait for a glance, in the order in which they began
	known    state
	first    snapshot
	watched  time.Time
}

// place is a run as seen in a scope. Readers of different scopes share nothing, not even a refusal.
type place struct {
	scope record.Scope
	run   string
}

// state is a run with its output so far.
type state struct {
	progress

	head

	number  int       // counts the states of its group
	view    *view.Run // of the version, which nobody changes
	partial bool      // some stored frames could not be read
}

// head is what a stream goes by of a run's head, of which there is much more. There is one for each group and each
// reader, and there are many of those.
type head struct {
	run      string // its id; empty before the first read
	version  int64
	attempt  int
	status   lifecycle.Status
	pause    int // number of the pause
	watched  bool
	accepted time.Time
}

func headOf(e record.RunEntity) head {
	r := e.Value
	return head{r.ID(), e.Version(), r.Attempt, r.Status, r.Pause, r.Watched, r.CreatedAt}
}

// snapshot is the text and the steps of a state for an init event. It is made once for all readers that need it.
type snapshot struct {
	cut, steps int // identify the state, together with the length of the text
	text       string
	calls      []events.StepEvent
}

// join adds the caller to the readers of a run. The caller must call leave when done.
func (h *Hub) join(ctx context.Context, s *record.Store, at place) *group {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[at]
	if g == nil {
		h.joined++
		g = &group{
			hub: h, store: s, place: at, number: h.joined, changed: h.host.Elapsed(), asks: h.host.NewID(),
			silent: silence,
		}
		h.groups[at] = g
		h.beginGlances(ctx, s)
	}
	g.readers++
	return g
}

func (g *group) leave() { g.left()() }

// left removes a reader. The caller must call stop, without a lock.
func (g *group) left() (stop func()) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	if g.readers--; g.readers > 0 {
		return func() {}
	}
	delete(g.hub.groups, g.place)
	return g.hub.endGlances(g.store)
}

// pace is how long to wait after a read, if there is no news.
func (g *group) pace() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paced()
}

// paced is pace, under the lock. It is the same until the next read, so that who has waited it finds one due.
func (g *group) paced() time.Duration {
	if g.hub.polls() && !g.blind() {
		return watchLife / 2 // glances look for news
	}
	pace := g.hub.notifier.Pace(g.polledAt - g.changed)
	if g.known.partial { // stored frames cause no further notification
		pace = min(pace, callTime)
	}
	return pace
}

// keepWatch renews the run's watch row when half of its life is over, while the run can produce output.
func (g *group) keepWatch(ctx context.Context) {
	now := g.hub.host.Now()
	g.mu.Lock()
	fresh := now.Sub(g.watched) < watchLife/2 || g.known.status.Terminal()
	before := g.watched
	if !fresh {
		g.watched = now
	}
	g.mu.Unlock()
	if fresh || g.hub.watch(ctx, g.place.run, g.asks) == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = before // the write is tried again later; if it fails, frames cannot be read either
}

// snapshot returns the snapshot of a state.
func (g *group) snapshot(s state) snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	if made := g.first; made.calls == nil || made.cut != s.cut || made.steps != len(s.steps) ||
		len(made.text) != len(s.text) {
		g.first = snapshot{cut: s.cut, steps: len(s.steps), text: string(s.text), calls: s.calls()}
	}
	return g.first
}

// current returns the known state if that is recent or another read is under way. If must is set (a new
// reader, or a notification), it returns the result of a read that began after the call. The error is ctx's, or one of
// the store.
func (g *group) current(ctx context.Context, must bool) (state, error) {
	g.mu.Lock()
	asked := g.begun
	g.mu.Unlock()
	for ctx.Err() == nil {
		s, more, err := g.latest(ctx, must, asked)
		if more == nil {
			return s, err
		}
		more()
	}
	return state{}, ctx.Err()
}

// latest returns the known state if that is enough for the reader. Otherwise more is set: the caller must call it, to
// read or to wait for the read of another, and call latest again.
func (g *group) latest(ctx context.Context, must bool, asked int) (known state, more func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.lastRead > asked || problem.Is(g.failed, "not_found"):
		return g.known, nil, g.failed
	case !must && (g.wait != nil || g.hub.host.Elapsed()-g.polledAt < g.paced()):
		return g.known, nil, nil
	case g.wait == nil:
		g.begun++
		known := g.known
		var open func()
		open, g.wait = g.hub.host.Gate()
		return state{}, func() { g.readNow(ctx, known, open) }, nil
	}
	return state{}, g.wait, nil
}

// readNow reads for all that wait.
func (g *group) readNow(ctx context.Context, known state, open func()) {
	defer func() { // after a panic, too: another reader reads then
		g.mu.Lock()
		g.wait = nil
		g.mu.Unlock()
		open()
	}()
	fresh, err := g.read(ctx, known)
	if ctx.Err() != nil {
		return // the reader has gone; the error says nothing about the run
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lastRead, g.failed, g.polledAt = g.begun, err, g.hub.host.Elapsed()
	if err != nil {
		if problem.Is(err, "not_found") {
			g.wakeAll()
		}
		return
	}
	g.known = fresh
	said := known.seq != fresh.seq || len(known.text) != len(fresh.text)
	g.found(said || known.version != fresh.version, said)
}

// found has the readers have what is known now: whether there is news, and whether the run has said something. The
// caller holds the lock.
func (g *group) found(news, said bool) {
	if news {
		g.changed = g.polledAt
	}
	if said {
		g.speaks, g.silent = g.silent < silence, 0
	}
	g.known.number++
	g.wakeAll()
}

// read reads the run, then its journal if that is needed, then its frames. In this order each may be newer than the
// one before it, but never older.
func (g *group) read(ctx context.Context, known state) (state, error) {
	e, err := g.store.LiveRun(ctx, g.place.scope, g.place.run)
	if err != nil {
		return state{}, err
	}
	s := known
	s.head = headOf(e)
	r := e.Value
	first := known.run == ""
	news := first || s.version != known.version
	endedOrWaiting := news && (r.Status.Terminal() || r.Status == lifecycle.AwaitingInput)
	again := r.Attempt != known.attempt && known.attempt > 0
	var said string
	var calls []events.StepEvent
	if first || again || endedOrWaiting {
		steps, err := g.store.Steps(ctx, r)
		if err != nil {
			return state{}, err
		}
		said, calls = view.Progress(steps)
	}
	switch {
	case first:
		s.progress = since(said, calls)
	case again:
		s.restart(said, calls)
	}
	s.progress, s.partial = g.hub.readFrames(ctx, s.head, s.progress)
	if endedOrWaiting {
		s.catchUp(said, calls, r.Status == lifecycle.Completed)
	}
	if news {
		v, err := view.Of(ctx, g.store, e)
		s.view = &v
		return s, err
	}
	return s, nil
}

// readFrames adds the new frames of the run's attempt. partial means that some could not be read; they are read
// later, or the journal has their content.
func (h *Hub) readFrames(ctx context.Context, r head, p progress) (all progress, partial bool) {
	for after := max(p.seq-1, 0); ; after = p.seq { // the last frame may have grown
		frames, more, err := h.frames(ctx, r.run, r.attempt, after)
		if err != nil {
			return p, true
		}
		for _, frame := range frames {
			p.add(frame)
		}
		if !more {
			return p, false
		}
	}
}
