package record

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/problem"
)

// What is large of a message, a run or its deliveries is in the blob store before the commit that names it. A job sees
// to what no commit came to name.

// bodyLife is how long the body of a message may be in the blob store before somebody asks whether it became a run's.
const bodyLife = 10 * time.Second

// announceBody stores that there will be a body of a run that may never be.
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

// bodyJob is the job that takes away what is large of a message, or of a run, that is not there: as it is to be written.
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

// HasBody says whether a run, or a parked message, is there, whose body the blob store keeps.
func (s *Store) HasBody(ctx context.Context, run string) (bool, error) {
	items, err := s.read(ctx, RunKey(run), inputKey(run))
	if err != nil || items[0] == nil {
		return err == nil && items[1] != nil, err
	}
	e, err := decode[Run](items[0])
	return !e.Value.Removed, err
}

// DropBodies removes all that the blob store keeps of a run and its deliveries.
func (s *Store) DropBodies(ctx context.Context, run string) error {
	return errors.Join(s.dropBlobs(ctx, documentBlobs(runPart(run))), s.dropBlobs(ctx, documentBlobs("hook/"+run)))
}

// A process that stood still between writing a body and the commit that was to name it may come when all is gone: the
// place is looked at once more after LateWrites, by a job whose cursor says that this is all that is left to do.
const (
	LateWrites    = time.Hour
	BodiesRemoved = "removed"
)

// lookAgain writes that job, for a run of which somebody may write: its worker, or whoever tells its receiver.
func (tx *Tx) lookAgain(ctx context.Context, r Run) {
	if tx.err != nil || r.Attempt == 0 && !r.Callback {
		return
	}
	e, err := tx.store.bodyJob(ctx, r.Organization, r.ID(), tx.store.host.Now().Add(LateWrites))
	tx.fail(err)
	e.Value.Cursor = BodiesRemoved
	tx.PutJob(e)
}
