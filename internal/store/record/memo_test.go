package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// What is remembered is bounded by items and by bytes, and what is large is decoded each time.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	known := e.Known()
	see := func(n, length int) {
		id := fmt.Sprintf("%024x", n)
		e.must("m", func(tx *record.Tx) {
			record.PutResource(tx, record.Fresh(catalog.Agent{ID: id, Organization: "o",
				Spec: catalog.AgentSpec{Instructions: strings.Repeat("x", length)}}))
		})
		for range 2 {
			a, err := record.Resource[catalog.Agent](ctx, known, record.Of("o"), id)
			require.NoError(t, err)
			require.Len(t, a.Value.Spec.Instructions, length)
		}
	}
	see(1, record.MemoBody)
	items, bytes := known.Remembers()
	assert.Equal(t, []int{0, 0}, []int{items, bytes}, "it is too large")
	for n := range 200 {
		see(100+n, record.MemoBytes/100)
	}
	items, bytes = known.Remembers()
	assert.LessOrEqual(t, bytes, record.MemoBytes)
	assert.Greater(t, bytes, record.MemoBytes*9/10)
	assert.Less(t, items, 100)
}

// A value that a reader of the store changes is its own; of one that a reader of what is known changes, tests are told.
func TestAChangeInPlaceOfWhatIsSharedIsFound(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	e.must("m", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.Agent{ID: "a", Organization: "o",
			Spec: catalog.AgentSpec{Metadata: map[string]string{"k": "v"}}}))
	})
	read := func(r record.Reader) map[string]string {
		a, err := record.Resource[catalog.Agent](ctx, r, record.Of("o"), "a")
		require.NoError(t, err)
		return a.Value.Spec.Metadata
	}
	shared := read(e.Known())
	read(e.Store)["k"] = "mine"
	assert.Empty(t, e.Known().Spoiled())
	assert.Equal(t, "v", read(e.Known())["k"])
	shared["k"] = "all's"
	assert.Equal(t, []table.Key{{Part: "agent/a", Sort: "head"}}, e.Known().Spoiled())
	assert.Equal(t, "v", read(e.Store)["k"])
}
