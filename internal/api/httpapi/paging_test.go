package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// numbers is a listing of the numbers below n, newest first. It counts the requested rows in requested.
func numbers(n int, requested *int) func(context.Context, string, int) (record.Page[int], error) {
	return func(_ context.Context, after string, limit int) (page record.Page[int], err error) {
		*requested += limit
		from := n
		if after != "" {
			from, err = strconv.Atoi(after)
		}
		for i := from - 1; i >= 0 && len(page.Rows) < limit; i-- {
			page.Rows, page.Positions = append(page.Rows, i), append(page.Positions, fmt.Sprintf("%04d", i))
		}
		if last := from - limit; last > 0 {
			page.Next = fmt.Sprintf("%04d", last)
		}
		return page, err
	}
}

// The pages of any filter together have all of its rows once and in order, at a bounded cost each.
func TestPagesOfAFilterHaveEachRowOnce(t *testing.T) {
	for _, n := range []int{0, 1, 5, 99, 100, 101, 700, 1300} {
		for _, every := range []int{1, 2, 7, 650, 5000} {
			for _, limit := range []int{1, 3, 100} {
				var got, want []int
				for i := n - 1; i >= 0; i-- {
					if i%every == 0 {
						want = append(want, i)
					}
				}
				cursor := ""
				for pages := 0; ; pages++ {
					require.Less(t, pages, n+2)
					requested := 0
					in := httpapi.Paging{Limit: limit, Cursor: cursor}
					shown, next, err := httpapi.Filter(t.Context(), in, numbers(n, &requested),
						func(i int) (int, bool, error) { return i, i%every == 0, nil })
					require.NoError(t, err)
					assert.LessOrEqual(t, len(shown), limit)
					got = append(got, shown...)
					assert.Less(t, requested, httpapi.Scanned+100)
					if next == nil {
						break
					}
					cursor = *next
				}
				assert.Equal(t, want, got, "%d rows, every %d, %d a page", n, every, limit)
			}
		}
	}
}

// A row for which a page has no room begins the next one.
func TestAFullPageGoesOnWithItsLastRow(t *testing.T) {
	requested := 0
	large := func(i int) (string, bool, error) { return strconv.Itoa(i) + strings.Repeat("x", 400<<10), true, nil }
	var got []string
	for cursor, pages := "", 3; pages > 0; pages-- {
		in := httpapi.Paging{Limit: 10, Cursor: cursor}
		shown, next, err := httpapi.Filter(t.Context(), in, numbers(5, &requested), httpapi.Bounded(large))
		require.NoError(t, err)
		for _, text := range shown {
			got = append(got, text[:1])
		}
		if pages == 1 {
			assert.Nil(t, next)
			break
		}
		require.Len(t, shown, 2)
		require.NotNil(t, next)
		cursor = *next
	}
	assert.Equal(t, []string{"4", "3", "2", "1", "0"}, got)
}

func TestAFiltersErrorsAreThoseOfItsParts(t *testing.T) {
	requested, broken := 0, errors.New("broken")
	show := func(int) (int, bool, error) { return 0, false, broken }
	_, _, err := httpapi.Filter(t.Context(), httpapi.Paging{Limit: 1, Cursor: "x"}, numbers(1, &requested), show)
	assert.ErrorContains(t, err, "cursor")
	_, _, err = httpapi.Filter(t.Context(), httpapi.Paging{Limit: 1}, numbers(1, &requested), show)
	assert.ErrorIs(t, err, broken)
	_, _, err = httpapi.Filter(t.Context(), httpapi.Paging{Limit: 1},
		func(context.Context, string, int) (record.Page[int], error) { return record.Page[int]{}, broken }, show)
	assert.ErrorIs(t, err, broken)
}

// A listing between two moments has all rows that were made between them. Their identifiers may differ a little from
// their times. It ends soon after the last of them.
func TestAListingBetweenTwoMoments(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var all []string
	for minute := range 600 {
		all = append(all, host.FormatID(noon.Add(-time.Duration(minute)*time.Minute), 1))
	}
	for _, c := range []struct {
		from, to time.Time
		least    []string
		most     int
	}{
		{time.Time{}, time.Time{}, all, 600},
		{noon.Add(-time.Hour), noon, all[:61], 82},
		{noon.Add(-3 * time.Hour), noon.Add(-2 * time.Hour), all[120:181], 102},
		{noon.Add(time.Hour), time.Time{}, nil, 0},
		{time.Date(1901, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), all, 600},
	} {
		list := httpapi.Between(c.from, c.to, func(
			_ context.Context, after string, limit int,
		) (page record.Page[string], err error) {
			for _, id := range all {
				if after == "" || id < after {
					page.Rows, page.Positions = append(page.Rows, id), append(page.Positions, id)
				}
				if len(page.Rows) == limit {
					page.Next = id
					break
				}
			}
			return page, nil
		})
		var got []string
		for after := ""; ; {
			page, err := list(t.Context(), after, 7)
			require.NoError(t, err)
			got = append(got, page.Rows...)
			if after = page.Next; after == "" {
				break
			}
		}
		assert.Subset(t, got, c.least)
		assert.LessOrEqual(t, len(got), c.most)
	}
}
