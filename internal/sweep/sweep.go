// Package sweep finds what is due and has it looked at: the safety net under every nudge and timer that may be lost.
//
// What only needs deciding (a run that could not be started, a pause that expired, a run whose worker is gone and that
// must not go on) it decides itself, so that it happens even while the queue is down. What needs a worker or a sender it
// nudges, and pushes the item's due time on, so that the head of the line never starves the rest.
//
// It imports move, record, lifecycle, queue and host.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/move"
	"agentplatform/internal/problem"
	"agentplatform/internal/queue"
	"agentplatform/internal/record"
)

// Sweeper is the use case.
type Sweeper struct {
	Shell *move.Shell
	Store *record.Store
	Queue queue.Queue
	Host  host.Host
	Log   *slog.Logger
}

const (
	page = 100
	// again is how long the sweeper leaves an item alone after a nudge that was sent, and soon after one that was not.
	again = 30 * time.Second
	soon  = 2 * time.Second
	// longest is for how long at the most a delivery is left alone that stays overdue.
	longest = 30 * time.Minute
)

// Sweep looks at everything that is due, once.
func (s *Sweeper) Sweep(ctx context.Context) error { return s.until(ctx, s.Host.Now()) }

// Adopt looks at everything that will ever be due: after a start, whose process before has left leases and claims that
// are void now.
func (s *Sweeper) Adopt(ctx context.Context) error {
	return s.until(ctx, s.Host.Now().AddDate(100, 0, 0))
}

func (s *Sweeper) until(ctx context.Context, until time.Time) error {
	var errs []error
	for shard := range record.DueShards {
		if err := s.shard(ctx, shard, until); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// shard looks at a shard's items, a page at a time. An item that was looked at is due later, or not at all, so a page
// that brings nothing new ends it.
func (s *Sweeper) shard(ctx context.Context, shard int, until time.Time) error {
	seen := map[record.DueItem]bool{}
	for size := page; ; size += page {
		due, err := s.Store.Due(ctx, shard, until, size)
		if err != nil {
			return err
		}
		fresh := false
		for _, e := range due {
			if seen[e] {
				continue
			}
			seen[e], fresh = true, true
			if err := ctx.Err(); err != nil {
				return err
			}
			died := host.Catch(func() {
				if err := s.look(ctx, e); err != nil {
					s.Log.Warn("a look failed", "item", e.Kind+"/"+e.ID, "error", err)
				}
			})
			if died != nil { // one bad item keeps nobody from looking at the others
				s.Log.Error("a look panicked", "item", e.Kind+"/"+e.ID, "panic", died.Value, "stack", string(died.Stack))
			}
		}
		if !fresh || len(due) < size {
			return nil
		}
	}
}

func (s *Sweeper) look(ctx context.Context, due record.DueItem) error {
	switch due.Kind {
	case "run":
		return s.run(ctx, due.ID)
	case "hook":
		return s.hook(ctx, due.ID, due.Place)
	case "job":
		return s.job(ctx, due.ID)
	case "file":
		return s.file(ctx, due.ID)
	default:
		return nil
	}
}

func (s *Sweeper) run(ctx context.Context, id string) error {
	e, err := s.Store.Run(ctx, record.System(), id)
	if problem.Is(err, "not_found") {
		return nil
	}
	if err != nil {
		return err // the next sweep looks again
	}
	now := s.Host.Now()
	todo := lifecycle.Look(e.Value.Run, now, s.Shell.Boot)
	event := todo.Event
	if event == nil && !todo.Execute && e.Value.Due.After(now) {
		return nil // only Adopt comes here early
	}
	if event == nil {
		event = lifecycle.Postpone{Due: later(todo.Again, now)}
	}
	if todo.Execute {
		next := now.Add(s.nudge(ctx, events.NudgeRun, id, e.Value.Organization))
		if e.Value.Status == lifecycle.Queued && e.Value.StartBy.Before(next) {
			next = e.Value.StartBy
		}
		event = lifecycle.Postpone{Due: next}
	}
	// One try: whoever was faster has seen to the run.
	_, _, err = s.Shell.Make(ctx, e, s.Store.Begin(s.Host.NewID()), move.Change{Event: event})
	if errors.Is(err, record.ErrStale) || errors.Is(err, lifecycle.ErrRefused) {
		return nil
	}
	return err
}

// later keeps a due time in the future, however the clocks stand.
func later(at, now time.Time) time.Time {
	if at.Before(now.Add(time.Second)) {
		return now.Add(time.Second)
	}
	return at
}

// nudge sends a nudge, and tells for how long the item may be left alone.
func (s *Sweeper) nudge(ctx context.Context, kind events.NudgeKind, id, group string) time.Duration {
	if err := s.Queue.Send(ctx, queue.Message{Nudge: events.Nudge{Kind: kind, ID: id}, Group: group}); err != nil {
		s.Log.Warn("a nudge could not be sent", "kind", kind, "error", err)
		return soon + host.Jitter(s.Host, soon)
	}
	return again
}

func (s *Sweeper) hook(ctx context.Context, run, place string) error {
	_, sequence, ok := record.ParseHookID(run + "/" + place)
	if !ok {
		return nil
	}
	e, found, err := s.Store.Hook(ctx, run, sequence)
	now := s.Host.Now()
	if err != nil || !found || e.Value.NextAttempt.After(now) || e.Value.Claimed(now, s.Shell.Boot) {
		return err // of Adopt, or of an index that lags behind
	}
	wait := s.nudge(ctx, events.NudgeWebhook, e.Value.NudgeID(), e.Value.Organization)
	if wait == again { // a nudge that is still not handled waits behind many: each further one would make that worse
		wait = min(max(again, now.Sub(e.Value.NextAttempt)), longest)
	}
	e.Value.LookAt = now.Add(wait)
	tx := s.Store.Begin(s.Host.NewID())
	tx.PutHook(e)
	return ignoreStale(tx.Commit(ctx))
}

func (s *Sweeper) job(ctx context.Context, id string) error {
	e, found, err := s.Store.Job(ctx, id)
	if err != nil || !found || e.Value.Due.After(s.Host.Now()) {
		return err
	}
	e.Value.Due = s.Host.Now().Add(s.nudge(ctx, events.NudgeJob, id, e.Value.Organization))
	tx := s.Store.Begin(s.Host.NewID())
	tx.PutJob(e)
	return ignoreStale(tx.Commit(ctx))
}

// file has a file removed that nobody holds.
func (s *Sweeper) file(ctx context.Context, id string) error {
	e, err := record.Resource[record.File](ctx, s.Store, record.System(), id)
	if err != nil || e.Value.Due.IsZero() || e.Value.Due.After(s.Host.Now()) {
		return nil // gone, held, or not due yet
	}
	at := s.Host.Now().Add(s.nudge(ctx, events.NudgeJob, record.FileNudge(id), e.Value.Organization))
	return ignoreStale(s.Store.LookAgainAtFile(ctx, e, at))
}

func ignoreStale(err error) error {
	if errors.Is(err, record.ErrStale) {
		return nil
	}
	return err
}
