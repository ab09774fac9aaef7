package pdftext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	spacedLetters = 4   // a line of fewer single letters is not spaced
	wordSpace     = 1.6 // times the usual space between letters, at least
	longestWord   = 24  // letters; what is longer is a list of letters
)

// unspaced joins the letters of a line that are drawn apart from each other. Letters in the order of the alphabet stay
// apart, and so do letters that are as far apart as columns.
func (t textPage) unspaced(l Line) string {
	letters := strings.Fields(l.Text)
	if len(letters) < spacedLetters || !l.straight() || !single(letters) {
		return l.Text
	}
	var spaces []float64
	end := -1
	for at, r := range []rune(l.Text) {
		if unicode.IsSpace(r) {
			continue
		}
		if end >= 0 {
			spaces = append(spaces, t.left(l.first+at)-t.right(l.first+end))
		}
		end = at
	}
	usual := slices.Sorted(slices.Values(spaces))[len(spaces)/2]
	if !(usual <= gutterWidth*l.size) {
		return l.Text
	}
	var b strings.Builder
	for i, letter := range letters {
		if i > 0 && spaces[i-1] > wordSpace*usual {
			b.WriteByte(' ')
		}
		b.WriteString(letter)
	}
	for word := range strings.FieldsSeq(b.String()) {
		if utf8.RuneCountInString(word) > longestWord {
			return l.Text
		}
	}
	return b.String()
}

// single reports whether all words are one letter, and not in the order of the alphabet.
func single(words []string) bool {
	inOrder := true
	var last rune
	for i, word := range words {
		r, width := utf8.DecodeRuneInString(word)
		if width < len(word) || !unicode.IsLetter(r) {
			return false
		}
		inOrder = inOrder && (i == 0 || r == last+1)
		last = r
	}
	return !inOrder
}
