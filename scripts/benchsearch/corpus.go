package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"agentplatform/internal/index"
)

const (
	collection = "base"
	dimensions = 512
	wordsEach  = 120
	vocabulary = 60_000
	clusters   = 1000
	spread     = 0.8 // of a vector around the centre of its cluster, which has the length 1
	each       = 100 // chunks of a document
)

// corpus makes chunks: the same for the same number, in every process. Words are as frequent as in texts (Zipf), and
// vectors lie in clusters, as those of texts do.
type corpus struct {
	centres [][]float32
}

func newCorpus() *corpus {
	c := &corpus{}
	r := rand.New(rand.NewPCG(1, 0))
	for range clusters {
		c.centres = append(c.centres, near(r, make([]float32, dimensions), 1))
	}
	return c
}

func zipf(r *rand.Rand) *rand.Zipf { return rand.NewZipf(r, 1.07, 3, vocabulary-1) }

func word(n uint64) string { return fmt.Sprint("word", n) }

// vector is that of a chunk.
func (c *corpus) vector(number int) []float32 {
	r := rand.New(rand.NewPCG(2, uint64(number)))
	return near(r, c.centres[r.IntN(clusters)], spread)
}

func (c *corpus) chunk(number, numberInDocument int) index.Chunk {
	chunk := index.Chunk{Index: numberInDocument, Length: wordsEach, Vector: c.vector(number)}
	draw := zipf(rand.New(rand.NewPCG(3, uint64(number))))
	weights := map[uint64]int{}
	for range wordsEach {
		weights[draw.Uint64()]++
	}
	for n, w := range weights {
		chunk.Terms = append(chunk.Terms, index.Term{Text: word(n), Weight: w})
	}
	return chunk
}

// document has the chunks that follow each other from its number on.
func (c *corpus) document(number, chunks int) []index.Chunk {
	list := make([]index.Chunk, chunks)
	for i := range list {
		list[i] = c.chunk(number*chunks+i, i)
	}
	return list
}

// query asks for 8 words and for what is like a chunk. Common ones are all among the 12 most frequent; others are drawn
// like those of the text.
func (c *corpus) query(r *rand.Rand, chunks int, common bool) index.Query {
	draw := zipf(r)
	seen := map[uint64]bool{}
	q := index.Query{Collections: []string{collection}, Limit: 50,
		Vector: near(r, c.vector(r.IntN(chunks)), spread/2)}
	for len(q.Terms) < 8 {
		n := draw.Uint64()
		if common {
			n = r.Uint64N(12)
		}
		if !seen[n] {
			seen[n] = true
			q.Terms = append(q.Terms, []string{word(n)})
		}
	}
	return q
}

// near returns a unit vector that is about spread away from the centre.
func near(r *rand.Rand, centre []float32, spread float64) []float32 {
	v := make([]float32, len(centre))
	sum := 0.0
	for i := range v {
		v[i] = centre[i] + float32(r.NormFloat64()*spread/math.Sqrt(dimensions))
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func dot(a, b []float32) float32 {
	var sum float32
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
