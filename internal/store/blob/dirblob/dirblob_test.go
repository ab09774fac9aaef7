package dirblob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/blobtest"
	"agentplatform/internal/store/blob/dirblob"
)

// disk has room for so many bytes.
type disk struct{ left int64 }

func (d *disk) Take(_ context.Context, n int64) bool {
	if n > d.left {
		return false
	}
	d.left -= n
	return true
}

func (d *disk) Give(_ context.Context, n int64) { d.left += n }

// endless has room for everything.
type endless struct{}

func (endless) Take(context.Context, int64) bool { return true }
func (endless) Give(context.Context, int64)      {}

func TestContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		s, err := dirblob.Open(t.TempDir(), endless{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// Bytes take room as they come. Room for bytes that were not stored or are deleted comes back, once.
func TestBytesTakeRoomUntilTheyAreDeleted(t *testing.T) {
	d := &disk{100}
	s, err := dirblob.Open(t.TempDir(), d)
	require.NoError(t, err)
	put := func(key string, r io.Reader) error {
		_, err := s.Put(t.Context(), key, r, 50)
		return err
	}
	require.NoError(t, put("a/b/1", strings.NewReader("twenty bytes in all.")))
	require.NoError(t, put("a/2", strings.NewReader("ten bytes.")))
	require.NoError(t, put("c", strings.NewReader("ten bytes.")))
	assert.Equal(t, int64(60), d.left)
	broken := errors.New("broken")
	require.ErrorIs(t, put("d", io.MultiReader(strings.NewReader("ten bytes."), iotest.ErrReader(broken))), broken)
	require.ErrorIs(t, put("d", strings.NewReader(strings.Repeat("x", 51))), blob.ErrTooLarge)
	assert.Equal(t, int64(60), d.left)
	d.left = 9
	require.ErrorIs(t, put("d", strings.NewReader("ten bytes.")), blob.ErrFull)
	assert.Equal(t, int64(9), d.left)
	require.NoError(t, put("c", strings.NewReader("again")))
	assert.Equal(t, int64(14), d.left, "it replaces ten bytes")
	for range 2 {
		require.NoError(t, s.DeleteAll(t.Context(), "a/"))
		assert.Equal(t, int64(44), d.left)
	}
	for range 2 {
		require.NoError(t, s.Delete(t.Context(), "c"))
		assert.Equal(t, int64(49), d.left)
	}
}
