package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// settler commits the end of an attempt: the run ends, pauses, or is released for another attempt.
type settler struct {
	*lease

	journal *journal
}

// performed is the end of an attempt's work.
type performed struct {
	agent.Result

	err      error
	cause    error // why the work was cancelled; nil if it was not
	timedOut bool
}

// conclude reports the end of the work. It returns nil, errLost, or the error after which another attempt must follow.
func (s *settler) conclude(ctx context.Context, p performed) error {
	switch {
	case p.timedOut:
		return s.stopped(ctx, p.Last, func(w lifecycle.Work) lifecycle.Event { return lifecycle.TimeOut{Work: w} })
	case p.err == nil:
		return s.settle(ctx, p.Result)
	case unstorable(p.err) != "":
		return s.failIfUnstorable(ctx, p.err)
	case errors.Is(p.err, errCancel), errors.Is(p.cause, errCancel):
		return s.stopped(ctx, p.Last, cancelled)
	case errors.Is(p.err, errLost), errors.Is(p.cause, errLost):
		return errLost
	case s.leaving.Load():
		if s.journal.unsure {
			p.Last = nil // the next attempt continues from the journal, and repeats the rest
		}
		return s.stopped(ctx, p.Last, func(w lifecycle.Work) lifecycle.Event { return lifecycle.Release{Work: w} })
	default:
		s.log().Warn("run attempt failed; another attempt will follow", "error", p.err)
		return p.err
	}
}

// cancelled ends the run after a requested cancel: the core turns the failure into a cancel.
func cancelled(w lifecycle.Work) lifecycle.Event { return lifecycle.Fail{Work: w} }

// stopped commits the end of work that was stopped. The same commit has the steps that are not journalled yet, or the
// last of many. So their tokens are counted once, and no step is repeated.
func (s *settler) stopped(
	ctx context.Context, last []record.Step, event func(lifecycle.Work) lifecycle.Event,
) error {
	last, err := s.journal.makeRoom(ctx, last)
	if err == nil {
		s.used.add(last)
		err = s.reportBy(ctx, s.Executor,
			func(r record.Run, w lifecycle.Work, _ *record.Tx) (transition.Change, error) {
				steps, err := s.journal.missing(ctx, last)
				if r.CancelRequested {
					event = cancelled
				}
				return transition.Change{Event: event(w), Steps: steps}, err
			})
	}
	if record.IsFull(err) { // an end needs no space
		err = s.report(ctx, func(w lifecycle.Work) transition.Change { return transition.Change{Event: event(w)} })
	}
	return s.failIfUnstorable(ctx, err)
}

// settle commits the loop's result. If that can never be stored, the run fails instead.
func (s *settler) settle(ctx context.Context, r agent.Result) error {
	s.used.add(r.Last)
	var err error
	if r.Answer == nil && len(r.Interrupts) > 0 {
		err = s.pause(ctx, r)
	} else {
		err = s.report(ctx, s.ending(r))
	}
	return s.failIfUnstorable(ctx, err)
}

// pause commits a pause. If one of its interrupts is an approval, the pause records the published version of the agent,
// which decides who may approve. It is committed only if the agent is unchanged, so that a concurrent edit or
// publication does not change the approvers.
func (s *settler) pause(ctx context.Context, r agent.Result) error {
	approval := slices.ContainsFunc(r.Interrupts,
		func(i record.Interrupt) bool { return i.Kind == string(lifecycle.Approval) })
	return s.reportBy(ctx, s.Executor, func(_ record.Run, w lifecycle.Work, tx *record.Tx) (transition.Change, error) {
		e := lifecycle.Pause{Work: w}
		for _, i := range r.Interrupts {
			kind := lifecycle.InterruptKind(i.Kind)
			e.Interrupts = append(e.Interrupts, lifecycle.Pending{
				ID: i.ID, Kind: kind, Call: kind == lifecycle.Clarification && i.Tool != nil,
			})
		}
		c := transition.Change{Steps: r.Last, Interrupts: r.Interrupts}
		if approval {
			run := s.current().Value
			now, err := record.Resource[catalog.Agent](ctx, s.Store, record.Of(run.Organization), run.Agent)
			if err == nil {
				record.Unchanged(tx, now)
			} else if isGone(err) {
				now.Value, err = catalog.Standing(ctx, s.Store, record.Of(run.Organization), run.Agent)
			}
			if err != nil && !isGone(err) {
				return c, err
			}
			e.AgentVersion = now.Value.Current() // 0: its organization is being deleted, and the run with it
		}
		e.ExpiresAt = s.Host.Now().Add(s.PauseExpiry)
		c.Event = e
		return c, nil
	})
}

// withoutLast returns the steps to store with an answer. The last one is left out if it can be rebuilt from the
// completed run.
func withoutLast(r agent.Result) []record.Step {
	n, last := len(r.Last), len(r.All)-1
	if n > 0 && r.Last[n-1].Reconstructible(r.All[:last], r.Answer.Text, r.Answer.Finish) {
		return r.Last[:n-1]
	}
	return r.Last
}

// unstorable is the reason why a run fails whose work was not stored; empty: it does not fail.
func unstorable(err error) string {
	switch {
	case record.Unstorable(err):
		return "the output of the agent is too large, or cannot be stored"
	case record.IsFull(err):
		return "insufficient_storage: the disk is full, so the output of the agent cannot be stored"
	default:
		return ""
	}
}

// failIfUnstorable fails the run if its work cannot be stored (see unstorable). It returns any other error unchanged.
func (s *settler) failIfUnstorable(ctx context.Context, err error) error {
	why := unstorable(err)
	if why == "" {
		return err
	}
	return s.report(ctx, func(w lifecycle.Work) transition.Change {
		return transition.Change{Event: lifecycle.Fail{Work: w, Error: why}}
	})
}

func (s *settler) ending(r agent.Result) func(lifecycle.Work) transition.Change {
	if r.Answer == nil {
		return func(w lifecycle.Work) transition.Change {
			return transition.Change{Event: lifecycle.Fail{Work: w, Error: r.Failure, Refused: r.Refused},
				Steps: r.Last}
		}
	}
	cites := citation.Cited(r.Answer.Text, r.Answer.Output != nil, citation.All(r.All))
	steps := withoutLast(r)
	return func(w lifecycle.Work) transition.Change {
		return transition.Change{Event: lifecycle.Complete{Work: w}, Steps: steps, Spare: r.Last[len(steps):],
			Result: s.result(w, *r.Answer, cites, r.All)}
	}
}

func (s *settler) result(
	w lifecycle.Work, answer agent.Answer, cites []citation.Citation, steps []record.Step,
) json.RawMessage {
	r := view.Result{
		RunID: s.runID, ChatID: s.current().Value.Chat, Answer: answer.Text, Output: answer.Output,
		Citations: cites, Files: []record.FileRef{},
		Steps: []view.ResultStep{}, FinishReason: answer.Finish,
		Usage: view.UsageOf(lifecycle.Run{Usage: w.Usage, ActiveMS: w.Active.Milliseconds()}),
	}
	for _, step := range steps {
		r.Files = append(r.Files, step.Files...)
		if step.Kind == record.ToolStep && step.Outcome != string(model.Answered) {
			r.Steps = append(r.Steps, view.ResultStep{Name: step.Name, Arguments: step.Arguments, Outcome: step.Outcome,
				Output: step.Output, Found: step.Found})
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		// every member was validated before it was journalled
		panic("worker: a result cannot be encoded: " + err.Error())
	}
	return b
}
