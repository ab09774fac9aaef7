// Package sweep is the sweeper: it reconciles due items, so that every wakeup and timer may be lost.
//
// It makes the transitions that need no worker itself, so that they happen even while the queue is down. These are for
// a run that could not be started, a pause that expired, and a run whose worker is lost and that must not continue. For
// an item that needs a worker or a sender it sends a wakeup. It then postpones the item's due time, so that items at
// the front do not starve the others.
//
// A sweep has rounds. A round lists all shards of the due index in parallel, and reconciles a page of the due items of
// each. The kinds take turns in a page: a backlog of one kind delays no other kind by more than a round. The sweep ends
// when no item is left, or before its context's deadline. Items that are left stay due, and the next sweep continues
// with them. The same holds if it is killed at any point.
//
// It imports transition, record, catalog, lifecycle, docstate, queue, problem, events and host.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
)

// Sweeper reconciles due items.
type Sweeper struct {
	Executor *transition.Executor
	Store    *record.Store
	Queue    queue.Queue
	Host     host.Host
	Log      *slog.Logger
	// OnLeft is called at the end of each sweep with the number of due items that it listed but did not reconcile, by
	// kind. It lists about a thousand items of each shard at most. OnLeft may be nil.
	OnLeft func(left map[string]int)

	atWork *atWork // of a sweep
}

// atWork caches, for one sweep, which organizations have running runs: many runs of one may be overdue.
type atWork struct {
	load  func(ctx context.Context, organization string) (bool, error)
	known sync.Map // by organization
}

func (a *atWork) of(ctx context.Context, organization string) (bool, error) {
	if is, known := a.known.Load(organization); known {
		return is.(bool), nil
	}
	is, err := a.load(ctx, organization)
	if err == nil {
		a.known.Store(organization, is)
	}
	return is, err
}

const (
	// page is the number of items of a shard that are reconciled in a round.
	page = 100
	// window is the number of items of a shard in one listing. It is larger than page, so that a kind with few due
	// items is listed next to a kind with many. DynamoDB lists as many keys in one call.
	window = 1000
	// batch is the number of items that are reconciled together: their wakeups are sent in one call.
	batch = 10
	// spare is the time before its context's deadline in which a sweep begins no more work.
	spare = 5 * time.Second
	// again is the time until the next wakeup of an item; soon is the same after a failure to send.
	again = 30 * time.Second
	soon  = 2 * time.Second
	// longest is the longest time between two wakeups of an overdue item that may wait longer each time: a webhook
	// delivery or a document.
	longest = 30 * time.Minute
)

// Sweep reconciles every due item once, until shortly before ctx's deadline. The error joins those of reading the due
// index, and that of ctx; failures of single items are logged.
func (s *Sweeper) Sweep(ctx context.Context) error { return s.until(ctx, s.Host.Now()) }

// Adopt reconciles every item with a due time, also in the future. It is called after a start, when the leases and
// claims of the earlier process are void. The error is that of Sweep.
func (s *Sweeper) Adopt(ctx context.Context) error {
	return s.until(ctx, s.Host.Now().AddDate(100, 0, 0))
}

func (s *Sweeper) until(ctx context.Context, until time.Time) error {
	var shards []*shard
	sweep := *s
	sweep.atWork = &atWork{load: s.Executor.AtWork}
	for n := range record.DueShards {
		shards = append(shards, &shard{Sweeper: &sweep, number: n, until: until, seen: map[record.DueItem]bool{}})
	}
	for open := shards; len(open) > 0 && !s.late(ctx); {
		turns := make([]func(), 0, len(open))
		for _, one := range open {
			turns = append(turns, func() { one.turn(ctx) })
		}
		host.All(s.Host, turns...)
		open = slices.DeleteFunc(slices.Clone(open), func(one *shard) bool { return one.done })
	}
	left, errs := map[string]int{}, []error{ctx.Err()}
	for _, one := range shards {
		errs = append(errs, one.err)
		for kind, n := range one.left {
			left[kind] += n
		}
	}
	if s.OnLeft != nil {
		s.OnLeft(left)
	}
	return errors.Join(errs...)
}

// late reports whether a sweep must end: its context has ended, or will soon.
func (s *Sweeper) late(ctx context.Context) bool {
	end, ends := ctx.Deadline()
	return ctx.Err() != nil || ends && end.Sub(s.Host.Now()) < spare
}

// shard is a shard of the due index during a sweep.
type shard struct {
	*Sweeper

	number int
	until  time.Time
	seen   map[record.DueItem]bool // items that were reconciled, or could not be
	stale  int                     // how many of them the last listing had; the next one lists as many more
	left   map[string]int          // items of the last listing that its turn did not reach, by kind
	err    error                   // why the shard could not be read
	done   bool                    // no item is left, or the shard could not be read
}

// turn lists the shard once and reconciles a page. A reconciled item is due later or not at all, so a listing without
// new items ends the shard.
func (s *shard) turn(ctx context.Context) {
	size := window + s.stale
	due, err := s.Store.Due(ctx, s.number, s.until, size)
	if err != nil {
		s.err, s.done = err, true
		return
	}
	listed := len(due)
	fresh := slices.DeleteFunc(due, func(e record.DueItem) bool { return s.seen[e] })
	now, rest := share(fresh, page)
	for len(now) > 0 && !s.late(ctx) {
		n := min(batch, len(now))
		s.reconcile(ctx, now[:n])
		for _, e := range now[:n] {
			s.seen[e] = true
		}
		now = now[n:]
	}
	s.left = map[string]int{}
	for _, e := range slices.Concat(now, rest) {
		s.left[e.Kind]++
	}
	s.stale = listed - len(now) - len(rest)
	s.done = len(fresh) == 0 || listed < size && len(s.left) == 0
}

// share divides a list into its first n items, in which the kinds take turns, and the rest. Each kind keeps its order.
func share(list []record.DueItem, n int) (first, rest []record.DueItem) {
	var kinds []string
	of := map[string][]record.DueItem{}
	for _, e := range list {
		if of[e.Kind] == nil {
			kinds = append(kinds, e.Kind)
		}
		of[e.Kind] = append(of[e.Kind], e)
	}
	var mixed []record.DueItem
	for len(mixed) < len(list) {
		for _, kind := range kinds {
			if waiting := of[kind]; len(waiting) > 0 {
				mixed, of[kind] = append(mixed, waiting[0]), waiting[1:]
			}
		}
	}
	n = min(n, len(mixed))
	return mixed[:n], mixed[n:]
}

// task is the rest of the work for an item: a wakeup, and the postponement.
type task struct {
	wakeup queue.Message
	// postpone moves the item's due time by wait or longer.
	postpone func(ctx context.Context, wait time.Duration) error
}

// reconcile reconciles a batch of items. It decides each, sends all wakeups together, then postpones the items that
// have a task, also when sending failed.
func (s *Sweeper) reconcile(ctx context.Context, batch []record.DueItem) {
	var items []record.DueItem
	var tasks []task
	var wakeups []queue.Message
	for _, e := range batch {
		s.guard(e, func() error {
			t, err := s.decide(ctx, e)
			if err == nil && t != nil {
				items, tasks, wakeups = append(items, e), append(tasks, *t), append(wakeups, t.wakeup)
			}
			return err
		})
	}
	if len(wakeups) == 0 {
		return
	}
	for i, err := range queue.SendAll(ctx, s.Queue, wakeups) {
		wait := again
		if err != nil {
			s.Log.Warn("a nudge could not be sent", "kind", wakeups[i].Wakeup.Kind, "error", err)
			wait = soon + host.Jitter(s.Host, soon)
		}
		s.guard(items[i], func() error { return tasks[i].postpone(ctx, wait) })
	}
}

// guard logs errors and panics of an item: one bad item does not stop the others.
func (s *Sweeper) guard(e record.DueItem, f func() error) {
	died := host.Catch(func() {
		if err := f(); err != nil {
			s.Log.Warn("an item could not be reconciled", "item", e.Kind+"/"+e.ID, "error", err)
		}
	})
	if died != nil {
		s.Log.Error("reconciling an item panicked", "item", e.Kind+"/"+e.ID, "panic", died.Value, "stack",
			string(died.Stack))
	}
}

// decide does the work that an item needs, or returns the task that is left: a wakeup and a postponement.
func (s *Sweeper) decide(ctx context.Context, due record.DueItem) (*task, error) {
	switch due.Kind {
	case "run":
		return s.run(ctx, due.ID)
	case "hook":
		return s.delivery(ctx, due.ID, due.Position)
	case "job":
		return s.job(ctx, due.ID)
	case "file":
		return s.file(ctx, due.ID)
	case "document":
		return s.document(ctx, due.ID)
	default:
		return nil, nil
	}
}

func (s *Sweeper) run(ctx context.Context, id string) (*task, error) {
	e, err := s.Store.Run(ctx, record.System(), id)
	if problem.Is(err, "not_found") {
		return nil, nil
	}
	if err != nil {
		return nil, err // retried by the next sweep
	}
	now := s.Host.Now()
	todo, err := s.Executor.Next(ctx, e.Value.Run, s.atWork.of)
	if err != nil {
		return nil, err
	}
	switch {
	case todo.Execute:
		t := s.wakeupTask(events.WakeupRun, id, e.Value.Organization,
			func(ctx context.Context, wait time.Duration) error {
				later, err := s.Executor.Postponed(ctx, e.Value.Run, s.Host.Now().Add(wait), s.atWork.of)
				if err != nil {
					return err
				}
				return s.apply(ctx, e, later)
			})
		t.wakeup.User = e.Value.User
		return t, nil
	case todo.Event != nil:
		return nil, s.apply(ctx, e, todo.Event)
	case e.Value.Due.After(now):
		return nil, nil // not due yet; only Adopt reads it this early
	}
	return nil, s.apply(ctx, e, lifecycle.Postpone{Due: later(todo.Again, now)})
}

// apply makes a transition in one attempt: if another process was faster, it has reconciled the run.
func (s *Sweeper) apply(ctx context.Context, e record.RunEntity, event lifecycle.Event) error {
	_, err := s.Executor.Apply(ctx, e, s.Store.Begin(s.Host.NewID()), transition.Change{Event: event})
	return transition.IgnoreRace(err)
}

// later returns a due time at least a second in the future, also if a clock was set back.
func later(at, now time.Time) time.Time {
	if at.Before(now.Add(time.Second)) {
		return now.Add(time.Second)
	}
	return at
}

// wakeup returns the task to send a wakeup and to postpone its item.
func (s *Sweeper) wakeupTask(kind events.WakeupKind, id, group string,
	postpone func(ctx context.Context, wait time.Duration) error) *task {
	return &task{queue.Message{Wakeup: events.Wakeup{Kind: kind, ID: id}, Group: group}, postpone}
}

// patient returns the time until the next wakeup of an item that was due at a time. It grows with the time that the
// item has waited: the queue is behind, and more wakeups would make that worse.
func patient(wait time.Duration, due, now time.Time) time.Duration {
	if wait != again {
		return wait // no wakeup was sent
	}
	return min(max(again, now.Sub(due)), longest)
}

func (s *Sweeper) delivery(ctx context.Context, run, position string) (*task, error) {
	_, sequence, ok := record.ParseDeliveryID(run + "/" + position)
	if !ok {
		return nil, nil
	}
	e, found, err := s.Store.DeliveryAt(ctx, run, sequence)
	now := s.Host.Now()
	if err != nil || !found || e.Value.NextAttempt.After(now) || e.Value.Claimed(now, s.Executor.ProcessID) {
		return nil, err // not due: called by Adopt, or the index lags
	}
	t := s.wakeupTask(events.WakeupWebhook, e.Value.WakeupID(), e.Value.Organization,
		func(ctx context.Context, wait time.Duration) error {
			e.Value.CheckAt = now.Add(patient(wait, e.Value.NextAttempt, now))
			return s.Executor.Write(ctx, func(tx *record.Tx) { tx.PutDelivery(e) })
		})
	t.wakeup.User = e.Value.User
	return t, nil
}

func (s *Sweeper) job(ctx context.Context, id string) (*task, error) {
	e, found, err := s.Store.Job(ctx, id)
	if err != nil || !found || e.Value.Due.After(s.Host.Now()) {
		return nil, err
	}
	return s.wakeupTask(events.WakeupJob, id, e.Value.Organization,
		func(ctx context.Context, wait time.Duration) error {
			e.Value.Due = s.Host.Now().Add(wait)
			return s.Executor.Write(ctx, func(tx *record.Tx) { tx.PutJob(e) })
		}), nil
}

// file sends a wakeup to remove a file without references.
func (s *Sweeper) file(ctx context.Context, id string) (*task, error) {
	e, err := record.Resource[record.File](ctx, s.Store, record.System(), id)
	if err != nil || e.Value.Due.IsZero() || e.Value.Due.After(s.Host.Now()) {
		return nil, nil // removed, referred to, or not due yet
	}
	return s.wakeupTask(events.WakeupJob, record.FileWakeupID(id), e.Value.Organization,
		func(ctx context.Context, wait time.Duration) error {
			return transition.IgnoreRace(s.Store.RecheckFile(ctx, e, s.Host.Now().Add(wait)))
		}), nil
}

// document sends a wakeup to continue the ingestion of a document.
func (s *Sweeper) document(ctx context.Context, id string) (*task, error) {
	e, err := record.Resource[catalog.Document](ctx, s.Store, record.System(), id)
	if problem.Is(err, "not_found") {
		return nil, nil
	}
	now := s.Host.Now()
	if err != nil || !e.Value.Ingestion.Claimable(now, s.Executor.ProcessID) {
		return nil, err // not due: called by Adopt, or the index lags
	}
	return &task{queue.OfDocument(id, e.Value.Organization, e.Value.UserID, e.Value.KnowledgeBase),
		func(ctx context.Context, wait time.Duration) error {
			checkAt := now.Add(patient(wait, e.Value.Ingestion.Due, now))
			after, err := docstate.Apply(e.Value.Ingestion, now, docstate.Postpone{CheckAt: checkAt})
			if err != nil {
				return nil // the ingestion has ended by now
			}
			e.Value.Ingestion = after
			return s.Executor.Write(ctx, func(tx *record.Tx) { record.PutResource(tx, e) })
		}}, nil
}
