package ranking

import "agentplatform/internal/text/words"

// Highlights returns where the words of a query stand in a text of a language: ranges of characters, in order, that
// neither overlap nor touch. The terms are those of [words.QueryTerms].
func Highlights(text string, terms [][]string, language string) [][2]int {
	asked := make(map[string]bool, len(terms))
	for _, variants := range terms {
		for _, t := range variants {
			asked[t] = true
		}
	}
	ranges := [][2]int{}
	for _, w := range words.Analyze(text, language) {
		if !asked[w.Term] && (w.Stop || !asked[w.Written]) {
			continue
		}
		if last := len(ranges) - 1; last >= 0 && w.Start <= ranges[last][1] {
			ranges[last][1] = max(ranges[last][1], w.End)
			continue
		}
		ranges = append(ranges, [2]int{w.Start, w.End})
	}
	return ranges
}
