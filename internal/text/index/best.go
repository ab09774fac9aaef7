package index

import (
	"cmp"
	"math"
	"slices"
)

// Best orders candidates in place and returns the limit of the highest scores; of equal ones those whose names come
// first.
func Best(all []Candidate, limit int, score func(Candidate) float64) []Candidate {
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a.Collection, b.Collection),
			cmp.Compare(a.Document, b.Document), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Index, b.Index))
	})
	return all[:min(limit, len(all))]
}

// BM25 is a score by which an index may choose the best candidates by words. Their order is the caller's to make.
func BM25(c Candidate, s Statistics) float64 {
	const k1, b = 1.2, 0.75
	sum, n := 0.0, float64(s.Chunks)
	for i, weight := range c.Weights {
		w, df := float64(weight), float64(s.Frequencies[i])
		length := k1 * (1 - b + b*float64(c.Length)/max(s.Length, 1))
		sum += math.Log(1+(n-df+0.5)/(df+0.5)) * w * (k1 + 1) / (w + length)
	}
	return sum
}
