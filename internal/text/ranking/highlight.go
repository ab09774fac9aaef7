package ranking

import (
	"slices"

	"agentplatform/internal/text/words"
)

// Match is where a word of a query stands in a text, in characters.
type Match struct {
	Start, End int
	Word       int // of the query, from 0
}

// Matches returns where the words of a query stand in a text of a language, in the order of their starts. The terms are
// those of [words.QueryTerms].
func Matches(text string, terms [][]string, language string) (found []Match) {
	groups := make(map[string]int, len(terms))
	for i, variants := range slices.Backward(terms) {
		for _, t := range variants {
			groups[t] = i
		}
	}
	for _, w := range words.Analyze(text, language) {
		i, is := groups[w.Term]
		if !is && !w.Stop {
			i, is = groups[w.Written]
		}
		if is {
			found = append(found, Match{w.Start, w.End, i})
		}
	}
	return found
}

// Highlights returns the ranges of matches, in order, that neither overlap nor touch.
func Highlights(matches []Match) [][2]int {
	ranges := [][2]int{}
	for _, m := range matches {
		if last := len(ranges) - 1; last >= 0 && m.Start <= ranges[last][1] {
			ranges[last][1] = max(ranges[last][1], m.End)
			continue
		}
		ranges = append(ranges, [2]int{m.Start, m.End})
	}
	return ranges
}
