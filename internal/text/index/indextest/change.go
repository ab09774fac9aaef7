package indextest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
)

func runPut(t *testing.T, h Harness) {
	t.Run("a chunk is found by words and by vector as it was put", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "d", 3), index.Chunk{Index: 7, Length: 42, Vector: between(0, 0.8),
			Terms: []index.Term{{Text: "red", Weight: 3}, {Text: "fox", Weight: 1}, {Text: "den", Weight: 9}}})
		q := words("fox", "cat", "red")
		q.Vector = axis(0)
		c := only(t, query(t, x, q))
		assert.Equal(t, version("a", "d", 3), c.Version)
		assert.Equal(t, 7, c.Index)
		assert.Equal(t, 42, c.Length)
		assert.Equal(t, []int{1, 0, 3}, c.Weights)
		assert.InDelta(t, 0.8, c.Cosine, tolerance)
	})
	t.Run("putting again replaces a chunk", func(t *testing.T) {
		x := h.Open(t)
		v := version("a", "d", 1)
		put(t, x, v, chunk(0, axis(0), "old", "both"), chunk(1, axis(1), "other"))
		put(t, x, v, chunk(0, axis(2), "new", "both", "more"))
		assertFound(t, x, words("old"))
		assertFound(t, x, words("new", "other"), "a/d.1#0", "a/d.1#1")
		q := words("both")
		q.Vector, q.Documents = axis(2), []string{"d"}
		r := query(t, x, q)
		require.ElementsMatch(t, []string{"a/d.1#0", "a/d.1#1"}, names(r))
		for _, c := range r.Candidates {
			if c.Index == 0 {
				assert.Equal(t, 3, c.Length)
				assert.InDelta(t, 1, c.Cosine, tolerance)
			}
		}
		h.settle(t, x)
		assert.Equal(t, 2, query(t, x, q).Statistics.Chunks)
	})
	t.Run("putting the same again changes nothing", func(t *testing.T) {
		x := h.Open(t)
		for range 3 {
			put(t, x, version("a", "d", 1), chunk(0, axis(0), "w"), chunk(1, axis(0), "w"))
		}
		assertFound(t, x, words("w"), "a/d.1#0", "a/d.1#1")
		h.settle(t, x)
		s := query(t, x, words("w")).Statistics
		assert.Equal(t, index.Statistics{Chunks: 2, Length: 1, Frequencies: []int{2}}, s)
	})
	t.Run("a version may be put in several parts, and beside another", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "d", 1), chunk(0, axis(0), "w"))
		put(t, x, version("a", "d", 2), chunk(0, axis(0), "w"))
		put(t, x, version("a", "d", 1), chunk(1, axis(0), "w"))
		assertFound(t, x, words("w"), "a/d.1#0", "a/d.1#1", "a/d.2#0")
	})
	t.Run("putting nothing is no error", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "d", 1))
		assertFound(t, x, words("w"))
	})
	t.Run("names and terms may have any bytes", func(t *testing.T) {
		x := h.Open(t)
		odd := []string{"two words", "a\x00b", "\xff\xfe", "a/b", "é", "É", " ", "\n", "a\x00", "*", "a:b"}
		for _, s := range odd {
			put(t, x, version("a"+s, "d"+s, 1), chunk(0, axis(0), s))
		}
		for _, s := range odd {
			q := index.Query{Terms: single(s), Limit: 10}
			for _, c := range odd {
				q.Collections = append(q.Collections, "a"+c)
			}
			c := only(t, query(t, x, q))
			assert.Equal(t, version("a"+s, "d"+s, 1), c.Version)
			q.Documents = []string{"d"}
			assertFound(t, x, q)
		}
	})
	t.Run("a chunk may have no terms, or the vector that has no direction", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "d", 1), chunk(0, axis(1)), chunk(1, make([]float32, dimensions), "w"))
		q := words("w")
		q.Vector = axis(1)
		assertFound(t, x, q, "a/d.1#0", "a/d.1#1")
	})
}

func runRemove(t *testing.T, h Harness) {
	three := func(t *testing.T) index.Index {
		x := h.Open(t)
		put(t, x, version("a", "d", 1), chunk(0, axis(0), "w"), chunk(1, axis(1), "w"))
		put(t, x, version("a", "d", 2), chunk(0, axis(0), "w"))
		put(t, x, version("b", "d", 1), chunk(0, axis(0), "w"))
		return x
	}
	both := words("w")
	both.Vector = axis(0)
	t.Run("a removed version is not found, others are", func(t *testing.T) {
		x := three(t)
		require.NoError(t, x.Remove(t.Context(), version("a", "d", 1)))
		assertFound(t, x, both, "a/d.2#0", "b/d.1#0")
		require.NoError(t, x.Remove(t.Context(), version("a", "d", 1)), "removing again is no error")
		h.settle(t, x)
		s := query(t, x, both).Statistics
		assert.Equal(t, index.Statistics{Chunks: 2, Length: 1, Frequencies: []int{2}}, s)
	})
	t.Run("a removed version may be put again", func(t *testing.T) {
		x := three(t)
		require.NoError(t, x.Remove(t.Context(), version("a", "d", 1)))
		put(t, x, version("a", "d", 1), chunk(5, axis(0), "w"))
		assertFound(t, x, both, "a/d.1#5", "a/d.2#0", "b/d.1#0")
	})
	t.Run("a dropped collection is empty, others are not", func(t *testing.T) {
		x := three(t)
		require.NoError(t, x.Drop(t.Context(), "a"))
		assertFound(t, x, both, "b/d.1#0")
		require.NoError(t, x.Drop(t.Context(), "a"), "dropping again is no error")
		put(t, x, version("a", "e", 1), chunk(0, axis(0), "w"))
		assertFound(t, x, both, "a/e.1#0", "b/d.1#0")
	})
	t.Run("a dropped collection may come again with other dimensions", func(t *testing.T) {
		x := three(t)
		require.NoError(t, x.Drop(t.Context(), "a"))
		c := chunk(0, []float32{1, 0}, "w")
		require.NoError(t, x.Put(t.Context(), version("a", "e", 1), 2, []index.Chunk{c}))
		assertFound(t, x, index.Query{Collections: []string{"a", "b"}, Vector: []float32{1, 0}, Limit: 9}, "a/e.1#0")
	})
	t.Run("removing and dropping what is not there is no error", func(t *testing.T) {
		x := three(t)
		for _, v := range []index.Version{version("none", "d", 1), version("a", "none", 1), version("a", "d", 9)} {
			require.NoError(t, x.Remove(t.Context(), v))
		}
		require.NoError(t, x.Drop(t.Context(), "none"))
		assertFound(t, x, both, "a/d.1#0", "a/d.1#1", "a/d.2#0", "b/d.1#0")
	})
}

// runKept checks the contents of an index that was opened again.
func runKept(t *testing.T, h Harness) {
	again := map[string]func(*testing.T, index.Index) index.Index{"reopened": h.Reopen, "killed": h.Kill}
	for name, reopen := range again {
		if reopen == nil {
			continue
		}
		t.Run("what was done stays done when it is "+name, func(t *testing.T) {
			x := h.Open(t)
			put(t, x, version("a", "d", 1), chunk(0, axis(0), "w", "old"), chunk(1, axis(1), "w"))
			put(t, x, version("a", "e", 1), chunk(0, axis(0), "w"))
			put(t, x, version("b", "d", 1), chunk(0, axis(0), "w"))
			put(t, x, version("c", "d", 1), chunk(0, axis(0), "w"))
			x = reopen(t, x)
			put(t, x, version("a", "d", 1), chunk(0, between(2, 0.6), "w", "new", "more"))
			require.NoError(t, x.Remove(t.Context(), version("a", "e", 1)))
			require.NoError(t, x.Drop(t.Context(), "b"))
			put(t, x, version("c", "f", 1), chunk(4, axis(0), "w"))
			x = reopen(t, x)
			q := index.Query{Collections: []string{"a", "b", "c"}, Terms: single("w", "new", "old"),
				Vector: axis(2), Limit: 100}
			r := query(t, x, q)
			require.ElementsMatch(t, []string{"a/d.1#0", "a/d.1#1", "c/d.1#0", "c/f.1#4"}, names(r))
			h.settle(t, x)
			want := index.Statistics{Chunks: 4, Length: 1.5, Frequencies: []int{4, 1, 0}}
			assert.Equal(t, want, query(t, x, q).Statistics)
			q.Terms = single("new")
			q.Vector = nil
			c := only(t, query(t, x, q))
			assert.Equal(t, 3, c.Length)
			q.Vector, q.Terms, q.Limit = axis(2), nil, 1
			c = only(t, query(t, x, q))
			assert.Equal(t, "a/d.1#0", c.Collection+"/d.1#0")
			assert.InDelta(t, 0.6, c.Cosine, tolerance)
		})
	}
}
