package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// A run token is found by the hash of its text until it expires.
func TestRunTokenIsFoundUntilItExpires(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	token := estateFilled[record.RunToken]()
	token.End = e.now.Add(time.Hour)
	e.must("seed", func(tx *record.Tx) { tx.PutRunToken("hash", token) })
	read, err := record.FindRunToken(ctx, e.Store, "hash")
	require.NoError(t, err)
	assert.Equal(t, token, read)
	_, err = record.FindRunToken(ctx, e.Store, "another")
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	e.now = token.End
	_, err = record.FindRunToken(ctx, e.Store, "hash")
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
}
