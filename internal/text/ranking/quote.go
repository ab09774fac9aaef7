package ranking

import (
	"slices"
	"strings"
	"unicode"

	"agentplatform/internal/text/words"
)

// Weights of a quote, besides the words of the query, whose weights have the sum 1.
const (
	forLetters  = 0.4  // all pieces of the query's letters, as inflected words and compounds have them
	forSentence = 0.05 // a quote that begins with a sentence or a line
	offCentre   = 2    // a word at an end of a quote counts half of one in its middle
)

// grams is the length of the pieces of letters.
const grams = 4

// longWord is the part of a quote's length after which it may also begin inside a word: an address, or data without
// spaces.
const longWord = 3

// Quote returns the best part of a text for a query: a range of at most so many characters that begins with a word. Of
// all such ranges it has the most of the query: the words that match, by their rarity, and pieces of its letters. Of
// each, the first in the range counts, and counts more in the middle: an answer stands before its question's words as
// often as after them.
func Quote(text, query string, matches []Match, rarity []float64, most int) [2]int {
	characters := []rune(text)
	if len(characters) <= most {
		return [2]int{0, len(characters)}
	}
	marks, different := marksOf(characters, query, matches, rarity)
	sentences := sentences(characters)
	counted := make([]int, different) // of each word and piece: behind the start for which it was counted last
	best, from, last := -1.0, 0, 0
	for start := range characters {
		if !beginsWord(characters, start) && start-last < max(most/longWord, 1) {
			continue
		}
		last = start
		for len(marks) > 0 && marks[0].start < start {
			marks = marks[1:]
		}
		score := 0.0
		if _, is := slices.BinarySearch(sentences, start); is {
			score = forSentence
		}
		for _, m := range marks {
			if m.start >= start+most {
				break
			}
			if m.end <= start+most && counted[m.what] <= start {
				counted[m.what] = start + 1
				off := float64(m.start+m.end-2*start-most) / float64(2*most)
				score += m.weight * (1 - offCentre*off*off)
			}
		}
		if score > best {
			best, from = score, start
		}
		if start+most >= len(characters) {
			break
		}
	}
	return [2]int{from, min(from+most, len(characters))}
}

// mark is a place in a text that has a word of the query, or a piece of its letters.
type mark struct {
	start, end, what int
	weight           float64
}

// marksOf are the marks of a text, in order, and the number of different ones that there may be.
func marksOf(characters []rune, query string, matches []Match, rarity []float64) (marks []mark, different int) {
	total := 0.0
	for _, r := range rarity {
		total += r
	}
	for _, m := range matches {
		if m.Word < len(rarity) && total > 0 {
			marks = append(marks, mark{m.Start, m.End, m.Word, rarity[m.Word] / total})
		}
	}
	wanted := map[string]int{}
	for _, piece := range pieces([]rune(query)) {
		if _, known := wanted[piece.letters]; !known {
			wanted[piece.letters] = len(rarity) + len(wanted)
		}
	}
	for _, piece := range pieces(characters) {
		if what, is := wanted[piece.letters]; is {
			marks = append(marks, mark{piece.start, piece.end, what, forLetters / float64(len(wanted))})
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return a.start - b.start })
	return marks, len(rarity) + len(wanted)
}

type piece struct {
	letters    string
	start, end int
}

// pieces are all runs of four letters and digits of a text, in small letters, over spaces and signs between them.
func pieces(characters []rune) (all []piece) {
	letters, positions := make([]rune, 0, len(characters)), make([]int, 0, len(characters))
	for i, r := range characters {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			letters, positions = append(letters, unicode.ToLower(r)), append(positions, i)
		}
	}
	for i := range max(0, len(letters)-grams+1) {
		all = append(all, piece{string(letters[i : i+grams]), positions[i], positions[i+grams-1] + 1})
	}
	return all
}

// beginsWord reports whether a quote may begin at a character: no word is cut.
func beginsWord(characters []rune, i int) bool {
	if i == 0 || words.Unspaced(characters[i]) {
		return true
	}
	return unicode.IsSpace(characters[i-1]) && !unicode.IsSpace(characters[i])
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
