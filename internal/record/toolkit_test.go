package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// A toolkit's values are kept where it says, until they are dropped; who reads one that is gone has read an old
// toolkit.
func TestTheValuesOfAToolkit(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	put := func(id, what, v string) string {
		key, err := e.PutToolkitBlob(ctx, id, what, []byte(v))
		require.NoError(t, err)
		return key
	}
	one, two, other := put("k", "tools", "one"), put("k", "tools", "two"), put("kk", "tools", "other")
	read := func(key string) string {
		b, err := e.ToolkitBlob(ctx, key)
		if err != nil {
			require.ErrorIs(t, err, record.ErrStale)
			return "nothing"
		}
		return string(b)
	}
	assert.Equal(t, []string{"one", "two", "other"}, []string{read(one), read(two), read(other)})
	e.DropToolkitBlob(ctx, one)
	assert.Equal(t, []string{"nothing", "two", "other"}, []string{read(one), read(two), read(other)})
	require.NoError(t, e.DropToolkit(ctx, "k"))
	assert.Equal(t, []string{"nothing", "nothing", "other"}, []string{read(one), read(two), read(other)})

	e.calls = 0
	e.DropToolkitBlob(ctx, "")
	assert.Zero(t, e.calls, "no value")
	e.failAt = 1
	e.DropToolkitBlob(ctx, other)
	e.failing = ""
	assert.Equal(t, "other", read(other), "what cannot be removed stays")
	e.calls = 0
	_, err := e.ToolkitBlob(ctx, other)
	require.ErrorIs(t, err, errAway)
	require.NotErrorIs(t, err, record.ErrStale, "it may be there")
}

// What a toolkit kept goes by a job that is due at once; with its organization it goes itself, and what it kept before
// it.
func TestWhatAToolkitKeptGoes(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	kit := record.Toolkit{ID: e.toolkit, Organization: e.organization}
	ops, err := e.BeginToolkitRemoval(kit, "m")
	require.NoError(t, e.committed(ctx, "m", ops, err))
	job, found, err := e.Job(ctx, record.DerivedID("toolkit", e.toolkit))
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, record.Job{
		ID: job.Value.ID, Organization: e.organization, Kind: record.RemoveToolkit, Subject: e.toolkit, Due: e.now,
	}, job.Value)

	require.NoError(t, e.EraseToolkit(ctx, kit, "gone"))
	_, err = record.Resource[record.Toolkit](ctx, e.Store, e.scope(), e.toolkit)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.ToolkitBlob(ctx, e.list)
	require.ErrorIs(t, err, record.ErrStale)
	assert.NotEqual(t, record.BuiltinToolkit("o"), record.BuiltinToolkit("p"))
	assert.Len(t, record.BuiltinToolkit("o"), 24)
}
