//go:build !race

package analytics_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

var many = flag.Int("entries", 20_000, "entries of a ledger of a year")

// maxReads bounds the reads of DynamoDB by a summary of a year, in units of 4 KB.
const maxReads = 1000

// The reads of a question about a year are bounded, for any number of entries (-entries 1000000 takes minutes).
func TestReadsOfAYearAreBounded(t *testing.T) {
	y := newYear(t)
	y.fill(*many)
	for behind := true; behind; {
		var err error
		behind, err = y.Daily(t.Context(), y.organization)
		require.NoError(t, err)
	}
	y.table.take()

	year := analytics.Question{From: y.now.AddDate(-1, 0, 0).Add(time.Minute), To: y.now,
		Filter: rollup.Filter{Kind: record.OfRun}}
	month := year
	month.From = y.now.AddDate(0, 0, -30)
	summary := func(q analytics.Question) func() error {
		return func() error {
			s, err := y.Summarize(t.Context(), y.scope, q)
			if err == nil && s.Total == 0 {
				err = fmt.Errorf("nothing was found")
			}
			return err
		}
	}
	series := func(q analytics.Question, by rollup.Dimension, i rollup.Interval, zone *time.Location) func() error {
		return func() error {
			_, err := y.Series(t.Context(), y.scope, analytics.SeriesQuestion{
				Question: q, Metric: rollup.InputTokens, Interval: i, GroupBy: by, Zone: zone,
			})
			return err
		}
	}
	of := func(q analytics.Question, change func(*rollup.Filter)) analytics.Question {
		change(&q.Filter)
		return q
	}
	berlin := zone(t, "Europe/Berlin")
	season := year
	season.From = y.now.AddDate(0, 0, -92)
	for _, c := range []struct {
		name string
		most int // reads; 0: not bounded, as many groups are separate
		ask  func() error
	}{
		{"summary, a year", maxReads, summary(year)},
		{"summary, 30 days", maxReads, summary(month)},
		{"summary, a year, one agent", maxReads, summary(of(year, func(f *rollup.Filter) { f.Agent = id("6c", 1) }))},
		{"summary, a year, one user", maxReads, summary(of(year, func(f *rollup.Filter) { f.User = id("6b", 1) }))},
		{"summary, a year, one user and one agent", maxReads,
			summary(of(year, func(f *rollup.Filter) { f.User, f.Agent = id("6b", 0), id("6c", 0) }))},
		{"summary, a year, one agent and one model", maxReads,
			summary(of(year, func(f *rollup.Filter) { f.Agent, f.Model = id("6c", 0), "provider/model-0" }))},
		{"series, a year by day", maxReads, series(year, "", rollup.Day, time.UTC)},
		{"series, a year by day and agent", 0, series(year, rollup.Agent, rollup.Day, time.UTC)},
		{"series, a year by day and model", 0, series(year, rollup.Model, rollup.Day, time.UTC)},
		{"series, 30 days by day and user", maxReads, series(month, rollup.User, rollup.Day, time.UTC)},
		{"series, 30 days by hour", 0, series(month, "", rollup.Hour, time.UTC)},
		{"series, 92 days by day in Berlin", 0, series(season, "", rollup.Day, berlin)},
	} {
		y.measure(c.name, c.most, c.ask)
	}
}

// measure counts the reads of a question.
func (y *year) measure(name string, most int, ask func() error) {
	require.NoError(y, ask(), name)
	units, calls := y.table.take()
	y.Logf("%s: %d units of 4 KB in %d calls", name, units, calls)
	if most > 0 {
		assert.LessOrEqual(y, units, most, name)
	}
}

// year is an organization with a ledger of a year.
type year struct {
	*testing.T
	*analytics.Analytics
	host.Host

	now          time.Time
	organization string
	scope        record.Scope
	store        *record.Store
	table        *billed
}

func newYear(t *testing.T) *year {
	y := &year{T: t, Host: host.System(), now: time.Date(2026, 11, 24, 15, 10, 0, 0, time.UTC)}
	y.organization = host.FormatID(y.now.AddDate(-1, 0, -1), 1)
	y.scope = record.Of(y.organization)
	y.table = &billed{Table: memtable.New(y.Now)}
	y.store = record.New(y.table, &memblob.Store{}, y)
	y.Analytics = &analytics.Analytics{Store: y.store, Host: y}
	tx := y.store.Begin(y.NewID())
	record.PutResource(tx, record.Fresh(catalog.Organization{
		ID: y.organization, Prices: []catalog.Price{{Model: "provider/model-0", Input: 3, Output: 15}},
	}))
	require.NoError(t, tx.Commit(t.Context()))
	return y
}

func (y *year) Now() time.Time { return y.now }

// fill writes a ledger of n runs. There are more on working days. Most are of some busy users and agents, each with a
// model.
func (y *year) fill(n int) {
	r := rand.New(rand.NewPCG(1, 1))
	busy := func(of int) int { return int(float64(of) * math.Pow(r.Float64(), 2)) }
	span := 365 * 24 * time.Hour
	var writers sync.WaitGroup
	work := make(chan *record.Tx)
	for range 16 {
		writers.Go(func() {
			for tx := range work {
				assert.NoError(y, tx.Commit(y.Context()))
			}
		})
	}
	tx := y.store.Begin(y.NewID())
	for i := range n {
		at := y.now.Add(-span + span/time.Duration(n)*time.Duration(i)).Truncate(time.Millisecond)
		user, agent := busy(200), busy(20)
		run := lifecycle.Run{RunSpec: lifecycle.RunSpec{
			RunID: host.FormatID(at, r.Uint64()), Organization: y.organization, User: id("6b", user), Chat: id("6e", i),
			APIKey: id("6d", 2*user+r.IntN(2)), Agent: id("6c", agent), Model: fmt.Sprint("provider/model-", agent%3),
		}, FinishedAt: at, Attempt: 1, QueueMS: r.Int64N(40),
			Status: []lifecycle.Status{lifecycle.Completed, lifecycle.Failed, lifecycle.Cancelled,
				lifecycle.TimedOut}[max(0, r.IntN(50)-46)],
			ActiveMS: int64(300 * math.Exp(r.NormFloat64()*1.2)),
			Usage: lifecycle.Usage{InputTokens: r.Int64N(20_000), OutputTokens: r.Int64N(2000),
				ModelCalls: 1 + r.Int64N(5), ToolCalls: r.Int64N(4)},
		}
		tx.PutCharge(run)
		if i%90 == 89 || i == n-1 {
			work <- tx
			tx = y.store.Begin(y.NewID())
		}
	}
	close(work)
	writers.Wait()
}

// billed counts the consistent reads that DynamoDB would bill, and the calls. A response has at most 1 MB.
type billed struct {
	table.Table

	mu           sync.Mutex
	units, calls int
}

func (b *billed) take() (units, calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	units, calls = b.units, b.calls
	b.units, b.calls = 0, 0
	return units, calls
}

func (b *billed) count(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.units += max(1, (bytes+4095)/4096)
	b.calls += max(1, (bytes+1<<20-1)/(1<<20))
}

func (b *billed) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	items, err := b.Table.Get(ctx, keys...)
	for _, i := range items {
		if i == nil {
			i = &table.Item{}
		}
		b.count(i.Size())
	}
	return items, err
}

func (b *billed) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	items, err := b.Table.Query(ctx, r)
	size := 0
	for _, i := range items {
		size += i.Size()
	}
	b.count(size)
	return items, err
}
