package cachetable_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/cachetable"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/store/table/tabletest"
)

func TestContract(t *testing.T) {
	began := time.Now()
	tabletest.Run(t, tabletest.Harness{New: func(*testing.T) table.Table {
		return cachetable.New(memtable.New(time.Now), cachetable.Life{Found: time.Hour, Missing: time.Hour},
			func() time.Duration { return time.Since(began) })
	}})
}

func TestCachedItemsExpireAndOwnWritesAreSeen(t *testing.T) {
	var now time.Duration
	behind := memtable.New(time.Now)
	cached := cachetable.New(behind, cachetable.Life{Found: 30 * time.Second, Missing: 5 * time.Second},
		func() time.Duration { return now })
	key := table.Key{Part: "p", Sort: "s"}
	put := func(to table.Table, cond table.Condition) error {
		return to.Commit(t.Context(), "t", table.Put(table.Item{Key: key, Owner: "o", Body: []byte(`{}`)}, cond))
	}
	version := func() int64 {
		items, err := cached.Get(t.Context(), key)
		require.NoError(t, err)
		if items[0] == nil {
			return -1
		}
		return items[0].Version
	}
	assert.EqualValues(t, -1, version())
	require.NoError(t, put(behind, table.Absent())) // another process writes
	assert.EqualValues(t, -1, version(), "nothing was there a moment ago")
	now += 5 * time.Second
	assert.EqualValues(t, 1, version())
	require.NoError(t, put(behind, table.VersionIs(1)))
	assert.EqualValues(t, 1, version(), "still known")

	_, refused := errors.AsType[*table.Refused](put(cached, table.VersionIs(1)))
	require.True(t, refused)
	assert.EqualValues(t, 2, version(), "a refusal makes it look again")
	require.NoError(t, put(cached, table.VersionIs(2)))
	assert.EqualValues(t, 3, version(), "its own write is seen at once")
	require.NoError(t, put(behind, table.VersionIs(3)))
	now += 30 * time.Second
	assert.EqualValues(t, 4, version())
}
