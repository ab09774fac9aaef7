package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// journal stores the work of an attempt, so that no later attempt repeats it: its steps, and the files of its calls.
type journal struct {
	*lease

	unsure bool // the loop's unsaved steps may be journalled; only the work's goroutine uses it
}

// add stores finished steps. It returns errCancel if a cancel was requested.
func (j *journal) add(ctx context.Context, steps []record.Step) error {
	j.used.add(steps)
	err := j.report(ctx, func(w lifecycle.Work) transition.Change {
		return transition.Change{Event: lifecycle.Step{Work: w}, Steps: steps}
	})
	if err == nil && j.current().Value.CancelRequested {
		j.stop(errCancel)
		err = errCancel
	}
	j.unsure = j.unsure || err != nil
	return err
}

// makeRoom stores the first of the steps that an attempt leaves. It returns the others, which then fit into one commit.
// The errors are those of report.
func (j *journal) makeRoom(ctx context.Context, steps []record.Step) (left []record.Step, err error) {
	for err == nil && len(steps) > agent.StepsAtOnce {
		first := steps[:agent.StepsAtOnce]
		steps = steps[agent.StepsAtOnce:]
		j.used.add(first)
		err = j.reportBy(ctx, j.Executor,
			func(_ record.Run, w lifecycle.Work, _ *record.Tx) (transition.Change, error) {
				missing, err := j.missing(ctx, first)
				return transition.Change{Event: lifecycle.Step{Work: w}, Steps: missing}, err
			})
	}
	return steps, err
}

// missing returns the steps that are not journalled.
func (j *journal) missing(ctx context.Context, steps []record.Step) ([]record.Step, error) {
	if !j.unsure || len(steps) == 0 {
		return steps, nil
	}
	stored, err := j.Store.Journal(ctx, j.runID)
	return slices.DeleteFunc(slices.Clone(steps), func(s record.Step) bool {
		return slices.ContainsFunc(stored, func(known record.Step) bool { return known.Index == s.Index })
	}), err
}

// keepFile stores a file that the run has made. It creates the file's row, with a reference of the run, before it
// stores the bytes. So they are removed with the run even if the attempt is lost. It returns errLost if the attempt
// does not hold the run, a problem of kind Limited if the user has no space for it, or an error of the store.
func (j *journal) keepFile(ctx context.Context, key string, file tool.File) (record.FileRef, error) {
	for attempt := range keepAttempts {
		e, err := j.Store.Run(ctx, record.System(), j.runID)
		if err != nil {
			return record.FileRef{}, err
		}
		r := e.Value
		if !j.owns(r) {
			return record.FileRef{}, errLost
		}
		f := j.Store.NewFile(r.Organization, r.User, file.Name, file.ContentType)
		f.ID = record.DerivedID(fmt.Sprintf("file/%s/%d", key, j.number), j.runID)
		f.Size = int64(len(file.Data))
		tx := j.Store.Begin(j.Host.NewID())
		tx.NewHeldFile(ctx, f, e)
		if err = tx.Commit(ctx); err == nil {
			filled, err := j.Store.FillFile(ctx, record.Of(r.Organization), f.ID, bytes.NewReader(file.Data), f.Size)
			if err != nil {
				err = errors.Join(err, j.Store.ReleaseFile(ctx, j.runID, f.ID))
			}
			return filled.Ref(), err
		}
		if !errors.Is(err, record.ErrConflict) { // a heartbeat may have changed the run
			return record.FileRef{}, err
		}
		if err := j.Executor.Pause(ctx, attempt); err != nil {
			return record.FileRef{}, err
		}
	}
	return record.FileRef{}, errors.New("worker: the run kept changing")
}

// keepAttempts bounds the retries of keepFile after concurrent changes of the run.
const keepAttempts = 16
