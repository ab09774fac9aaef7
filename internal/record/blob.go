package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/blob"
	"agentplatform/internal/table"
)

// A resource may keep large values in the blob store, below a prefix of its own, and names their keys. A job deletes a
// value that no commit came to name, or that one stopped naming.

// blobPlace is the prefix of all blobs of a resource.
func blobPlace(kind, id string) string { return kind + "s/" + id + "/" }

// blobLife is how long a blob may wait for the commit that names it: longer than any request lasts.
const blobLife = 15 * time.Minute

// PutBlob stores a blob of a resource at once and returns its key, for the resource that this unit of work writes. A
// job deletes a blob that no commit came to name; a commit after that job is refused with [ErrConflict].
func (tx *Tx) PutBlob(ctx context.Context, v Resourceful, what string, b []byte) (key string) {
	if tx.err != nil {
		return ""
	}
	s := tx.store
	kind, id, _ := v.Placed()
	key = blobPlace(kind, id) + what + "/" + s.host.NewID()
	announced := s.Begin(s.host.NewID())
	job := announced.PutJob(Fresh(blobJob(v, key, s.host.Now().Add(blobLife))))
	if tx.fail(announced.Commit(ctx)); tx.err != nil {
		return ""
	}
	tx.fail(s.putBlob(ctx, key, b))
	tx.DeleteJob(job)
	return key
}

// DropBlob adds a job that deletes a blob, which its resource does not name after this unit of work.
func (tx *Tx) DropBlob(v Resourceful, key string) {
	tx.PutJob(Fresh(blobJob(v, key, tx.store.host.Now())))
}

func blobJob(v Resourceful, key string, due time.Time) Job {
	_, _, owner := v.Placed()
	return Job{ID: DerivedID("blob", key), Organization: owner, Kind: RemoveBlob, Subject: key, Due: due}
}

// DropBlobs adds the job of a kind that deletes all blobs of a deleted resource.
func (tx *Tx) DropBlobs(v Resourceful, job JobKind) {
	kind, id, owner := v.Placed()
	tx.PutJob(Fresh(Job{
		ID: DerivedID(kind, id), Organization: owner, Kind: job, Subject: id, Due: tx.store.host.Now(),
	}))
}

// Blob reads a blob of a resource. It returns [ErrConflict] when the blob does not exist, because the resource then
// names another one by now.
func (s *Store) Blob(ctx context.Context, key string) ([]byte, error) {
	b, err := s.getBlob(ctx, key)
	if errors.Is(err, blob.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return b, err
}

// EraseBlob deletes a blob that nothing names, at once. The errors are those of the blob store.
func (s *Store) EraseBlob(ctx context.Context, key string) error {
	return s.blobs.Delete(ctx, key)
}

// EraseBlobs deletes all blobs of a resource, at once. The errors are those of the blob store.
func EraseBlobs[T Resourceful](ctx context.Context, s *Store, id string) error {
	var none T
	kind, _, _ := none.Placed()
	return s.dropBlobs(ctx, blobPlace(kind, id))
}

// EraseResource deletes a resource with its blobs, whatever its version. The errors are those of the blob store and of
// [Tx.Commit].
func EraseResource[T Resourceful](ctx context.Context, s *Store, v T, writeID string) error {
	if err := EraseBlobs[T](ctx, s, IDOf(v)); err != nil {
		return err
	}
	tx := s.Begin(writeID)
	deleteResource(tx, v, table.Always())
	return tx.Commit(ctx)
}
