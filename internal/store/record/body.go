package record

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/platform/problem"
)

// Large documents of a message, a run or its deliveries are in the blob store before the commit that names them. A job
// deletes those that no commit has named.

// bodyLife is the time from storing the body of a message to the job that checks it. The job checks whether a run or
// parked message has the body.
const bodyLife = 10 * time.Second

// announceBody stores a job before the body of a run is stored. The job deletes the body unless the run is committed.
func (s *Store) announceBody(ctx context.Context, organization, run string) (JobEntity, error) {
	e, err := s.bodyJob(ctx, organization, run, s.host.Now().Add(bodyLife))
	if err == nil && e.Value.Cursor != "" {
		err = problem.Retry(errors.New("the body of a try before is being removed"))
	}
	if err != nil {
		return e, err
	}
	tx := s.Begin(s.host.NewID())
	return tx.PutJob(e), tx.Commit(ctx)
}

// bodyJob returns the job that deletes the large documents of a message or run that does not exist, ready to be
// written.
func (s *Store) bodyJob(ctx context.Context, organization, run string, due time.Time) (JobEntity, error) {
	id := DerivedID("body", run)
	e, found, err := s.Job(ctx, id)
	if err != nil {
		return e, err
	}
	if !found {
		e = Fresh(Job{ID: id, Organization: organization, Kind: RemoveBody, Subject: run})
	}
	e.Value.Due = due
	return e, nil
}

// HasBody reports whether a run or parked message exists that may have a body in the blob store.
func (s *Store) HasBody(ctx context.Context, run string) (bool, error) {
	items, err := s.read(ctx, RunKey(run), inputKey(run))
	if err != nil || items[0] == nil {
		return err == nil && items[1] != nil, err
	}
	e, err := decode[Run](items[0])
	return !e.Value.Removed, err
}

// DropBodies deletes all blobs of an owner's run and its deliveries. Its errors are those of the blob store.
func (s *Store) DropBodies(ctx context.Context, owner, run string) error {
	return errors.Join(s.dropBlobs(ctx, owner, documentBlobs(runPart(run))),
		s.dropBlobs(ctx, owner, documentBlobs("hook/"+run)))
}

// A process may stall between writing a body and the commit that names it. It may then write after everything was
// deleted. So a job deletes the blobs once more after LateWrites. Its cursor is BodiesRemoved, which means that only
// this work is left.
const (
	LateWrites    = time.Hour
	BodiesRemoved = "removed"
)

// recheck adds that job, for a run for which a worker or a webhook sender may still write.
func (tx *Tx) recheck(ctx context.Context, r Run) {
	if tx.err != nil || r.Attempt == 0 && !r.Callback {
		return
	}
	e, err := tx.store.bodyJob(ctx, r.Organization, r.ID(), tx.store.host.Now().Add(LateWrites))
	tx.fail(err)
	e.Value.Cursor = BodiesRemoved
	tx.PutJob(e)
}
