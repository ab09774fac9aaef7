// Package analytics answers queries about use: totals and series, from rollups of the ledger.
//
// The ledger is the truth. Quarters of an hour that have been over for a while are rolled up, by a query or by the
// daily work of an organization (see [Analytics.Daily]). A while after the end of their day they are rolled up again,
// which counts late entries. Then the day is the sum of its quarters. How far each of the three has come is one item. A
// commit that moves it on contains the rollups of that span, on condition of the item as it was read. So two processes
// that roll up the same do no harm, nor does one that dies between. The rest is read from the ledger itself. Nothing is
// counted while runs go on.
//
// Costs are computed when they are shown, by the present prices: the ledger has the tokens of each model.
//
// It must not know HTTP. It imports rollup, record, catalog, host and problem.
package analytics

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
)

// Analytics is the use case. It is safe for concurrent use.
type Analytics struct {
	Store *record.Store
	Host  host.Host
	Log   *slog.Logger // of parts that could not be stored; nil: none

	rolling sync.Map // by organization: a *sync.Mutex, held while this process rolls up its ledger
}

// Question selects the entries to add up: those of a span of time that pass a filter.
type Question struct {
	From, To time.Time
	Filter   rollup.Filter
}

// Limits of questions.
const (
	MaxRange      = 400 * 24 * time.Hour
	MaxRangeZoned = 92 * 24 * time.Hour // of a series in another time zone than UTC, which is made of quarters
	MaxPoints     = 20_000              // of a series
	MaxGroups     = 1000
)

// check returns a problem of kind Invalid that names the field.
func (q Question) check() error {
	return cmp.Or(
		problem.InvalidIf(!q.To.After(q.From), "query.from", "must be before to"),
		problem.InvalidIf(q.To.Sub(q.From) > MaxRange, "query.from", "must be at most 400 days before to"),
	)
}

// Summary is the sum of a span of time.
type Summary struct {
	Entries       map[rollup.Metric]int64 // by status
	Total         int64
	Input, Output int64 // tokens
	ModelCalls    int64
	ToolCalls     int64
	Active, Queue []int64 // p50 and p95 in milliseconds; nil: nothing was there
	Users, Agents int64   // exact up to 1,024, an estimate within a few percent beyond
	Cost          *Cost   // nil: there are no prices
}

// Cost is a sum of money.
type Cost struct {
	Amount   float64
	Currency string
}

// Summarize adds up a span of time. It returns a problem of kind Invalid that names the field. The kind is Unavailable
// when the organization's ledger is still being rolled up.
func (a *Analytics) Summarize(ctx context.Context, scope record.Scope, q Question) (Summary, error) {
	if err := q.check(); err != nil {
		return Summary{}, err
	}
	prices, err := a.Prices(ctx, scope)
	if err != nil {
		return Summary{}, err
	}
	sum := rollup.New(rollup.Whole)
	view := rollup.Smallest(q.Filter.Dimensions()...)
	err = a.read(ctx, scope, reading{Question: q, view: view, days: true},
		func(_ time.Time, k rollup.Key, r *rollup.Row) error {
			sum.Put(k, *r)
			return nil
		})
	if err != nil {
		return Summary{}, err
	}
	return summary(sum, prices), nil
}

func summary(t *rollup.Table, prices Prices) Summary {
	s := Summary{Entries: map[rollup.Metric]int64{}}
	var all rollup.Row
	t.Each(func(k rollup.Key, r *rollup.Row) {
		all.Add(*r)
		s.Entries[rollup.Metric(k.Status)] += r.Entries
	})
	s.Total, s.ModelCalls, s.ToolCalls = all.Entries, all.ModelCalls, all.ToolCalls
	s.Input, s.Output = all.Used().Input, all.Used().Output
	s.Active, s.Queue = all.Active.Quantiles(0.5, 0.95), all.Queue.Quantiles(0.5, 0.95)
	s.Users, s.Agents = all.Users.Count(), all.Agents.Count()
	if len(prices.Prices) > 0 {
		cost, _ := prices.Cost(all.Tokens)
		s.Cost = &Cost{Amount: cost, Currency: prices.Currency}
	}
	return s
}

// SeriesQuestion selects a series.
type SeriesQuestion struct {
	Question

	Metric   rollup.Metric
	Interval rollup.Interval
	GroupBy  rollup.Dimension // empty: one series
	Zone     *time.Location
}

// Series is a series for each group: the begins of its steps, and a value for each.
type Series struct {
	Steps  []time.Time
	Groups []string // in order
	Values map[string][]float64

	Currency string // of costs; empty for other metrics
}

// Series counts a metric in steps. Each step of the range is there. Its errors are those of [Analytics.Summarize].
func (a *Analytics) Series(ctx context.Context, scope record.Scope, q SeriesQuestion) (Series, error) {
	if err := q.check(); err != nil {
		return Series{}, err
	}
	if q.Zone != time.UTC && q.To.Sub(q.From) > MaxRangeZoned {
		return Series{}, problem.InvalidField("query.timezone", "must be UTC for ranges of more than 92 days")
	}
	steps := q.Interval.Steps(q.From, q.To, q.Zone, MaxPoints)
	if len(steps) > MaxPoints {
		return Series{}, problem.InvalidField("query.interval",
			"would return more than %d points: choose a longer interval or a shorter range", MaxPoints)
	}
	count := rollup.Series{
		Metric: q.Metric, GroupBy: q.GroupBy, Steps: len(steps), Groups: min(MaxGroups, MaxPoints/len(steps)),
		Values: map[string][]float64{},
	}
	currency := ""
	if q.Metric == rollup.Cost {
		prices, err := a.Prices(ctx, scope)
		if err == nil && len(prices.Prices) == 0 {
			err = problem.InvalidField("query.metric", "cost needs prices in the organization's settings")
		}
		if err != nil {
			return Series{}, err
		}
		count.Prices, currency = prices.Prices, prices.Currency
	}
	if q.GroupBy == "" {
		count.Values[""] = make([]float64, len(steps))
	}
	err := a.read(ctx, scope, reading{
		Question: q.Question, view: rollup.Smallest(append(q.Filter.Dimensions(), q.GroupBy)...),
		days: q.Interval == rollup.Day && q.Zone == time.UTC,
	}, func(at time.Time, k rollup.Key, r *rollup.Row) error {
		return count.Add(rollup.StepOf(steps, at), k, r)
	})
	if err == rollup.ErrTooManyGroups { //nolint:errorlint // it is returned as it is
		err = problem.InvalidField("query.group_by",
			"would return more than %d groups of %d points each: use a filter, a "+
				"longer interval or a shorter range", count.Groups, len(steps))
	}
	if err != nil {
		return Series{}, err
	}
	s := Series{
		Steps: steps, Groups: slices.Sorted(maps.Keys(count.Values)), Values: count.Values, Currency: currency,
	}
	for _, values := range s.Values {
		for n, v := range values {
			values[n] = rollup.Rounded(v)
		}
	}
	return s, nil
}

// Prices are an organization's prices, by model.
type Prices struct {
	rollup.Prices

	Currency string
}

// Prices reads an organization's prices; there are none outside of organizations.
func (a *Analytics) Prices(ctx context.Context, scope record.Scope) (Prices, error) {
	p := Prices{Prices: rollup.Prices{}, Currency: catalog.DefaultCurrency}
	if scope.Organization() == record.NoOrganization {
		return p, nil
	}
	o, err := record.Resource[catalog.Organization](ctx, a.Store, scope, scope.Organization())
	if err != nil {
		return p, err
	}
	for _, one := range o.Value.Prices {
		p.Prices[one.Model] = rollup.Price{Input: one.Input, Output: one.Output}
	}
	if o.Value.Currency != "" {
		p.Currency = o.Value.Currency
	}
	return p, nil
}

// CostOf is the cost of an entry; false without a price of any of its models.
func (p Prices) CostOf(e record.Entry) (float64, bool) { return p.Cost(counted(e).Tokens()) }
