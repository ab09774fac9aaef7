package analytics_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
)

// began is when the organization of the tests was made.
var began = time.Date(2026, 3, 1, 9, 7, 0, 0, time.UTC)

var metrics = []rollup.Metric{rollup.Runs, rollup.Completed, rollup.Failed, rollup.Cancelled, rollup.TimedOut,
	rollup.Errors, rollup.InputTokens, rollup.OutputTokens, rollup.ActiveMS, rollup.QueueMS, rollup.ModelCalls,
	rollup.ToolCalls, rollup.Cost}

// spend writes the ledger entry of a run that was finished at a time.
func (w *world) spend(at time.Time, user, model string) {
	w.Helper()
	n := int64(len(w.entries))
	status := []lifecycle.Status{lifecycle.Completed, lifecycle.Completed, lifecycle.Failed, lifecycle.Cancelled,
		lifecycle.TimedOut}[n%5]
	r := lifecycle.Run{RunSpec: lifecycle.RunSpec{
		RunID: w.NewID(), Organization: w.organization, User: user, APIKey: "6d" + user[2:], Agent: id("6c", int(n%3)),
		Chat: "c", Model: model,
	}, FinishedAt: at, QueueMS: n % 100, Attempt: 1, Status: status, ActiveMS: 10 + n*n%5000,
		Usage: lifecycle.Usage{InputTokens: n % 17, OutputTokens: n % 11, ModelCalls: 1, ToolCalls: n % 2,
			Embedded: lifecycle.Embeddings{}.With(lifecycle.Embedded{Model: "p/e", Tokens: n % 17 / 3})}}
	tx := w.store.Begin(w.NewID())
	tx.PutCharge(r)
	require.NoError(w, tx.Commit(w.Context()))
	w.entries = append(w.entries, record.Entry{
		Kind: record.OfRun, RunID: r.RunID, UserID: user, AgentID: r.Agent, APIKeyID: r.APIKey, Model: model,
		Status: string(status), FinishedAt: at, InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens,
		ActiveMS: r.ActiveMS, QueueMS: r.QueueMS, ModelCalls: 1, ToolCalls: r.Usage.ToolCalls,
		Embedded: r.Usage.Embedded,
	})
}

func id(kind string, n int) string { return fmt.Sprintf("%s%022x", kind, n) }

// total is the sum of the entries of a question.
func (w *world) total(q analytics.Question, metric rollup.Metric) (sum float64) {
	for _, e := range w.entries {
		if !e.FinishedAt.Before(q.From) && e.FinishedAt.Before(q.To) && q.Filter.Passes(analytics.KeyOf(e)) {
			row := rollup.RowOf(rollup.Entry{Key: analytics.KeyOf(e), InputTokens: e.InputTokens,
				OutputTokens: e.OutputTokens, Embedded: []rollup.Tokens{{Model: "p/e", Input: e.Embedded.Tokens()}},
				ActiveMS: e.ActiveMS, QueueMS: e.QueueMS, ModelCalls: e.ModelCalls, ToolCalls: e.ToolCalls})
			sum += metric.Of(analytics.KeyOf(e), &row, prices)
		}
	}
	return sum
}

var prices = rollup.Prices{"p/a": {Input: 1, Output: 2}, "p/e": {Input: 0.25}}

// For any rollups so far, and any failures in between, totals and series are those of the entries. That holds for any
// range, filter, grouping, interval and time zone.
func TestAnswersAreThoseOfTheLedger(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	zones := []*time.Location{time.UTC, zone(t, "Asia/Kathmandu"), zone(t, "America/New_York")}
	for round := range 60 {
		for range r.IntN(40) {
			w.spend(w.now, id("6b", r.IntN(5)), []string{"p/a", "p/b"}[r.IntN(2)])
			w.now = w.now.Add(time.Duration(r.Int64N(int64(20 * time.Minute)))).Truncate(time.Millisecond)
		}
		if r.IntN(4) == 0 { // nothing happens for days
			w.now = w.now.Add(time.Duration(r.IntN(4*24)) * time.Hour)
		}
		w.failAfter = r.IntN(6)
		if r.IntN(3) == 0 {
			_, err := w.Daily(t.Context(), w.organization)
			require.True(t, err == nil || w.failAfter == 0, err)
		}
		q := analytics.Question{From: w.now.Add(-time.Duration(r.Int64N(int64(9 * 24 * time.Hour)))), To: w.now}
		q.From = q.From.Truncate([]time.Duration{time.Millisecond, time.Hour, 24 * time.Hour}[r.IntN(3)])
		if r.IntN(2) == 0 {
			q.To = w.now.Add(time.Hour)
		}
		for _, set := range []struct {
			to    *string
			value string
		}{
			{&q.Filter.User, id("6b", r.IntN(5))}, {&q.Filter.Model, "p/a"}, {&q.Filter.Agent, id("6c", 1)},
			{&q.Filter.APIKey, id("6d", r.IntN(5))}, {&q.Filter.Kind, record.OfRun},
		} {
			if r.IntN(4) == 0 {
				*set.to = set.value
			}
		}
		s, err := w.Summarize(t.Context(), w.scope(), q)
		if err != nil {
			require.True(t, problem.Is(err, "unavailable"), err)
			w.failAfter = -1
			s, err = w.Summarize(t.Context(), w.scope(), q)
		}
		require.NoError(t, err)
		w.failAfter = -1
		for metric, got := range map[rollup.Metric]int64{
			rollup.Runs: s.Total, rollup.Completed: s.Entries[rollup.Completed], rollup.InputTokens: s.Input,
			rollup.OutputTokens: s.Output, rollup.ToolCalls: s.ToolCalls,
		} {
			require.InDelta(t, w.total(q, metric), float64(got), 0, "round %d: %s of %+v", round, metric, q)
		}
		require.InDelta(t, w.total(q, rollup.Cost), s.Cost.Amount, 1e-9)

		of := analytics.SeriesQuestion{
			Question: q, Metric: metrics[r.IntN(len(metrics))], Zone: zones[r.IntN(3)],
			Interval: []rollup.Interval{rollup.Hour, rollup.Day}[r.IntN(2)],
			GroupBy: []rollup.Dimension{"", rollup.User, rollup.Agent, rollup.APIKey, rollup.Model,
				rollup.Status}[r.IntN(6)],
		}
		w.same(of)
	}
	assert.Greater(t, len(w.entries), 500)
	_, err := w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	rolled, err := w.store.Rolled(t.Context(), w.scope())
	require.NoError(t, err)
	assert.WithinDuration(t, w.now, rolled.Value.Days, 25*time.Hour)
	assert.WithinDuration(t, w.now, rolled.Value.Quarters, 30*time.Minute)
}

// same checks that a series is that of the entries, each in its step.
func (w *world) same(q analytics.SeriesQuestion) {
	w.Helper()
	s, err := w.Series(w.Context(), w.scope(), q)
	require.NoError(w, err)
	groups := map[string]bool{}
	if q.GroupBy == "" {
		groups[""] = true
	}
	for _, e := range w.entries {
		if k := analytics.KeyOf(e); !e.FinishedAt.Before(q.From) && e.FinishedAt.Before(q.To) && q.Filter.Passes(k) {
			groups[q.GroupBy.Of(k)] = true
		}
	}
	require.Len(w, s.Groups, len(groups))
	require.True(w, slices.IsSorted(s.Groups))
	for _, group := range s.Groups {
		for n, at := range s.Steps {
			part := q.Question
			part.From = later(q.From, at)
			if n+1 < len(s.Steps) {
				part.To = s.Steps[n+1]
			}
			switch q.GroupBy {
			case rollup.User:
				part.Filter.User = group
			case rollup.Agent:
				part.Filter.Agent = group
			case rollup.APIKey:
				part.Filter.APIKey = group
			case rollup.Model:
				part.Filter.Model = group
			case rollup.Status:
				sum := 0.0
				for _, e := range w.entries {
					if e.Status == group {
						one := &world{entries: []record.Entry{e}}
						sum += one.total(part, q.Metric)
					}
				}
				require.InDelta(w, sum, s.Values[group][n], 1e-8)
				continue
			}
			require.InDelta(w, w.total(part, q.Metric), s.Values[group][n], 1e-8, "%s of %q at %s", q.Metric, group, at)
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// The cost of a question depends on the organization's data, however long before its creation the question begins.
func TestNothingIsReadOfTheTimeBeforeAnOrganization(t *testing.T) {
	w := newWorld(t)
	w.spend(w.now, id("6b", 1), "p/a")
	w.now = w.now.Add(50 * time.Hour)
	q := analytics.SeriesQuestion{
		Question: analytics.Question{From: w.now.AddDate(0, 0, -390), To: w.now},
		Metric:   rollup.InputTokens, Interval: rollup.Hour, Zone: time.UTC,
	}
	_, err := w.Series(t.Context(), w.scope(), q)
	require.NoError(t, err)
	w.queries = nil
	s, err := w.Series(t.Context(), w.scope(), q)
	require.NoError(t, err)
	assert.Len(t, s.Steps, 390*24+1, "they are all answered")
	assert.Less(t, len(w.queries), 10, "days of quarters and of the ledger since the day before")

	q.From, q.To = w.now.AddDate(0, 0, -390), w.now.AddDate(0, 0, -100)
	w.queries = nil
	s, err = w.Series(t.Context(), w.scope(), q)
	require.NoError(t, err)
	assert.NotEmpty(t, s.Steps)
	assert.Empty(t, w.queries, "nothing was there")
}

// A rolled up span is read from its rollups, and not from the ledger, even if the ledger has changed.
func TestWhatIsRolledUpIsNotReadAgain(t *testing.T) {
	w := newWorld(t)
	w.spend(w.now, id("6b", 1), "p/a")
	w.now = w.now.Add(50 * time.Hour)
	behind, err := w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	assert.False(t, behind)
	q := analytics.Question{From: began.Truncate(24 * time.Hour), To: w.now}
	w.queries = nil
	s, err := w.Summarize(t.Context(), w.scope(), q)
	require.NoError(t, err)
	assert.Equal(t, int64(1), s.Total)
	for _, part := range w.queries {
		assert.NotContains(t, part, "ledger/"+w.organization+"/2026-03-01")
		assert.NotContains(t, part, "ledger/"+w.organization+"/2026-03-02")
	}
	assert.Contains(t, w.queries, "rollup/"+w.organization+"/days/whole/00")
	writes := w.commits
	_, err = w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	_, err = w.Summarize(t.Context(), w.scope(), q)
	require.NoError(t, err)
	assert.Equal(t, writes, w.commits, "it is rolled up once")
}

// An entry that comes after its quarter was rolled up counts when its day is rolled up.
func TestLateEntriesAreCountedWithTheirDay(t *testing.T) {
	w := newWorld(t)
	w.spend(w.now, id("6b", 1), "p/a")
	noon := w.now
	w.now = noon.Add(2 * time.Hour)
	q := analytics.Question{From: noon.Add(-time.Hour), To: noon.Add(48 * time.Hour)}
	read := func() int64 {
		s, err := w.Summarize(t.Context(), w.scope(), q)
		require.NoError(t, err)
		return s.Total
	}
	assert.Equal(t, int64(1), read())
	w.spend(noon.Add(time.Second), id("6b", 2), "p/b")
	assert.Equal(t, int64(1), read(), "its quarter has been rolled up")
	w.now = noon.Truncate(24 * time.Hour).Add(25*time.Hour - time.Millisecond)
	_, err := w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	assert.Equal(t, int64(1), read(), "the day may have more")
	w.now = w.now.Add(time.Millisecond)
	_, err = w.Daily(t.Context(), w.organization)
	require.NoError(t, err)
	assert.Equal(t, int64(2), read())
	w.same(analytics.SeriesQuestion{Question: q, Metric: rollup.Runs, Interval: rollup.Hour, Zone: time.UTC})
}

// A quarter that is just over may still get entries: they are read from the ledger.
func TestEntriesOfTheLastMinutesAreNeverLate(t *testing.T) {
	w := newWorld(t)
	w.now = time.Date(2026, 3, 1, 12, 29, 0, 0, time.UTC)
	w.spend(w.now.Add(-15*time.Minute), id("6b", 1), "p/a") // 12:14
	for _, ago := range []time.Duration{14 * time.Minute, time.Minute, 0} {
		s, err := w.Summarize(t.Context(), w.scope(), analytics.Question{From: began, To: w.now.Add(time.Hour)})
		require.NoError(t, err)
		assert.Equal(t, int64(len(w.entries)), s.Total)
		w.spend(w.now.Add(-ago), id("6b", 1), "p/a")
	}
	rolled, err := w.store.Rolled(t.Context(), w.scope())
	require.NoError(t, err)
	assert.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), rolled.Value.Quarters)
	w.now = w.now.Add(time.Minute)
	_, err = w.Summarize(t.Context(), w.scope(), analytics.Question{From: began, To: w.now})
	require.NoError(t, err)
	rolled, err = w.store.Rolled(t.Context(), w.scope())
	require.NoError(t, err)
	assert.Equal(t, time.Date(2026, 3, 1, 12, 15, 0, 0, time.UTC), rolled.Value.Quarters)
}

// A query does a bounded part of the work that was left, returns a problem to try again, and gets on each time.
func TestWhoAsksRollsUpABoundedPart(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.AddDate(0, 0, 750) // more days than one call rolls up
	w.spend(w.now, id("6b", 1), "p/a")
	refused := 0
	for {
		q := analytics.Question{From: w.now.AddDate(0, 0, -2), To: w.now.Add(1)}
		s, err := w.Summarize(t.Context(), w.scope(), q)
		if err == nil {
			assert.Equal(t, int64(1), s.Total)
			break
		}
		require.True(t, problem.Is(err, "unavailable"))
		p, _ := problem.As(err)
		assert.Positive(t, p.RetryAfter)
		refused++
		require.Less(t, refused, 10)
	}
	assert.Positive(t, refused)
}

// Models under names of any length, as earlier versions took them, cause no errors. The longest count as other. The
// longest name that an agent may have today counts by its own name.
func TestLongNamesOfModelsAreAccepted(t *testing.T) {
	w := newWorld(t)
	const models = 250
	at := w.now.Truncate(24 * time.Hour)
	for n := range models {
		w.now = at.Add(time.Duration(n) * time.Minute)
		w.spend(w.now, id("6b", 1), fmt.Sprintf("demo/%02043d", n))
	}
	named := "demo/" + strings.Repeat("x", catalog.MaxModelName-5)
	w.spend(w.now, id("6b", 1), named)
	q := analytics.SeriesQuestion{
		Question: analytics.Question{From: at, To: at.AddDate(0, 0, 1)}, Metric: rollup.Runs, Interval: rollup.Day,
		GroupBy: rollup.Model, Zone: time.UTC,
	}
	for range 4 { // from the ledger, from quarters, from days
		s, err := w.Series(t.Context(), w.scope(), q)
		require.NoError(t, err)
		assert.Equal(t, map[string][]float64{rollup.Other: {models}, named: {1}}, s.Values)
		sum, err := w.Summarize(t.Context(), w.scope(), q.Question)
		require.NoError(t, err)
		assert.Equal(t, int64(models+1), sum.Total)
		w.now = w.now.Add(12 * time.Hour)
		behind, err := w.Daily(t.Context(), w.organization)
		require.NoError(t, err)
		assert.False(t, behind)
	}
	rolled, err := w.store.Rolled(t.Context(), w.scope())
	require.NoError(t, err)
	assert.True(t, rolled.Value.Days.After(at))
}

// Processes that roll up the same at the same time do no harm: 8 of them, over changing data.
func TestManyRollUpConcurrently(t *testing.T) {
	w := newWorld(t)
	for range 300 {
		w.spend(w.now, id("6b", 1), "p/a")
		w.now = w.now.Add(11 * time.Minute)
	}
	q := analytics.Question{From: began, To: w.now}
	answers := make(chan int64, 8)
	for n := range 8 {
		go func() {
			if n%2 == 0 {
				_, err := w.Daily(t.Context(), w.organization)
				assert.NoError(t, err)
			}
			s, err := w.Summarize(t.Context(), w.scope(), q)
			assert.NoError(t, err)
			answers <- s.Total
		}()
	}
	for range 8 {
		assert.Equal(t, int64(300), <-answers)
	}
}

func TestQuestionsAreChecked(t *testing.T) {
	w := newWorld(t)
	ask := func(change func(*analytics.SeriesQuestion)) error {
		q := analytics.SeriesQuestion{
			Question: analytics.Question{From: began, To: began.Add(time.Hour)}, Metric: rollup.Runs,
			Interval: rollup.Day, Zone: time.UTC,
		}
		change(&q)
		_, err := w.Series(t.Context(), w.scope(), q)
		return err
	}
	require.NoError(t, ask(func(*analytics.SeriesQuestion) {}))
	for field, change := range map[string]func(*analytics.SeriesQuestion){
		"query.from": func(q *analytics.SeriesQuestion) { q.To = q.From },
		"query.timezone": func(q *analytics.SeriesQuestion) {
			q.Zone, q.To = zone(t, "Asia/Tokyo"), q.From.AddDate(0, 0, 93)
		},
		"query.metric": func(q *analytics.SeriesQuestion) {
			q.Metric = rollup.Cost
			w.edit(func(o *catalog.Organization) { o.Prices = nil })
		},
	} {
		p, is := problem.As(ask(change))
		require.True(t, is, field)
		assert.Equal(t, problem.Invalid, p.Kind)
		assert.Equal(t, field, p.Fields[0].Location)
	}
	long := analytics.Question{From: began, To: began.Add(analytics.MaxRange + 1)}
	_, err := w.Summarize(t.Context(), w.scope(), long)
	assert.True(t, problem.Is(err, "invalid_request"))
	for n := range analytics.MaxPoints/240 + 1 {
		w.spend(w.now.Add(time.Duration(n)), id("6b", n), "p/a")
	}
	err = ask(func(q *analytics.SeriesQuestion) {
		q.Interval, q.To, q.GroupBy = rollup.Hour, q.From.AddDate(0, 0, 10), rollup.User
	})
	p, is := problem.As(err)
	require.True(t, is, err)
	assert.Equal(t, "query.group_by", p.Fields[0].Location)
}

// The cost of an entry is that of its models. The embeddings of its searches cost by their prices, even if other models
// have none.
func TestAnEntryCostsWhatItsModelsDo(t *testing.T) {
	p := analytics.Prices{Prices: prices}
	searched := record.Entry{Model: "p/a", InputTokens: 3_000_000, OutputTokens: 1_000_000,
		Embedded: record.Embeddings{{Model: "p/e", Tokens: 2_000_000}}}
	cost, priced := p.CostOf(searched)
	assert.Equal(t, []any{1 + 2 + 0.5, true}, []any{cost, priced})
	searched.Model = "p/unknown"
	cost, priced = p.CostOf(searched)
	assert.Equal(t, []any{0.5, true}, []any{cost, priced})
	searched.Embedded = nil
	cost, priced = p.CostOf(searched)
	assert.Equal(t, []any{0.0, false}, []any{cost, priced})
}

// Outside of organizations there is no daily work: queries roll up days, too, once they are over for long.
func TestDaysOfNobodyAreRolledUpByWhoAsks(t *testing.T) {
	w := newWorld(t)
	w.organization = record.NoOrganization
	w.spend(w.now, id("6b", 1), "p/a")
	for range 5 {
		w.now = w.now.AddDate(0, 0, 1)
		s, err := w.Summarize(t.Context(), w.scope(), analytics.Question{From: began, To: w.now})
		require.NoError(t, err)
		assert.Equal(t, int64(1), s.Total)
		assert.Nil(t, s.Cost)
	}
	rolled, err := w.store.Rolled(t.Context(), w.scope())
	require.NoError(t, err)
	assert.WithinDuration(t, w.now, rolled.Value.Days, 80*time.Hour)
}

func TestErrorsOfTheStoreAreReported(t *testing.T) {
	w := newWorld(t)
	w.spend(w.now, id("6b", 1), "p/a")
	w.now = w.now.Add(30 * time.Hour)
	w.broken = errors.New("broken")
	_, err := w.Daily(t.Context(), w.organization)
	require.ErrorIs(t, err, w.broken)
	_, err = w.Summarize(t.Context(), w.scope(), analytics.Question{From: began, To: w.now})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Series(ctx, w.scope(), analytics.SeriesQuestion{
		Question: analytics.Question{From: began, To: w.now}, Interval: rollup.Day, Zone: time.UTC,
	})
	require.Error(t, err)
}
