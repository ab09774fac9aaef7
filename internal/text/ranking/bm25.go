package ranking

import "math"

// The parameters of BM25 as Lucene's formula has them; 1.5 and 0.75 are customary, and not fitted to any collection.
const (
	saturation    = 1.5  // k1: how much a further occurrence adds
	normalisation = 0.75 // b: how far the length counts
)

// corpus is what BM25 knows of all chunks that were asked.
type corpus struct {
	rarity []float64 // of each term of the query: its inverse document frequency
	length float64   // mean
}

// together joins the statistics of lists. They may be approximate: a term occurs in no more chunks than there are, and
// in at least one, or it would not be found.
func together(lists []List) corpus {
	chunks, length := 0, 0.0
	var frequencies []int
	for _, l := range lists {
		s := l.Statistics
		chunks += s.Chunks
		length += s.Length * float64(s.Chunks)
		for i, f := range s.Frequencies {
			if i == len(frequencies) {
				frequencies = append(frequencies, 0)
			}
			frequencies[i] += f
		}
	}
	c := corpus{length: length / float64(max(chunks, 1))}
	for _, f := range frequencies {
		f = max(1, min(f, chunks))
		c.rarity = append(c.rarity, math.Log1p((float64(max(chunks, 1)-f)+0.5)/(float64(f)+0.5)))
	}
	return c
}

// Rarity is how rare each word of a query is in what was asked: its inverse document frequency.
func Rarity(lists []List) []float64 { return together(lists).rarity }

// bm25 is the score of a chunk in which the terms of the query have these weights.
func (c corpus) bm25(weights []int, length int) float64 {
	relative := 1.0
	if c.length > 0 {
		relative = 1 - normalisation + normalisation*float64(max(length, 0))/c.length
	}
	sum := 0.0
	for i, w := range weights[:min(len(weights), len(c.rarity))] {
		if w > 0 {
			sum += c.rarity[i] * float64(w) / (float64(w) + saturation*relative)
		}
	}
	return sum
}
