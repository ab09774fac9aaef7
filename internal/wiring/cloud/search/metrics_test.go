package search_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/search"
)

// An ingestion counts once, at its end. It counts as failed only if neither the document nor a budget is the reason.
func TestIngestionsAreCountedByWhoseFaultTheyAre(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	var out bytes.Buffer
	m := cloud.NewMetrics(&out, "dev", func() time.Time { return now })
	reported := func() (values []map[string]any) {
		for line := range bytes.Lines(out.Bytes()) {
			var v map[string]any
			require.NoError(t, json.Unmarshal(line, &v))
			values = append(values, v)
		}
		out.Reset()
		return values
	}
	requested, err := docstate.Apply(docstate.State{}, now, docstate.Begin{From: docstate.Extracting})
	require.NoError(t, err)
	begun, err := docstate.Apply(requested, now.Add(time.Second), docstate.Claim{
		Lease: docstate.Lease{Claim: "c", Until: now.Add(time.Minute)}, Deadline: time.Hour,
	})
	require.NoError(t, err)
	search.Ingested(m, requested, begun, nil)
	values := reported()
	require.Len(t, values, 1)
	assert.InDelta(t, 1000, values[0][cloud.IngestWait], 0)

	for code, failed := range map[docstate.Code]float64{
		docstate.Unreadable: 0, docstate.OverBudget: 0, docstate.EmbeddingUnavailable: 1, docstate.Internal: 1,
		docstate.PastDeadline: 1,
	} {
		ended, err := docstate.Apply(begun, now, docstate.Fail{Claim: "c", Code: code})
		require.NoError(t, err)
		search.Ingested(m, begun, ended, ended.Failure)
		values := reported()
		require.Len(t, values, 1, code)
		assert.InDelta(t, 1, values[0][cloud.IngestEnded], 0)
		assert.InDelta(t, failed, values[0][cloud.IngestFailed], 0, code)
	}
	search.Ingested(m, begun, begun, nil) // a lease that is renewed
	assert.Empty(t, reported())
}
