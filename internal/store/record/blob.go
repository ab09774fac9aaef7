package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/table"
)

// A resource may keep large values in the blob store, below a prefix of its own, and names their keys. A job deletes a
// value that no commit has named, or that the resource no longer names.

// blobPrefix is the prefix of all blobs of a resource.
func blobPrefix(kind, id string) string { return kind + "s/" + id + "/" }

// blobLife is how long a blob may wait for the commit that names it: longer than any request lasts.
const blobLife = 15 * time.Minute

// Stored is a blob of a resource that no commit names yet, or a prefix for several. A job deletes it, unless a unit of
// work names it first.
type Stored struct {
	Key  string // of a place: a prefix that ends with a slash
	Size int64

	job JobEntity
}

// announce stores a job that deletes the blob under a key. It comes before the blob itself.
func (s *Store) announce(ctx context.Context, v Resourceful, key string) (Stored, error) {
	tx := s.Begin(s.host.NewID())
	job := tx.PutJob(Fresh(blobJob(v, key, s.host.Now().Add(blobLife))))
	return Stored{Key: key, job: job}, tx.Commit(ctx)
}

func (s *Store) newBlobKey(v Resourceful, what string) string {
	kind, id, _ := v.Placed()
	return blobPrefix(kind, id) + what + "/" + s.host.NewID()
}

// StoreBlob stores the bytes of r, at most limit, as a blob of a resource. The errors are those of [Tx.Commit], of r
// and of the blob store: blob.ErrTooLarge, a problem of kind Full.
func (s *Store) StoreBlob(ctx context.Context, v Resourceful, what string, r io.Reader, limit int64) (Stored, error) {
	b, err := s.announce(ctx, v, s.newBlobKey(v, what))
	if err == nil {
		_, _, owner := v.Placed()
		b.Size, err = s.put(ctx, owner, b.Key, r, limit)
	}
	return b, err
}

// NewPrefix is a prefix for several blobs of a resource. It is deleted as a whole.
func (s *Store) NewPrefix(ctx context.Context, v Resourceful, what string) (Stored, error) {
	return s.announce(ctx, v, s.newBlobKey(v, what)+"/")
}

// PutPiece stores a blob of an owner below a prefix. The errors are those of the blob store, or a Full problem.
func (s *Store) PutPiece(ctx context.Context, owner, prefix string, n int, b []byte) error {
	return s.putBlob(ctx, owner, pieceKey(prefix, n), b)
}

// Piece reads a blob below a prefix. It returns [ErrConflict] when it does not exist.
func (s *Store) Piece(ctx context.Context, prefix string, n int) ([]byte, error) {
	return s.Blob(ctx, pieceKey(prefix, n))
}

func pieceKey(prefix string, n int) string { return prefix + padded(6, int64(n)) }

// NameBlob keeps a blob, because an item of this unit of work names it. A commit after the job that deletes the blob is
// refused with [ErrConflict].
func (tx *Tx) NameBlob(b Stored) { tx.DeleteJob(b.job) }

// Discard deletes a blob that no unit of work has named, and its job. If it fails, the job deletes the blob later. The
// errors are those of [Store.EraseBlob] and [Tx.Commit].
func (s *Store) Discard(ctx context.Context, b Stored) error {
	if err := s.EraseBlob(ctx, b.job.Value.Organization, b.Key); err != nil {
		return err
	}
	tx := s.Begin(s.host.NewID())
	tx.DeleteJob(b.job)
	return tx.Commit(ctx)
}

// PutBlob stores a blob of a resource immediately, before the commit. It returns the blob's key, for the resource that
// this unit of work writes. A job deletes a blob that no commit names; a commit after that job is refused with
// [ErrConflict].
func (tx *Tx) PutBlob(ctx context.Context, v Resourceful, what string, b []byte) (key string) {
	if tx.err != nil {
		return ""
	}
	s := tx.store
	stored, err := s.announce(ctx, v, s.newBlobKey(v, what))
	if tx.fail(err); tx.err != nil {
		return ""
	}
	_, _, owner := v.Placed()
	tx.fail(s.putBlob(ctx, owner, stored.Key, b))
	tx.NameBlob(stored)
	return stored.Key
}

// DropBlob adds a job that deletes a blob, or a prefix with its blobs. After this unit of work the resource does not
// name it.
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

// Blob reads a blob of a resource. It returns [ErrConflict] when the blob does not exist: the resource then names
// another one by now.
func (s *Store) Blob(ctx context.Context, key string) ([]byte, error) {
	b, err := s.getBlob(ctx, key)
	if errors.Is(err, blob.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return b, err
}

// EraseBlob deletes a blob of an owner that nothing names, or a prefix with its blobs. The errors are those of the blob
// store.
func (s *Store) EraseBlob(ctx context.Context, owner, key string) error {
	if strings.HasSuffix(key, "/") {
		return s.dropBlobs(ctx, owner, key)
	}
	return s.blobs.Delete(of(ctx, owner), key)
}

// EraseBlobs deletes all blobs of an owner's resource. The errors are those of the blob store.
func EraseBlobs[T Resourceful](ctx context.Context, s *Store, owner, id string) error {
	return s.dropBlobs(ctx, owner, blobPrefix(kindOf[T](), id))
}

// EraseResource deletes any version of a resource, with its blobs. The errors are those of the blob store and of
// [Tx.Commit].
func EraseResource[T Resourceful](ctx context.Context, s *Store, v T, writeID string) error {
	_, id, owner := v.Placed()
	if err := EraseBlobs[T](ctx, s, owner, id); err != nil {
		return err
	}
	tx := s.Begin(writeID)
	deleteResource(tx, v, table.Always())
	return tx.Commit(ctx)
}
