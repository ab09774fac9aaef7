package stream

import (
	"context"
	"time"

	"agentplatform/events"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// state is a run with its output so far.
type state struct {
	progress

	head

	view    *view.Run // of the version; nobody changes it
	partial bool      // some stored frames could not be read
}

// head is the part of a run's head that streams need. Each topic and each reader keeps one; the head itself is much
// larger.
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

// frameAt is the key of frame n after the last frame of the state. Frames are numbered without gaps.
func (s state) frameAt(n int64) table.Key { return frameKey(s.run, s.attempt, s.seq+n) }

// read reads the run, then its journal if needed, then its frames. In this order each may be newer than the one before
// it, but never older. The state itself does not change.
func (s state) read(
	ctx context.Context, store *record.Store, frames *frameTable, scope record.Scope, run string,
) (state, error) {
	e, err := store.LiveRun(ctx, scope, run)
	if err != nil {
		return state{}, err
	}
	before, r := s.head, e.Value
	s.head = headOf(e)
	first := before.run == ""
	news := first || s.version != before.version
	again := r.Attempt != before.attempt && before.attempt > 0
	endedOrWaiting := news && (r.Status.Terminal() || r.Status == lifecycle.AwaitingInput)
	var text string
	var calls []events.StepEvent
	if first || again || endedOrWaiting {
		steps, err := store.Steps(ctx, r)
		if err != nil {
			return state{}, err
		}
		text, calls = view.Progress(steps, r.Status)
	}
	switch {
	case first:
		s.progress = since(text, calls)
	case again:
		s.restart(text, calls)
	}
	s.readFrames(ctx, frames)
	if endedOrWaiting {
		s.catchUp(text, calls, r.Status == lifecycle.Completed)
	}
	if !news {
		return s, nil
	}
	v, err := view.Of(ctx, store, e)
	s.view = &v
	return s, err
}

// readFrames adds the new frames of the run's attempt. If some cannot be read, the state is partial: they are read
// later, or the journal has their content.
func (s *state) readFrames(ctx context.Context, frames *frameTable) {
	for after := max(s.seq-1, 0); ; after = s.seq { // the last frame may have grown
		list, more, err := frames.page(ctx, s.run, s.attempt, after)
		if err != nil {
			s.partial = true
			return
		}
		for _, frame := range list {
			s.add(frame)
		}
		if !more {
			s.partial = false
			return
		}
	}
}
