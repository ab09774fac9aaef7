package record_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// An agent's versions are listed newest first, also when it was deleted, within its organization.
func TestDeletedAgentKeepsItsVersions(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	a := estateFilled[catalog.Agent]()
	a.Organization = e.organization
	for v := 1; v <= 4; v++ {
		a.Version, a.Spec.Name = v, fmt.Sprint("version ", v)
		e.must("seed", func(tx *record.Tx) { record.PutVersion(tx, a, a.Version) })
	}
	for v := 1; v <= 4; v++ {
		got, err := record.Version[catalog.Agent](ctx, e.Store, e.scope(), a.ID, v)
		require.NoError(t, err)
		a.Version, a.Spec.Name = v, fmt.Sprint("version ", v)
		assert.Equal(t, a, got)
	}
	_, err := record.Version[catalog.Agent](ctx, e.Store, e.scope(), a.ID, 5)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = record.Version[catalog.Agent](ctx, e.Store, record.Of("another"), a.ID, 4)
	assert.True(t, problem.Is(err, "outside_organization"), "%v", err)
	op, err := opOf(e.Store, "again", func(tx *record.Tx) { record.PutVersion(tx, a, a.Version) })
	require.NoError(t, err)
	require.ErrorIs(t, commitOps(ctx, e.Store, "again", op), record.ErrConflict, "a version is written once")

	for limit := 1; limit < 6; limit++ {
		var got []int
		for after, pages := "", 1; pages < 10; pages++ {
			page, err := record.Versions[catalog.Agent](ctx, e.Store, a.ID, after, limit)
			require.NoError(t, err)
			for _, v := range page.Rows {
				got = append(got, v.Version)
			}
			if after = page.Next; after == "" {
				assert.Equal(t, (4+limit-1)/limit, pages, "in pages of %d", limit)
				break
			}
		}
		assert.Equal(t, []int{4, 3, 2, 1}, got, "in pages of %d", limit)
	}

	type reads = func(context.Context, record.Reader, record.Scope, string) (catalog.Agent, error)
	for _, reads := range []reads{record.LastVersion[catalog.Agent], catalog.Standing} {
		last, err := reads(ctx, e.Store, e.scope(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, a, last, "it is gone, and stood so")
		_, err = reads(ctx, e.Store, record.Of("another"), a.ID)
		assert.True(t, problem.Is(err, "outside_organization"), "%v", err)
		_, err = reads(ctx, e.Store, e.scope(), "nothing")
		assert.True(t, problem.Is(err, "not_found"), "%v", err)
	}
	_, err = catalog.Standing(ctx, e.Store, record.Of("another"), e.agent)
	assert.True(t, problem.Is(err, "outside_organization"), "%v", err)
	standing, err := catalog.Standing(ctx, e.Store, e.scope(), e.agent)
	require.NoError(t, err)
	assert.Equal(t, e.agent, standing.ID)
}

// All versions of an agent are deleted, however many there are; those of others stay.
func TestAllVersionsOfAnAgentAreDeleted(t *testing.T) {
	for _, n := range []int{1, table.MaxOps, table.MaxOps + 1} {
		e := newEstate(t)
		before := e.stored()
		for v := range n {
			e.must("seed",
				func(tx *record.Tx) {
					record.PutVersion(tx, catalog.Agent{ID: "a", Organization: "o", Version: v + 1}, v+1)
				})
		}
		require.NoError(t, record.EraseVersions[catalog.Agent](t.Context(), e.Store, "a"))
		assert.Equal(t, before, e.stored(), "%d versions", n)
	}
}

// Items next to a resource keep their names, so items of an earlier program are found.
func TestNamesOfWhatIsStoredBesideAResourceAreKept(t *testing.T) {
	e := newEstate(t)
	kit := catalog.Toolkit{ID: "k", Organization: "o"}
	ops, err := opsOf(e.Store, "m", func(tx *record.Tx) {
		record.PutVersion(tx, catalog.Agent{ID: "a", Organization: "o"}, 7)
		tx.DeleteUse(catalog.APIKey{ID: "k"})
		tx.PutRunToken("h", record.RunToken{Organization: "o", End: e.now.Add(time.Hour)})
		tx.DropBlobs(kit, record.RemoveToolkit)
	})
	require.NoError(t, err)
	var keys []table.Key
	for _, op := range ops {
		keys = append(keys, op.Item.Key)
	}
	assert.Equal(t, []table.Key{
		{Part: "agent/a", Sort: "version/00000007"}, {Part: "api_key/k", Sort: "use"},
		{Part: "run_token/h", Sort: "head"},
		{Part: "job/" + record.DerivedID("toolkit", "k"), Sort: "head"},
	}, keys)
	assert.Contains(t, string(ops[3].Item.Body), `"kind":"remove_toolkit"`)
	blob := e.Begin("n").PutBlob(t.Context(), kit, "tools", []byte("[]"))
	assert.True(t, strings.HasPrefix(blob, "toolkits/k/tools/"), blob)
}
