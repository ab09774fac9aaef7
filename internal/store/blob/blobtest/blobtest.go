// Package blobtest is the conformance suite of the blob port. Every adapter runs all of it.
package blobtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/blob"
)

// Run runs the suite; open makes a fresh, empty store.
func Run(t *testing.T, open func(*testing.T) blob.Store) {
	t.Run("a stored value is read unchanged", func(t *testing.T) {
		s := open(t)
		want := bytes.Repeat([]byte("a\x00b\n"), 100_000)
		n, err := s.Put(t.Context(), "run/1/input", bytes.NewReader(want), int64(len(want)))
		require.NoError(t, err)
		assert.EqualValues(t, len(want), n)
		got, err := blob.GetBytes(t.Context(), s, "run/1/input")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
	t.Run("a value that does not exist is missing", func(t *testing.T) {
		s := open(t)
		_, err := s.Get(t.Context(), "none")
		require.ErrorIs(t, err, blob.ErrMissing)
		require.NoError(t, s.Delete(t.Context(), "none"))
	})
	t.Run("a value over the limit is not stored", func(t *testing.T) {
		s := open(t)
		_, err := s.Put(t.Context(), "k", strings.NewReader("12345"), 4)
		require.ErrorIs(t, err, blob.ErrTooLarge)
		_, err = s.Get(t.Context(), "k")
		require.ErrorIs(t, err, blob.ErrMissing)
	})
	t.Run("a reader that fails stores nothing", func(t *testing.T) {
		s := open(t)
		broken := errors.New("broken")
		_, err := s.Put(t.Context(), "k", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 100)
		require.ErrorIs(t, err, broken)
		_, err = s.Get(t.Context(), "k")
		require.ErrorIs(t, err, blob.ErrMissing)
	})
	t.Run("a second put replaces the value, a delete removes it", func(t *testing.T) {
		s := open(t)
		require.NoError(t, blob.PutBytes(t.Context(), s, "k", []byte("one")))
		require.NoError(t, blob.PutBytes(t.Context(), s, "k", []byte("two")))
		got, err := blob.GetBytes(t.Context(), s, "k")
		require.NoError(t, err)
		assert.Equal(t, "two", string(got))
		require.NoError(t, s.Delete(t.Context(), "k"))
		_, err = s.Get(t.Context(), "k")
		require.ErrorIs(t, err, blob.ErrMissing)
	})
	t.Run("DeleteAll removes the values below a prefix only", func(t *testing.T) {
		s := open(t)
		for _, key := range []string{"run/1/input/a", "run/1/step/000001/b", "run/1/c", "run/10/input/a", "run/2",
			"other/run/1/a"} {
			require.NoError(t, blob.PutBytes(t.Context(), s, key, []byte(key)))
		}
		require.NoError(t, s.DeleteAll(t.Context(), "run/1/"))
		require.NoError(t, s.DeleteAll(t.Context(), "run/1/"), "removing none is no error")
		for _, key := range []string{"run/1/input/a", "run/1/step/000001/b", "run/1/c"} {
			_, err := s.Get(t.Context(), key)
			require.ErrorIs(t, err, blob.ErrMissing, key)
		}
		for _, key := range []string{"run/10/input/a", "run/2", "other/run/1/a"} {
			got, err := blob.GetBytes(t.Context(), s, key)
			require.NoError(t, err, key)
			assert.Equal(t, key, string(got))
		}
		require.NoError(t, blob.PutBytes(t.Context(), s, "run/1/c", []byte("again")))
		got, err := blob.GetBytes(t.Context(), s, "run/1/c")
		require.NoError(t, err)
		assert.Equal(t, "again", string(got))
	})
	t.Run("concurrent readers see a whole value, old or new", func(t *testing.T) {
		s := open(t)
		a, b := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<16)
		require.NoError(t, blob.PutBytes(t.Context(), s, "k", a))
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 20 {
				_ = blob.PutBytes(t.Context(), s, "k", b)
				_ = blob.PutBytes(t.Context(), s, "k", a)
			}
		})
		for range 50 {
			got, err := blob.GetBytes(t.Context(), s, "k")
			require.NoError(t, err)
			require.True(t, bytes.Equal(got, a) || bytes.Equal(got, b))
		}
		wg.Wait()
	})
}
