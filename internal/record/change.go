package record

import (
	"context"
	"errors"

	"agentplatform/internal/problem"
)

// Match is the version of a resource that an edit expects; 0 expects none.
type Match int64

// Check says whether a version is the expected one.
func (m Match) Check(version int64) error {
	if m != 0 && int64(m) != version {
		return problem.New(problem.PreconditionFailed, "precondition_failed", "the resource has changed: If-Match names version %d, it has %d", m, version)
	}
	return nil
}

// changeTries bounds how often an edit is made afresh because somebody else edited meanwhile.
const changeTries = 16

// Change edits a resource as it stands, again when somebody else gets in between. The edit may add writes to the unit of
// work, and may say [ErrStale] itself. It returns the resource as it then is; its errors are those of [Resource],
// [Match.Check], the edit and [Tx.Commit].
func Change[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, match Match, edit func(v *T, tx *Tx) error,
) (Entity[T], error) {
	return whileStale(ctx, s, func() (Entity[T], error) {
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

// Create writes a new resource by itself. Its errors are those of [Tx.Commit].
func Create[T Resourceful](ctx context.Context, s *Store, v T, writeID string) (Entity[T], error) {
	tx := s.Begin(writeID)
	return PutResource(tx, Fresh(v)), tx.Commit(ctx)
}

// Remove removes a resource as it stands, together with what more adds to the unit of work; more may be nil. Its errors
// are those of [Resource], of more and of [Tx.Commit].
func Remove[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, more func(e Entity[T], tx *Tx) error,
) (Entity[T], error) {
	return whileStale(ctx, s, func() (Entity[T], error) {
		e, err := Resource[T](ctx, s, scope, id)
		if err != nil {
			return e, err
		}
		tx := s.Begin(s.host.NewID())
		DeleteResource(tx, e)
		if more != nil {
			if err := more(e, tx); err != nil {
				return e, err
			}
		}
		return e, tx.Commit(ctx)
	})
}

// whileStale repeats an edit while others get in between.
func whileStale[T any](ctx context.Context, s *Store, edit func() (T, error)) (T, error) {
	for try := range changeTries {
		v, err := edit()
		if !errors.Is(err, ErrStale) {
			return v, err
		}
		if err := s.host.Sleep(ctx, s.backOff(min(try, 6))); err != nil {
			return v, err
		}
	}
	var none T
	return none, problem.Retry(errors.New("the resource kept changing"))
}
