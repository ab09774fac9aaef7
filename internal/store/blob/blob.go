// Package blob is the port to the store of large values: bytes under a key, written once, read whole.
//
// The caller guarantees keys of letters, digits and "-_./" that do not begin with a slash and do not contain "..".
// The adapter guarantees that a value is durable when Put returned nil, and that a reader never sees a part of a
// value.
package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// ErrMissing is returned if no value is stored under the key.
var ErrMissing = errors.New("blob: nothing is stored under this key")

// ErrTooLarge is returned if a reader gave more bytes than the limit; nothing is stored.
var ErrTooLarge = errors.New("blob: larger than the limit")

// ErrFull is returned if there is no room for the bytes; nothing is stored.
var ErrFull = errors.New("blob: the disk is full")

// Store is the port. Implementations are safe for concurrent use. Besides the errors named below, each method may
// return an error of the underlying store.
type Store interface {
	// Put stores the bytes of r, at most limit, and returns their number. The error is [ErrTooLarge], [ErrFull], or
	// that of r; nothing is stored then.
	Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error)
	// Get opens a value; the caller closes it. The error is [ErrMissing] if there is none.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a value. The error is nil if there is none.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes all values whose keys begin with below, which ends with a slash. The error is nil if there
	// are none.
	DeleteAll(ctx context.Context, below string) error
}

// Direct is a [Store] that clients can use directly, for uploads and downloads, without this service in between.
// Besides the errors named below, each method may return an error of the underlying store.
type Direct interface {
	// PresignPut makes a PUT request that stores a value of exactly this size and content type, once, within life.
	// Its headers must be sent unchanged.
	PresignPut(ctx context.Context, key, contentType string, size int64,
		life time.Duration) (url string, headers map[string]string, err error)
	// PresignGet makes a URL from which a value can be downloaded within life, with the given response headers. An
	// empty disposition sets no header.
	PresignGet(ctx context.Context, key, disposition, contentType string, life time.Duration) (url string, err error)
	// Size returns the size of a value in bytes. The error is [ErrMissing] if there is none.
	Size(ctx context.Context, key string) (int64, error)
}

// openLife is how long the address of [Open] is valid: the client follows it immediately.
const openLife = 5 * time.Minute

// Content is a value as a client gets it: an address from which the client reads the bytes, or the bytes.
type Content struct {
	URL   string
	Bytes io.ReadCloser // nil when there is an address; else to be closed by the caller
}

// Open opens a value for a client who may read it. If the store is [Direct], the result is an address, whose response
// has this disposition (empty: none) and content type. The error is [ErrMissing], of a value without an address, or one
// of the store.
func Open(ctx context.Context, s Store, key, disposition, contentType string) (Content, error) {
	if direct, is := s.(Direct); is {
		url, err := direct.PresignGet(ctx, key, disposition, contentType, openLife)
		return Content{URL: url}, err
	}
	r, err := s.Get(ctx, key)
	return Content{Bytes: r}, err
}

// PutBytes stores a value that is in memory. The error is one of the store.
func PutBytes(ctx context.Context, s Store, key string, b []byte) error {
	_, err := s.Put(ctx, key, bytes.NewReader(b), int64(len(b)))
	return err
}

// GetBytes reads a whole value; the caller knows that its size is reasonable. The error is [ErrMissing], or one of
// the store.
func GetBytes(ctx context.Context, s Store, key string) ([]byte, error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}
