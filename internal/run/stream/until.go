package stream

import (
	"context"
	"time"

	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
)

// Until waits until enough returns true for a run, or for d, or for as long as the request may wait (package waiting).
// It returns the run as it is then. seen is a version of the run that is not enough, 0 for none. The error is ctx's, or
// that of the store: not found, if there is no such run in the scope.
func (h *Hub) Until(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
	enough func(record.Run) bool,
) (record.RunEntity, error) {
	return runWait{h.frames, s, scope, run, run, enough}.until(ctx, seen, d)
}

// UntilEnd is Until for a run that has ended or waits for a person. No other change of the run wakes the caller.
func (h *Hub) UntilEnd(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
) (record.RunEntity, error) {
	enough := func(r record.Run) bool { return r.Status.EndedOrWaiting() }
	return runWait{h.frames, s, scope, run, record.EndOf(run), enough}.until(ctx, seen, d)
}

// runWait waits for a change of a run.
type runWait struct {
	frames *frameTable
	store  *record.Store
	scope  record.Scope
	run    string
	name   string // of the notifications
	enough func(record.Run) bool
}

// until reads the run at each notification, unless the notification has the run. With polling it polls for itself: such
// a process waits for one run at a time, so that there is nothing to share. A poll checks whether the run has changed,
// which costs half of a read and may lag a little. until returns only a run that was read.
//
// The run of a notification may be older than the version that the caller has seen. It is then not returned. If it is
// newer, it was committed since, so that it was the state of the run while the caller waited.
func (w runWait) until(ctx context.Context, seen int64, d time.Duration) (record.RunEntity, error) {
	sub := subscribe(w.frames.notifier, w.frames.host, w.name)
	defer sub.Close()
	began := w.frames.host.Elapsed()
	var e record.RunEntity
	var err error
	for notified := false; ; {
		if ended := sub.Ended(); ended != nil && seen > 0 && ended.Version() > seen &&
			w.scope.Includes(ended.Value.Organization) && w.enough(ended.Value) {
			return *ended, nil
		}
		over := w.frames.host.Elapsed()-began >= d
		changed := over || notified || seen == 0 || w.hasChanged(ctx, seen)
		if changed {
			if e, err = w.read(ctx); err != nil || over || w.enough(e.Value) {
				return e, err
			}
			seen = e.Version()
		}
		elapsed := w.frames.host.Elapsed() - began
		longer := waiting.Left(ctx, elapsed)
		switch {
		case longer == 0 && changed:
			return e, nil
		case longer == 0:
			return w.read(ctx)
		}
		end := waiting.Start(ctx)
		notified, err = sub.Wait(ctx, max(0, min(d-elapsed, longer, w.frames.pace(elapsed))))
		if end(); err != nil {
			return e, err
		}
	}
}

func (w runWait) read(ctx context.Context) (record.RunEntity, error) {
	return w.store.LiveRun(ctx, w.scope, w.run)
}

// hasChanged reports whether the run has another version, or whether the version cannot be read. A read then returns
// the error.
func (w runWait) hasChanged(ctx context.Context, seen int64) bool {
	now, err := w.store.Versions(ctx, w.run)
	return err != nil || now[0] != seen
}
