package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob"
	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table/memtable"
)

// A file that was sent before holds were counted may be needed by runs that hold it in no row.
func TestAFileFromBeforeHoldsWereCountedStaysForOthers(t *testing.T) {
	h := host.System()
	blobs := &memblob.Store{}
	s := record.New(memtable.New(h.Now), blobs, h)
	id, run := h.NewID(), h.NewID()
	f := record.File{ID: id, Organization: "o", UserID: "u", Name: "a.txt", Size: 5, Uploaded: true, CreatedAt: h.Now()}
	require.NoError(t, blob.PutBytes(t.Context(), blobs, f.Place(), []byte("hello")))
	_, err := record.Create(t.Context(), s, f, id)
	require.NoError(t, err)
	ops, err := s.Hold(t.Context(), "o", "a", run, "holding", []record.FileRef{f.Ref()})
	require.NoError(t, err)
	require.NoError(t, s.Commit(t.Context(), "holding", ops...))

	ops, err = record.Release(s, t.Context(), run, id, "letting go")
	require.NoError(t, err)
	require.NoError(t, s.Commit(t.Context(), "letting go", ops...))
	_, err = s.File(t.Context(), record.Of("o"), id)
	require.NoError(t, err, "whoever else needs it finds it")

	require.NoError(t, s.RemoveFile(t.Context(), id, func(record.File) bool { return false }))
	_, err = blob.GetBytes(t.Context(), blobs, f.Place())
	require.ErrorIs(t, err, blob.ErrMissing, "and its bytes go with it, where they always were")
}

// A nudge that comes twice does not end the wait for bytes that may still be sent to a file's own address.
func TestAFileThatGoesWaitsUntilNothingCanComeAnyMore(t *testing.T) {
	h := host.System()
	blobs := &memblob.Store{}
	s := record.New(memtable.New(h.Now), blobs, h)
	f := s.NewFile("o", "u", "a.txt", "text/plain")
	f.Size, f.Blob, f.OpenUntil = 5, f.DirectBlob(), h.Now().Add(time.Hour)
	_, err := record.Create(t.Context(), s, f, f.ID)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.RemoveFile(t.Context(), f.ID, func(record.File) bool { return false }))
		_, err = s.File(t.Context(), record.Of("o"), f.ID)
		assert.True(t, problem.Is(err, "not_found"))
		e, err := record.Resource[record.File](t.Context(), s, record.System(), f.ID)
		require.NoError(t, err, "what may come is still some file's")
		assert.Equal(t, f.OpenUntil, e.Value.Due)
	}
}
