// Package blob is the port to the store of large values: bytes under a key, written once, read whole.
//
// The caller guarantees keys of letters, digits and "-_./" that do not begin with a slash and hold no "..". The adapter
// guarantees that a put that returned nil is durable, and that a reader never sees a part of a value.
package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// ErrMissing says that there is nothing under the key.
var ErrMissing = errors.New("blob: nothing is stored under this key")

// ErrTooLarge says that the reader gave more than the limit; nothing is stored.
var ErrTooLarge = errors.New("blob: larger than the limit")

// Store is the port.
type Store interface {
	// Put stores what r gives, at most limit bytes, and returns how many there were.
	Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error)
	// Get opens a value; the caller closes it.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a value; removing none is no error.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes all values whose keys begin with below, which ends with a slash.
	DeleteAll(ctx context.Context, below string) error
}

// Direct is a store that clients may send values to, and read them from, without us in between.
type Direct interface {
	// PresignPut makes a request that stores a value of exactly this size and type, once; its headers must be sent as they are.
	PresignPut(ctx context.Context, key, contentType string, size int64, life time.Duration) (url string, headers map[string]string, err error)
	// PresignGet makes an address that a value can be read at.
	PresignGet(ctx context.Context, key, disposition, contentType string, life time.Duration) (url string, err error)
	// Size says how large a value is; ErrMissing when there is none.
	Size(ctx context.Context, key string) (int64, error)
}

// PutBytes stores a value that is in memory.
func PutBytes(ctx context.Context, s Store, key string, b []byte) error {
	_, err := s.Put(ctx, key, bytes.NewReader(b), int64(len(b)))
	return err
}

// GetBytes reads a whole value, which the caller knows to be of reasonable size.
func GetBytes(ctx context.Context, s Store, key string) ([]byte, error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}
