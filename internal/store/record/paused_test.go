package record_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// queryCounter is a table that counts queries and the items that they find.
type queryCounter struct {
	table.Table

	queries, rows int
}

func (a *queryCounter) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	items, err := a.Table.Query(ctx, r)
	a.queries++
	a.rows += len(items)
	return items, err
}

// A user with few paused runs is admitted by as many queries as one with none. A user with very many costs a query for
// 500 of them, up to the limit.
func TestPausedRunsAreCountedByTheQueriesOfAdmission(t *testing.T) {
	for _, c := range []struct{ limit, paused, queries, used int }{
		{5, 0, 1, 0}, {5, 3, 1, 3}, {5, 499, 1, 499}, {5, 500, 2, 500}, {5, 5000, 2, 1000},
		{1000, 0, 1, 0}, {1000, 3, 1, 3}, {1000, 700, 2, 700}, {1000, 5000, 2, 1000},
	} {
		h := host.System()
		a := &queryCounter{Table: memtable.New(h.Now)}
		s := record.New(a, &memblob.Store{}, h)
		for n := range c.paused {
			id := h.NewID()
			r := lifecycle.Run{RunSpec: lifecycle.RunSpec{RunID: id, Organization: "o", User: "u"}}
			r.Slots.User = lifecycle.PausedSlot(h.Now(), id)
			r.Slots.Organization = r.Slots.User
			require.NoError(t, committed(t.Context(), s, strconv.Itoa(n), func(tx *record.Tx) {
				tx.MoveSlots(lifecycle.Run{}, r)
			}))
		}
		a.queries, a.rows = 0, 0
		d, err := s.Admission(t.Context(), record.UserSlots("o", "u"), c.limit)
		require.NoError(t, err)
		assert.True(t, d.Allows())
		used, err := s.Paused(t.Context(), d, 1000)
		require.NoError(t, err)
		assert.Equal(t, c.used, used, "%+v", c)
		assert.Equal(t, c.queries, a.queries, "%+v", c)
		assert.LessOrEqual(t, a.rows, 1000, "%+v", c)
	}
}
