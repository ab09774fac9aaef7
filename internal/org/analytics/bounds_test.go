//go:build !race

package analytics_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/store/record"
)

// A day of more entries than one query rolls up is rolled up by several queries, in parts. No query reads it for
// nothing.
func TestADayOfVeryManyIsRolledUpInParts(t *testing.T) {
	w := newWorld(t)
	w.organization = record.NoOrganization
	const runs = 120_000
	tx, at := w.store.Begin(w.NewID()), w.now.Truncate(day)
	for i := range runs {
		tx.PutCharge(lifecycle.Run{RunSpec: lifecycle.RunSpec{RunID: w.NewID(), Organization: w.organization},
			FinishedAt: at.Add(day / runs * time.Duration(i)).Truncate(time.Millisecond)})
		if i%90 == 89 || i == runs-1 {
			require.NoError(t, tx.Commit(t.Context()))
			tx = w.store.Begin(w.NewID())
		}
	}
	w.now = at.Add(4 * day)
	requests := 0
	for ; w.rolled().Days.Before(at.Add(day)); requests++ {
		require.Less(t, requests, 5)
		_, _ = w.Summarize(t.Context(), w.scope(), analytics.Question{From: at, To: w.now})
	}
	assert.Greater(t, requests, 1)
	w.queries = nil
	assert.Equal(t, int64(runs), w.sum(at, at.Add(day)))
	for _, part := range w.queries {
		assert.NotContains(t, part, "ledger/-/"+at.Format(time.DateOnly))
	}
}
