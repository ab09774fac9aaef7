package ranking

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"agentplatform/internal/text/index"
)

// chunk is a candidate of the document of this name, with the weights of the query's terms.
func chunk(document string, cosine float64, weights ...int) index.Candidate {
	return index.Candidate{
		Version: index.Version{Collection: "c", Document: document, Number: 1},
		Length:  100, Weights: weights, Cosine: cosine,
	}
}

// list is the result of an index of 1,000 chunks of 100 words for two terms, which 10 and 100 of them have.
func list(weight float64, candidates ...index.Candidate) List {
	statistics := index.Statistics{Chunks: 1000, Length: 100, Frequencies: []int{10, 100}}
	return List{Result: index.Result{Candidates: candidates, Statistics: statistics}, Trust: Trust{Weight: weight}}
}

// shown writes hits as a table: document, score, parts.
func shown(hits []Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%s %.3f (%.3f %.3f)\n", h.Document, h.Score, h.Keyword, h.Semantic)
	}
	return strings.TrimSpace(b.String())
}

func lines(list ...string) string { return strings.Join(list, "\n") }

func TestRank(t *testing.T) {
	mixed := list(1, chunk("a", 0.9), chunk("b", 0.5, 1, 0), chunk("c", -0.2, 1, 1), chunk("d", 0.5, 0, 1))
	other := list(1, chunk("x", 0.3), chunk("y", 0.2, 1, 0))
	for _, c := range []struct {
		name  string
		mode  Mode
		lists []List
		want  string
	}{
		{"by words", Keyword, []List{mixed}, lines(
			"c 0.255 (0.255 0.000)", "b 0.186 (0.186 0.500)", "d 0.103 (0.103 0.500)")},
		{"by meaning", Semantic, []List{mixed}, lines(
			"a 0.900 (0.000 0.900)", "b 0.500 (0.186 0.500)", "d 0.500 (0.103 0.500)")},
		// b: (1/12 + 1/12) / (2/11); d, third and second: (1/13 + 1/12) / (2/11)
		{"by both", Hybrid, []List{mixed}, lines(
			"b 0.917 (0.186 0.500)", "d 0.881 (0.103 0.500)", "c 0.500 (0.255 0.000)", "a 0.500 (0.000 0.900)")},
		// c: (1/11) / (1.1/11); b: (1/12 + 0.1/12) / (1.1/11)
		{"a weak model", Hybrid, []List{list(0.1, mixed.Candidates...)}, lines(
			"b 0.917 (0.186 0.500)", "c 0.909 (0.255 0.000)", "d 0.853 (0.103 0.500)", "a 0.091 (0.000 0.900)")},
		// a is the second by meaning: 0.01*(0.1/12) / (1.1/11)
		{"a weak model that counts for the first", Hybrid, []List{{
			Result: list(0, chunk("a", 0.8), chunk("b", 0.9, 1, 0), chunk("c", 0, 1, 1)).Result,
			Trust:  Trust{Weight: 0.1, Depth: 1},
		}}, lines("b 0.924 (0.186 0.900)", "c 0.909 (0.255 0.000)", "a 0.001 (0.000 0.800)")},
		{"a document in another language", Keyword, []List{{
			Result: mixed.Result, Foreign: map[string]bool{"c": true},
		}}, lines("c 0.215 (0.215 0.000)", "b 0.186 (0.186 0.000)", "d 0.103 (0.103 0.000)")},
		{"no vector", Hybrid, []List{list(0, mixed.Candidates...)}, lines(
			"c 1.000 (0.255 0.000)", "b 0.917 (0.186 0.000)", "d 0.846 (0.103 0.000)")},
		{"no vector, by meaning", Semantic, []List{list(0, mixed.Candidates...)}, ""},
		{"no terms", Hybrid, []List{{
			Result: index.Result{Candidates: []index.Candidate{chunk("a", 0.9), chunk("b", 0.1)}},
			Trust:  Trust{Weight: 0.1},
		}}, lines("a 1.000 (0.000 0.900)", "b 0.917 (0.000 0.100)")},
		{"two models, by meaning", Semantic, []List{mixed, other}, lines(
			"a 1.000 (0.000 0.900)", "x 1.000 (0.000 0.300)", "b 0.917 (0.186 0.500)", "y 0.917 (0.186 0.200)",
			"d 0.917 (0.103 0.500)")},
		// of 2,000 chunks, the terms in 20 and 200
		{"two models, by both", Hybrid, []List{mixed, other}, lines(
			"b 0.917 (0.186 0.500)", "y 0.917 (0.186 0.200)", "d 0.851 (0.103 0.500)", "c 0.500 (0.256 0.000)",
			"a 0.500 (0.000 0.900)", "x 0.500 (0.000 0.300)")},
		{"ties", Keyword, []List{list(0, chunk("b", 0, 1), chunk("c", 0, 1), chunk("a", 0, 1))}, lines(
			"a 0.186 (0.186 0.000)", "b 0.186 (0.186 0.000)", "c 0.186 (0.186 0.000)")},
		{"nothing", Hybrid, []List{{}}, ""},
		{"no list", Hybrid, nil, ""},
		{"what no index should say", Semantic, []List{
			list(1, chunk("nan", math.NaN(), -1), chunk("inf", math.Inf(1), 1, 1, 1)),
		}, "inf 1.000 (0.255 1.000)"},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, shown(Rank(c.mode, c.lists))) })
	}
}

// A lexical model adds words that are like words of the query that no chunk has.
func TestAModelCountsTheMoreTheFewerWordsAreKnown(t *testing.T) {
	trust := Trust{Weight: 0.1, Unknown: 0.8, Depth: 20}
	for weight, frequencies := range map[float64][]int{0.1: {10, 100}, 0.5: {10, 0}, 0.9: {0, 0}} {
		l := list(0, chunk("a", 0.9), chunk("b", 0.5, 1, 0))
		l.Statistics.Frequencies, l.Trust = frequencies, trust
		fixed := l
		fixed.Trust = Trust{Weight: weight, Depth: 20}
		want, got := Rank(Hybrid, []List{fixed}), Rank(Hybrid, []List{l})
		for i := range want {
			assert.Equal(t, want[i].Document, got[i].Document)
			assert.InDelta(t, want[i].Score, got[i].Score, 1e-12, frequencies)
		}
	}
}

// The figures are those of the formula, worked out by hand.
func TestBM25(t *testing.T) {
	corpus := together([]List{list(0)}).BM25()
	rare, common := math.Log(1+990.5/10.5), math.Log(1+900.5/100.5)
	for _, c := range []struct {
		name    string
		weights []int
		length  int
		want    float64
	}{
		{"once, of mean length", []int{1, 0}, 100, rare * 1 / (1 + 1.5)},
		{"twice", []int{2, 0}, 100, rare * 2 / (2 + 1.5)},
		{"both", []int{1, 1}, 100, (rare + common) / 2.5},
		{"long", []int{1, 0}, 300, rare / (1 + 1.5*(0.25+0.75*3))},
		{"of no length", []int{1, 0}, 0, rare / (1 + 1.5*0.25)},
		{"none", []int{0, 0}, 100, 0},
		{"no weights", nil, 100, 0},
		{"more weights than terms", []int{1, 0, 7}, 100, rare / 2.5},
	} {
		t.Run(c.name, func(t *testing.T) { assert.InDelta(t, c.want, corpus.Score(c.weights, c.length), 1e-12) })
	}
}

func TestStatisticsOfListsAreThoseOfAll(t *testing.T) {
	part := func(chunks int, length float64, frequencies ...int) List {
		return List{Result: index.Result{Statistics: index.Statistics{
			Chunks: chunks, Length: length, Frequencies: frequencies,
		}}}
	}
	assert.Equal(t, together([]List{part(40, 25, 6, 9)}), together([]List{part(10, 10, 4, 0), part(30, 30, 2, 9)}))
	assert.Equal(t, Rarity([]List{part(10, 10, 10)}), Rarity([]List{part(10, 10, 99)}), "more than there are")
	assert.Equal(t, Rarity([]List{part(10, 10, 1)}), Rarity([]List{part(10, 10, 0)}), "it was found")
	assert.Equal(t, []float64{math.Log1p(1. / 3)}, Rarity([]List{part(0, 0, 1)}))
}

// A word that no chunk has does not count against chunks that have the others.
func TestAChunkIsWholeThatHasAllThatIsThere(t *testing.T) {
	l := list(0)
	l.Statistics.Frequencies = []int{5, 5, 0}
	for n, c := range []struct {
		weights []int
		whole   bool
	}{{[]int{1, 1, 0}, true}, {[]int{1, 0, 0}, false}, {[]int{0, 0, 0}, false}, {nil, false}, {[]int{1, 2, 3}, true}} {
		l.Candidates = []index.Candidate{{Index: n, Weights: c.weights, Length: 10, Cosine: 0.5}}
		assert.Equal(t, c.whole, score([]List{l})[0].Whole, c.weights)
	}
}

// If a chunk has the only known word, it does not answer a question of many other words.
func TestAChunkIsNotWholeWhereMostWordsAreUnknown(t *testing.T) {
	for frequencies, whole := range map[[4]int]bool{
		{9, 0, 0, 0}: false, {9, 0, 0, 9}: true, {9, 9, 0, 9}: true,
	} {
		l := list(0)
		l.Statistics.Frequencies = frequencies[:]
		l.Candidates = []index.Candidate{{Weights: frequencies[:], Length: 10}}
		assert.Equal(t, whole, score([]List{l})[0].Whole, frequencies)
	}
	l := list(0)
	l.Statistics.Frequencies = []int{9}
	l.Candidates = []index.Candidate{{Weights: []int{1}, Length: 10}}
	assert.True(t, score([]List{l})[0].Whole, "a query of one word")
}

// lists draws lists of an index whose scores often tie.
func lists() *rapid.Generator[[]List] {
	return rapid.Custom(func(t *rapid.T) []List {
		all := make([]List, rapid.IntRange(1, 3).Draw(t, "lists"))
		for i := range all {
			all[i] = list(rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "weight"))
			all[i].Trust.Depth = rapid.IntRange(0, 3).Draw(t, "depth")
			for n := range rapid.IntRange(0, 12).Draw(t, "candidates") {
				c := chunk(fmt.Sprintf("%d/%d", i, n), float64(rapid.IntRange(-2, 10).Draw(t, "cosine"))/10,
					rapid.IntRange(0, 3).Draw(t, "first"), rapid.IntRange(0, 3).Draw(t, "second"))
				c.Length = 50 * rapid.IntRange(1, 4).Draw(t, "length")
				all[i].Candidates = append(all[i].Candidates, c)
			}
		}
		return all
	})
}

func drawMode(t *rapid.T) Mode {
	return rapid.SampledFrom([]Mode{Hybrid, Semantic, Keyword}).Draw(t, "mode")
}

func TestHitsNeverRiseInScoreAndHaveOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, mode := lists().Draw(t, "lists"), drawMode(t)
		hits := Rank(mode, all)
		for i, h := range hits {
			assert.True(t, h.Score > 0 && h.Score <= 1, h)
			assert.True(t, h.Keyword >= 0 && h.Keyword < 1 && h.Semantic >= 0 && h.Semantic <= 1, h)
			assert.True(t, i == 0 || h.Score <= hits[i-1].Score, "%v after %v", h, hits[max(i-1, 0)])
		}
		for i := range all {
			all[i].Candidates = rapid.Permutation(all[i].Candidates).Draw(t, "order")
		}
		assert.Equal(t, hits, Rank(mode, rapid.Permutation(all).Draw(t, "order of lists")))
	})
}

// A chunk that matches more of the query is not worse: neither its score nor its rank.
func TestMoreOfWhatIsAskedIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, mode := lists().Draw(t, "lists"), drawMode(t)
		i := rapid.IntRange(0, len(all)-1).Draw(t, "list")
		if len(all[i].Candidates) == 0 {
			return
		}
		c := &all[i].Candidates[rapid.IntRange(0, len(all[i].Candidates)-1).Draw(t, "candidate")]
		name := c.Document
		before, scoreBefore := positionOf(Rank(mode, all), name)
		c.Cosine += float64(rapid.IntRange(0, 5).Draw(t, "nearer")) / 10
		c.Weights[0] += rapid.IntRange(0, 2).Draw(t, "more")
		after, scoreAfter := positionOf(Rank(mode, all), name)
		assert.LessOrEqual(t, after, before)
		assert.GreaterOrEqual(t, scoreAfter, scoreBefore)
	})
}

// positionOf is the position of a document among the hits; after them, if it is not one.
func positionOf(hits []Hit, document string) (int, float64) {
	at := slices.IndexFunc(hits, func(h Hit) bool { return h.Document == document })
	if at < 0 {
		return math.MaxInt, 0
	}
	return at, hits[at].Score
}
