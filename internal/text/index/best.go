package index

import (
	"cmp"
	"slices"
)

// Both returns the best by words and the best by vector, at most limit of each, and each chunk once.
func Both(byWords, byVector []Candidate, limit int, s Statistics) (all []Candidate) {
	seen := map[ChunkID]bool{}
	byVector = best(byVector, limit, func(c Candidate) float64 { return c.Cosine })
	for _, c := range slices.Concat(BestByWords(byWords, limit, s), byVector) {
		if at := (ChunkID{c.Version, c.Index}); !seen[at] {
			seen[at] = true
			all = append(all, c)
		}
	}
	return all
}

// BestByWords orders candidates in place and returns those with the highest BM25 scores, at most limit.
func BestByWords(all []Candidate, limit int, s Statistics) []Candidate {
	b := s.BM25()
	return best(all, limit, func(c Candidate) float64 { return b.Score(c.Weights, c.Length) })
}

// best orders candidates in place, those of equal scores by their names.
func best(all []Candidate, limit int, score func(Candidate) float64) []Candidate {
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a.Collection, b.Collection),
			cmp.Compare(a.Document, b.Document), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Index, b.Index))
	})
	return all[:min(limit, len(all))]
}
