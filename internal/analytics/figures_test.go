//go:build !race

package analytics_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/analytics"
	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/catalog"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/rollup"
	"agentplatform/internal/table"
	"agentplatform/internal/table/disktable"
	"agentplatform/internal/table/memtable"
)

var (
	figures = flag.Bool("figures", false, "measure over the embedded store, and print; else the store is in memory")
	many    = flag.Int("entries", 20_000, "entries of a ledger of a year")
	people  = flag.Int("people", 200, "users of the organization")
)

// maxReads bounds what a summary of a year may read of DynamoDB, in units of 4 KB.
const maxReads = 1000

// What a year's ledger costs to roll up and to ask: the reads are bounded, however many entries there are (make
// bench-analytics counts a million). Nothing is said of seconds but on demand.
func TestReadsOfAYearAreBounded(t *testing.T) {
	y := newYear(t)
	y.fill(*many)
	y.say("entries: %d in 365 days, %d users; written in %s", *many, *people, y.took())
	for behind := true; behind; {
		var err error
		behind, err = y.Daily(t.Context(), y.organization)
		require.NoError(t, err)
	}
	took := y.took()
	y.say("rolled up in %s (%s an entry); rollups have %.1f MB (%.0f bytes an entry)", took,
		took/time.Duration(*many), float64(y.table.written)/1e6, float64(y.table.written)/float64(*many))
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
	y.say("| question | p50 | p95 | reads (4 KB) | calls |")
	y.say("|---|---|---|---|---|")
	for _, c := range []struct {
		name string
		most int // reads; 0: not bounded, as what is told apart is of many
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

// measure asks a question several times.
func (y *year) measure(name string, most int, ask func() error) {
	rounds := 1
	if *figures {
		rounds = 40
	}
	var times []time.Duration
	for range rounds {
		y.table.take()
		y.took()
		require.NoError(y, ask(), name)
		times = append(times, y.took())
	}
	units, calls := y.table.take()
	slices.Sort(times)
	y.say("| %s | %s | %s | %d | %d |", name, times[len(times)/2].Round(100*time.Microsecond),
		times[len(times)*95/100].Round(100*time.Microsecond), units, calls)
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
	last         time.Time
	organization string
	scope        record.Scope
	store        *record.Store
	table        *billed
}

func newYear(t *testing.T) *year {
	y := &year{T: t, Host: host.System(), now: time.Date(2026, 11, 24, 15, 10, 0, 0, time.UTC), last: time.Now()}
	y.organization = host.FormatID(y.now.AddDate(-1, 0, -1), 1)
	y.scope = record.Of(y.organization)
	var inner table.Table = memtable.New(y.Now)
	if *figures {
		disk, err := disktable.Open(t.TempDir(), disktable.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, disk.Close()) })
		inner = disk
	}
	y.table = &billed{Table: inner}
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

// took is the time since it was last asked.
func (y *year) took() time.Duration {
	since := time.Since(y.last)
	y.last = time.Now()
	return since
}

func (y *year) say(format string, args ...any) {
	if *figures {
		fmt.Printf(format+"\n", args...)
	}
}

// fill writes a ledger of n runs: on working days more, most of them of some busy users and agents, each with a model.
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
		user, agent := busy(*people), busy(20)
		run := lifecycle.Run{RunSpec: lifecycle.RunSpec{
			RunID: host.FormatID(at, r.Uint64()), Organization: y.organization, User: id("6b", user), Chat: id("6e", i),
			APIKey: id("6d", 2*user+r.IntN(2)), Agent: id("6c", agent), Model: fmt.Sprint("provider/model-", agent%3),
		}, FinishedAt: at, Attempt: 1, QueueMS: r.Int64N(40)}
		tx.PutCharge(run, lifecycle.Charge{
			Status: []lifecycle.Status{lifecycle.Completed, lifecycle.Failed, lifecycle.Cancelled,
				lifecycle.TimedOut}[max(0, r.IntN(50)-46)], Billed: true,
			ActiveMS: int64(300 * math.Exp(r.NormFloat64()*1.2)),
			Usage: lifecycle.Usage{InputTokens: r.Int64N(20_000), OutputTokens: r.Int64N(2000),
				ModelCalls: 1 + r.Int64N(5), ToolCalls: r.Int64N(4)},
		})
		if i%90 == 89 || i == n-1 {
			work <- tx
			tx = y.store.Begin(y.NewID())
		}
	}
	close(work)
	writers.Wait()
}

// billed counts what DynamoDB would bill for consistent reads, and how often it would be called: an answer has at most
// 1 MB.
type billed struct {
	table.Table

	mu           sync.Mutex
	units, calls int
	written      int // bytes of rollups
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

func (b *billed) Commit(ctx context.Context, token string, ops ...table.Op) error {
	b.mu.Lock()
	for _, op := range ops {
		if len(op.Item.Part) > 7 && op.Item.Part[:7] == "rollup/" {
			b.written += op.Item.Size()
		}
	}
	b.mu.Unlock()
	return b.Table.Commit(ctx, token, ops...)
}
