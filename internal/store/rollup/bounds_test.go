//go:build !race

package rollup_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/rollup"
)

// Up to 1,024 values are counted exactly, more within 10 %. A value counts once in any number of sets.
func TestSetsCountDifferentValues(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 5000, 200_000} {
		var parts [7]rollup.Row
		for i := range 2 * n {
			user := fmt.Sprintf("%024x", i%n)
			parts[i%7].Add(rollup.RowOf(rollup.Entry{Key: rollup.Key{User: user}}))
		}
		var all rollup.Row
		for _, p := range parts {
			all.Add(p)
		}
		if n <= rollup.Exactly-1 {
			assert.Equal(t, int64(n), all.Users.Count())
		} else {
			assert.InEpsilon(t, n, all.Users.Count(), 0.1)
		}
		assert.LessOrEqual(t, len(all.Users), rollup.Exactly)
	}
}

// For any entries, no page is larger than its limit, and each sum is the right one. The entries have the longest names
// of a store, and the most models, users, agents and different times, in each view.
func TestNoPageIsTooLarge(t *testing.T) {
	const limit, most = 256 << 10, 3000
	name := func(n, length int) string { return fmt.Sprintf("%0*d", length, n) }
	for _, v := range rollup.Views() {
		for _, length := range []int{24, rollup.MaxName, rollup.MaxName + 1, 8192} {
			table := rollup.New(v)
			for n := range most {
				ms := int64(math.Pow(2, 63*float64(n)/most)) // every bin, of which there are fewer
				table.Add(rollup.Entry{
					Key: rollup.Key{
						Kind: "run", Status: name(n%5, length), Model: "p/" + name(n, length-2),
						Agent: fmt.Sprintf("%024x", n), User: fmt.Sprintf("%024x", n), APIKey: name(n, length),
					},
					InputTokens: math.MaxInt64 / most, OutputTokens: math.MaxInt64 / most, ActiveMS: ms, QueueMS: ms,
				})
			}
			for _, page := range table.Pages(limit) {
				require.LessOrEqual(t, len(page), limit, "%s, names of %d bytes", v, length)
			}
			sum := int64(0)
			for k, r := range rows(t, v, table, limit) {
				sum += r.Entries
				assert.LessOrEqual(t, len(k.Model+k.APIKey), 2*rollup.MaxName)
			}
			assert.Equal(t, int64(most), sum)
		}
	}
}
