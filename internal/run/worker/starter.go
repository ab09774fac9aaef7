package worker

import (
	"context"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// Starter lets a worker execute runs that this process accepts, without a wakeup.
type Starter struct {
	Worker *Worker
	// Room reserves a worker for an attempt at a run of a user, or returns nil if none is free. Its begin is called
	// once, with the attempt or with nil. It does not wait for the attempt. The context of the attempt is that of
	// [Worker.Handle].
	Room func(organization, user string) (begin func(attempt func(ctx context.Context)))
}

// Reserve implements [transition.Starter].
func (s *Starter) Reserve(organization, user string) transition.Reserved {
	begin := s.Room(organization, user)
	if begin == nil {
		return nil
	}
	return &reserved{attempt: s.Worker.newAttempt(), hand: begin}
}

type reserved struct {
	*attempt

	hand func(attempt func(ctx context.Context)) // see [Starter.Room]
}

func (r *reserved) Claim() lifecycle.Claim { return r.claim() }

func (r *reserved) Free() { r.hand(nil) }

func (r *reserved) Start(e record.RunEntity) {
	r.begin(e)
	r.hand(func(ctx context.Context) { r.logFailure(r.run(ctx)) })
}

func (r *reserved) StartIfClaimed(run string) {
	r.hand(func(ctx context.Context) {
		r.runID = run
		e, err := r.Store.Run(context.WithoutCancel(ctx), record.System(), run)
		if err == nil && r.owns(e.Value) {
			r.begin(e)
			err = r.run(ctx)
		}
		r.logFailure(err)
	})
}

// logFailure logs why a run has not ended, or may be stored without being executed.
func (r *reserved) logFailure(err error) {
	if err != nil && !isGone(err) {
		r.Log.Error("run could not be started when it was accepted; the sweeper will find it", "run_id", r.runID,
			"error", err)
	}
}
