package rollup_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/store/rollup"
)

func entries() *rapid.Generator[[]rollup.Entry] {
	of := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	id := func(kind byte) *rapid.Generator[string] {
		return rapid.Map(rapid.IntRange(0, 5), func(n int) string {
			if n == 0 {
				return ""
			}
			return fmt.Sprintf("6a%02x%020x", kind, n)
		})
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rollup.Entry {
		small := rapid.Int64Range(0, 1<<40)
		return rollup.Entry{
			Key: rollup.Key{
				Kind:   of("run", "search").Draw(t, "kind"),
				Status: of("completed", "failed", "timed_out", "cancelled").Draw(t, "status"),
				Model:  of("", "p/a", "p/b", "é/\x00").Draw(t, "model"),
				Agent:  id('a').Draw(t, "agent"), User: id('b').Draw(t, "user"), APIKey: id('c').Draw(t, "key"),
			},
			InputTokens: small.Draw(t, "in"), OutputTokens: small.Draw(t, "out"), ActiveMS: small.Draw(t, "active"),
			QueueMS: rapid.Int64Range(0, 5).Draw(t, "queue"), ModelCalls: small.Draw(t, "models"),
			ToolCalls: small.Draw(t, "tools"),
		}
	}), 0, 40)
}

var metrics = []rollup.Metric{rollup.Runs, rollup.Completed, rollup.Failed, rollup.Cancelled, rollup.TimedOut,
	rollup.Errors, rollup.InputTokens, rollup.OutputTokens, rollup.ActiveMS, rollup.QueueMS, rollup.ModelCalls,
	rollup.ToolCalls, rollup.Cost}

// merge adds the rows of another table.
func merge(sum, other *rollup.Table) {
	other.Each(func(k rollup.Key, r *rollup.Row) { sum.Put(k, *r) })
}

// rows are a table's rows, read back from its pages.
func rows(t require.TestingT, v rollup.View, table *rollup.Table, limit int) map[rollup.Key]rollup.Row {
	found := map[rollup.Key]rollup.Row{}
	for _, page := range table.Pages(limit) {
		require.NoError(t, rollup.Read(v, page, func(k rollup.Key, r *rollup.Row) {
			if _, twice := found[k]; twice {
				require.Fail(t, "a row stands twice")
			}
			row := rollup.Row{}
			row.Add(*r)
			found[k] = row
		}))
	}
	return found
}

// Entries may be divided and added up in any order, and partial sums may be stored in between. Each view has the same
// rows, and the same bytes.
func TestTheSumIsTheSameHoweverItIsMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entries().Draw(t, "entries")
		limit := rapid.SampledFrom([]int{1, 100, 1 << 20}).Draw(t, "limit")
		for _, v := range rollup.Views() {
			whole := rollup.New(v)
			for _, e := range all {
				whole.Add(e)
			}
			parts := make([]*rollup.Table, 3)
			for n := range parts {
				parts[n] = rollup.New(rollup.All)
			}
			for _, e := range rapid.Permutation(all).Draw(t, "order") {
				parts[rapid.IntRange(0, 2).Draw(t, "part")].Add(e)
			}
			sum := rollup.New(v)
			for n, part := range parts {
				if n == 0 {
					merge(sum, part)
					continue
				}
				for k, r := range rows(t, rollup.All, part, limit) {
					sum.Put(k, r)
				}
			}
			require.Equal(t, whole.Pages(limit), sum.Pages(limit), "%s", v)
			require.Equal(t, rows(t, v, whole, limit), rows(t, v, sum, 1<<20), "%s", v)
		}
	})
}

// A filter and a grouping of any view with enough dimensions are those of the entries themselves, added up one by one.
func TestViewsAnswerAsTheEntriesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entries().Draw(t, "entries")
		one := rapid.SampledFrom(append(all, rollup.Entry{})).Draw(t, "one")
		f := rollup.Filter{}
		for _, set := range []struct{ to, from *string }{
			{&f.Kind, &one.Kind}, {&f.Model, &one.Model}, {&f.Agent, &one.Agent}, {&f.User, &one.User},
			{&f.APIKey, &one.APIKey},
		} {
			if rapid.IntRange(0, 3).Draw(t, "filtered") == 0 {
				*set.to = *set.from
			}
		}
		by := rapid.SampledFrom([]rollup.Dimension{"", rollup.Agent, rollup.User, rollup.APIKey, rollup.Model,
			rollup.Status}).Draw(t, "by")
		metric := rapid.SampledFrom(metrics).Draw(t, "metric")
		prices := rollup.Prices{"p/a": {Input: 3, Output: 15}, "p/b": {Input: 0.5}}

		want := map[string]float64{}
		users, agents := map[string]bool{}, map[string]bool{}
		for _, e := range all {
			if !f.Passes(e.Key) {
				continue
			}
			users[e.User], agents[e.Agent] = true, true
			want[by.Of(e.Key)] += plainly(metric, e)
		}
		view := rollup.Smallest(append(f.Dimensions(), by)...)
		table := rollup.New(view)
		for _, e := range all {
			table.Add(e)
		}
		got := rollup.Series{Metric: metric, GroupBy: by, Prices: prices, Steps: 1, Groups: 99,
			Values: map[string][]float64{}}
		var sum rollup.Row
		for k, r := range rows(t, view, table, 100) {
			if f.Passes(k) {
				require.NoError(t, got.Add(0, k, &r))
				sum.Add(r)
			}
		}
		require.Len(t, got.Values, len(want), "%s", view)
		for group, value := range want {
			require.InEpsilon(t, 1+value, 1+got.Values[group][0], 1e-9, "%s by %s in %s", metric, by, view)
		}
		delete(users, "")
		delete(agents, "")
		require.Equal(t, []int64{int64(len(users)), int64(len(agents))}, []int64{sum.Users.Count(), sum.Agents.Count()})
	})
}

// plainly is the quantity of an entry, by rules of the test's own.
func plainly(m rollup.Metric, e rollup.Entry) float64 {
	is := func(statuses ...string) float64 {
		if slices.Contains(statuses, e.Status) {
			return 1
		}
		return 0
	}
	switch m {
	case rollup.Runs:
		return 1
	case rollup.Errors:
		return is("failed", "timed_out")
	case rollup.InputTokens:
		return float64(e.InputTokens)
	case rollup.OutputTokens:
		return float64(e.OutputTokens)
	case rollup.ActiveMS:
		return float64(e.ActiveMS)
	case rollup.QueueMS:
		return float64(e.QueueMS)
	case rollup.ModelCalls:
		return float64(e.ModelCalls)
	case rollup.ToolCalls:
		return float64(e.ToolCalls)
	case rollup.Cost:
		switch e.Model {
		case "p/a":
			return 3e-6*float64(e.InputTokens) + 15e-6*float64(e.OutputTokens)
		case "p/b":
			return 0.5e-6 * float64(e.InputTokens)
		default:
			return 0
		}
	default:
		return is(string(m))
	}
}

// A percentile is within 2 % of the one of all times, also after merging.
func TestPercentilesAreWithinTwoPercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1000),
			rapid.Int64Range(0, 1e9)), 1, 300).Draw(t, "times")
		var parts [3]rollup.Row
		for n, ms := range times {
			parts[n%3].Add(rollup.RowOf(rollup.Entry{ActiveMS: ms}))
		}
		sum := parts[0]
		sum.Add(parts[1])
		sum.Add(parts[2])
		slices.Sort(times)
		for _, q := range []float64{0, 0.5, 0.95, 1} {
			want := float64(times[int(q*float64(len(times)-1))])
			got := sum.Active.Quantiles(q)
			require.Len(t, got, 1)
			require.InDelta(t, want, float64(got[0]), want*0.02, "p%.0f of %v", 100*q, times)
		}
	})
	assert.Nil(t, rollup.Bins{}.Quantiles(0.5))
}

// For any entries, a table and its pages are bounded, and the totals are right.
func TestTablesAreBounded(t *testing.T) {
	const extra = 1000
	table := rollup.New(rollup.All)
	for n := range rollup.MaxRows + extra {
		table.Add(rollup.Entry{Key: rollup.Key{
			Kind: "run", Status: []string{"completed", "failed"}[n%2], User: fmt.Sprintf("%024x", n), Model: "p/m",
		}, InputTokens: 1})
	}
	const limit = 64 << 10
	read := rows(t, rollup.All, table, limit)
	assert.Len(t, read, rollup.MaxRows+2, "the rest are a row for each status")
	sum, others := int64(0), int64(0)
	for k, r := range read {
		if sum += r.Entries; k.User == rollup.Other {
			others += r.Entries
		}
	}
	assert.Equal(t, int64(rollup.MaxRows+extra), sum)
	assert.Equal(t, int64(extra), others)
	for _, page := range table.Pages(limit) {
		assert.LessOrEqual(t, len(page), limit)
	}

	models := rollup.New(rollup.Whole)
	for n := range 2 * rollup.MaxModels {
		models.Add(rollup.Entry{Key: rollup.Key{Model: fmt.Sprint("p/", n)}, OutputTokens: 1})
	}
	for _, r := range rows(t, rollup.Whole, models, limit) {
		assert.LessOrEqual(t, len(r.Tokens), rollup.MaxModels+1)
		assert.Equal(t, int64(2*rollup.MaxModels), r.Used().Output)
	}

	full := rollup.New(rollup.Whole) // rows of many models each
	for n := range 3 {
		part := rollup.New(rollup.Whole)
		for m := range rollup.MaxModels - 1 {
			part.Add(rollup.Entry{Key: rollup.Key{Model: fmt.Sprint("p/", n, "/", m)}, OutputTokens: 1})
		}
		merge(full, part)
	}
	for _, r := range rows(t, rollup.Whole, full, limit) {
		assert.LessOrEqual(t, len(r.Tokens), rollup.MaxModels+1)
		assert.Equal(t, int64(3*(rollup.MaxModels-1)), r.Used().Output)
	}
}

// The embeddings of a run's searches are a part of its tokens, with a price of their own.
func TestTokensOfSearchesHaveAPriceOfTheirOwn(t *testing.T) {
	e := rollup.Entry{Key: rollup.Key{Model: "p/chat"}, InputTokens: 1_000_000, OutputTokens: 10_000,
		Embedded: []rollup.Tokens{{Model: "p/e", Input: 900_000}}}
	row := rollup.RowOf(e)
	assert.Equal(t, []int64{1_000_000, 10_000}, []int64{row.Used().Input, row.Used().Output})
	cost, priced := rollup.Prices{"p/chat": {Input: 10, Output: 30}, "p/e": {Input: 0.02}}.Cost(row.Tokens)
	assert.True(t, priced)
	assert.InDelta(t, 1+0.3+0.018, cost, 1e-9)
}

// A row has a bound by itself. The row of this test has the most models of the longest names, bins and members of sets,
// each with the largest of counts.
func TestTheLargestRowFitsAPage(t *testing.T) {
	for _, v := range rollup.Views() {
		row := rollup.Row{Entries: math.MaxInt64, ActiveMS: math.MinInt64, QueueMS: math.MinInt64,
			ModelCalls: math.MinInt64, ToolCalls: math.MinInt64}
		for n := range rollup.MaxModels + 1 {
			row.Tokens = append(row.Tokens, rollup.Tokens{Model: fmt.Sprintf("p/%0*d", rollup.MaxName-2, n),
				Input: math.MinInt64, Output: math.MinInt64})
		}
		for n := range rollup.Exactly {
			row.Users = append(row.Users, uint64(n+1)<<30)
		}
		row.Agents = row.Users
		bins := map[int32]bool{}
		for e := 0.0; e < 63; e += 0.001 {
			bins[rollup.RowOf(rollup.Entry{ActiveMS: int64(math.Pow(2, e))}).Active[0].Index] = true
		}
		for _, index := range slices.Sorted(maps.Keys(bins)) {
			row.Active = append(row.Active, rollup.Bin{Index: index, Count: math.MinInt64})
		}
		row.Queue = row.Active
		table := rollup.New(v)
		long := fmt.Sprintf("%0*d", rollup.MaxName, 1)
		table.Put(rollup.Key{Kind: long, Status: long, Model: long, Agent: long, User: long, APIKey: long}, row)
		pages := table.Pages(1)
		require.Len(t, pages, 1)
		assert.LessOrEqual(t, len(pages[0]), rollup.MaxRow)
		assert.Greater(t, len(pages[0]), rollup.MaxRow/2)
	}
}

// Bytes that are not a page are an error, and nothing worse.
func FuzzRead(f *testing.F) {
	table := rollup.New(rollup.Whole)
	for n := range 5 {
		table.Add(rollup.Entry{Key: rollup.Key{User: fmt.Sprintf("%024x", n), Model: fmt.Sprint("p/", n)}, ActiveMS: 7})
	}
	page := table.Pages(1 << 20)[0]
	f.Add(page)
	f.Add(page[:len(page)-1])
	f.Add(append(slices.Clone(page), 0))
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range rollup.Views() {
			n := 0
			err := rollup.Read(v, data, func(rollup.Key, *rollup.Row) { n++ })
			assert.LessOrEqual(t, n, len(data))
			if err != nil {
				require.ErrorIs(t, err, rollup.ErrPage)
			}
		}
	})
}

func TestAPageIsReadWholeOrNotAtAll(t *testing.T) {
	table := rollup.New(rollup.All)
	for n := range 20 {
		table.Add(rollup.Entry{Key: rollup.Key{User: fmt.Sprintf("%024x", n)}, ActiveMS: math.MaxInt64, QueueMS: -1})
	}
	page := table.Pages(1 << 20)[0]
	for cut := range page {
		err := rollup.Read(rollup.All, page[:cut], func(rollup.Key, *rollup.Row) {})
		require.ErrorIs(t, err, rollup.ErrPage, "%d", cut)
	}
}

func TestTheSmallestViewSeparatesEnough(t *testing.T) {
	for _, c := range []struct {
		dimensions []rollup.Dimension
		want       rollup.View
	}{
		{nil, rollup.Whole}, {[]rollup.Dimension{"", rollup.Status}, rollup.Whole},
		{[]rollup.Dimension{rollup.User, rollup.User, rollup.Status}, rollup.ByUser},
		{[]rollup.Dimension{rollup.APIKey}, rollup.ByAPIKey}, {[]rollup.Dimension{rollup.Model}, rollup.ByModel},
		{[]rollup.Dimension{rollup.Agent, rollup.Model}, rollup.ByAgent},
		{[]rollup.Dimension{rollup.User, rollup.APIKey, rollup.Status}, rollup.ByAPIKey},
		{[]rollup.Dimension{rollup.User, rollup.Model}, rollup.All},
	} {
		assert.Equal(t, c.want, rollup.Smallest(c.dimensions...), "%v", c.dimensions)
	}
}

// The parts of a view have each of its rows once, and a filter names all parts in which it finds any.
func TestEachRowIsInOnePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entries().Draw(t, "entries")
		one := rapid.SampledFrom(append(all, rollup.Entry{})).Draw(t, "one")
		for _, v := range rollup.Views() {
			table, again := rollup.New(v), rollup.New(v)
			for _, e := range all {
				table.Add(e)
			}
			for n, part := range table.Split() {
				merge(again, part)
				for _, f := range []rollup.Filter{
					{}, {Agent: one.Agent}, {User: one.User, Model: one.Model}, {APIKey: one.APIKey},
				} {
					if slices.Contains(v.PartsOf(f), n) {
						continue
					}
					part.Each(func(k rollup.Key, _ *rollup.Row) {
						require.False(t, f.Passes(k), "%s: %+v is in part %d", v, k, n)
					})
				}
			}
			require.Equal(t, table.Pages(1<<20), again.Pages(1<<20))
		}
	})
}

func TestASeriesHasSoManyGroups(t *testing.T) {
	s := rollup.Series{Metric: rollup.Runs, GroupBy: rollup.User, Steps: 2, Groups: 2, Values: map[string][]float64{}}
	row := rollup.Row{Entries: 3}
	require.NoError(t, s.Add(0, rollup.Key{User: "a"}, &row))
	require.NoError(t, s.Add(1, rollup.Key{User: "b"}, &row))
	require.ErrorIs(t, s.Add(1, rollup.Key{User: "c"}, &row), rollup.ErrTooManyGroups)
	require.NoError(t, s.Add(1, rollup.Key{User: "a"}, &row))
	assert.Equal(t, map[string][]float64{"a": {3, 3}, "b": {0, 3}}, maps.Clone(s.Values))
}
