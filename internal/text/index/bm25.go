package index

import "math"

// The parameters of BM25 as Lucene's formula has them; 1.5 and 0.75 are customary, and not fitted to any collection.
const (
	Saturation = 1.5  // k1: how much a further occurrence adds
	ByLength   = 0.75 // b: how far the length counts
)

// BM25 scores chunks by the words of a query.
type BM25 struct {
	Rarity []float64 // of each word: its inverse document frequency
	Length float64   // mean, of all chunks
}

// Rarity is the inverse document frequency of a word that so many of the chunks have. Both numbers may be approximate.
// A word is counted in at most all chunks, and in at least one, because it was found.
func Rarity(frequency, chunks int) float64 {
	f := float64(max(1, min(frequency, chunks)))
	return math.Log1p((float64(max(chunks, 1)) - f + 0.5) / (f + 0.5))
}

// BM25 is the score by these statistics.
func (s Statistics) BM25() BM25 {
	b := BM25{Length: s.Length}
	for _, f := range s.Frequencies {
		b.Rarity = append(b.Rarity, Rarity(f, s.Chunks))
	}
	return b
}

// Score is the score of a chunk in which the words of the query have these weights.
func (b BM25) Score(weights []int, length int) float64 {
	relative := 1.0
	if b.Length > 0 {
		relative = 1 - ByLength + ByLength*float64(max(length, 0))/b.Length
	}
	sum := 0.0
	for i, w := range weights[:min(len(weights), len(b.Rarity))] {
		if w > 0 {
			sum += b.Rarity[i] * float64(w) / (float64(w) + Saturation*relative)
		}
	}
	return sum
}
