package indextest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/text/index"
)

// Agree makes the same changes to two indexes and compares the results of queries, where the limit leaves nothing out.
// Statistics are compared, too, after settling.
func Agree(t *testing.T, h, other Harness) {
	rapid.Check(t, func(r *rapid.T) {
		p := &pair{t: t, r: r, h: h, x: h.Open(t), y: other.Open(t)}
		actions := map[string]func(*rapid.T){
			"put": p.put, "remove": p.remove, "drop": p.drop, "query": p.query, "put again": p.put,
		}
		if h.Reopen != nil {
			actions["reopen"] = func(*rapid.T) { p.x = h.Reopen(t, p.x) }
		}
		if h.Kill != nil {
			actions["kill"] = func(*rapid.T) { p.x = h.Kill(t, p.x) }
		}
		r.Repeat(actions)
		p.query(r)
	})
}

type pair struct {
	t    *testing.T
	r    *rapid.T
	h    Harness
	x, y index.Index
}

var (
	collections = rapid.SampledFrom([]string{"a", "b", "c\x00"})
	documents   = rapid.SampledFrom([]string{"d", "e", "f", "g"})
	vocabulary  = rapid.SampledFrom([]string{"red", "fox", "den", "hill", "cold", "two words", "\xff"})
)

func drawVersion(r *rapid.T) index.Version {
	return version(collections.Draw(r, "collection"), documents.Draw(r, "document"),
		rapid.IntRange(1, 2).Draw(r, "number"))
}

func drawVector(r *rapid.T) []float32 {
	return between(rapid.IntRange(0, dimensions-1).Draw(r, "axis"), rapid.Float64Range(0, 1).Draw(r, "cosine"))
}

func drawChunk(r *rapid.T) index.Chunk {
	c := index.Chunk{Index: rapid.IntRange(0, 5).Draw(r, "index"), Vector: drawVector(r)}
	for _, w := range rapid.SliceOfDistinct(vocabulary, rapid.ID[string]).Draw(r, "words") {
		c.Terms = append(c.Terms, index.Term{Text: w, Weight: rapid.IntRange(1, 300).Draw(r, "weight")})
		c.Length++
	}
	return c
}

func (p *pair) put(r *rapid.T) {
	v := drawVersion(r)
	chunks := rapid.SliceOfNDistinct(rapid.Custom(drawChunk), 0, 4, func(c index.Chunk) int { return c.Index }).
		Draw(r, "chunks")
	require.NoError(r, p.x.Put(p.t.Context(), v, dimensions, chunks))
	require.NoError(r, p.y.Put(p.t.Context(), v, dimensions, chunks))
}

func (p *pair) remove(r *rapid.T) {
	v := drawVersion(r)
	require.NoError(r, p.x.Remove(p.t.Context(), v))
	require.NoError(r, p.y.Remove(p.t.Context(), v))
}

func (p *pair) drop(r *rapid.T) {
	c := collections.Draw(r, "collection")
	require.NoError(r, p.x.Drop(p.t.Context(), c))
	require.NoError(r, p.y.Drop(p.t.Context(), c))
}

func (p *pair) query(r *rapid.T) {
	q := index.Query{
		Collections: rapid.SliceOf(collections).Draw(r, "collections"),
		Documents:   rapid.SliceOfDistinct(documents, rapid.ID[string]).Draw(r, "documents"),
		Terms:       rapid.SliceOfN(rapid.SliceOfNDistinct(vocabulary, 1, 3, rapid.ID[string]), 0, 4).Draw(r, "terms"),
		Limit:       500,
	}
	if rapid.Bool().Draw(r, "by vector") {
		q.Vector = drawVector(r)
	}
	p.h.settle(p.t, p.x)
	got, err := p.x.Query(p.t.Context(), q)
	require.NoError(r, err)
	want, err := p.y.Query(p.t.Context(), q)
	require.NoError(r, err)
	if len(q.Terms) > 0 {
		assert.InEpsilon(r, 1+want.Statistics.Length, 1+got.Statistics.Length, 1e-12, "a mean, however it is added up")
		got.Statistics.Length = want.Statistics.Length
		assert.Equal(r, want.Statistics, got.Statistics)
	}
	assert.Equal(r, want.More, got.More)
	require.Equal(r, sorted(want), sorted(got))
	for i := range want.Candidates {
		assert.InDelta(r, want.Candidates[i].Cosine, got.Candidates[i].Cosine, tolerance)
	}
}

// sorted puts the candidates into one order, and returns the exact parts of them.
func sorted(r index.Result) []string {
	key := func(c index.Candidate) string { return name(c.Version, c.Index) }
	slices.SortFunc(r.Candidates, func(a, b index.Candidate) int {
		if key(a) < key(b) {
			return -1
		}
		return 1
	})
	list := make([]string, 0, len(r.Candidates))
	for _, c := range r.Candidates {
		list = append(list, fmt.Sprint(key(c), " ", c.Length, c.Weights))
	}
	return list
}
