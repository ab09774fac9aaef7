// Package memblob is the blob port in memory, for the simulator and for tests.
package memblob

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"agentplatform/internal/store/blob"
)

// Store keeps values in a map. The zero value is ready.
type Store struct {
	mu     sync.Mutex
	values map[string][]byte
}

// Put implements [blob.Store].
func (s *Store) Put(_ context.Context, key string, r io.Reader, limit int64) (int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return 0, err
	}
	if int64(len(b)) > limit {
		return 0, blob.ErrTooLarge
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[key] = b
	return int64(len(b)), nil
}

// Get implements [blob.Store].
func (s *Store) Get(_ context.Context, key string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.values[key]
	if !ok {
		return nil, blob.ErrMissing
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Delete implements [blob.Store]. The error is always nil.
func (s *Store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	return nil
}

// DeleteAll implements [blob.Store]. The error is always nil.
func (s *Store) DeleteAll(_ context.Context, below string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.values, func(key string, _ []byte) bool { return strings.HasPrefix(key, below) })
	return nil
}

// Keys lists the keys of all values, sorted, for checkers.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}
