package ranking

import (
	"slices"
	"strings"
	"unicode"
)

// Quote returns the best part of a text for a query: a range of at most so many characters. The words of
// the query that it has are those with the highest sum of rarities, each counted once. Where the text has none of them,
// it begins with the sentence that has most of the query's letters. A quote begins with a sentence or a line where
// there is one.
func Quote(text, query string, matches []Match, rarity []float64, most int) [2]int {
	characters := []rune(text)
	if len(characters) <= most {
		return [2]int{0, len(characters)}
	}
	starts := sentences(characters)
	from, till := richest(matches, rarity, most)
	if till == 0 {
		from = likest(characters, starts, query)
		till = min(from+most, len(characters))
	}
	earliest, latest := max(till-most, 0), min(from, len(characters)-most)
	start := max(earliest, min(latest, (from+till-most)/2))
	if i, _ := slices.BinarySearch(starts, start); i < len(starts) && starts[i] <= from {
		start = starts[i]
	}
	return [2]int{start, min(start+most, len(characters))}
}

// richest is the range of matches, of at most so many characters, whose words are rarest together. Of equal ones it is
// the first.
func richest(matches []Match, rarity []float64, most int) (from, till int) {
	best := 0.0
	counted := make([]int, len(rarity)) // of each word: behind the match from which it was counted last
	for i, first := range matches {
		sum, end := 0.0, 0
		for _, m := range matches[i:] {
			if max(end, m.End)-first.Start > most {
				break
			}
			end = max(end, m.End)
			if m.Word < len(rarity) && counted[m.Word] <= i {
				counted[m.Word] = i + 1
				sum += rarity[m.Word]
			}
		}
		if sum > best {
			best, from, till = sum, first.Start, end
		}
	}
	return from, till
}

// grams is the length of the pieces of letters by which a sentence is like a query.
const grams = 4

// likest is the start of the sentence that has most of the query's letters, as pieces of four.
func likest(characters []rune, starts []int, query string) (start int) {
	wanted, most := pieces([]rune(query)), 0
	for i, from := range starts {
		till := len(characters)
		if i+1 < len(starts) {
			till = starts[i+1]
		}
		common := 0
		for piece := range pieces(characters[from:till]) {
			if wanted[piece] {
				common++
			}
		}
		if common > most {
			most, start = common, from
		}
	}
	return start
}

func pieces(characters []rune) map[string]bool {
	letters := []rune(strings.ToLower(string(slices.DeleteFunc(slices.Clone(characters), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}))))
	all := map[string]bool{}
	for i := range max(0, len(letters)-grams+1) {
		all[string(letters[i:i+grams])] = true
	}
	return all
}

// sentences are where sentences and lines of a text begin, in order.
func sentences(characters []rune) (starts []int) {
	begins, stopped := true, false
	for i, r := range characters {
		switch {
		case r == '\n':
			begins, stopped = true, false
		case unicode.IsSpace(r):
			begins = begins || stopped
		case unicode.In(r, unicode.Pe, unicode.Pf):
		default:
			if begins && (!stopped || !unicode.IsLower(r)) { // a letter in lower case follows an abbreviation
				starts = append(starts, i)
			}
			begins = strings.ContainsRune("。！？｡", r) // no space follows
			stopped = unicode.Is(unicode.STerm, r) || stopped && r == '"'
		}
	}
	return starts
}
