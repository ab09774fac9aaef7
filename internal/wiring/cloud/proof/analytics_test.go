//go:build integration

package proof_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// Analytics of a year of a ledger cost a bounded number of calls of DynamoDB, once the ledger is rolled up. The rollup
// costs a few for each day. TestReadsOfAYearAreBounded of internal/org/analytics counts the units.
func TestAYearOfAnalyticsIsReadInAFewCalls(t *testing.T) {
	meter := newMeter()
	b := open(t, meter.into)
	now := b.Host.Now()
	const runs, each = 2000, 90
	began := now.AddDate(-1, 0, 0)
	organization := host.FormatID(began, 1)
	tx := b.Store.Begin(b.Host.NewID())
	record.PutResource(tx, record.Fresh(catalog.Organization{ID: organization, Name: "a year old"}))
	for n := range runs {
		if n%each == 0 {
			require.NoError(t, tx.Commit(t.Context()))
			tx = b.Store.Begin(b.Host.NewID())
		}
		b.entry(tx, organization, began.Add(now.Sub(began)/runs*time.Duration(n)), n)
	}
	require.NoError(t, tx.Commit(t.Context()))
	meter.take()
	a := &analytics.Analytics{Store: b.Store, Host: b.Host}
	for behind := true; behind; {
		var err error
		behind, err = a.Daily(t.Context(), organization)
		require.NoError(t, err)
	}
	rolled := meter.take()
	t.Logf("rolled up: %+v", rolled)
	assert.LessOrEqual(t, rolled.ReadCalls, 12*366, "the ledger of a day, twice at most, and how far it is rolled up")
	assert.LessOrEqual(t, rolled.Writes, 2*366)

	got, err := a.Summarize(t.Context(), record.Of(organization), analytics.Question{From: began, To: now})
	require.NoError(t, err)
	assert.Equal(t, int64(runs), got.Total)
	year := meter.take()
	t.Logf("a summary of a year: %+v", year)
	assert.LessOrEqual(t, year.ReadCalls, 100)
	assert.Zero(t, year.Writes)
}

// entry adds a run's entry to a ledger.
func (b *bench) entry(tx *record.Tx, organization string, at time.Time, n int) {
	run := lifecycle.Run{RunSpec: lifecycle.RunSpec{
		RunID: host.FormatID(at, uint64(n)), Organization: organization, //nolint:gosec // a small number
		User:  host.FormatID(at, uint64(n%7)), //nolint:gosec // as above
		Agent: b.first.Agent.ID, Chat: "c", Model: "demo/demo",
	}, FinishedAt: at.Truncate(time.Millisecond), Attempt: 1,
		Status: lifecycle.Completed, ActiveMS: int64(n),
		Usage: lifecycle.Usage{InputTokens: 1, OutputTokens: 2, ModelCalls: 1}}
	tx.PutCharge(run)
}
