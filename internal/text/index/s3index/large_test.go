//go:build !race

package s3index_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// The sample has only a part of a large collection. Results are as exact, and counts are about right.
func TestALargeCollectionIsSampled(t *testing.T) {
	const chunks = 6000
	x, _ := open(t, s3index.Options{})
	v := index.Version{Collection: "c", Document: "d", Number: 1}
	for start := 0; start < chunks; start += 1000 {
		var some []index.Chunk
		for i := start; i < start+1000; i++ {
			c := index.Chunk{Index: i, Vector: []float32{1, 0}, Length: 100}
			c.Terms = append(c.Terms, index.Term{Text: "all", Weight: 1})
			if i%10 == 0 {
				c.Terms = append(c.Terms, index.Term{Text: "tenth", Weight: 1})
			}
			if i == 4321 {
				c.Terms = append(c.Terms, index.Term{Text: "once", Weight: 1})
			}
			for n := range 60 { // as much as a chunk has
				c.Terms = append(c.Terms, index.Term{Text: fmt.Sprint(i%97, " ", n), Weight: 1})
			}
			some = append(some, c)
		}
		require.NoError(t, x.Put(t.Context(), v, 2, some))
	}
	q := index.Query{Collections: []string{"c"}, Terms: [][]string{{"all"}, {"tenth"}, {"once"}}, Limit: 20,
		Chunks: chunks}
	r, err := x.Query(t.Context(), q)
	require.NoError(t, err)
	require.NotEmpty(t, r.Candidates)
	assert.Equal(t, 4321, r.Candidates[0].Index, "the only one with the rarest word")
	assert.Len(t, r.Candidates, 20)
	assert.InDelta(t, chunks, r.Statistics.Chunks, chunks/10)
	assert.InDelta(t, 100, r.Statistics.Length, 1)
	assert.InDelta(t, chunks, r.Statistics.Frequencies[0], chunks/10)
	assert.InDelta(t, chunks/10, r.Statistics.Frequencies[1], chunks/25)
	assert.Less(t, r.Statistics.Frequencies[2], 60)

	require.NoError(t, x.Remove(t.Context(), v), "more than a call takes")
	r, err = x.Query(t.Context(), q)
	require.NoError(t, err)
	assert.Empty(t, r.Candidates)
}

// Each of eight documents has a topic of its own and 2,000 chunks, as large as chunks are: the sample has some of each.
func TestSampleIsOfAllDocuments(t *testing.T) {
	const documents, each = 8, 2000
	x, _ := open(t, s3index.Options{})
	fill(t, x, documents*each, func(n int) []string {
		words := []string{fmt.Sprint("topic", n/each)}
		for i := range 60 {
			words = append(words, fmt.Sprint(n%97, " ", i))
		}
		return words
	})
	q := index.Query{Collections: []string{"c"}, Limit: 20, Chunks: documents * each}
	for d := range documents {
		q.Terms = append(q.Terms, []string{fmt.Sprint("topic", d)})
	}
	r, err := x.Query(t.Context(), q)
	require.NoError(t, err)
	for _, n := range r.Statistics.Frequencies {
		assert.InEpsilon(t, each, n, 0.3, "%v", r.Statistics.Frequencies)
	}
}

// Without samples, the first query shows which words are common and which are rare.
func TestWordsOfCollectionsThatAreNotSampled(t *testing.T) {
	const chunks = 6000
	x, _, _ := clocked(t)
	fill(t, x, chunks, func(n int) []string {
		words := []string{"all"}
		if n%1000 == 321 {
			words = append(words, "rare")
		}
		if n%1000 == 777 || n%5 == 0 {
			words = append(words, "fifth")
		}
		if n%1000 == 777 || n%5 == 1 {
			words = append(words, "another")
		}
		return words
	})
	q := index.Query{Terms: [][]string{{"all"}, {"fifth"}, {"another"}, {"rare"}}, Chunks: chunks,
		Collections: []string{"c"}}
	for i := range 20 {
		q.Collections = append(q.Collections, fmt.Sprint("none", i))
	}
	found := map[int]int{}
	for _, c := range ask(t, x, q).Candidates {
		found[c.Index]++
	}
	assert.Equal(t, 6, found[321], "the rare word")
	assert.Equal(t, 6, found[777], "two common ones")
}

// A query has more words than a filter takes, and most of them are in no chunk, or are new to the sample.
func TestEveryWordOfALongQueryGetsItsTurn(t *testing.T) {
	for _, chunks := range []int{1, 2500} {
		t.Run(fmt.Sprint("of ", chunks), func(t *testing.T) {
			x, _ := open(t, s3index.Options{})
			fill(t, x, chunks, func(n int) []string {
				words := []string{"z"}
				if n%500 == 0 {
					words = append(words, "present")
				}
				for i := range 60 * (chunks - 1) / chunks {
					words = append(words, fmt.Sprint(n%97, " ", i))
				}
				return words
			})
			q := index.Query{Collections: []string{"c"}, Terms: [][]string{{"present"}}, Limit: 50, Chunks: chunks}
			for i := range index.MaxTerms - 2 {
				q.Terms = append(q.Terms, []string{fmt.Sprint("absent", i)})
			}
			q.Terms = append(q.Terms, []string{"new"})
			found := func(want int) {
				r, err := x.Query(t.Context(), q)
				require.NoError(t, err)
				assert.Len(t, r.Candidates, want)
			}
			present := (chunks + 499) / 500
			found(present)
			late := index.Chunk{Vector: []float32{1, 0}, Length: 1, Terms: []index.Term{{Text: "new", Weight: 1}}}
			v := index.Version{Collection: "c", Document: "late", Number: 1}
			require.NoError(t, x.Put(t.Context(), v, 2, []index.Chunk{late}))
			found(present + 1)
		})
	}
}

// A search that finds less than it wants asks again until the index has no more: 43 calls in three steps. A page has a
// hundred vectors: of the limit by vector, and of two queries by words, which ask for 400 at least.
func TestDeepSearchIsABoundedNumberOfCalls(t *testing.T) {
	const chunks = 12_000
	x, s := open(t, s3index.Options{})
	fill(t, x, chunks, func(n int) []string { return []string{"a", fmt.Sprint("b", n%3), fmt.Sprint("c", n%40)} })
	q := index.Query{Collections: []string{"c"}, Terms: [][]string{{"a"}, {"b1"}, {"c7"}}, Chunks: chunks}
	q.Vector = []float32{1, 0}
	s.counted()
	for _, step := range []struct {
		limit, calls int
		more         bool
	}{{50, 1 + 2*4, true}, {200, 2 + 2*4, true}, {800, 8 + 2*8, false}, {3200, 8 + 2*8, false}} {
		q.Limit = step.limit
		r, err := x.Query(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, step.more, r.More)
		assert.LessOrEqual(t, s.counted()["QueryVectors"], step.calls, "%+v", step)
		assert.GreaterOrEqual(t, len(r.Candidates), min(step.limit, 800))
	}
}
