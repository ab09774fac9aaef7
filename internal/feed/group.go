package feed

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

// group is the readers of one run in this process: what one of them reads, all have. A run is thus read by one of them
// at a time, however many there are, and what it says is held once.
type group struct {
	feed    *Feed
	store   *record.Store
	place   place
	readers int    // guarded by the feed
	asks    string // what the worker answers to, in a frame: all that it said before stands before that

	mu      sync.Mutex
	wait    func()        // until the read that somebody is at has ended; nil: nobody is
	begun   int           // how many have begun
	told    int           // the last one that told anything
	failed  error         // what that one failed with; not_found is for good
	looked  time.Duration // when it ended
	changed time.Duration // when a read last found something new
	known   state
	first   snapshot
	watched time.Time
}

// place is a run as it is seen in a scope: readers of different scopes share nothing, not even a refusal.
type place struct {
	scope record.Scope
	run   string
}

// state is a run with what it has said and done.
type state struct {
	progress

	run     record.RunEntity
	view    view.Run
	partial bool // there are frames that could not be read
}

// snapshot is a state's text and steps as an init tells them, made once for all who come while it stands.
type snapshot struct {
	cut, steps int // of the state: with the length of the text they tell it from all others
	text       string
	calls      []events.StepEvent
}

// join makes the caller a reader of a run; leave when done.
func (f *Feed) join(s *record.Store, at place) *group {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[at]
	if g == nil {
		g = &group{feed: f, store: s, place: at, changed: f.host.Elapsed(), asks: f.host.NewID()}
		f.groups[at] = g
	}
	g.readers++
	return g
}

func (g *group) leave() {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	if g.readers--; g.readers == 0 {
		delete(g.feed.groups, g.place)
	}
}

// pace is after how long to look again.
func (g *group) pace() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paceAt(g.feed.host.Elapsed())
}

func (g *group) paceAt(now time.Duration) time.Duration {
	pace := g.feed.bell.Pace(now - g.changed)
	if g.known.partial { // nothing rings for what is there already
		pace = min(pace, callTime)
	}
	return pace
}

// keepWatch says in the feed that the run is watched, while it can go on.
func (g *group) keepWatch(ctx context.Context) {
	now := g.feed.host.Now()
	g.mu.Lock()
	fresh := now.Sub(g.watched) < watchLife/2 || g.known.run.Value.Status.Terminal()
	before := g.watched
	if !fresh {
		g.watched = now
	}
	g.mu.Unlock()
	if fresh || g.feed.watch(ctx, g.place.run, g.asks) == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = before // a feed that cannot be written is one that cannot be read either
}

// snapshot is a state as an init tells it.
func (g *group) snapshot(s state) snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	if made := g.first; made.calls == nil || made.cut != s.cut || made.steps != len(s.steps) || len(made.text) != len(s.text) {
		g.first = snapshot{cut: s.cut, steps: len(s.steps), text: string(s.text), calls: s.calls()}
	}
	return g.first
}

// look is the run as the last read found it when that is recent, or while somebody is at one. A reader that must know,
// as it is new or the bell rang, has what a read found that began after it asked.
func (g *group) look(ctx context.Context, must bool) (state, error) {
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

// latest returns what is known when that is enough for the reader, or how to come by more: a read of its own, or the
// wait for another's.
func (g *group) latest(ctx context.Context, must bool, asked int) (known state, more func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.feed.host.Elapsed()
	switch {
	case g.told > asked || problem.Is(g.failed, "not_found"):
		return g.known, nil, g.failed
	case !must && (g.wait != nil || now-g.looked < g.paceAt(now)):
		return g.known, nil, nil
	case g.wait == nil:
		g.begun++
		known := g.known
		var open func()
		open, g.wait = g.feed.host.Gate()
		return state{}, func() { g.readNow(ctx, known, open) }, nil
	}
	return state{}, g.wait, nil
}

// readNow reads for all who wait.
func (g *group) readNow(ctx context.Context, known state, open func()) {
	defer func() { // after a panic, too: who waits reads itself then
		g.mu.Lock()
		g.wait = nil
		g.mu.Unlock()
		open()
	}()
	fresh, err := g.read(ctx, known)
	if ctx.Err() != nil {
		return // its reader has gone, which tells the others nothing
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told, g.failed, g.looked = g.begun, err, g.feed.host.Elapsed()
	if err != nil {
		return
	}
	if known.run.Version() != fresh.run.Version() || known.seq != fresh.seq || len(known.text) != len(fresh.text) {
		g.changed = g.looked
	}
	g.known = fresh
}

// read reads the run, then its journal where that is needed, then its frames: each may say more than the one before it,
// never less.
func (g *group) read(ctx context.Context, known state) (state, error) {
	e, err := g.store.LiveRun(ctx, g.place.scope, g.place.run)
	if err != nil {
		return state{}, err
	}
	s := known
	s.run = e
	r, was := e.Value, known.run.Value
	news := was.ID() == "" || e.Version() != known.run.Version()
	settled := news && (r.Status.Terminal() || r.Status == lifecycle.AwaitingInput)
	again := r.Attempt != was.Attempt && was.Attempt > 0
	var said string
	var calls []events.StepEvent
	if was.ID() == "" || again || settled {
		steps, err := g.store.Steps(ctx, r)
		if err != nil {
			return state{}, err
		}
		said, calls = view.Progress(steps)
	}
	switch {
	case was.ID() == "":
		s.progress = since(said, calls)
	case again:
		s.restart(said, calls)
	}
	s.progress, s.partial = g.feed.readFrames(ctx, r, s.progress)
	if settled {
		s.settle(said, calls, r.Status == lifecycle.Completed)
	}
	if news {
		s.view, err = view.Of(ctx, g.store, e)
	}
	return s, err
}

// readFrames adds the frames of a run's attempt that are new. What cannot be read now can be later, or the end brings
// it.
func (f *Feed) readFrames(ctx context.Context, r record.Run, p progress) (all progress, partial bool) {
	for after := max(p.seq-1, 0); ; after = p.seq { // the last one may have grown
		frames, more, err := f.frames(ctx, r.ID(), r.Attempt, after)
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
