package feed

import (
	"context"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// room is where the readers of one run meet in this process: what one of them found, all have. Without a bell the run is
// thus polled once, however many read it.
type room struct {
	feed    *Feed
	store   *record.Store
	run     string
	readers int // guarded by the feed

	mu      sync.Mutex
	looking bool          // a reader is at it
	looked  time.Duration // when the last look ended
	changed time.Duration // when a look last found something new
	found   found
	gone    error // the run is not there any more
	watched time.Time
}

// found is what a look found.
type found struct {
	run    record.RunEntity
	frames []events.Frame // of the run's attempt; only ever appended to
}

// enter makes the caller a reader of a run; leave when done.
func (f *Feed) enter(s *record.Store, run string) *room {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rooms[run]
	if r == nil {
		r = &room{feed: f, store: s, run: run, changed: f.host.Elapsed()}
		f.rooms[run] = r
	}
	r.readers++
	return r
}

func (r *room) leave() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	if r.readers--; r.readers == 0 {
		delete(r.feed.rooms, r.run)
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
	if fresh || r.feed.Watch(ctx, r.run) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = before // a feed that cannot be written is one that cannot be read either
}

// look is what there is to see of the run: what the last look found when that is recent, or while somebody else is at it.
// A reader that must know, as it is new or the bell rang, looks itself.
func (r *room) look(ctx context.Context, scope record.Scope, must bool) (found, error) {
	r.mu.Lock()
	now := r.feed.host.Elapsed()
	recent := r.looking || now-r.looked < r.feed.bell.Pace(now-r.changed)
	if r.gone != nil || (recent && !must) {
		defer r.mu.Unlock()
		return r.found, r.gone
	}
	r.looking = true
	known := r.found
	r.mu.Unlock()
	fresh, err := r.read(ctx, scope, known)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
	if problem.Is(err, "outside_organization") {
		return found{}, err // this reader was refused: nobody has looked
	}
	r.looked = r.feed.host.Elapsed()
	switch {
	case problem.Is(err, "not_found"):
		r.gone = err
	case err == nil && r.found.older(fresh):
		r.found, r.changed = fresh, r.looked
	}
	return r.found, err
}

// read reads the run first and its frames then: that it began stands before what it says.
func (r *room) read(ctx context.Context, scope record.Scope, known found) (found, error) {
	e, err := r.store.LiveRun(ctx, scope, r.run)
	if err != nil {
		return found{}, err
	}
	f := found{run: e}
	if e.Value.Attempt == known.run.Value.Attempt {
		f.frames = known.frames
	}
	for {
		frames, more, err := r.feed.frames(ctx, r.run, e.Value.Attempt, f.last())
		if err != nil {
			return f, nil // the feed will be back, or the end brings what is missing
		}
		f.frames = append(f.frames[:len(f.frames):len(f.frames)], frames...)
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

// older says whether the other was found later: readers that must know look beside each other.
func (f found) older(other found) bool {
	if v, w := f.run.Version(), other.run.Version(); v != w {
		return v < w
	}
	return f.last() < other.last()
}

// after are the frames after a number, of an attempt.
func (f found) after(attempt int, seq int64) []events.Frame {
	if f.run.Value.Attempt != attempt {
		return nil
	}
	for i, frame := range f.frames {
		if frame.Seq > seq {
			return f.frames[i:]
		}
	}
	return nil
}
