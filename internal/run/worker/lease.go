package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// pollTimeout bounds one poll of the run for a cancel.
const pollTimeout = 5 * time.Second

// lease is an attempt's claim of a run. Every commit of the attempt is a report: the lease fences it, and it renews the
// lease. If the lease or the run is lost, or a cancel is requested, the lease stops the work.
type lease struct {
	*Worker

	holder  string // a unique id
	runID   string
	number  int // of the attempt
	used    *tally
	stop    context.CancelCauseFunc // cancels the work; set before the work begins
	leaving atomic.Bool             // no further step may begin

	mu      sync.Mutex // guards the fields below; never held during a call of a port
	entity  record.RunEntity
	renewed time.Duration // monotonic clock before the last write that renewed the lease
	end     time.Time     // end of the trusted part of the lease, by the wall clock
}

// claim is the event that claims a run. The lease is counted from now, before it is stored.
func (l *lease) claim() lifecycle.Claim {
	l.renewed = l.Host.Elapsed()
	now := l.Host.Now()
	l.end = now.Add(l.trusted())
	return lifecycle.Claim{Holder: l.holder, ProcessID: l.Executor.ProcessID, Until: now.Add(l.Lease)}
}

// begin sets the run, once the claim is stored.
func (l *lease) begin(e record.RunEntity) {
	l.entity, l.runID, l.number = e, e.Value.ID(), e.Value.Attempt
	l.used = newTally(l.Host, e.Value.Run)
}

func (l *lease) log() *slog.Logger { return l.Log.With("run_id", l.runID, "attempt", l.number) }

// owns reports whether this attempt holds the run. Holder ids are unique. A run that is not running, or was released,
// has no holder.
func (l *lease) owns(r record.Run) bool { return r.Lease.Holder == l.holder }

func (l *lease) current() record.RunEntity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entity
}

// keep stores the run if it is newer than the known version.
func (l *lease) keep(e record.RunEntity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Version() > l.entity.Version() {
		l.entity = e
	}
}

// trusted is the part of a lease that its holder relies on. If clocks differ by more than the rest, a repeatable call
// can be made twice. Stored state is fenced by the attempt and does not depend on clocks.
func (l *lease) trusted() time.Duration { return host.Trusted(l.Lease) }

// mayGo returns nil if a call may begin, errRelease if the attempt must release the run, errLost if the lease may have
// ended.
func (l *lease) mayGo() error {
	if l.leaving.Load() {
		return errRelease
	}
	return l.lost()
}

// lost returns errLost if the lease may have ended by one of our clocks. Either clock may have stopped for a while.
func (l *lease) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Host.Elapsed()-l.renewed >= l.trusted() || !l.Host.Now().Before(l.end) {
		return errLost
	}
	return nil
}

// report commits an event of the worker, which renews the lease. It returns errLost if the run is gone or another
// attempt holds it, a lifecycle refusal, or an error of the store.
func (l *lease) report(ctx context.Context, change func(lifecycle.Work) transition.Change) error {
	decide := func(_ record.Run, w lifecycle.Work, _ *record.Tx) (transition.Change, error) { return change(w), nil }
	return l.reportBy(ctx, l.Executor, decide)
}

// reportBy is report with a change that may fail, and with the executor to use. change is called again for each retry.
func (l *lease) reportBy(
	ctx context.Context, executor *transition.Executor,
	change func(record.Run, lifecycle.Work, *record.Tx) (transition.Change, error),
) error {
	var began time.Duration
	var trusted time.Time
	e, err := executor.From(ctx, l.current(), func(r record.Run, tx *record.Tx) (transition.Change, error) {
		now := l.Host.Now()
		began, trusted = l.Host.Elapsed(), now.Add(l.trusted())
		if !l.owns(r) {
			return transition.Change{}, errLost
		}
		return change(r, l.used.work(l.number, now.Add(l.Lease)), tx)
	})
	if isGone(err) {
		return errLost
	}
	if err != nil {
		return err
	}
	l.keep(e)
	l.mu.Lock()
	l.renewed, l.end = max(l.renewed, began), trusted
	l.mu.Unlock()
	return nil
}

// heartbeat renews the lease until ctx ends. A renewal that hangs is cancelled before the lease ends, and retried. If
// the lease or the run is lost, or a cancel is requested, it cancels the work.
func (l *lease) heartbeat(ctx context.Context) {
	every := l.Lease / 3
	for wait := every; l.Host.Sleep(ctx, wait) == nil; {
		err := l.lost()
		left := l.left()
		if wait = left - (l.trusted() - every); err == nil && wait > 0 {
			continue // a journalled step has renewed the lease
		}
		if err == nil {
			err = l.renew(ctx, min(every, left))
		}
		if errors.Is(err, errLost) || errors.Is(err, errCancel) {
			l.stop(err)
			return
		}
		wait = min(every/10, l.left())
	}
}

func (l *lease) renew(ctx context.Context, within time.Duration) error {
	executor := *l.Executor
	executor.Store = l.Store.Within(within)
	ctx, cancel := l.Host.WithTimeout(ctx, within)
	defer cancel()
	err := l.reportBy(ctx, &executor, func(_ record.Run, w lifecycle.Work, _ *record.Tx) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Renew{Work: w}}, nil
	})
	if err != nil {
		return err
	}
	return l.stillOurs()
}

// left is the time for which the lease may still be trusted, by the monotonic clock.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trusted() - (l.Host.Elapsed() - l.renewed)
}

// watchCancel polls the run every Tick, and at each notification, and cancels the work if it was lost or cancelled.
func (l *lease) watchCancel(ctx context.Context, sub *stream.Subscription) {
	for {
		if _, err := sub.Wait(ctx, l.Tick); err != nil {
			return
		}
		if err := l.poll(ctx); err != nil {
			l.stop(err)
			return
		}
	}
}

// poll checks whether the run has changed, and reads it only then: a check costs half of a read, and most find no
// change. A check that lags finds the change a moment later. Before poll reports that the run is gone, it reads the
// run.
func (l *lease) poll(ctx context.Context) error {
	limited, cancel := l.Host.WithTimeout(ctx, pollTimeout)
	defer cancel()
	seen, err := l.Store.Versions(limited, l.runID)
	if err != nil {
		return nil // if the store is not available, the work continues until the lease ends
	}
	if seen[0] != 0 && seen[0] <= l.current().Version() {
		return l.stillOurs()
	}
	e, err := l.Store.Run(limited, record.System(), l.runID)
	if isGone(err) {
		return errLost
	}
	if err != nil {
		return nil
	}
	l.keep(e)
	return l.stillOurs()
}

// stillOurs returns errLost or errCancel if the last known version of the run requires the work to stop, otherwise
// nil.
func (l *lease) stillOurs() error {
	r := l.current().Value
	switch {
	case !l.owns(r):
		return errLost
	case r.CancelRequested:
		return errCancel
	default:
		return nil
	}
}

// releaseInTime releases the run when the process stops, or after ReleaseAfter. No step begins then, and running calls
// have Drain to end.
func (l *lease) releaseInTime(work, stopping context.Context, longest time.Duration) {
	stay, cancel := context.WithCancel(work)
	defer cancel()
	defer context.AfterFunc(stopping, cancel)()
	_ = l.Host.Sleep(stay, cmp.Or(l.ReleaseAfter, longest))
	if work.Err() != nil {
		return
	}
	l.leaving.Store(true)
	_ = l.Host.Sleep(work, l.Drain) // returning cancels the work
}
