package record

import (
	"context"
	"errors"
	"io"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
)

// WithDisk returns the store that takes the room for blobs from what is left of a disk. refused is called with the
// cause of each refusal for want of room, of blobs and of commits.
func (s *Store) WithDisk(disk *share.Pool, refused func(cause error)) *Store {
	divided := *s
	divided.disk, divided.refused = disk, refused
	return &divided
}

// full is the refusal for want of room.
func (s *Store) full(cause error) error {
	if s.refused != nil {
		s.refused(cause)
	}
	return problem.DiskFull(cause)
}

// put stores a blob for who takes the room, as its bytes come. The errors are those of the blob store, and a problem of
// kind Full where there is no room.
func (s *Store) put(ctx context.Context, who share.Holder, key string, r io.Reader, limit int64) (int64, error) {
	if s.disk == nil {
		return s.blobs.Put(ctx, key, r, limit)
	}
	room := s.disk.Part(who)
	n, err := s.blobs.Put(ctx, key, &roomy{r, s, room}, limit)
	if err != nil {
		room.Give()
	}
	if errors.Is(err, blob.ErrFull) { // another program has taken the room
		err = s.full(err)
	}
	return n, err
}

// roomy takes the room for the bytes that are read.
type roomy struct {
	io.Reader

	store *Store
	room  *share.Part
}

func (r *roomy) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		if full := r.room.Take(int64(n)); full != nil {
			n, err = 0, r.store.full(full)
		}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // as io.Copy asks
		r.room.Give() // before the disk has it back: else it would be given back twice
	}
	return n, err
}
