package search

import (
	"time"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/wiring/cloud"
)

// ours are the reasons of failure outside the document and the budgets.
var ours = map[docstate.Code]bool{
	docstate.Internal: true, docstate.EmbeddingUnavailable: true, docstate.PastDeadline: true,
}

// Ingested counts a change of a document's ingestion. failure is the failure that ended it at this change, or nil.
func Ingested(m *cloud.Metrics, before, after docstate.State, failure *docstate.Failure) {
	if before.Begun.IsZero() && !after.Begun.IsZero() {
		m.Put(cloud.Milliseconds(cloud.IngestWait, after.Begun.Sub(after.RequestedAt)))
	}
	if docstate.Ended(before, after) {
		m.CountAttempt(cloud.IngestEnded, cloud.IngestFailed, failure != nil && ours[failure.Code])
	}
}

func searched(m *cloud.Metrics) func(knowledge.Found, time.Duration, error) {
	return func(f knowledge.Found, took time.Duration, err error) {
		outcome := knowledge.OutcomeOf(f, err)
		if outcome == knowledge.Refused {
			return
		}
		m.Put(cloud.Milliseconds(cloud.SearchTime, took))
		m.CountAttempt(cloud.SearchAttempts, cloud.SearchFailed, outcome == knowledge.Failed)
	}
}

func lost(m *cloud.Metrics) func(terms int) {
	return func(terms int) { m.Put(cloud.Value{Name: cloud.TermsLost, Unit: "Count", Value: float64(terms)}) }
}
