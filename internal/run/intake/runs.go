package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// EditLimits bounds the arguments of one call, also those that a person sets.
var EditLimits = strictjson.Limits{Bytes: 256 << 10, Depth: 64}

// checkDecision checks a decision by itself: an unknown verb must not count as an approval. It normalizes the arguments
// of an edit. The error is a problem of kind Invalid with the field below body.decisions[i].
func checkDecision(i int, d *record.Decision) (err error) {
	at := fmt.Sprintf("body.decisions[%d]", i)
	if d.InterruptID == "" {
		return problem.InvalidField(at+".interrupt_id", "is required")
	}
	switch lifecycle.Verb(d.Decision) {
	case lifecycle.Approve, lifecycle.Reject:
	case lifecycle.Edit:
		if d.Arguments, err = strictjson.Object(d.Arguments, EditLimits); err != nil {
			return problem.InvalidField(at+".arguments", "must be an object when the decision is edit: %s", err)
		}
	case lifecycle.Answer:
		if d.Message == "" {
			return problem.InvalidField(at+".message", "is required when the decision is answer")
		}
	default:
		return problem.InvalidField(at+".decision", "must be approve, reject, edit or answer")
	}
	return checkText(at+".message", d.Message)
}

// checkDecisions checks each decision by itself. It also checks that all decisions together have no more files than a
// message may have. It returns the decisions with normalized arguments, and their files.
func checkDecisions(list []record.Decision) (all []record.Decision, files []record.FileRef, err error) {
	all = slices.Clone(list)
	for i := range all {
		if err := checkDecision(i, &all[i]); err != nil {
			return nil, nil, err
		}
		files = append(files, all[i].Files...)
	}
	if len(files) > MaxFiles {
		return nil, nil, problem.InvalidField("body.decisions", "at most %d files may be sent", MaxFiles)
	}
	return all, files, nil
}

// Resume decides the pause of a run. list must name each pending interrupt once. by is the person's name for the audit
// log; if empty, it is the principal's user. If push is not nil, it replaces any push of the run and gets the run's
// webhooks from then on. If changed is not nil, it replaces the context of the run's client. Resume returns the run
// after the transition.
//
// It returns problems of these kinds:
//
//   - Invalid with the field, also for a verb that does not fit the interrupt, and for edited arguments
//     (body.decisions[i].arguments) that the tool does not accept;
//   - NotFound or Forbidden, as [Intake.RunToDecide]; Forbidden if only others may decide;
//   - NotFound with the field file_ids[n] for a file that does not exist;
//   - Conflict: interrupts_mismatch with pending_interrupt_ids, or not_awaiting_input with run_status and, if there
//     is one, last_decision;
//   - Conflict for a push of a run whose webhooks go to a callback URL.
func (in *Intake) Resume(
	ctx context.Context, p tenant.Principal, id, by string, list []record.Decision, push *record.Push,
	changed *record.Context,
) (record.RunEntity, error) {
	if err := checkLength("body.decided_by", by, maxName); err != nil {
		return record.RunEntity{}, err
	}
	list, files, err := checkDecisions(list)
	if err != nil {
		return record.RunEntity{}, err
	}
	e, _, err := in.RunToDecide(ctx, p, id)
	if err == nil && changed != nil {
		err = in.mayChange(ctx, p, e.Value, changed)
	}
	if err != nil {
		return e, err
	}
	if by == "" {
		by = p.User
	}
	of := e.Value.Whose()
	after, err := in.Executor.From(ctx, e, func(run record.Run, tx *record.Tx) (transition.Change, error) {
		e.Value = run
		now := in.Host.Now()
		event := lifecycle.Resume{By: by, StartBy: now.Add(in.Executor.StartDeadline)}
		for _, d := range list {
			event.Decisions = append(event.Decisions,
				lifecycle.Decision{InterruptID: d.InterruptID, Verb: lifecycle.Verb(d.Decision)})
		}
		if run.Status == lifecycle.AwaitingInput {
			err := in.mayDecide(ctx, p, run, list)
			if err == nil {
				_, err = lifecycle.Apply(run.Run, event, now)
			}
			if err == nil {
				err = in.checkEdits(ctx, run, list)
			}
			if err == nil {
				err = reference(ctx, tx, run.Organization, of, run.ID(), files)
			}
			if err != nil {
				return transition.Change{}, err
			}
			if event.Slots, err = in.Executor.Slots(ctx, run.RunSpec); err != nil {
				return transition.Change{}, err
			}
			if err = in.replacePush(ctx, run, push, tx); err != nil {
				return transition.Change{}, err
			}
		}
		return transition.Change{Event: event, Callback: push != nil,
			Decisions: &record.Decisions{List: list, By: by, At: now, Context: changed}}, nil
	})
	var refusal *lifecycle.Refusal
	if errors.As(err, &refusal) {
		return e, in.resumeRefused(ctx, e.Value, refusal)
	}
	return after, err
}

// mayChange returns nil if a run may continue with a new context of its client, else a problem of kind Invalid.
func (in *Intake) mayChange(ctx context.Context, p tenant.Principal, r record.Run, c *record.Context) error {
	if err := checkContext(*c); err != nil {
		return err
	}
	a, err := record.Version[catalog.Agent](ctx, in.Store, p.Scope(), r.Agent, r.AgentVersion)
	if err != nil {
		return err
	}
	return in.goesWith(ctx, c, a)
}

func (in *Intake) resumeRefused(ctx context.Context, r record.Run, refusal *lifecycle.Refusal) error {
	switch refusal.Reason {
	case lifecycle.Mismatch:
		return problem.New(problem.Conflict, "interrupts_mismatch",
			"send exactly one decision for each pending interrupt").
			With("pending_interrupt_ids", r.PendingIDs())
	case lifecycle.WrongKind:
		return problem.InvalidField("body.decisions", "%s", refusal.Detail)
	default:
		p := problem.New(problem.Conflict, "not_awaiting_input",
			"run %s is %s and does not wait for input", r.ID(), r.Status).With("run_status", r.Status)
		d, found, err := in.Store.LastDecision(ctx, r.ID(), r.Pause)
		if err != nil {
			return err
		}
		if found {
			ids := make([]string, 0, len(d.List))
			for _, one := range d.List {
				ids = append(ids, one.InterruptID)
			}
			return p.With("last_decision", map[string]any{
				"interrupt_ids": ids, "decided_by": d.By, "at": d.At.UTC().Format("2006-01-02T15:04:05.000Z"),
			})
		}
		return p
	}
}

// Cancel cancels a run and returns it. It is idempotent: a run that has ended is returned unchanged. It returns a
// problem of kind Invalid (body.reason), and of kind NotFound or Forbidden, as [Intake.Run].
func (in *Intake) Cancel(ctx context.Context, who tenant.Principal, id, reason string) (record.RunEntity, error) {
	if err := checkLength("body.reason", reason, maxReason); err != nil {
		return record.RunEntity{}, err
	}
	e, err := in.Run(ctx, who, id)
	if err != nil {
		return e, err
	}
	after, err := in.Executor.From(ctx, e, func(run record.Run, tx *record.Tx) (transition.Change, error) {
		tx.Frees()
		tx.AuditDeed(ctx, run.Organization, "run", id)
		return transition.Change{Event: lifecycle.Cancel{Reason: reason, ProcessID: in.Executor.ProcessID}}, nil
	})
	if errors.Is(err, lifecycle.ErrRefused) {
		return in.Store.LiveRun(ctx, who.Scope(), id)
	}
	return after, err
}

// Withdraw deletes a parked message. run is any run of its chat. It returns a problem of kind NotFound if run or
// message does not exist, or of kind Forbidden. If the message has become a run, it returns one of kind Conflict
// (already_started) with run_id.
func (in *Intake) Withdraw(ctx context.Context, who tenant.Principal, run, parked string) error {
	scope := who.Scope()
	e, err := in.Run(ctx, who, run)
	if err != nil {
		return err
	}
	p, err := in.Store.Parked(ctx, parked)
	if err != nil {
		return err
	}
	if p.Spec.Chat != e.Value.Chat || p.Spec.Organization != e.Value.Organization || !p.Spec.Waited {
		return problem.Missing("parked message " + parked)
	}
	of := lifecycle.Whose{Agent: p.Spec.Agent, Owner: e.Value.Owner()}
	if err := in.Tenants.CanAccess(ctx, who, of); err != nil {
		return err
	}
	return in.untilDone(ctx, fmt.Sprintf("parked message %s kept moving", parked), func() error {
		holder, _, err := in.waitsOn(ctx, scope, p)
		if problem.Is(err, "not_found") {
			return in.notWaiting(ctx, scope, parked)
		}
		if err != nil {
			return err
		}
		_, err = in.Executor.Do(ctx, scope, holder.ID(), func(
			_ record.Run, tx *record.Tx,
		) (transition.Change, error) {
			tx.DropParked(ctx, p)
			return transition.Change{Event: lifecycle.Withdraw{ID: parked}}, nil
		})
		return err
	})
}

func (in *Intake) notWaiting(ctx context.Context, scope record.Scope, parked string) error {
	if _, err := in.Store.LiveRun(ctx, scope, parked); err != nil {
		return problem.Missing("parked message " + parked)
	}
	return problem.New(problem.Conflict, "already_started",
		"the message has started as run %s", parked).With("run_id", parked)
}

// DeleteChat ends the chat's active run without a webhook, and drops its parked messages. It stores a job that deletes
// the rest in the background, and returns its id. The principal must have access to all agents of the chat and of the
// parked messages. It returns a problem of kind NotFound or Forbidden.
func (in *Intake) DeleteChat(ctx context.Context, who tenant.Principal, id string) (job string, err error) {
	err = in.untilDone(ctx, "the chat kept changing", func() error {
		chat, err := in.Store.Chat(ctx, who.Scope(), id)
		if err == nil {
			err = in.mayJoin(ctx, who, chat.Value)
		}
		if err == nil {
			job, err = in.deleteChat(ctx, who, chat)
		}
		return err
	})
	return job, err
}

func (in *Intake) deleteChat(ctx context.Context, who tenant.Principal, chat record.ChatEntity) (string, error) {
	c := chat.Value
	job := in.Host.NewID()
	tx := in.Store.Begin(job)
	tx.PutJob(record.Fresh(record.Job{
		ID: job, Organization: c.Organization, Kind: record.RemoveChat, Subject: c.ID, OwnID: c.OwnID, Epoch: c.Epoch,
		Due: in.Host.Now(),
	}))
	tx.Frees()
	tx.AuditDeed(ctx, c.Organization, "chat", c.ID)
	if c.ActiveRun == "" {
		chat.Value.Delete()
		tx.PutChat(chat)
		return job, tx.Commit(ctx)
	}
	e, err := in.Store.Run(ctx, record.System(), c.ActiveRun)
	if err != nil {
		return "", err
	}
	for _, id := range e.Value.Parked { // the write below is refused if more are parked at the same time
		p, err := in.Store.StillParked(ctx, id)
		if err == nil {
			err = in.Tenants.CanAccess(ctx, who, c.Whose(p.Spec.Agent))
		}
		if err != nil {
			return "", err
		}
	}
	_, err = in.Executor.Apply(ctx, e, tx, transition.Change{
		Event: lifecycle.Remove{ProcessID: in.Executor.ProcessID}, Chat: (*lifecycle.Chat).Delete,
	})
	return job, err
}
