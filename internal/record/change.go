package record

import (
	"context"
	"errors"

	"agentplatform/internal/problem"
	"agentplatform/internal/table"
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

// Change edits a resource as it stands, again when somebody else gets in between. The edit may add writes, and may say
// [ErrStale] itself.
func Change[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, match Match, edit func(v *T, move string) ([]table.Op, error),
) (Entity[T], error) {
	return whileStale(ctx, s, func() (Entity[T], error) {
		e, err := Resource[T](ctx, s, scope, id)
		if err == nil {
			err = match.Check(e.Version())
		}
		if err != nil {
			return e, err
		}
		move := s.host.NewID()
		before, v := e.Value, e.Value
		ops, err := edit(&v, move)
		if err != nil {
			return e, err
		}
		e.Value = v
		op, err := PutResource(e, move)
		if err != nil {
			return e, err
		}
		return e.Written(v, move), s.Commit(changing(ctx, before, v), move, append(ops, op)...)
	})
}

// Create writes a new resource, in one commit with further writes. The move is the one that those carry.
func Create[T Resourceful](ctx context.Context, s *Store, v T, move string, more ...table.Op) (Entity[T], error) {
	e := Fresh(v)
	op, err := PutResource(e, move)
	if err != nil {
		return e, err
	}
	return e.Written(v, move), s.Commit(ctx, move, append([]table.Op{op}, more...)...)
}

// Remove removes a resource as it stands, in one commit with further writes; more may be nil.
func Remove[T Resourceful](
	ctx context.Context, s *Store, scope Scope, id string, more func(e Entity[T], move string) ([]table.Op, error),
) (Entity[T], error) {
	return whileStale(ctx, s, func() (Entity[T], error) {
		e, err := Resource[T](ctx, s, scope, id)
		if err != nil {
			return e, err
		}
		move := s.host.NewID()
		ops := []table.Op{DeleteResource(e)}
		if more != nil {
			further, err := more(e, move)
			if err != nil {
				return e, err
			}
			ops = append(ops, further...)
		}
		return e, s.Commit(ctx, move, ops...)
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
