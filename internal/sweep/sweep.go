// Package sweep is the sweeper: it reconciles what is due, so that every nudge and timer may be lost.
//
// It makes itself the transitions that need no worker (a run that could not be started, a pause that expired, a run
// whose worker is lost and that must not continue), so that they happen even while the queue is down. For what needs
// a worker or a sender it sends a nudge, and postpones the item's due time, so that items at the front do not starve
// the others.
//
// It imports transition, record, catalog, lifecycle, ingestion, queue, problem, events and host.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agentplatform/events"
	"agentplatform/internal/catalog"
	"agentplatform/internal/host"
	"agentplatform/internal/ingestion"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/queue"
	"agentplatform/internal/record"
	"agentplatform/internal/transition"
)

// Sweeper reconciles due items.
type Sweeper struct {
	Executor *transition.Executor
	Store    *record.Store
	Queue    queue.Queue
	Host     host.Host
	Log      *slog.Logger
}

const (
	page = 100
	// again is how long an item is left alone after a nudge was sent; soon, after sending failed.
	again = 30 * time.Second
	soon  = 2 * time.Second
	// longest is the longest time that an overdue webhook delivery is left alone.
	longest = 30 * time.Minute
)

// Sweep reconciles everything that is due, once. The error joins those of reading the due index, and that of ctx;
// failures of single items are logged.
func (s *Sweeper) Sweep(ctx context.Context) error { return s.until(ctx, s.Host.Now()) }

// Adopt reconciles everything that will ever be due. It is called after a start, when the leases and claims of the
// process before are void. The error is that of Sweep.
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

// shard reconciles the items of a shard, a page at a time. A reconciled item is due later or not at all, so a page
// without new items ends it.
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
				if err := s.reconcile(ctx, e); err != nil {
					s.Log.Warn("an item could not be reconciled", "item", e.Kind+"/"+e.ID, "error", err)
				}
			})
			if died != nil { // one bad item keeps nobody from looking at the others
				s.Log.Error("reconciling an item panicked", "item", e.Kind+"/"+e.ID, "panic", died.Value, "stack",
					string(died.Stack))
			}
		}
		if !fresh || len(due) < size {
			return nil
		}
	}
}

func (s *Sweeper) reconcile(ctx context.Context, due record.DueItem) error {
	switch due.Kind {
	case "run":
		return s.run(ctx, due.ID)
	case "hook":
		return s.delivery(ctx, due.ID, due.Place)
	case "job":
		return s.job(ctx, due.ID)
	case "file":
		return s.file(ctx, due.ID)
	case "document":
		return s.document(ctx, due.ID)
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
		return err // retried by the next sweep
	}
	now := s.Host.Now()
	todo := lifecycle.Next(e.Value.Run, now, s.Executor.ProcessID)
	event := todo.Event
	if event == nil && !todo.Execute && e.Value.Due.After(now) {
		return nil // not due yet; only Adopt reads it this early
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
	// One try: if another process was faster, it has reconciled the run.
	_, _, err = s.Executor.Apply(ctx, e, s.Store.Begin(s.Host.NewID()), transition.Change{Event: event})
	if errors.Is(err, record.ErrConflict) || errors.Is(err, lifecycle.ErrRefused) {
		return nil
	}
	return err
}

// later returns a due time at least a second in the future, whatever the clocks say.
func later(at, now time.Time) time.Time {
	if at.Before(now.Add(time.Second)) {
		return now.Add(time.Second)
	}
	return at
}

// nudge sends a nudge, and returns for how long the item may be left alone.
func (s *Sweeper) nudge(ctx context.Context, kind events.NudgeKind, id, group string) time.Duration {
	if err := s.Queue.Send(ctx, queue.Message{Nudge: events.Nudge{Kind: kind, ID: id}, Group: group}); err != nil {
		s.Log.Warn("a nudge could not be sent", "kind", kind, "error", err)
		return soon + host.Jitter(s.Host, soon)
	}
	return again
}

func (s *Sweeper) delivery(ctx context.Context, run, place string) error {
	_, sequence, ok := record.ParseDeliveryID(run + "/" + place)
	if !ok {
		return nil
	}
	e, found, err := s.Store.DeliveryAt(ctx, run, sequence)
	now := s.Host.Now()
	if err != nil || !found || e.Value.NextAttempt.After(now) || e.Value.Claimed(now, s.Executor.ProcessID) {
		return err // not due: called by Adopt, or the index lags
	}
	wait := s.nudge(ctx, events.NudgeWebhook, e.Value.NudgeID(), e.Value.Organization)
	if wait == again { // the queue is behind: further nudges would make that worse
		wait = min(max(again, now.Sub(e.Value.NextAttempt)), longest)
	}
	e.Value.CheckAt = now.Add(wait)
	tx := s.Store.Begin(s.Host.NewID())
	tx.PutDelivery(e)
	return ignoreConflict(tx.Commit(ctx))
}

func (s *Sweeper) job(ctx context.Context, id string) error {
	e, found, err := s.Store.Job(ctx, id)
	if err != nil || !found || e.Value.Due.After(s.Host.Now()) {
		return err
	}
	e.Value.Due = s.Host.Now().Add(s.nudge(ctx, events.NudgeJob, id, e.Value.Organization))
	tx := s.Store.Begin(s.Host.NewID())
	tx.PutJob(e)
	return ignoreConflict(tx.Commit(ctx))
}

// file sends a nudge to remove a file that has no holders.
func (s *Sweeper) file(ctx context.Context, id string) error {
	e, err := record.Resource[record.File](ctx, s.Store, record.System(), id)
	if err != nil || e.Value.Due.IsZero() || e.Value.Due.After(s.Host.Now()) {
		return nil // removed, has a holder, or not due yet
	}
	at := s.Host.Now().Add(s.nudge(ctx, events.NudgeJob, record.FileNudge(id), e.Value.Organization))
	return ignoreConflict(s.Store.RecheckFile(ctx, e, at))
}

// document sends a nudge to go on with the ingestion of a document.
func (s *Sweeper) document(ctx context.Context, id string) error {
	e, err := record.Resource[catalog.Document](ctx, s.Store, record.System(), id)
	if problem.Is(err, "not_found") {
		return nil
	}
	now := s.Host.Now()
	if err != nil || !e.Value.Ingestion.Claimable(now, s.Executor.ProcessID) {
		return err // not due: called by Adopt, or the index lags
	}
	wait := s.nudge(ctx, events.NudgeDocument, id, e.Value.Organization)
	if wait == again { // the queue is behind: further nudges would make that worse
		wait = min(max(again, now.Sub(e.Value.Ingestion.Due)), longest)
	}
	after, err := ingestion.Apply(e.Value.Ingestion, now, ingestion.Postpone{Look: now.Add(wait)})
	if err != nil {
		return nil // it has ended meanwhile
	}
	e.Value.Ingestion = after
	tx := s.Store.Begin(s.Host.NewID())
	record.PutResource(tx, e)
	return ignoreConflict(tx.Commit(ctx))
}

func ignoreConflict(err error) error {
	if errors.Is(err, record.ErrConflict) {
		return nil
	}
	return err
}
