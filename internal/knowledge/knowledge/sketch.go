package knowledge

import (
	"strings"
	"unicode"

	"agentplatform/internal/text/document"
	"agentplatform/internal/text/words"
)

// sketch is a chunk reduced to the features that near-duplicates share.
type sketch struct {
	numbers  string          // words with a digit, as they stand in the chunk and above it
	triplets map[string]bool // of adjacent words
}

// alike is the least part of their triplets that near-duplicates share.
const alike = 0.9

func sketchOf(c document.Chunk) sketch {
	s := sketch{triplets: map[string]bool{}}
	for word := range strings.FieldsSeq(c.Above() + " " + c.Text) {
		if strings.ContainsFunc(word, unicode.IsNumber) {
			s.numbers += word + " "
		}
	}
	list := plainWords(c.Text)
	for i := range max(1, len(list)-2) {
		s.triplets[strings.Join(list[i:min(i+3, len(list))], " ")] = true
	}
	return s
}

// same reports whether two chunks are near-duplicates. Texts that differ in a number are none: an old and a new price
// both count.
func (s sketch) same(other sketch) bool {
	if s.numbers != other.numbers {
		return false
	}
	common := 0
	for t := range s.triplets {
		if other.triplets[t] {
			common++
		}
	}
	return float64(common) >= alike*float64(len(s.triplets)+len(other.triplets)-common)
}

// plainWords are the words of a text in lower case. A character of a script without spaces is a word.
func plainWords(text string) []string {
	var spaced strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case words.Unspaced(r):
			spaced.WriteString(" " + string(r) + " ")
		case unicode.In(r, unicode.L, unicode.N, unicode.M):
			spaced.WriteRune(r)
		default:
			spaced.WriteByte(' ')
		}
	}
	return strings.Fields(spaced.String())
}
