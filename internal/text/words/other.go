package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agentplatform/internal/text/index"
)

// Words that people write in several ways are indexed in several ways. These are parts of names in code, letters and
// digits with and without a hyphen between them, versions with and without a v, and umlauts as two letters.

const (
	// mostLinked bounds the words that are joined to one.
	mostLinked = 4
	// shortestPart is the least number of characters of a part of a word that can be found.
	shortestPart = 2
	// mostTerms is the number of a chunk's terms from which no more parts and other writings are added.
	mostTerms = index.MaxChunkTerms / 2
)

// others returns the parts and other writings of a word of so many characters. Their positions are those in the word.
func (g grammar) others(word string, length int) (list []Word) {
	add := func(text string, start, end int) {
		if t := g.term(text); t.text != "" {
			w := Word{Term: t.text, Written: t.written, Start: start, End: end, Stop: t.stop, Part: true}
			list = append(list, w)
		}
	}
	lower := strings.ToLower(word)
	if number, has := strings.CutPrefix(lower, "v"); has && isVersion(number) {
		add(number, 0, length)
	}
	if !isPlain(word) && g.umlauts {
		if composed := norm.NFC.String(lower); strings.ContainsAny(composed, "äöüø") {
			add(asTwoLetters.Replace(composed), 0, length)
		}
	}
	if lower == word {
		return list
	}
	letters, from := []rune(word), 0
	for i := 1; i <= len(letters); i++ {
		if i < len(letters) && !beginsPart(letters, i) {
			continue
		}
		if i-from < len(letters) && i-from >= shortestPart {
			add(string(letters[from:i]), from, i)
		}
		from = i
	}
	return list
}

var asTwoLetters = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ø", "oe")

// isVersion reports whether a word is numbers with points between them.
func isVersion(word string) bool {
	return strings.Contains(word, ".") && !strings.ContainsFunc(word, func(r rune) bool {
		return r != '.' && !unicode.IsDigit(r)
	})
}

// beginsPart reports whether a part of a word begins at a letter. This is a capital after a small letter, or one
// between another capital or a digit and a small letter.
func beginsPart(letters []rune, i int) bool {
	if !unicode.IsUpper(letters[i]) {
		return false
	}
	small := i+1 < len(letters) && unicode.IsLower(letters[i+1])
	return unicode.IsLower(letters[i-1]) || small && (unicode.IsUpper(letters[i-1]) || unicode.IsDigit(letters[i-1]))
}

// link is a word that may be joined with the next one.
type link struct {
	written    string
	start, end int
}

// join adds the compound of a word with those before it that a hyphen or the like divides from it. It joins where
// letters and digits meet: ERR-4711 is ERR4711, too.
func (a *analysis) join(written string, start, end int) {
	n := len(a.links)
	if n > 0 && (a.divided != start || a.links[n-1].end != start-1 || !meet(a.links[n-1].written, written)) {
		a.links = a.links[:0]
	}
	if len(a.links) == mostLinked {
		a.links = a.links[1:]
	}
	joined := written
	for _, l := range slices.Backward(a.links) {
		joined = l.written + joined
		if t := a.grammar.term(joined); t.text != "" {
			a.found = append(a.found, Word{Term: t.text, Written: t.written, Start: l.start, End: end, Part: true})
			a.unordered = true
		}
	}
	a.links = append(a.links, link{written, start, end})
}

// meet reports whether a word ends with a letter and the next one begins with a digit, or the other way round.
func meet(word, next string) bool {
	last, _ := utf8.DecodeLastRuneInString(word)
	first, _ := utf8.DecodeRuneInString(next)
	return unicode.IsLetter(last) && unicode.IsDigit(first) || unicode.IsDigit(last) && unicode.IsLetter(first)
}

// divide notes a character that is in no word. A joining character joins the words at both sides of it.
func (a *analysis) divide(r rune, at int) {
	if a.divided = -1; strings.ContainsRune("-_\u2010\u2011", r) {
		a.divided = at + 1
	}
}
