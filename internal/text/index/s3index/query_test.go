package s3index_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// A filter has at most 100 constraints. A query may have more documents and words.
func TestManyDocumentsAndWordsAreAsked(t *testing.T) {
	x, _ := open(t, s3index.Options{})
	var names []string
	var words [][]string
	for d := range 120 {
		name, word := fmt.Sprint("d", d), fmt.Sprint("w", d)
		names, words = append(names, name), append(words, variants(word, 12))
		v := index.Version{Collection: "c", Document: name, Number: 1}
		c := index.Chunk{Vector: []float32{1, 0}, Length: 1, Terms: []index.Term{{Text: word, Weight: 1}}}
		require.NoError(t, x.Put(t.Context(), v, 2, []index.Chunk{c}))
	}
	for _, documents := range []int{1, 40, 60, index.MaxDocuments} {
		for name, vector := range map[string][]float32{"keyword": nil, "hybrid": {1, 0}} {
			q := index.Query{Collections: []string{"c"}, Documents: names[:documents], Vector: vector, Limit: 200}
			q.Terms = words[:index.MaxDocuments]
			r, err := x.Query(t.Context(), q)
			require.NoError(t, err)
			assert.Len(t, r.Candidates, documents, "%s: each stands once", name)
			for _, c := range r.Candidates {
				assert.Equal(t, "d"+fmt.Sprint(slices.Index(c.Weights, 1)), c.Document, name)
			}
		}
	}
}

// variants are a word and others that no chunk has; the word is the last.
func variants(word string, n int) (list []string) {
	for i := range n - 1 {
		list = append(list, fmt.Sprint(word, "-", i))
	}
	return append(list, word)
}

// Many chunks have the rarest word, enough for an answer. Other chunks have several of the commoner words, which gives
// a higher score.
func TestSeveralCommonerWordsAreWorthMoreThanARareOne(t *testing.T) {
	x, _ := open(t, s3index.Options{})
	fill(t, x, 3000, func(n int) []string {
		words := []string{"z"}
		if n%10 == 0 { // in 300
			words = append(words, "rare")
		}
		for i, w := range []string{"less", "lesser", "least"} { // in 375 each, 3 of them together
			if n%8 == i+1 || n%1000 == 777 {
				words = append(words, w)
			}
		}
		return words
	})
	r, err := x.Query(t.Context(), index.Query{
		Collections: []string{"c"}, Terms: [][]string{{"rare"}, {"less"}, {"lesser"}, {"least"}}, Limit: 50,
		Chunks: 3000,
	})
	require.NoError(t, err)
	found := 0
	for _, c := range r.Candidates {
		if c.Index == 777 {
			found++
		}
	}
	assert.Equal(t, 3, found)
}

// Another process has dropped the collection and made it again with other dimensions.
func TestDimensionsThatChangedElsewhere(t *testing.T) {
	_, client := serve(t)
	x, other := s3index.New(client, "vectors", s3index.Options{}), s3index.New(client, "vectors", s3index.Options{})
	put(t, x, removed, 0, 3)
	assert.Equal(t, 3, left(t, x))
	require.NoError(t, other.Drop(t.Context(), "c"))
	chunk := index.Chunk{Vector: []float32{1, 0, 0}, Length: 1, Terms: []index.Term{{Text: "w", Weight: 1}}}
	require.NoError(t, other.Put(t.Context(), removed, 3, []index.Chunk{chunk}))
	assert.Equal(t, 1, left(t, x))
}
