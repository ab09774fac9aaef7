package record_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

func newStore() (*record.Store, host.Host) {
	h := host.System()
	return record.New(memtable.New(h.Now), &memblob.Store{}, h), h
}

// The period of a budget, its rest, and the begin of the next period.
func TestBudgetIsExhaustedPerPeriod(t *testing.T) {
	runs, tokens := int64(2), int64(10)
	eve := time.Date(2026, 12, 31, 23, 30, 0, 0, time.FixedZone("", -3600)) // already January in UTC
	for period, want := range map[string]struct {
		name string
		ends time.Time
	}{
		"day":   {"user/u/2027-01-01", time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)},
		"month": {"user/u/2027-01", time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)},
	} {
		l := record.Limit{Kind: "user", ID: "u", Budget: record.Budget{Period: period}}
		assert.Equal(t, want.name, l.Name(eve))
		assert.Equal(t, want.ends, l.Ends(eve))
	}
	for _, c := range []struct {
		runs, tokens *int64
		spent        record.Spent
		used         bool
	}{
		{&runs, nil, record.Spent{Runs: 1, Tokens: 99}, false}, {&runs, nil, record.Spent{Runs: 2}, true},
		{&runs, nil, record.Spent{Runs: 3}, true},
		{nil, &tokens, record.Spent{Runs: 99, Tokens: 9}, false}, {nil, &tokens, record.Spent{Tokens: 10}, true},
		{&runs, &tokens, record.Spent{Runs: 1, Tokens: 10}, true},
		{&runs, &tokens, record.Spent{Runs: 1, Tokens: 9}, false},
		{nil, nil, record.Spent{Runs: 99, Tokens: 99}, false},
	} {
		l := record.Limit{Budget: record.Budget{MaxRuns: c.runs, MaxTokens: c.tokens}}
		assert.Equal(t, c.used, l.Exhausted(c.spent) != "", "%+v", c.spent)
	}
}

// The use under several names is read in parallel, a few names at the same time.
func TestSpentOfSeveralNamesIsReadTogether(t *testing.T) {
	const names, atOnce = 40, 16
	h := host.System()
	items := &together{Table: memtable.New(h.Now), all: make(chan struct{}), waits: atOnce}
	s := record.New(items, &memblob.Store{}, h)
	var all []string
	for n := range names {
		all = append(all, fmt.Sprint("user/u/", n))
		for range n {
			before, err := s.Spent(t.Context(), all[n])
			require.NoError(t, err)
			op, err := opOf(s, h.NewID(), func(tx *record.Tx) { tx.CountRun("o", all[n], before) })
			require.NoError(t, err)
			require.NoError(t, commitOps(t.Context(), s, op.Item.WriteID, op))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	items.on.Store(true)
	sums, err := s.SpentOf(ctx, all...)
	require.NoError(t, err)
	require.Len(t, sums, names)
	for n, sum := range sums {
		assert.Equal(t, int64(n), sum.Runs)
	}
	assert.LessOrEqual(t, items.most.Load(), int64(atOnce))
	none, err := s.SpentOf(ctx)
	require.NoError(t, err)
	assert.Empty(t, none)
	cancel()
	_, err = s.SpentOf(ctx, all...)
	require.ErrorIs(t, err, context.Canceled)
}

// together is a table whose first queries wait for one another.
type together struct {
	table.Table

	on        atomic.Bool
	all       chan struct{}
	waits     int64
	come      atomic.Int64
	now, most atomic.Int64
}

func (b *together) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if !b.on.Load() {
		return b.Table.Query(ctx, r)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	now := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	if b.come.Add(1) == b.waits {
		close(b.all)
	}
	select {
	case <-b.all:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return b.Table.Query(ctx, r)
}

// Each run and each token is counted once, in any item; concurrent counts are not lost.
func TestBudgetCountsEachRunAndTokenOnce(t *testing.T) {
	s, h := newStore()
	const name = "user/u/2026-01"
	for n := range 20 {
		before, err := s.Spent(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, int64(n), before.Runs)
		assert.Equal(t, int64(7*n), before.Tokens)
		count := func() table.Op {
			op, err := opOf(s, h.NewID(), func(tx *record.Tx) { tx.CountRun("o", name, before) })
			require.NoError(t, err)
			return op
		}
		one, two := count(), count()
		require.NoError(t, commitOps(t.Context(), s, one.Item.WriteID, one))
		require.ErrorIs(t, commitOps(t.Context(), s, two.Item.WriteID, two), record.ErrConflict,
			"else one too many would be accepted")
		run := lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: h.NewID(), Organization: "o"},
			Usage:   lifecycle.Usage{InputTokens: 3, OutputTokens: 4},
			Counting: lifecycle.Counting{
				Budgets: []lifecycle.Budget{{Name: name, MaxTokens: 9}, {Name: "other/o/day", MaxTokens: 9}},
			},
		}
		spend := func() []table.Op {
			ops, err := opsOf(s, h.NewID(), func(tx *record.Tx) {
				same := run // each notes that it has counted
				tx.CountTokens(t.Context(), &same)
			})
			require.NoError(t, err)
			require.Len(t, ops, 2)
			return ops
		}
		first, second := spend(), spend()
		require.NoError(t, commitOps(t.Context(), s, first[0].Item.WriteID, first...))
		require.ErrorIs(t, commitOps(t.Context(), s, second[0].Item.WriteID, second...), record.ErrConflict,
			"else tokens would be lost")
	}
	for used, want := range map[int64]string{
		0: "", 9: "", 10: "the budget of user u for 2026-01 is used up: 150 of 150 tokens",
		11: "the budget of user u for 2026-01 is used up: 151 of 150 tokens",
	} {
		overspent := s.Overspent([]lifecycle.Budget{{Name: "none/n/day", MaxTokens: 100}, {Name: name, MaxTokens: 150}})
		got, err := overspent(t.Context(), used, used)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// running counts the tokens of a run that goes on in a budget.
func running(t *testing.T, s *record.Store, id, budget string, tokens int64) {
	t.Helper()
	run := lifecycle.Run{
		RunSpec: lifecycle.RunSpec{RunID: id, Organization: "o"}, Status: lifecycle.Running,
		Usage:    lifecycle.Usage{InputTokens: tokens},
		Counting: lifecycle.Counting{Budgets: []lifecycle.Budget{{Name: budget}}},
	}
	ops, err := opsOf(s, "w"+id, func(tx *record.Tx) { tx.CountTokens(t.Context(), &run) })
	require.NoError(t, err)
	require.NoError(t, commitOps(t.Context(), s, "w"+id, ops...))
}

// While a deploy rolls, the earlier version of the program reads its items: the first nine of a name.
func TestAnEarlierVersionReadsItsCounts(t *testing.T) {
	h := host.System()
	items := memtable.New(h.Now)
	s := record.New(items, &memblob.Store{}, h)
	most := int64(1)
	limits := []record.Limit{{Kind: "user", ID: "u", Budget: record.Budget{Period: "month", MaxTokens: &most}}}
	budget := limits[0].Name(h.Now())
	op, err := opOf(s, "run", func(tx *record.Tx) { tx.CountRun("o", budget, record.Spent{}) })
	require.NoError(t, err)
	require.NoError(t, commitOps(t.Context(), s, "run", op))
	for n := range 200 {
		running(t, s, fmt.Sprint("r", n), budget, 1)
		tx := s.Begin(fmt.Sprint("e", n))
		tx.SpendEmbedded(t.Context(), "o", limits, 1)
		require.NoError(t, tx.Commit(t.Context()))
	}
	first, err := items.Query(t.Context(), table.Range{Part: "spent/" + budget, Limit: 9})
	require.NoError(t, err)
	want := []string{"runs"}
	for n := range 8 {
		want = append(want, fmt.Sprint("tokens/", n))
	}
	for n, item := range first {
		assert.Equal(t, want[n], item.Sort)
	}
	spent, err := s.Spent(t.Context(), budget)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 400}, []int64{spent.Runs, spent.Tokens})
}

// queries counts the queries of a table.
type queries struct {
	table.Table

	n int
}

func (q *queries) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	q.n++
	return q.Table.Query(ctx, r)
}

// A run of a thousand calls seldom reads a budget that has much left, however many runs go on. It reads a budget before
// each call when little is left.
func TestARunSeldomReadsABudgetOfWhichMuchIsLeft(t *testing.T) {
	h := host.System()
	items := &queries{Table: memtable.New(h.Now)}
	s := record.New(items, &memblob.Store{}, h)
	const name, open, calls, call, most = "user/u/2026-01", 500, 1000, 5000, 10_000_000_000
	for n := range open {
		running(t, s, fmt.Sprint("r", n), name, 1000)
	}
	budgets := []lifecycle.Budget{{Name: name, MaxTokens: most}, {Name: "day", MaxTokens: most}}
	overspent := s.Overspent(budgets)
	items.n = 0
	for n := range calls {
		got, err := overspent(t.Context(), int64(n*call), 0)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	assert.Equal(t, 2*calls*call/50_000, items.n, "each budget once for 50,000 tokens")

	running(t, s, "another", name, most-open*1000-calls*call)
	items.n = 0
	got, err := overspent(t.Context(), 20_000_000, calls*call)
	require.NoError(t, err)
	assert.Equal(t, "the budget of user u for 2026-01 is used up: 10000000000 of 10000000000 tokens", got)
	assert.Equal(t, 2, items.n, "what seems used up is read twice")

	items.n = 0
	overspent = s.Overspent([]lifecycle.Budget{{Name: "user/v/2026-01", MaxTokens: 200*50_000 - 1}})
	for range calls {
		got, err := overspent(t.Context(), 7, 0)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	assert.Equal(t, calls, items.n, "little is left")
}

// Embeddings count only in the budgets that limit tokens. The ledger lists them among the runs.
func TestEmbeddingsAreCharged(t *testing.T) {
	e := newEstate(t)
	first := e.charge(e.organization, e.now)
	most := int64(9)
	limits := []record.Limit{
		{Kind: "user", ID: "u", Budget: record.Budget{Period: "month", MaxTokens: &most}},
		{Kind: "organization", ID: "o", Budget: record.Budget{Period: "month", MaxRuns: &most}},
	}
	var want []string
	for range 3 {
		tx := e.Begin(e.NewID())
		tx.PutEmbedded(e.organization, record.Entry{Kind: record.OfSearch, UserID: "u", InputTokens: 3})
		tx.SpendEmbedded(t.Context(), e.organization, limits, 3)
		want = append([]string{tx.WriteID() + " search"}, want...)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, tx.Commit(t.Context()), "the same one, again")
	}
	for n, used := range []record.Spent{{Tokens: 9}, {}} {
		spent, err := e.Spent(t.Context(), limits[n].Name(e.now))
		require.NoError(t, err)
		assert.Equal(t, used, spent)
		assert.Equal(t, n == 0, limits[n].TokensExhausted(spent) != "")
	}
	for limit := 1; limit < 6; limit++ {
		var got []string
		for after := ""; ; {
			page, err := ledgerPage(t.Context(), e.Store, e.scope(), after, limit)
			require.NoError(t, err)
			for _, row := range page.Rows {
				got = append(got, row.Value.ID+" "+row.Value.Kind)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		assert.ElementsMatch(t, append(want, first+" run"), got, "pages of %d", limit)
	}
}

// A run is charged once. The ledger lists every entry once, newest run first, with any page size, also over days
// without entries.
func TestLedgerListsEachRunOnce(t *testing.T) {
	h := host.System()
	s := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	today := h.Now().UTC().Truncate(24 * time.Hour)
	organization := host.FormatID(today.AddDate(0, 0, -100), 1)
	var want []string
	for n, ago := range []int{0, 0, 0, 1, 1, 40, 41, 99} {
		id := host.FormatID(today.AddDate(0, 0, -ago).Add(time.Duration(20-n)*time.Second), uint64(n))
		want = append(want, id)
		run := lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: id, Organization: organization, User: "u", Agent: "a", Chat: "c",
				APIKey: "k", Model: "p/m"},
			Attempt: 2, QueueMS: 7,
			FinishedAt: host.TimeOf(id).Add(time.Duration(n) * time.Millisecond),
			Status:     lifecycle.Completed, ActiveMS: 5,
			Usage: lifecycle.Usage{InputTokens: 1, OutputTokens: 2, ModelCalls: 3, ToolCalls: 4},
		}
		for attempt := range 2 {
			op, err := opOf(s, fmt.Sprint("move", attempt), func(tx *record.Tx) {
				tx.PutCharge(run)
			})
			require.NoError(t, err)
			err = commitOps(t.Context(), s, fmt.Sprint("move", attempt), op)
			assert.Equal(t, attempt == 0, err == nil, "a run is billed once: %v", err)
		}
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		pages := 0
		for after := ""; ; pages++ {
			require.Less(t, pages, 100)
			page, err := ledgerPage(t.Context(), s, record.Of(organization), after, limit)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(page.Rows), limit)
			for _, e := range page.Rows {
				got = append(got, e.Value.RunID)
				assert.Equal(t, record.Entry{
					ID: e.Value.RunID, Kind: record.OfRun, RunID: e.Value.RunID, ChatID: "c", AgentID: "a", UserID: "u",
					Status: "completed", Billed: true, InputTokens: 1, OutputTokens: 2, ActiveMS: 5, ModelCalls: 3,
					ToolCalls: 4, FinishedAt: e.Value.At(), APIKeyID: "k", Model: "p/m", Attempts: 2, QueueMS: 7,
					SortKey: e.Value.SortKey,
				}, e.Value)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		assert.Equal(t, want, got, "pages of %d", limit)
	}
	other, err := ledgerPage(t.Context(), s, record.Of(host.FormatID(today, 9)), "", 10)
	require.NoError(t, err)
	assert.Empty(t, other.Rows)
}

// pausedSlot is the slot of a run that paused at some time.
func pausedSlot(run string) string {
	return lifecycle.PausedSlot(time.UnixMilli(1_700_000_000_000), run)
}
