package indextest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
)

// runBest checks which candidates are returned if there are more than the limit.
func runBest(t *testing.T, h Harness) {
	t.Run("the best by words have the rare word, the weight, or are short", func(t *testing.T) {
		x := h.Open(t)
		var chunks []index.Chunk
		for i := range 60 {
			c := chunk(i, axis(0), "common", "x", "y", "z")
			switch i {
			case 17:
				c.Terms = append(c.Terms, index.Term{Text: "rare", Weight: 1})
			case 29:
				c.Terms[0].Weight = 9
			case 41:
				c.Length = 1
			}
			chunks = append(chunks, c)
		}
		put(t, x, version("a", "d", 1), chunks...)
		h.settle(t, x)
		q := words("rare", "common")
		q.Limit = 3
		assertFound(t, x, q, "a/d.1#17", "a/d.1#29", "a/d.1#41")
		q.Limit = 1
		assertFound(t, x, q, "a/d.1#17")
	})
	t.Run("no fewer than the limit where there are more", func(t *testing.T) {
		x := h.Open(t)
		for d := range 4 {
			var chunks []index.Chunk
			for i := range 50 {
				chunks = append(chunks, chunk(i, axis(i), "common", fmt.Sprint("w", i)))
			}
			put(t, x, version("a", fmt.Sprint(d), 1), chunks...)
		}
		q := words("common", "w3", "w4")
		q.Limit = 20
		r := query(t, x, q)
		assert.Len(t, r.Candidates, 20)
		rare := 0
		for _, c := range r.Candidates {
			rare += c.Weights[1] + c.Weights[2]
		}
		assert.Equal(t, 8, rare)
	})
	t.Run("it is said whether there may be more", func(t *testing.T) {
		x := h.Open(t)
		var chunks []index.Chunk
		for i := range 30 {
			chunks = append(chunks, chunk(i, axis(i), "common", fmt.Sprint("w", i)))
		}
		put(t, x, version("a", "d", 1), chunks...)
		for _, q := range []index.Query{words("common"), {Collections: []string{"a"}, Vector: axis(0)}} {
			for limit, more := range map[int]bool{10: true, 29: true, 31: false, index.MaxLimit: false} {
				q.Limit = limit
				assert.Equal(t, more, query(t, x, q).More, "%d", limit)
			}
		}
		q := words("w3", "w4")
		q.Limit = 3
		assert.False(t, query(t, x, q).More)
	})
	t.Run("all that a document has where others have the rarer word", func(t *testing.T) {
		x := h.Open(t)
		for d := range 5 {
			var chunks []index.Chunk
			for i := range 30 {
				c := chunk(i, axis(i), "common")
				if d == 0 {
					c = chunk(i, axis(i), "common", "rarer")
				}
				chunks = append(chunks, c)
			}
			put(t, x, version("a", fmt.Sprint(d), 1), chunks...)
		}
		q := words("rarer", "common")
		q.Documents, q.Limit = []string{"3"}, 5
		assert.Len(t, query(t, x, q).Candidates, 5)
	})
	t.Run("a word is as rare as all of its variants together", func(t *testing.T) {
		x := h.Open(t)
		var chunks []index.Chunk
		for i := range 60 {
			c := chunk(i, axis(0), "common", "y", "z")
			switch i {
			case 7: // the only one that has this variant of a common word
				c = chunk(i, axis(0), "commoner", "y", "z")
			case 13:
				c = chunk(i, axis(0), "rare", "y", "z")
			}
			chunks = append(chunks, c)
		}
		put(t, x, version("a", "d", 1), chunks...)
		h.settle(t, x)
		q := index.Query{Collections: []string{"a"}, Terms: [][]string{{"common", "commoner"}, {"rare"}}, Limit: 1}
		assertFound(t, x, q, "a/d.1#13")
	})
	t.Run("what has several common words of 12,000 chunks", func(t *testing.T) { several(t, h) })
	t.Run("nearly all of the nearest of 3,000 vectors", func(t *testing.T) { nearest(t, h) })
}

// several has two words in a fifth of the chunks each, many more than a query asks for, and both words in twelve.
func several(t *testing.T, h Harness) {
	const documents, each = 12, 1000
	x := h.Open(t)
	for d := range documents {
		var chunks []index.Chunk
		for i := range each {
			c := chunk(i, axis(i), "z")
			if i == 777 || i%5 == 0 {
				c.Terms = append(c.Terms, index.Term{Text: "contract", Weight: 1})
			}
			if i == 777 || i%5 == 1 {
				c.Terms = append(c.Terms, index.Term{Text: "payment", Weight: 1})
			}
			c.Length = 100
			chunks = append(chunks, c)
		}
		put(t, x, version("a", fmt.Sprint(d), 1), chunks...)
	}
	h.settle(t, x)
	for name, vector := range map[string][]float32{"keyword": nil, "hybrid": axis(0)} {
		for _, terms := range [][]string{
			{"contract", "payment"}, {"contract", "payment", "z"}, {"none", "payment", "contract"},
		} {
			q := words(terms...)
			q.Vector, q.Limit, q.Chunks = vector, 50, documents*each
			both := 0
			for _, c := range query(t, x, q).Candidates {
				if c.Index == 777 {
					both++
				}
			}
			assert.Equal(t, documents, both, "%s %q", name, terms)
		}
	}
}

// nearest compares with an exact scan, for vectors in clusters, as those of texts are.
func nearest(t *testing.T, h Harness) {
	const clusters, each, dims, k, queries = 30, 100, 96, 10, 20
	x, r := h.Open(t), rand.New(rand.NewPCG(1, 2))
	var vectors [][]float32
	for range clusters {
		centre := random(r, dims)
		for range each {
			vectors = append(vectors, near(r, centre, 0.7))
		}
	}
	for start := 0; start < len(vectors); start += 500 {
		var chunks []index.Chunk
		for i := start; i < start+500; i++ {
			chunks = append(chunks, chunk(i, vectors[i]))
		}
		require.NoError(t, x.Put(t.Context(), version("a", "d", 1), dims, chunks))
	}
	found := 0
	for i := range queries {
		v := near(r, vectors[i*97], 0.5)
		exact := Exact(vectors, v, k)
		q := index.Query{Collections: []string{"a"}, Vector: v, Limit: k}
		for _, c := range query(t, x, q).Candidates {
			assert.InDelta(t, dot(vectors[c.Index], v), c.Cosine, tolerance)
			if slices.Contains(exact, c.Index) {
				found++
			}
		}
	}
	assert.GreaterOrEqual(t, found, queries*k*9/10, "of %d", queries*k)
}

// Exact returns the numbers of the k vectors that are nearest to v.
func Exact(vectors [][]float32, v []float32, k int) []int {
	type near struct {
		number int
		cosine float64
	}
	all := make([]near, len(vectors))
	for i, w := range vectors {
		all[i] = near{i, dot(w, v)}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(a.number, b.number))
	})
	var numbers []int
	for _, n := range all[:min(k, len(all))] {
		numbers = append(numbers, n.number)
	}
	return numbers
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func random(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return unit(v)
}

// near returns a unit vector about spread away from the centre.
func near(r *rand.Rand, centre []float32, spread float32) []float32 {
	noise := random(r, len(centre))
	for i := range noise {
		noise[i] = centre[i] + spread*noise[i]
	}
	return unit(noise)
}

func unit(v []float32) []float32 {
	length := float32(math.Sqrt(dot(v, v)))
	for i := range v {
		v[i] /= length
	}
	return v
}
