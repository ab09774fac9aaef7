package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// cut is a table that accepts a number of commits, and then refuses all.
type cut struct {
	table.Table

	left int
}

func (c *cut) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if c.left--; c.left < 0 {
		return errors.New("cut off")
	}
	return c.Table.Commit(ctx, token, ops...)
}

func stored(t table.Table) *record.Store { return record.New(t, &memblob.Store{}, host.System()) }

// printed makes a first key, and returns the output.
func printed(t *testing.T, in table.Table, ifNone, again bool) (key string, err error) {
	t.Helper()
	var out bytes.Buffer
	if err := first(t.Context(), &out, stored(in), ifNone, again); err != nil || out.Len() == 0 {
		return "", err
	}
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &made), out.String())
	return made.Key, nil
}

// opens reports whether a key is an operator's.
func opens(t *testing.T, in table.Table, key string) bool {
	t.Helper()
	s := stored(in)
	p, err := tenant.New(s, s.Cached(), host.System(), tenant.Defaults{}, nil).Authenticate(t.Context(), key)
	return err == nil && p.Level == tenant.LevelOperator
}

func TestThereIsOneFirstKey(t *testing.T) {
	in := memtable.New(host.System().Now)
	key, err := printed(t, in, true, false)
	require.NoError(t, err)
	assert.True(t, opens(t, in, key))
	for range 2 {
		key, err = printed(t, in, true, false)
		require.NoError(t, err)
		assert.Empty(t, key, "and nothing else is printed")
	}
	list, err := record.Resources[catalog.Organization](t.Context(), stored(in), record.System(), "", 9)
	require.NoError(t, err)
	assert.Len(t, list.Rows, 1, "nor is another organization made")
	_, err = printed(t, in, false, false)
	require.ErrorContains(t, err, "is there already")
	key, err = printed(t, in, false, true)
	require.NoError(t, err)
	assert.True(t, opens(t, in, key))
}

// A first start may be cut off at any commit. The next one makes a key.
func TestAFirstStartThatWasCutOffIsMadeUpFor(t *testing.T) {
	commits := 0
	for ; commits < 20; commits++ {
		in := memtable.New(host.System().Now)
		_, err := printed(t, &cut{in, commits}, true, false)
		if err == nil {
			break
		}
		require.ErrorContains(t, err, "cut off")
		key, err := printed(t, in, true, false)
		require.NoError(t, err)
		assert.True(t, opens(t, in, key), "cut off after %d commits", commits)
	}
	assert.Greater(t, commits, 3, "there is something to cut off")
	assert.Less(t, commits, 20)
}
