package intake

import (
	"context"
	"errors"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Push reads the push of a run; found is false when there is none. It returns a problem of kind NotFound or Forbidden,
// as [Intake.Run].
func (in *Intake) Push(ctx context.Context, p tenant.Principal, id string) (push record.Push, found bool, err error) {
	if _, err := in.Run(ctx, p, id); err != nil {
		return record.Push{}, false, err
	}
	e, found, err := in.Store.Push(ctx, id)
	return e.Value, found, err
}

// SetPush has the webhooks of a run go to a push, instead of the push with the same id that the run may have. It writes
// the run, too: a transition that is decided meanwhile is decided again, so that the commit says which webhooks are
// sent.
//
// It returns a problem of kind NotFound or Forbidden, as [Intake.Run], and of kind Conflict: the run has ended, has a
// push with another id, or its webhooks go to a callback URL. A run has one address.
func (in *Intake) SetPush(ctx context.Context, p tenant.Principal, id string, push record.Push) error {
	return in.changePush(ctx, p, id, func(e *record.RunEntity, old record.PushEntity, found bool, tx *record.Tx) error {
		switch {
		case e.Value.Status.Terminal():
			return problem.New(problem.Conflict, "conflict", "the run has ended: nothing more will be pushed")
		case found && old.Value.ID != push.ID:
			return problem.New(problem.Conflict, "conflict",
				"the run has a push notification configuration with another id: it can have one, which may be "+
					"replaced or deleted by its own id")
		case !found && e.Value.Callback:
			return errCalled()
		}
		e.Value.Callback, old.Value = true, push
		tx.PutPush(e.Value.Organization, id, old)
		return nil
	})
}

// replacePush adds to the commit of an answer that the run's webhooks go to a push from then on, whatever the id of the
// push is that it may have; nil: nothing changes. Its caller sets the change's Callback.
func (in *Intake) replacePush(ctx context.Context, run record.Run, push *record.Push, tx *record.Tx) error {
	if push == nil {
		return nil
	}
	old, found, err := in.Store.Push(ctx, run.ID())
	if err == nil && !found && run.Callback {
		err = errCalled()
	}
	if err != nil {
		return err
	}
	old.Value = *push
	tx.PutPush(run.Organization, run.ID(), old)
	return nil
}

func errCalled() error {
	return problem.New(problem.Conflict, "conflict",
		"the run's webhooks go to the callback_url that it began with, or its agent's: a run has one address")
}

// DeletePush deletes the push of a run, also of one that has ended: what has not been sent is not sent. It is
// idempotent, and leaves a push with another id alone. It returns a problem of kind NotFound or Forbidden, as
// [Intake.Run].
func (in *Intake) DeletePush(ctx context.Context, p tenant.Principal, id, push string) error {
	return in.changePush(ctx, p, id, func(e *record.RunEntity, old record.PushEntity, found bool, tx *record.Tx) error {
		if !found || old.Value.ID != push {
			return errNoChange
		}
		e.Value.Callback = false
		tx.DeletePush(id, old)
		return nil
	})
}

// errNoChange says that there is nothing to write.
var errNoChange = errors.New("intake: nothing changes")

// changePush writes a run together with what decide does to its push; after a conflict it decides again.
func (in *Intake) changePush(
	ctx context.Context, p tenant.Principal, id string,
	decide func(e *record.RunEntity, old record.PushEntity, found bool, tx *record.Tx) error,
) error {
	writeID := in.Host.NewID()
	err := in.untilDone(ctx, "the run kept changing", func() error {
		e, err := in.Run(ctx, p, id)
		if err != nil {
			return err
		}
		old, found, err := in.Store.Push(ctx, id)
		if err != nil {
			return err
		}
		tx := in.Store.Begin(writeID)
		if err := decide(&e, old, found, tx); err != nil {
			return err
		}
		tx.PutRun(e)
		tx.AuditDeed(ctx, e.Value.Organization, "run", id)
		return tx.Commit(ctx)
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}
