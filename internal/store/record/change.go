package record

import (
	"context"
	"errors"

	"agentplatform/internal/platform/problem"
)

// Match is the version of a resource that an edit expects; 0 expects none.
type Match int64

// Check returns a problem of kind PreconditionFailed when a version is not the expected one.
func (m Match) Check(version int64) error {
	if m != 0 && int64(m) != version {
		return problem.New(problem.PreconditionFailed, "precondition_failed",
			"the resource has changed from version %d (If-Match) to version %d: read it again", m, version)
	}
	return nil
}

// changeAttempts bounds how often an edit is made again because of conflicts.
const changeAttempts = 16

// Change edits a resource. If another write comes first, it edits the newly stored version again. The edit may add
// writes to the unit of work, and may return [ErrConflict] itself. It returns the resource as it is after the edit.
//
// The errors are those of [Resource], [Match.Check], edit and [Tx.Commit]. After 16 attempts, a problem of kind
// Unavailable replaces ErrConflict. If the context ends between two attempts, the error is the context's.
func Change[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, match Match, edit func(v *T, tx *Tx) error,
) (Entity[T], error) {
	return DespiteConflicts(ctx, s, func() (Entity[T], error) {
		e, err := Resource[T](ctx, s, scope, id)
		if err == nil {
			err = match.Check(e.Version())
		}
		if err != nil {
			return e, err
		}
		tx := s.Begin(s.host.NewID())
		before, v := e.Value, e.Value
		if err := edit(&v, tx); err != nil {
			return e, err
		}
		e.Value = v
		return PutResource(tx, e), tx.Commit(changing(ctx, before, v))
	})
}

// Create writes a new resource in its own commit. Its errors are those of [Tx.Commit]; [ErrConflict] when the resource
// exists.
func Create[T Resourceful](ctx context.Context, s *Store, v T, writeID string) (Entity[T], error) {
	tx := s.Begin(writeID)
	return PutResource(tx, Fresh(v)), tx.Commit(ctx)
}

// Remove deletes a resource, together with the writes that more adds to the unit of work; more may be nil. It returns
// the resource as it was read. Its errors are those of [Resource], of more and of [Tx.Commit], with conflicts as for
// [Change].
func Remove[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, more func(e Entity[T], tx *Tx) error,
) (Entity[T], error) {
	return DespiteConflicts(ctx, s, func() (Entity[T], error) {
		e, err := Resource[T](ctx, s, scope, id)
		if err != nil {
			return e, err
		}
		tx := s.Begin(s.host.NewID())
		tx.Frees()
		DeleteResource(tx, e)
		if more != nil {
			if err := more(e, tx); err != nil {
				return e, err
			}
		}
		return e, tx.Commit(ctx)
	})
}

// DespiteConflicts repeats an edit while it meets [ErrConflict]. After 16 attempts it returns a problem of kind
// Unavailable. If the context ends between two attempts, the error is the context's. The other errors are those of
// edit.
func DespiteConflicts[T any](ctx context.Context, s *Store, edit func() (T, error)) (T, error) {
	for attempt := range changeAttempts {
		v, err := edit()
		if !errors.Is(err, ErrConflict) {
			return v, err
		}
		if err := s.host.Sleep(ctx, s.backOff(min(attempt, 6))); err != nil {
			return v, err
		}
	}
	var none T
	return none, problem.Retry(errors.New("the resource kept changing"))
}
