// Package indextest is the conformance suite of the index port. Every adapter runs all of it. Agree compares it with
// another adapter (memindex).
//
// It imports its port.
package indextest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
)

// Harness makes what is tested.
type Harness struct {
	// Open makes a fresh, empty index, which ends with the test.
	Open func(*testing.T) index.Index
	// Reopen closes an index and opens it again with the data that it kept. Nil: it keeps nothing.
	Reopen func(*testing.T, index.Index) index.Index
	// Kill is like Reopen, without closing: it opens the data of a process that was killed. Nil: as Reopen.
	Kill func(*testing.T, index.Index) index.Index
	// Settle waits until statistics count all puts and removals. Nil: they do so immediately.
	Settle func(*testing.T, index.Index)
}

func (h Harness) settle(t *testing.T, x index.Index) {
	t.Helper()
	if h.Settle != nil {
		h.Settle(t, x)
	}
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("put", func(t *testing.T) { runPut(t, h) })
	t.Run("remove", func(t *testing.T) { runRemove(t, h) })
	t.Run("query", func(t *testing.T) { runQuery(t, h) })
	t.Run("best", func(t *testing.T) { runBest(t, h) })
	t.Run("invalid", func(t *testing.T) { runInvalid(t, h) })
	t.Run("concurrent", func(t *testing.T) { runConcurrent(t, h) })
	t.Run("kept", func(t *testing.T) { runKept(t, h) })
}

const (
	dimensions = 8
	// of 8-bit quantisation, which has 1/254 of the largest value for each dimension
	tolerance = 0.01
)

// axis is the unit vector along dimension i.
func axis(i int) []float32 {
	v := make([]float32, dimensions)
	v[i%dimensions] = 1
	return v
}

// between is a unit vector whose cosine with axis(i) is c and which leans to the next one.
func between(i int, c float64) []float32 {
	v := axis(i)
	v[i%dimensions] = float32(c)
	v[(i+1)%dimensions] = float32(math.Sqrt(1 - c*c))
	return v
}

func version(collection, document string, number int) index.Version {
	return index.Version{Collection: collection, Document: document, Number: number}
}

// chunk has each word with the weight 1; its length is the number of words.
func chunk(number int, vector []float32, words ...string) index.Chunk {
	c := index.Chunk{Index: number, Vector: vector, Length: len(words)}
	for _, w := range words {
		c.Terms = append(c.Terms, index.Term{Text: w, Weight: 1})
	}
	return c
}

func put(t *testing.T, x index.Index, v index.Version, chunks ...index.Chunk) {
	t.Helper()
	require.NoError(t, x.Put(t.Context(), v, dimensions, chunks))
}

// words is a query for chunks with one of the words, each without variants, in the collections a and b.
func words(terms ...string) index.Query {
	return index.Query{Collections: []string{"a", "b"}, Terms: single(terms...), Limit: 100}
}

// single are words without variants.
func single(terms ...string) [][]string {
	list := make([][]string, 0, len(terms))
	for _, t := range terms {
		list = append(list, []string{t})
	}
	return list
}

func query(t *testing.T, x index.Index, q index.Query) index.Result {
	t.Helper()
	r, err := x.Query(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, r.Statistics.Frequencies, len(q.Terms))
	require.LessOrEqual(t, len(r.Candidates), 2*q.Limit)
	found := names(r)
	unique := map[string]bool{}
	for i, c := range r.Candidates {
		require.Len(t, c.Weights, len(q.Terms))
		require.False(t, unique[found[i]], "%s stands twice", found[i])
		unique[found[i]] = true
	}
	return r
}

// name is how tests name a chunk.
func name(v index.Version, number int) string {
	return fmt.Sprintf("%s/%s.%d#%d", v.Collection, v.Document, v.Number, number)
}

func names(r index.Result) []string {
	list := make([]string, 0, len(r.Candidates))
	for _, c := range r.Candidates {
		list = append(list, name(c.Version, c.Index))
	}
	return list
}

func assertFound(t *testing.T, x index.Index, q index.Query, want ...string) {
	t.Helper()
	assert.ElementsMatch(t, want, names(query(t, x, q)))
}

// only returns the one candidate there must be.
func only(t *testing.T, r index.Result) index.Candidate {
	t.Helper()
	require.Len(t, r.Candidates, 1)
	return r.Candidates[0]
}
