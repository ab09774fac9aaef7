package record

import (
	"context"
	"errors"
	"io"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
)

// WithDisk returns the store that takes the room for growing rows from a disk. refused is called with the cause of each
// refusal for lack of room, of blobs and of commits.
func (s *Store) WithDisk(rows *share.Disk, refused func(cause error)) *Store {
	divided := *s
	divided.disk, divided.refused = rows, refused
	return &divided
}

// full is the refusal for want of room.
func (s *Store) full(cause error) error {
	if s.refused != nil {
		s.refused(cause)
	}
	return problem.DiskFull(cause)
}

// of returns a context in which bytes are those of an organization.
func of(ctx context.Context, organization string) context.Context {
	return share.With(ctx, share.Holder{Organization: organization})
}

// put stores a blob of an owner. The errors are those of the blob store, and a problem of kind Full without room.
func (s *Store) put(ctx context.Context, owner, key string, r io.Reader, limit int64) (int64, error) {
	n, err := s.blobs.Put(of(ctx, owner), key, r, limit)
	if errors.Is(err, blob.ErrFull) {
		err = s.full(err)
	}
	return n, err
}

// grows marks the last operation as growth by clients or models. Growth is a run, a document or token of one, a
// resource, or an entry of the audit log. Growth needs room on the disk. Other units of work need none, so that runs
// end and deletions begin on a full disk.
func (tx *Tx) grows() {
	if tx.err == nil {
		item := tx.ops[len(tx.ops)-1].Item
		tx.owner, tx.grown = item.Owner, tx.grown+int64(item.Size())
	}
}

// Frees marks a unit of work that ends or deletes something. Its entry in the audit log, which comes later, needs no
// room on the disk.
func (tx *Tx) Frees() { tx.frees = true }

var errNoGrowth = errors.New("record: the disk has no room for more rows")

// dropBlobs deletes the blobs of a unit of work that finds no room. One that stays goes with its run.
func (tx *Tx) dropBlobs(ctx context.Context) {
	for _, key := range tx.put {
		_ = tx.store.blobs.Delete(of(ctx, tx.owner), key)
	}
}

// IsFull reports whether a unit of work failed because the disk has no room.
func IsFull(err error) bool {
	full, is := problem.As(err)
	return is && full.Kind == problem.Full
}
