package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// Tx is a unit of work: [Tx.Commit] makes all its writes together, or none. Its methods are named after the things that
// they write. Most only collect writes. Some of those that take a context read first, or put a large value into the
// blob store. Nothing names that value before the commit. So the job that removes it, if the commit fails, is committed
// immediately. A Tx is not safe for concurrent use.
//
// The first error is kept: after it further calls do nothing, and Commit returns it.
type Tx struct {
	store   *Store
	writeID string
	ops     []table.Op
	err     error
	put     []string // keys of blobs of documents that are stored
	owner   string   // of what grows
	grown   int64    // bytes, see [Tx.grows]
	frees   bool     // see [Tx.Frees]
}

// Begin begins a unit of work. Every item that it writes carries the write id, by which a repetition recognises its own
// commit. So the id belongs to this unit of work and to those that replace it after a conflict. Only commits that
// delete may use it, too.
func (s *Store) Begin(writeID string) *Tx { return &Tx{store: s, writeID: writeID} }

// WriteID is the id in all items that the unit of work writes.
func (tx *Tx) WriteID() string { return tx.writeID }

// Err is the first error, nil for none.
func (tx *Tx) Err() error { return tx.err }

// usualOps is how many operations a commit of a run has.
const usualOps = 6

func (tx *Tx) fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

func (tx *Tx) add(ops ...table.Op) {
	if tx.err == nil {
		if tx.ops == nil {
			tx.ops = make([]table.Op, 0, max(usualOps, len(ops)))
		}
		tx.ops = append(tx.ops, ops...)
	}
}

// put adds the write of an entity on condition of the version that was read. It returns the entity as it is after the
// commit.
func put[T any](tx *Tx, e Entity[T], item table.Item) Entity[T] {
	return putIf(tx, e.asRead(), e, item)
}

// putIf is put on another condition: none for items that another item of the same commit protects from conflicts.
func putIf[T any](tx *Tx, cond table.Condition, e Entity[T], item table.Item) Entity[T] {
	item.WriteID = tx.writeID
	op, err := write(cond, e, item)
	tx.fail(err)
	tx.add(op)
	return e.written(tx.writeID)
}

func (tx *Tx) delete(key table.Key, cond table.Condition) { tx.add(table.Delete(key, cond)) }

// ErrConflict is returned if an item has changed between reading and writing, a conflict: read again and decide again.
var ErrConflict = errors.New("record: what was read has changed")

// commitTime bounds a commit with its repetitions.
const commitTime = 20 * time.Second

// Commit makes the writes, once, whether or not the caller's context ends. After contention or a lost response it tries
// again with the same operations. A refusal by an item with this write id means that an earlier attempt succeeded. A
// unit of work without writes succeeds immediately.
//
// It returns the first error of the unit of work, as [ErrUnstorable], [NoFile] or that of a read. It returns an error
// if the store is [Store.ReadOnly], and [ErrConflict], which wraps the refusal. If nothing was done, it returns a
// problem of kind Unavailable or Full, or an error that the item is too large, see [Unstorable]. An error that is not a
// problem means that the writes may or may not have been done.
func (tx *Tx) Commit(ctx context.Context) error {
	tx.audit(ctx)
	if tx.err != nil || len(tx.ops) == 0 {
		return tx.err
	}
	s := tx.store
	if s.readOnly {
		return errReadOnly
	}
	if s.disk != nil && tx.grown > 0 && !s.disk.Take(of(ctx, tx.owner), tx.grown) {
		tx.dropBlobs(ctx)
		return s.full(errNoGrowth)
	}
	ctx, cancel := s.host.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	unknown := false
	var err error
	for attempt := range maxAttempts {
		err = s.table.Commit(ctx, tx.writeID, tx.ops...)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*table.Refused](err); ok {
			if ownWrite(refused, tx.writeID) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
		var failure *table.Error
		if !errors.As(err, &failure) || failure.Kind == table.TooLarge {
			return err
		}
		if failure.Kind == table.Full && !unknown {
			tx.dropBlobs(ctx)
			return s.full(err)
		}
		unknown = unknown || failure.Kind == table.Unknown
		if s.host.Sleep(ctx, s.backOff(attempt)) != nil {
			break
		}
	}
	if unknown {
		return fmt.Errorf("record: it is not known whether the write was done: %w", err)
	}
	return problem.Retry(err)
}

func ownWrite(r *table.Refused, writeID string) bool {
	for _, c := range r.Conflicts {
		if c.Current != nil && c.Current.WriteID == writeID {
			return true
		}
	}
	return false
}
