// Package ranking orders the candidates of indexes: by words (BM25), by meaning (cosine), or by both, fused by rank. It
// is pure, and does not depend on the index: equal candidates have equal scores and one order.
//
// It must not know who asks, what may be seen, or where chunks come from. It imports index, whose candidates it ranks,
// and words, to find a query's words in a text.
package ranking

import (
	"cmp"
	"slices"

	"agentplatform/internal/text/index"
)

// Mode is the kind of ranking.
type Mode string

// The modes.
const (
	Hybrid   Mode = "hybrid"
	Semantic Mode = "semantic"
	Keyword  Mode = "keyword"
)

// List is the result of one query to an index. A search has a list for each embedding model. All lists are for the same
// terms, and no chunk is in two of them.
type List struct {
	index.Result

	// Foreign are the documents that are in another language than the query, where that is known.
	Foreign map[string]bool

	Trust Trust // zero: the list was asked without a vector
}

// Trust is the weight of ranks by an embedding model's vectors beside ranks by words.
type Trust struct {
	Weight float64 // where a rank by words weighs 1
	// Unknown is added to the weight where no chunk has a word of the query. Where some of its words are in no chunk,
	// that share of Unknown is added.
	Unknown float64
	Depth   int // so many first ranks have the weight, those below next to nothing; 0: all have it
}

// Full is the trust in a model that knows the meaning of words.
var Full = Trust{Weight: 1}

// Lexical is the trust in a model whose vectors know only the spelling of words. It adds words that are like those of
// the query, such as misspelled ones, if no chunk has these. A higher weight, or ranks further down, make a hybrid
// search worse than one by words in most languages.
var Lexical = Trust{Weight: 0.05, Unknown: 0.15, Depth: 20}

// faint is the factor for the weight of a rank below the depth. It orders candidates that have no other rank.
const faint = 0.01

// Hit is a chunk that was found. All scores are from 0 to 1.
type Hit struct {
	index.Version
	Index int
	Score float64 // by which it is ranked; see [Rank]
	// The parts of hybrid scores: the chunk's scores in the other modes.
	Keyword  float64
	Semantic float64
	Whole    bool // the chunk has every word of the query that any chunk has, and these are half of it or more
}

// Rank orders candidates by their scores, best first. A candidate that matches nothing of the query is not a hit.
//
// By words a score is s/(s+8) of the BM25 score s. By meaning it is the cosine; a cosine below 0 is not a score. In
// hybrid mode, the score is the reciprocal rank fusion, divided by that of a candidate that is the first of every list.
// The same holds by meaning where there are several embedding models: their cosines cannot be compared.
func Rank(mode Mode, lists []List) []Hit {
	found, withVectors := score(lists), 0
	for _, l := range lists {
		if l.Trust.Weight > 0 {
			withVectors++
		}
	}
	switch fused := mode == Hybrid; {
	case mode == Keyword:
		for i := range found {
			found[i].Score = found[i].Keyword
		}
	case fused || withVectors > 1:
		fuse(found, lists, fused)
	default:
		for i := range found {
			found[i].Score = found[i].Semantic
		}
	}
	hits := make([]Hit, 0, len(found))
	for _, c := range found {
		if c.Score > 0 {
			hits = append(hits, c.Hit)
		}
	}
	slices.SortFunc(hits, order)
	return hits
}

// order has no ties: chunks with equal scores are ordered by their names.
func order(a, b Hit) int {
	return cmp.Or(
		cmp.Compare(b.Score, a.Score), cmp.Compare(b.Keyword, a.Keyword), cmp.Compare(b.Semantic, a.Semantic),
		cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Document, b.Document),
		cmp.Compare(a.Number, b.Number), cmp.Compare(a.Index, b.Index),
	)
}

type candidate struct {
	Hit
	list int
}

// foreign is the factor for the score by words of a document in another language than the query's. Names and numbers
// are the same in all languages, and most people want to read documents in the language of their query.
const foreign = 0.8

// half is the BM25 score that counts as a keyword score of 1/2.
const half = 8

// score gives each candidate of the lists its parts.
func score(lists []List) []candidate {
	all := together(lists)
	corpus, known := all.BM25(), unknownWords(lists) <= 0.5
	var found []candidate
	for i, l := range lists {
		for _, c := range l.Candidates {
			words := corpus.Score(c.Weights, c.Length)
			if l.Foreign[c.Document] {
				words *= foreign
			}
			hit := Hit{
				Version: c.Version, Index: c.Index, Keyword: words / (words + half),
				Whole: known && hasAll(c.Weights, all.Frequencies),
			}
			if l.Trust.Weight > 0 && c.Cosine > 0 {
				hit.Semantic = min(c.Cosine, 1)
			}
			found = append(found, candidate{hit, i})
		}
	}
	return found
}

// hasAll reports whether a chunk with these weights has all words of the query that any chunk has.
func hasAll(weights, frequencies []int) (all bool) {
	for i, w := range weights[:min(len(weights), len(frequencies))] {
		if w == 0 && frequencies[i] > 0 {
			return false
		}
		all = all || w > 0
	}
	return all
}

// Rarity is the rarity of each word of a query in the queried collections.
func Rarity(lists []List) []float64 { return together(lists).BM25().Rarity }

// together joins the statistics of lists.
func together(lists []List) (all index.Statistics) {
	length := 0.0
	for _, l := range lists {
		s := l.Statistics
		all.Chunks += s.Chunks
		length += s.Length * float64(s.Chunks)
		for i, f := range s.Frequencies {
			if i == len(all.Frequencies) {
				all.Frequencies = append(all.Frequencies, 0)
			}
			all.Frequencies[i] += f
		}
	}
	all.Length = length / float64(max(all.Chunks, 1))
	return all
}

// smoothing is added to ranks before they are inverted. The smaller it is, the more a first rank counts. The customary
// 60 is made for lists of a thousand documents. For some hundred candidates, the tenth would count nearly as much as
// the first. Then a rank in two lists, however low, would beat the best of one.
const smoothing = 10

// fuse gives each candidate the sum of its inverted ranks. The rank by words, if words count, is among all candidates.
// The rank by meaning is among those of its list.
func fuse(found []candidate, lists []List, hybrid bool) {
	most, heaviest, unknown := 0.0, 0.0, unknownWords(lists)
	if hybrid && slices.ContainsFunc(lists, func(l List) bool { return len(l.Statistics.Frequencies) > 0 }) {
		most = addRanks(found, Full, func(c candidate) float64 { return c.Keyword })
	}
	for i, l := range lists {
		trust := l.Trust
		trust.Weight += trust.Unknown * unknown
		if !hybrid && trust.Weight > 0 {
			trust = Full // models take turns: none is known to be better
		}
		heaviest = max(heaviest, addRanks(found, trust, func(c candidate) float64 {
			if c.list != i {
				return 0
			}
			return c.Semantic
		}))
	}
	for i := range found {
		if found[i].Score > 0 {
			found[i].Score = min(1, found[i].Score/(most+heaviest)) // 1 except for the last bit
		}
	}
}

// unknownWords is the share of the words of the query that are in no chunk.
func unknownWords(lists []List) float64 {
	n, words := 0, 0
	for _, l := range lists {
		words = max(words, len(l.Statistics.Frequencies))
	}
	for i := range words {
		in := func(l List) bool { return i < len(l.Statistics.Frequencies) && l.Statistics.Frequencies[i] > 0 }
		if !slices.ContainsFunc(lists, in) {
			n++
		}
	}
	return float64(n) / float64(max(1, words))
}

// addRanks adds the trust's weights of ranks to candidates with a part above 0. It returns the weight of the first
// rank. Equal parts have equal ranks.
func addRanks(found []candidate, trust Trust, part func(candidate) float64) float64 {
	order := make([]int, 0, len(found))
	for i, c := range found {
		if part(c) > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(part(found[b]), part(found[a])) })
	rank := 0
	for i, at := range order {
		if i == 0 || part(found[at]) < part(found[order[i-1]]) {
			rank = i + 1
		}
		weight := trust.Weight
		if trust.Depth > 0 && rank > trust.Depth {
			weight *= faint
		}
		found[at].Score += weight / float64(smoothing+rank)
	}
	return trust.Weight / (smoothing + 1)
}
