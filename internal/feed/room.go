package feed

import (
	"context"
	"sort"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// room is where the readers of one run meet in this process: what one of them found, all have. A run is thus looked at by
// one of them at a time, however many read it, and what they have not shown yet is held once.
type room struct {
	feed    *Feed
	store   *record.Store
	place   place
	readers int // guarded by the feed

	mu      sync.Mutex
	wait    func()        // until the look that somebody is at has ended; nil: nobody is
	begun   int           // how many have begun
	told    int           // the last one that told anything
	failed  error         // what that one failed with; not_found is for good
	looked  time.Duration // when it ended
	changed time.Duration // when a look last found something new
	found   found
	watched time.Time
}

// place is a run as it is seen in a scope: readers of different scopes share nothing, not even a refusal.
type place struct {
	scope record.Scope
	run   string
}

// found is what a look found.
type found struct {
	run record.RunEntity
	// frames of the run's attempt. Looks only ever append, one look at a time, so that those who hold an earlier slice
	// of the array are not disturbed.
	frames []events.Frame
	join   int // how many frames there may be before they are joined
}

// framesHeld is how many frames are held for slow readers before they are joined: what is left then is bounded by the run's
// text and steps, however many pieces they came in.
const framesHeld = 1000

// enter makes the caller a reader of a run; leave when done.
func (f *Feed) enter(s *record.Store, at place) *room {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rooms[at]
	if r == nil {
		r = &room{feed: f, store: s, place: at, changed: f.host.Elapsed()}
		f.rooms[at] = r
	}
	r.readers++
	return r
}

func (r *room) leave() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	if r.readers--; r.readers == 0 {
		delete(r.feed.rooms, r.place)
	}
}

// pace is after how long to look again.
func (r *room) pace() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.feed.bell.Pace(r.feed.host.Elapsed() - r.changed)
}

// keepWatch says in the feed that the run is watched, while it can go on.
func (r *room) keepWatch(ctx context.Context) {
	now := r.feed.host.Now()
	r.mu.Lock()
	fresh := now.Sub(r.watched) < watchLife/2 || r.found.run.Value.Status.Terminal()
	before := r.watched
	if !fresh {
		r.watched = now
	}
	r.mu.Unlock()
	if fresh || r.feed.Watch(ctx, r.place.run) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = before // a feed that cannot be written is one that cannot be read either
}

// look is what there is to see of the run: what the last look found when that is recent, or while somebody is at it. A
// reader that must know, as it is new or the bell rang, has what a look found that began after it asked.
func (r *room) look(ctx context.Context, must bool) (found, error) {
	r.mu.Lock()
	asked := r.begun
	r.mu.Unlock()
	for ctx.Err() == nil {
		f, more, err := r.glance(ctx, must, asked)
		if more == nil {
			return f, err
		}
		more()
	}
	return found{}, ctx.Err()
}

// glance returns what is known when that is enough for the reader, or how to come by more: a look of its own, or the wait
// for another's.
func (r *room) glance(ctx context.Context, must bool, asked int) (known found, more func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.feed.host.Elapsed()
	switch {
	case r.told > asked || problem.Is(r.failed, "not_found"):
		return r.found, nil, r.failed
	case !must && (r.wait != nil || now-r.looked < r.feed.bell.Pace(now-r.changed)):
		return r.found, nil, nil
	case r.wait == nil:
		r.begun++
		known := r.found
		var open func()
		open, r.wait = r.feed.host.Gate()
		return found{}, func() { r.lookNow(ctx, known, open) }, nil
	}
	return found{}, r.wait, nil
}

// lookNow looks for all who wait.
func (r *room) lookNow(ctx context.Context, known found, open func()) {
	defer func() { // after a panic, too: who waits looks itself then
		r.mu.Lock()
		r.wait = nil
		r.mu.Unlock()
		open()
	}()
	fresh, err := r.read(ctx, known)
	if err != nil && ctx.Err() != nil {
		return // its reader has gone, which tells the others nothing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told, r.failed, r.looked = r.begun, err, r.feed.host.Elapsed()
	if err != nil {
		return
	}
	if known.older(fresh) {
		r.changed = r.looked
	}
	r.found = fresh
}

// read reads the run first and its frames then: that it began stands before what it says.
func (r *room) read(ctx context.Context, known found) (found, error) {
	e, err := r.store.LiveRun(ctx, r.place.scope, r.place.run)
	if err != nil {
		return found{}, err
	}
	f := found{run: e, join: framesHeld}
	if e.Value.Attempt == known.run.Value.Attempt {
		f.frames, f.join = known.frames, known.join
	}
	for {
		frames, more, err := r.feed.frames(ctx, r.place.run, e.Value.Attempt, f.last())
		if err != nil {
			return f, nil // the feed will be back, or the end brings what is missing
		}
		if f.frames = append(f.frames, frames...); len(f.frames) > f.join {
			f.frames = joined(f.frames)
			f.join = 2*len(f.frames) + framesHeld
		}
		if !more {
			return f, nil
		}
	}
}

// last is the number of the last frame.
func (f found) last() int64 {
	if len(f.frames) == 0 {
		return 0
	}
	return f.frames[len(f.frames)-1].Seq
}

// older says whether the other shows anything that is new.
func (f found) older(other found) bool {
	return f.run.Version() != other.run.Version() || f.last() != other.last()
}

// after are the frames after a number, of an attempt.
func (f found) after(attempt int, seq int64) []events.Frame {
	if f.run.Value.Attempt != attempt {
		return nil
	}
	i := sort.Search(len(f.frames), func(i int) bool { return f.frames[i].Seq > seq })
	return f.frames[i:]
}
