package intake

import (
	"context"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Decisions of pauses. Approvers decide tool calls; they need no access to the agent. Users who may post to the chat
// answer questions.

// waitsFor reports whether a run waits for an interrupt of a kind.
func waitsFor(run record.Run, kind lifecycle.InterruptKind) bool {
	return slices.ContainsFunc(run.Interrupts, func(i lifecycle.Pending) bool { return i.Kind == kind })
}

// approvalOf is the approval request of a run's last pause.
func approvalOf(run record.Run, rejects bool) tenant.ApprovalRequest {
	return tenant.ApprovalRequest{Agent: run.Agent, User: run.User, Began: run.AgentVersion,
		Version: run.PausedAgentVersion, Rejects: rejects}
}

// mayDecide returns nil if the principal may decide the pause in this way.
func (in *Intake) mayDecide(
	ctx context.Context, p tenant.Principal, run record.Run, list []record.Decision,
) error {
	if waitsFor(run, lifecycle.Approval) {
		rejects := !slices.ContainsFunc(list, func(d record.Decision) bool {
			return d.Decision == string(lifecycle.Approve) || d.Decision == string(lifecycle.Edit)
		})
		if err := in.Tenants.MayApprove(ctx, p, approvalOf(run, rejects)); err != nil {
			return err
		}
	}
	if !waitsFor(run, lifecycle.Clarification) {
		return nil
	}
	chat, _, err := in.Store.ChatOf(ctx, run.RunSpec)
	if err == nil {
		err = in.MaySee(ctx, p, &run)
	}
	if err == nil {
		err = in.mayJoin(ctx, p, chat.Value)
	}
	return err
}

// approves reports whether the principal may approve the calls of a run's pause, or of its last pause. If rejects is
// set, the right to reject is enough. The only errors are those of the store.
func (in *Intake) approves(ctx context.Context, p tenant.Principal, run record.Run, rejects bool) (bool, error) {
	if !waitsFor(run, lifecycle.Approval) && run.PausedAgentVersion == 0 {
		return false, nil
	}
	err := in.Tenants.MayApprove(ctx, p, approvalOf(run, rejects))
	if refused, is := problem.As(err); is && refused.Kind != problem.Unavailable {
		return false, nil
	}
	return err == nil, err
}

// RunToDecide is [Intake.Run], also for an approver of the run's last pause without access to its agent. For such an
// approver outside is true, and only the fields of [view.ToDecideOf] may be returned.
func (in *Intake) RunToDecide(
	ctx context.Context, p tenant.Principal, id string,
) (e record.RunEntity, outside bool, err error) {
	if e, err = in.Store.LiveRun(ctx, p.Scope(), id); err != nil {
		return e, false, err
	}
	refusal := in.MaySee(ctx, p, &e.Value)
	if problem.Is(refusal, "insufficient_permission") {
		if outside, err = in.approves(ctx, p, e.Value, true); err != nil || outside {
			return e, outside, err
		}
	}
	if refusal != nil {
		e = record.RunEntity{}
	}
	return e, false, refusal
}

// Waiting is a waiting run for a principal.
type Waiting struct {
	Run        record.RunEntity
	Outside    bool // as with [Intake.RunToDecide]
	Decides    bool // the principal may decide all its interrupts
	Interrupts int  // number of interrupts that the principal may see
}

// Waiting returns the waiting runs that a principal may see or decide, in the order of runs. The only errors are those
// of the store.
func (in *Intake) Waiting(
	ctx context.Context, p tenant.Principal, runs []record.RunEntity,
) (list []Waiting, err error) {
	sees, known := in.Sees(ctx, p), map[tenant.ApprovalRequest]bool{}
	joins, err := in.joins(ctx, p, runs)
	if err != nil {
		return nil, err
	}
	for _, e := range runs {
		reached, err := sees(e.Value)
		if err != nil {
			return nil, err
		}
		about := approvalOf(e.Value, false)
		if about.User != p.User {
			about.User = ""
		}
		approves, there := known[about]
		asks := waitsFor(e.Value, lifecycle.Approval)
		if asks && !there {
			if approves, err = in.approves(ctx, p, e.Value, false); err != nil {
				return nil, err
			}
			known[about] = approves
		}
		shown := len(e.Value.Interrupts)
		switch {
		case reached:
		case asks && approves:
			shown = len(slices.DeleteFunc(slices.Clone(e.Value.Interrupts), func(i lifecycle.Pending) bool {
				return i.Kind != lifecycle.Approval
			}))
		default:
			continue
		}
		decides := p.Authorize(tenant.LevelRun) == nil && (!asks || approves)
		if waitsFor(e.Value, lifecycle.Clarification) {
			may, err := joins(e.Value)
			if err != nil {
				return nil, err
			}
			decides = decides && reached && may
		}
		list = append(list, Waiting{e, !reached, decides, shown})
	}
	return list, nil
}

// joins returns a function that reports whether the principal may post to the chat of one of the runs. Chats of one
// turn have only the run's agent, and are not read. The only errors are those of the store.
func (in *Intake) joins(
	ctx context.Context, p tenant.Principal, runs []record.RunEntity,
) (func(record.Run) (bool, error), error) {
	var of []lifecycle.RunSpec
	for _, e := range runs {
		if e.Value.Turn > 1 && waitsFor(e.Value, lifecycle.Clarification) && !p.Level.Covers(tenant.LevelAdmin) {
			of = append(of, e.Value.RunSpec)
		}
	}
	chats, err := in.Store.ChatsOf(ctx, of)
	return func(run record.Run) (bool, error) {
		chat, read := chats[run.Chat]
		if !read {
			return true, nil
		}
		err := in.mayJoin(ctx, p, chat)
		refused, is := problem.As(err)
		if is && refused.Kind != problem.Unavailable {
			return false, nil
		}
		return err == nil, err
	}, err
}
