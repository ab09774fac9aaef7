package boot

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/text/ranking"
)

// counted returns the values of counters, or the number of observations, by the values of their labels in order.
func counted(t *testing.T, r *prometheus.Registry, name string) map[string]int {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	values := map[string]int{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, "/")] = int(m.GetCounter().GetValue()) +
				int(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// Each status that a run enters counts once. Changes within a status do not count.
func TestEachStatusOfARunIsCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	m := newRunMeter(r)
	in := func(s lifecycle.Status) lifecycle.Run { return lifecycle.Run{Status: s} }
	m.transition(transition.Move{Event: transition.Accepted, After: in(lifecycle.Queued)})
	m.transition(transition.Move{Event: transition.Promoted, After: in(lifecycle.Queued)})
	m.transition(transition.Move{Event: "claim", Before: in(lifecycle.Queued), After: in(lifecycle.Running)})
	m.transition(transition.Move{Event: "step", Before: in(lifecycle.Running), After: in(lifecycle.Running)})
	m.transition(transition.Move{Event: "time_out", Before: in(lifecycle.Running), After: in(lifecycle.TimedOut)})
	assert.Equal(t, map[string]int{"queued": 2, "running": 1, "timed_out": 1},
		counted(t, r, "agentplatform_runs_entered_total"))
	m.delivered(true)
	m.delivered(false)
	assert.Equal(t, map[string]int{"true": 1, "false": 1}, counted(t, r, "agentplatform_webhook_attempts_total"))
}

// Each ingestion counts once when it ends, as what it ended; one that begins in the commit of another's end, too.
func TestEachIngestionIsCountedAtItsEnd(t *testing.T) {
	r := prometheus.NewRegistry()
	m := newKnowledgeMeter(r)
	var s docstate.State
	now := time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC)
	move := func(e docstate.Event) {
		before := s
		var err error
		s, err = docstate.Apply(s, now, e)
		assert.NoError(t, err)
		made := ingest.Move{Before: before, After: s}
		if s.Failure != before.Failure {
			made.Failure = s.Failure
		}
		m.moved(made)
	}
	again := func() { s, _ = docstate.Apply(s, now, docstate.Begin{From: docstate.Extracting}) }
	claim := docstate.Claim{Lease: docstate.Lease{Claim: "c", Until: now.Add(time.Minute)}, Deadline: time.Hour}
	failed := "embedding_unavailable/failed/embedding" // code, outcome, stage

	again()
	move(claim)
	move(docstate.Advance{Claim: "c", To: docstate.Embedding})
	move(docstate.Fail{Claim: "c", Code: docstate.EmbeddingUnavailable})
	assert.Equal(t, map[string]int{failed: 1}, counted(t, r, "agentplatform_ingestions_ended_total"))
	again()
	move(claim)
	before := s
	s, _ = docstate.Apply(s, now, docstate.Finish{Claim: "c"})
	s, _ = docstate.Apply(s, now, docstate.Begin{From: docstate.Indexing, Quiet: true})
	m.moved(ingest.Move{Before: before, After: s})
	assert.Equal(t, map[string]int{failed: 1, "/ready/": 1}, counted(t, r, "agentplatform_ingestions_ended_total"))
	move(claim)
	move(docstate.Finish{Claim: "c"})
	assert.Equal(t, map[string]int{failed: 1, "/ready/": 2}, counted(t, r, "agentplatform_ingestions_ended_total"))
	assert.Equal(t, map[string]int{"": 3}, counted(t, r, "agentplatform_ingestion_wait_seconds"))
}

// Searches count by their outcome. A search that was refused as invalid does not count.
func TestSearchesAreCountedByOutcome(t *testing.T) {
	r := prometheus.NewRegistry()
	m := newKnowledgeMeter(r)
	f := knowledge.Found{Mode: ranking.Hybrid}
	m.searched(f, time.Second, nil)
	m.searched(f, time.Second, errors.New("the index is away"))
	m.searched(f, time.Second, problem.Retry(errors.New("the store is away")))
	m.searched(f, time.Second, problem.InvalidField("body.query", "is wrong"))
	f.Degraded = []catalog.EmbeddingModel{{}}
	m.searched(f, time.Second, nil)
	assert.Equal(t, map[string]int{"hybrid/whole": 1, "hybrid/failed": 2, "hybrid/degraded": 1},
		counted(t, r, "agentplatform_searches_total"))
	assert.Equal(t, map[string]int{"hybrid": 4}, counted(t, r, "agentplatform_search_duration_seconds"))
}
