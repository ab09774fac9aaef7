package words

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// mostPhrases are those of a query that count.
const mostPhrases = 8

// closing are the quotation marks that may end a phrase, by the mark that begins it.
var closing = map[rune]string{'"': `"`, '“': `”"`, '„': `“”"`, '«': `»`, '»': `«`, '「': `」`, '『': `』`}

// Phrases returns the words of each phrase in quotation marks in a query, in order. A mark begins a phrase where no
// letter or number is in front of it (so inches do not). A mark without an end begins nothing.
func Phrases(query string) (phrases [][]string) {
	before := ' '
	for at := 0; at < len(query) && len(phrases) < mostPhrases; {
		r, width := utf8.DecodeRuneInString(query[at:])
		at += width
		if ends := closing[r]; ends != "" && (!isWordCharacter(before) || Unspaced(before)) {
			if length := strings.IndexAny(query[at:], ends); length >= 0 {
				if words := sequence(query[at : at+length]); len(words) > 0 {
					phrases = append(phrases, words)
				}
				at += length
				_, width = utf8.DecodeRuneInString(query[at:])
				at += width
			}
		}
		before = r
	}
	return phrases
}

// HasPhrase reports whether the words of a phrase stand in a text, one after the other. It ignores case, punctuation,
// and the marks on letters that people leave out.
func HasPhrase(text string, phrase []string) bool {
	words := sequence(text)
	for at := 0; at+len(phrase) <= len(words); at++ {
		if slices.Equal(words[at:at+len(phrase)], phrase) {
			return true
		}
	}
	return len(phrase) == 0
}

// sequence are the words of a text as they are written. In scripts without spaces they are its characters.
func sequence(text string) (list []string) {
	last := -1
	for _, w := range Analyze(text, "") {
		first, _ := utf8.DecodeRuneInString(w.Term)
		other := w.Part && !Unspaced(first)
		pair := !w.Part && Unspaced(first) && w.Start == last
		if other || pair {
			continue
		}
		list, last = append(list, w.Term), w.Start
	}
	return list
}
