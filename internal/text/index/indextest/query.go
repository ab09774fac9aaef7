package indextest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
)

// small is an index with three documents in two collections, and a third collection that no query names.
func small(t *testing.T, h Harness) index.Index {
	x := h.Open(t)
	put(t, x, version("a", "d", 1), chunk(0, axis(0), "red", "fox"), chunk(1, axis(1), "red", "den", "hill", "cold"))
	put(t, x, version("a", "e", 1), chunk(0, axis(2), "blue"))
	put(t, x, version("b", "f", 1), chunk(0, axis(3), "fox", "blue", "lake"))
	put(t, x, version("z", "d", 1), chunk(0, axis(0), "red", "fox", "blue"))
	h.settle(t, x)
	return x
}

func runQuery(t *testing.T, h Harness) {
	rows := []struct {
		name string
		q    index.Query
		want []string
	}{
		{"words only", words("fox"), []string{"a/d.1#0", "b/f.1#0"}},
		{"one of several words", words("den", "lake", "none"), []string{"a/d.1#1", "b/f.1#0"}},
		{"a word that nothing has", words("none"), nil},
		{"a word is no prefix", words("re", "redd"), nil},
		{"vector only", index.Query{Collections: []string{"a"}, Vector: axis(0), Limit: 9},
			[]string{"a/d.1#0", "a/d.1#1", "a/e.1#0"}},
		{"both: the union", index.Query{Collections: []string{"b", "a"}, Vector: axis(1), Terms: single("lake"),
			Limit: 1}, []string{"a/d.1#1", "b/f.1#0"}},
		{"both: a chunk that both find stands once", index.Query{Collections: []string{"b"}, Vector: axis(3),
			Terms: single("lake"), Limit: 1}, []string{"b/f.1#0"}},
		{"neither", words(), nil},
		{"no collections", index.Query{Terms: single("red"), Vector: axis(0), Limit: 9}, nil},
		{"missing collections", index.Query{Collections: []string{"x", "a", "y"}, Terms: single("blue"), Limit: 9},
			[]string{"a/e.1#0"}},
		{"a collection that is named twice", index.Query{Collections: []string{"a", "a"}, Terms: single("blue"),
			Vector: axis(2), Limit: 1}, []string{"a/e.1#0"}},
		{"documents", index.Query{Collections: []string{"a", "b"}, Documents: []string{"e", "f", "none"},
			Terms: single("red", "blue"), Vector: axis(0), Limit: 9}, []string{"a/e.1#0", "b/f.1#0"}},
		{"documents, and fewer than there are", index.Query{Collections: []string{"a", "b"}, Documents: []string{"f"},
			Terms: single("red", "fox"), Vector: axis(0), Limit: 1}, []string{"b/f.1#0"}},
		{"documents that are not there", index.Query{Collections: []string{"a"}, Documents: []string{"none"},
			Terms: single("red"), Vector: axis(0), Limit: 9}, nil},
		{"a vector of other dimensions", index.Query{Collections: []string{"a"}, Terms: single("fox"),
			Vector: []float32{1, 0}, Limit: 9}, []string{"a/d.1#0"}},
	}
	x := small(t, h)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { assertFound(t, x, row.q, row.want...) })
	}
	t.Run("statistics are those of the asked collections, whatever the documents", func(t *testing.T) {
		q := words("red", "fox", "none", "blue")
		q.Documents = []string{"e"}
		s := query(t, x, q).Statistics
		assert.Equal(t, index.Statistics{Chunks: 4, Length: 2.5, Frequencies: []int{2, 2, 0, 2}}, s)
		s = query(t, x, index.Query{Terms: single("red"), Limit: 1}).Statistics
		assert.Equal(t, index.Statistics{Frequencies: []int{0}}, s)
	})
	t.Run("the variants of a word are one word, with the highest of their weights", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "d", 1), index.Chunk{Index: 0, Length: 9, Vector: axis(0),
			Terms: []index.Term{{Text: "goods", Weight: 2}, {Text: "good", Weight: 5}}})
		put(t, x, version("a", "e", 1), chunk(0, axis(1), "goods"), chunk(1, axis(2), "waren"),
			chunk(2, axis(3), "good"))
		put(t, x, version("b", "f", 1), chunk(0, axis(1), "waren", "good"), chunk(1, axis(2), "none"))
		h.settle(t, x)
		q := index.Query{Collections: []string{"a", "b"}, Limit: 100,
			Terms: [][]string{{"goods", "good", "gone"}, {"gone"}, {"waren", "good"}}}
		r := query(t, x, q)
		assert.Equal(t, []int{4, 0, 4}, r.Statistics.Frequencies, "a chunk counts once, whatever it has of a word")
		weights := map[string][]int{}
		for i, name := range names(r) {
			weights[name] = r.Candidates[i].Weights
		}
		assert.Equal(t, map[string][]int{
			"a/d.1#0": {5, 0, 5}, "a/e.1#0": {1, 0, 0}, "a/e.1#1": {0, 0, 1},
			"a/e.1#2": {1, 0, 1}, "b/f.1#0": {1, 0, 1},
		}, weights)
		require.NoError(t, x.Remove(t.Context(), version("a", "d", 1)))
		h.settle(t, x)
		assert.Equal(t, []int{3, 0, 3}, query(t, x, q).Statistics.Frequencies)
	})
	t.Run("a context that ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := x.Query(ctx, words("red"))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func runInvalid(t *testing.T, h Harness) {
	nan, long := axis(0), axis(0)
	nan[3], long[1] = float32(math.NaN()), 1
	infinite := axis(0)
	infinite[0] = float32(math.Inf(1))
	bytes := string(make([]byte, 2000))
	good := chunk(0, axis(0), "w")
	v := version("a", "d", 1)
	puts := []struct {
		name   string
		v      index.Version
		chunks []index.Chunk
	}{
		{"a vector that is too short", v, []index.Chunk{good, chunk(1, []float32{1}, "w")}},
		{"a chunk without a vector", v, []index.Chunk{good, chunk(1, nil, "w")}},
		{"a vector with what is no number", v, []index.Chunk{good, chunk(1, nan, "w")}},
		{"an infinite vector", v, []index.Chunk{good, chunk(1, infinite, "w")}},
		{"a vector longer than 1", v, []index.Chunk{good, chunk(1, long, "w")}},
		{"a chunk that stands twice", v, []index.Chunk{good, good}},
		{"a negative number", v, []index.Chunk{good, chunk(-1, axis(0), "w")}},
		{"an empty term", v, []index.Chunk{good, chunk(1, axis(0), "")}},
		{"a term that stands twice", v, []index.Chunk{good, chunk(1, axis(0), "w", "w")}},
		{"a term of 2,000 bytes", v, []index.Chunk{good, chunk(1, axis(0), bytes)}},
		{"a weight of 0", v, []index.Chunk{good, {Index: 1, Vector: axis(0), Terms: []index.Term{{Text: "w"}}}}},
		{"a negative length", v, []index.Chunk{good, {Index: 1, Vector: axis(0), Length: -1}}},
		{"no collection", version("", "d", 1), []index.Chunk{good}},
		{"no document", version("a", "", 1), []index.Chunk{good}},
		{"a name of 2,000 bytes", version("a", bytes, 1), []index.Chunk{good}},
		{"a negative version", version("a", "d", -1), []index.Chunk{good}},
	}
	x := h.Open(t)
	for _, row := range puts {
		t.Run("put "+row.name, func(t *testing.T) {
			require.ErrorIs(t, x.Put(t.Context(), row.v, dimensions, row.chunks), index.ErrInvalid)
			assertFound(t, x, words("w"))
		})
	}
	t.Run("dimensions", func(t *testing.T) {
		require.ErrorIs(t, x.Put(t.Context(), v, 0, nil), index.ErrInvalid)
		require.ErrorIs(t, x.Put(t.Context(), v, index.MaxDimensions+1, nil), index.ErrInvalid)
	})
	queries := map[string]index.Query{
		"no limit":                 {Collections: []string{"a"}, Terms: single("w")},
		"a limit that is too high": {Collections: []string{"a"}, Limit: index.MaxLimit + 1},
		"too many documents":       {Documents: make([]string, index.MaxDocuments+1), Limit: 1},
		"an empty term":            words("w", ""),
		"a word without variants":  {Collections: []string{"a"}, Terms: [][]string{{"w"}, {}}, Limit: 1},
		"a word with too many":     {Terms: [][]string{numbered(index.MaxVariants + 1)}, Limit: 1},
		"a variant that is twice":  {Collections: []string{"a"}, Terms: [][]string{{"w", "w"}}, Limit: 1},
		"what is no number":        {Collections: []string{"a"}, Vector: nan, Limit: 1},
	}
	for name, q := range queries {
		t.Run("query "+name, func(t *testing.T) {
			_, err := x.Query(t.Context(), q)
			require.ErrorIs(t, err, index.ErrInvalid)
		})
	}
}

func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("w", i)
	}
	return list
}
