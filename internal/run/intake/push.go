package intake

import (
	"context"
	"errors"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Push reads the push of a run; found is false if there is none. It returns a problem of kind NotFound or Forbidden, as
// [Intake.Run].
func (in *Intake) Push(ctx context.Context, p tenant.Principal, id string) (push record.Push, found bool, err error) {
	if _, err := in.Run(ctx, p, id); err != nil {
		return record.Push{}, false, err
	}
	e, found, err := in.Store.Push(ctx, id)
	return e.Value, found, err
}

// SetPush sends the webhooks of a run to a push. It replaces the run's push with the same id, if there is one. It also
// writes the run. A concurrent transition is then decided again, so that the order of the commits decides which
// webhooks are sent.
//
// It returns a problem of kind NotFound or Forbidden, as [Intake.Run]. It returns one of kind Conflict if the run has
// ended, has a push with another id, or sends its webhooks to a callback URL. A run has one address.
func (in *Intake) SetPush(ctx context.Context, p tenant.Principal, id string, push record.Push) error {
	return in.changePush(ctx, p, id, func(e *record.RunEntity, old record.PushEntity, found bool, tx *record.Tx) error {
		switch {
		case e.Value.Status.Terminal():
			return problem.New(problem.Conflict, "conflict", "the run has ended and sends no more webhooks")
		case found && old.Value.ID != push.ID:
			return problem.New(problem.Conflict, "conflict",
				"the run already has a push notification configuration with another id: "+
					"replace or delete that one by its id")
		case !found && e.Value.Callback:
			return errCalled()
		}
		e.Value.Callback, old.Value = true, push
		tx.PutPush(e.Value.Organization, id, old)
		return nil
	})
}

// replacePush adds a push to the commit of an answer. The run's webhooks go there from then on, also if the run has a
// push with another id. nil: nothing changes. The caller sets the change's Callback.
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
		"the run already has a callback_url, of its message or its agent: a run has one address")
}

// DeletePush deletes the push of a run, also of a run that has ended. Webhooks that are not sent yet are not sent. It
// is idempotent, and does not delete a push with another id. It returns a problem of kind NotFound or Forbidden, as
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

// errNoChange means that there is nothing to write.
var errNoChange = errors.New("intake: nothing changes")

// changePush commits a run together with the change of its push that decide makes. After a conflict it decides again.
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
