// Package words turns text into the terms by which it is found. Documents and queries pass through the same analysis.
// Words are divided by the rules of Unicode (UAX #29), in lower case, without diacritics. They are indexed as written
// and reduced to their stems, in the languages that have a stemmer. Scripts written without spaces are indexed by pairs
// of characters.
//
// Positions are characters (Unicode code points) of the text, from 0; an end is exclusive. All functions are pure, take
// any input, and work in time linear in its length.
//
// It must not know where texts come from, how they are indexed or ranked. It imports document and index, for the shapes
// that it reads and makes.
package words

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"

	segment "github.com/clipperhouse/uax29/v2/words"
)

// Word is a word of a text.
type Word struct {
	Term       string // its stem, where the language has stems
	Written    string // as it stands in the text, in lower case and without diacritics
	Start, End int
	// Stop: the word occurs in every text of its language. Its term differs from those of all other words.
	Stop bool
	// Part: it adds nothing to the length of the text. It is a part of a word, or another writing of one or of several.
	// It may also be a single character of several written without spaces, whose pairs are words, too.
	Part bool
}

// Version names the terms by which a text is indexed. A change of the terms must change it, so that indexes are filled
// again.
const Version = "3"

// Bounds of words, in characters. Nobody searches for longer words: only their beginning counts.
const (
	longestWord = 256 // as written, with its combining marks
	longestTerm = 64
)

// stopMark begins the terms of stop words. No other term begins with it: it is not a letter.
const stopMark = "="

// looseMark begins the rest of a word without the marks that distinguish it from others.
const looseMark = "~"

// Analyze returns the words of a text in the order of their starts. The language is a code like "en" or "pt-BR". Where
// it is unknown or empty, words are not reduced to stems, and none is marked as a stop word.
func Analyze(text, language string) []Word {
	a := analysis{grammar: grammarOf(language), terms: map[string]term{}}
	at := 0
	for tokens := segment.FromString(text); tokens.Next(); {
		at = a.token(tokens.Value(), at)
	}
	a.endRun()
	if a.unordered {
		slices.SortStableFunc(a.found, func(v, w Word) int { return cmp.Compare(v.Start, w.Start) })
	}
	return a.found
}

type analysis struct {
	grammar grammar
	terms   map[string]term // of words that were met, as written
	found   []Word
	run     []letter // adjacent characters of a script without spaces
	piece   piece

	links     []link // words that may be joined with the next one
	divided   int    // where a word begins that may be joined with the one before
	unordered bool
}

// letter is a character with the marks that follow it.
type letter struct {
	text       string
	start, end int
}

// piece is the word that is being read: bytes of a token, and its position in the text.
type piece struct {
	from, start, end, length int
	open                     bool
}

// token reads a token that begins at a character, and returns its end. A token is one word by Unicode's rules. It is
// divided further where people search for its parts.
func (a *analysis) token(token string, at int) int {
	if last := len(a.run) - 1; last >= 0 && a.run[last].end != at {
		a.endRun()
	}
	joins := joiners(token, a.grammar.apostrophes)
	for i := 0; i < len(token); at++ {
		r, width := utf8.DecodeRuneInString(token[i:])
		switch {
		case Unspaced(r):
			a.endPiece(token)
			a.run = append(a.run, letter{token[i : i+width], at, at + 1})
		case isMark(r) && len(a.run) > 0 && !a.piece.open:
			a.extendRun(token[i:i+width], at)
		case isWordCharacter(r) || a.piece.open && joins(i, r):
			a.endRun()
			a.piece.extend(i, at, width)
		default:
			a.endPiece(token)
			a.endRun()
			a.divide(r, at)
		}
		i += width
	}
	a.endPiece(token)
	return at
}

// extend adds a character at a byte of the token.
func (p *piece) extend(from, at, width int) {
	if !p.open {
		*p = piece{from: from, start: at, open: true}
	}
	if p.end = at + 1; p.end-p.start <= longestWord {
		p.length += width
	}
}

func (a *analysis) endPiece(token string) {
	p := a.piece
	a.piece = piece{}
	if !p.open {
		return
	}
	written := token[p.from : p.from+p.length]
	t, met := a.terms[written]
	if !met {
		if t = a.grammar.term(written); !t.stop {
			t.others = a.grammar.others(written, p.end-p.start)
		}
		a.terms[written] = t
	}
	if t.text == "" {
		return
	}
	a.found = append(a.found, Word{Term: t.text, Written: t.written, Start: p.start, End: p.end, Stop: t.stop})
	for _, w := range t.others {
		w.Start, w.End = w.Start+p.start, w.End+p.start
		a.found = append(a.found, w)
	}
	a.join(written, p.start, p.end)
}

// extendRun adds a mark to the last character of the run.
func (a *analysis) extendRun(mark string, at int) {
	last := &a.run[len(a.run)-1]
	if last.end = at + 1; last.end-last.start <= longestTerm/4 {
		last.text += mark
	}
}

// endRun makes words of a run: pairs of its characters, and its characters.
func (a *analysis) endRun() {
	for i, l := range a.run {
		a.add(l.text, l.start, l.end, len(a.run) > 1)
		if i+1 < len(a.run) {
			next := a.run[i+1]
			a.add(l.text+next.text, l.start, next.end, false)
		}
	}
	a.run = a.run[:0]
}

func (a *analysis) add(text string, start, end int, part bool) {
	if term := fold(compatible(text)); term != "" {
		a.found = append(a.found, Word{Term: term, Written: term, Start: start, End: end, Part: part})
	}
}

// withoutSpaces are the scripts whose words are not divided by spaces, or whose words are whole phrases (Hangul).
var withoutSpaces = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan,
}

// Unspaced reports whether a character is of a script whose words are not divided by spaces.
func Unspaced(r rune) bool {
	const firstOfThem = 0x0E00 // Thai
	return r >= firstOfThem && !unicode.IsMark(r) && (unicode.In(r, withoutSpaces...) && unicode.IsLetter(r) ||
		r == 'ー' || r >= 0xFF66 && r <= 0xFF9F) // the long vowel of two scripts; narrow Katakana
}

// MostlyUnspaced reports whether most letters of a text are of such scripts.
func MostlyUnspaced(text string) bool {
	letters, unspaced := 0, 0
	for _, r := range text {
		switch {
		case Unspaced(r):
			unspaced++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return unspaced > letters
}

func isMark(r rune) bool { return unicode.IsMark(r) || unicode.Is(unicode.Cf, r) }

func isWordCharacter(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || isMark(r)
}

// joiners returns a function that reports which characters of a token join both sides of them to one word, though they
// are neither letters nor numbers. Points join the letters of an abbreviation like "U.S.A.". They do not join the words
// of "example.com", nor those of a sentence whose space was lost. Apostrophes join where the language writes one inside
// a word.
func joiners(token string, apostrophes bool) func(at int, r rune) bool {
	abbreviation := utf8.RuneCountInString(token) <= longestTerm && isAbbreviation(token)
	return func(at int, r rune) bool {
		switch r {
		case '_', ':':
			return false
		case '.', '\u2024', '\ufe52', '\uff0e':
			return abbreviation || betweenNumbers(token, at, r)
		case '\'', '’', '＇':
			return apostrophes
		}
		return true
	}
}

// betweenNumbers reports whether the characters next to the one at a byte are both numbers.
func betweenNumbers(token string, at int, r rune) bool {
	before, _ := utf8.DecodeLastRuneInString(token[:at])
	after, _ := utf8.DecodeRuneInString(token[at+utf8.RuneLen(r):])
	return unicode.IsNumber(before) && unicode.IsNumber(after)
}

// isAbbreviation reports whether every second character is a point, and the others are letters.
func isAbbreviation(token string) bool {
	n := 0
	for _, r := range token {
		if point := r == '.'; point != (n%2 == 1) || !point && !unicode.IsLetter(r) {
			return false
		}
		n++
	}
	return n > 2
}
