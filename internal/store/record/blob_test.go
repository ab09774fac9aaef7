package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// A toolkit's blobs are stored under their keys. Each has a job that deletes it after a quarter of an hour, unless the
// commit that names it deletes the job. A reader of a deleted blob has read an old toolkit.
func TestToolkitBlobIsDeletedUnlessNamed(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	var named []table.Op
	put := func(id, what, v string) string {
		tx := e.Begin("m")
		key := tx.PutBlob(ctx, catalog.Toolkit{ID: id, Organization: "o"}, what, []byte(v))
		require.NoError(t, tx.Err())
		named = append(named, tx.Ops()...)
		job, found, err := e.Job(ctx, record.DerivedID("blob", key))
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(
			t,
			record.Job{
				ID:           job.Value.ID,
				Organization: "o",
				Kind:         record.RemoveBlob,
				Subject:      key,
				Due:          e.now.Add(15 * time.Minute),
			},
			job.Value,
		)
		return key
	}
	one, two, other := put("k", "tools", "one"), put("k", "tools", "two"), put("kk", "tools", "other")
	read := func(key string) string {
		b, err := e.Blob(ctx, key)
		if err != nil {
			require.ErrorIs(t, err, record.ErrConflict)
			return "nothing"
		}
		return string(b)
	}
	assert.Equal(t, []string{"one", "two", "other"}, []string{read(one), read(two), read(other)})
	require.NoError(t, commitOps(ctx, e.Store, "m", named[0]))
	_, found, err := e.Job(ctx, record.DerivedID("blob", one))
	require.NoError(t, err)
	assert.False(t, found, "it is named")
	require.ErrorIs(t, commitOps(ctx, e.Store, "n", named[0]), record.ErrConflict, "its job is gone")

	require.NoError(t, committed(ctx, e.Store, "m", func(tx *record.Tx) {
		tx.DropBlob(catalog.Toolkit{ID: "k", Organization: "o"}, one)
	}))
	job, found, err := e.Job(ctx, record.DerivedID("blob", one))
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(
		t,
		record.Job{ID: job.Value.ID, Organization: "o", Kind: record.RemoveBlob, Subject: one, Due: e.now},
		job.Value,
	)

	require.NoError(t, e.EraseBlob(ctx, "o", one))
	assert.Equal(t, []string{"nothing", "two", "other"}, []string{read(one), read(two), read(other)})
	require.NoError(t, record.EraseBlobs[catalog.Toolkit](ctx, e.Store, "o", "k"))
	assert.Equal(t, []string{"nothing", "nothing", "other"}, []string{read(one), read(two), read(other)})

	fails := func(n int, err error) {
		assert.ErrorIs(t, err, errAway, "call %d", n)
		e.failAt, e.failing = 0, ""
	}
	e.calls, e.failAt = 0, 1
	fails(1, e.EraseBlob(ctx, "o", other))
	assert.Equal(t, "other", read(other), "what cannot be removed stays")
	for n := 1; n <= 2; n++ { // the job, the blob
		e.calls, e.failAt = 0, n
		tx := e.Begin("m")
		tx.PutBlob(ctx, e.kit(), "tools", []byte("new"))
		fails(n, tx.Commit(ctx))
	}
	e.calls, e.failAt = 0, 1
	_, err = e.Blob(ctx, other)
	require.NotErrorIs(t, err, record.ErrConflict, "it may be there")
	fails(1, err)
}

// A job that is due immediately deletes the blobs of a toolkit. With its organization they are deleted before the
// toolkit itself.
func TestBlobsOfDeletedToolkitAreDeleted(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	kit := e.kit()
	require.NoError(t, committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.DropBlobs(kit, record.RemoveToolkit) }))
	job, found, err := e.Job(ctx, record.DerivedID("toolkit", e.toolkit))
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, record.Job{
		ID: job.Value.ID, Organization: e.organization, Kind: record.RemoveToolkit, Subject: e.toolkit, Due: e.now,
	}, job.Value)

	require.NoError(t, record.EraseResource(ctx, e.Store, kit, "gone"))
	_, err = record.Resource[catalog.Toolkit](ctx, e.Store, e.scope(), e.toolkit)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.Blob(ctx, e.list)
	require.ErrorIs(t, err, record.ErrConflict)
}

// Bytes that come as a stream, and prefixes for several blobs, are kept once a commit names them, and deleted
// otherwise.
func TestStoredBytesAndPlacesAreDeletedUnlessNamed(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	d := catalog.Document{ID: "d", Organization: "o"}
	whole, err := e.StoreBlob(ctx, d, "source", strings.NewReader("bytes"), 5)
	require.NoError(t, err)
	assert.Equal(t, int64(5), whole.Size)
	_, err = e.StoreBlob(ctx, d, "source", strings.NewReader("bytes"), 4)
	require.ErrorIs(t, err, blob.ErrTooLarge)
	prefix, err := e.NewPrefix(ctx, d, "chunks")
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(prefix.Key, "/"))
	for n, text := range []string{"zero", "one"} {
		require.NoError(t, e.PutPiece(ctx, e.organization, prefix.Key, n, []byte(text)))
	}
	read := func(n int) string {
		b, err := e.Piece(ctx, prefix.Key, n)
		if err != nil {
			require.ErrorIs(t, err, record.ErrConflict)
			return "nothing"
		}
		return string(b)
	}
	assert.Equal(t, []string{"zero", "one", "nothing"}, []string{read(0), read(1), read(2)})
	for _, b := range []record.Stored{whole, prefix} {
		job, found, err := e.Job(ctx, record.DerivedID("blob", b.Key))
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, []any{record.RemoveBlob, b.Key}, []any{job.Value.Kind, job.Value.Subject})
		require.NoError(t, committed(ctx, e.Store, e.NewID(), func(tx *record.Tx) { tx.NameBlob(b) }))
		_, found, err = e.Job(ctx, record.DerivedID("blob", b.Key))
		require.NoError(t, err)
		assert.False(t, found)
		require.ErrorIs(t, committed(ctx, e.Store, e.NewID(), func(tx *record.Tx) { tx.NameBlob(b) }),
			record.ErrConflict, "its job is gone")
	}
	require.NoError(t, e.EraseBlob(ctx, "o", prefix.Key))
	assert.Equal(t, []string{"nothing", "nothing"}, []string{read(0), read(1)})
	b, err := e.Blob(ctx, whole.Key)
	require.NoError(t, err)
	assert.Equal(t, "bytes", string(b))
}

// The room of deleted blobs returns to their owner, also if an operator of another organization deletes them.
func TestDeletedBlobsAreTheirOwners(t *testing.T) {
	e := newEstate(t)
	ctx := share.With(t.Context(), share.Holder{Organization: "operators"})
	kit := catalog.Toolkit{ID: "k", Organization: "o"}
	for name, erase := range map[string]func() error{
		"what was refused": func() error {
			stored, err := e.StoreBlob(ctx, kit, "tools", strings.NewReader("list"), 10)
			require.NoError(t, err)
			return e.Discard(ctx, stored)
		},
		"a value":           func() error { return e.EraseBlob(ctx, "o", "toolkits/k/tools/1") },
		"a place":           func() error { return e.EraseBlob(ctx, "o", "toolkits/k/tools/") },
		"a resource's":      func() error { return record.EraseBlobs[catalog.Toolkit](ctx, e.Store, "o", "k") },
		"with a resource":   func() error { return record.EraseResource(ctx, e.Store, kit, "m") },
		"of a run":          func() error { return e.DropBodies(ctx, "o", e.run) },
		"of its deliveries": func() error { return e.EraseDeliveries(ctx, "o", e.run) },
	} {
		e.freed = nil
		require.NoError(t, erase(), name)
		require.NotEmpty(t, e.freed, name)
		for _, owner := range e.freed {
			assert.Equal(t, "o", owner, name)
		}
	}
}
