package chunking

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"

	"agentplatform/internal/text/document"
	"agentplatform/internal/text/words"
)

// unit is a piece that is not divided: a sentence, a line of code, or a row of a table. Where one is longer than a
// chunk, a unit is a few words of it.
type unit struct {
	span
	words int
	part  int
}

func (s *splitter) units(at int) []unit {
	p := &s.parts[at]
	var list []unit
	s.divide(*p, func(piece span) {
		if piece = lines(s.text.Body, piece); !piece.empty() {
			list = s.addUnits(list, unit{span: piece, part: at, words: count(s.text.Body, piece)})
		}
	})
	for _, u := range list {
		p.words += u.words
	}
	return list
}

// addUnits adds a unit, or, if it is longer than a chunk, its pieces. The pieces are short, so that they fill chunks.
// The pieces of a row have the empty cells before them.
func (s *splitter) addUnits(list []unit, u unit) []unit {
	if u.words <= s.size && u.end-u.start <= s.longest() {
		return append(list, u)
	}
	body := s.text.Body
	last := trim(body, u.span)
	for rest := (span{u.from, last.till, u.start, last.end}); !rest.empty(); {
		text := skipSpace(body, rest)
		if s.parts[u.part].kind != document.Row || text.start-rest.start > longestWord {
			rest = text
		}
		piece := unit{span: span{from: rest.from, start: rest.start}, part: u.part}
		for piece.words < max(1, s.size/8) && !rest.empty() {
			word, after := nextWord(body, rest)
			if piece.words > 0 && word.end-piece.start > s.longest()/8 {
				break
			}
			piece.till, piece.end, rest = word.till, word.end, after
			piece.words++
		}
		list = append(list, piece)
	}
	if u.end-last.end <= longestWord {
		piece := &list[len(list)-1]
		piece.till, piece.end = u.till, u.end
	}
	return list
}

// divide calls yield with the pieces of a part, in order; the part's kind decides how it is divided.
func (s *splitter) divide(p part, yield func(span)) {
	text := s.text.Body[p.from:p.till]
	at := p.span
	next := func(length int) {
		at.till = at.from + length
		at.end = at.start + utf8.RuneCountInString(s.text.Body[at.from:at.till])
		yield(at)
		at.from, at.start = at.till, at.end
	}
	switch p.kind {
	case document.Row:
		next(len(text))
	case document.Code:
		for line := range strings.Lines(text) {
			next(len(line))
		}
	default:
		// A sentence may go on after a line end, which is where the page's line ended.
		for text = strings.ReplaceAll(text, "\n", " "); text != ""; {
			length := stretch(text)
			for list := sentences.FromString(text[:length]); list.Next(); {
				next(len(list.Value()))
			}
			text = text[length:]
		}
	}
}

// longestPause is how many consecutive characters of a sentence may be neither letters nor numbers. The search for
// sentences takes quadratic time in them.
const longestPause = 16

// stretch is the length in bytes of a text up to the end of the first pause that is too long.
func stretch(text string) int {
	pause := 0
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			pause = 0
			continue
		}
		if pause++; pause > longestPause {
			return i
		}
	}
	return len(text)
}

// The length of a word is bounded, in characters: addresses, encoded bytes and hostile texts have no spaces.
const (
	longestWord     = 32
	longestUnspaced = 2
)

// nextWord returns the first word of a span that is not empty, and the rest after it. The word is empty if there is
// only white space.
func nextWord(body string, s span) (word, rest span) {
	rest = skipSpace(body, s)
	word = span{from: rest.from, start: rest.start}
	unspaced := 0
	for !rest.empty() && rest.start-word.start < longestWord {
		r, width := utf8.DecodeRuneInString(body[rest.from:rest.till])
		isUnspaced := words.Unspaced(r)
		if unicode.IsSpace(r) || unspaced == longestUnspaced && !unicode.IsMark(r) ||
			isUnspaced != (unspaced > 0) && rest.start > word.start && !unicode.IsMark(r) {
			break
		}
		if isUnspaced {
			unspaced++
		}
		rest.from += width
		rest.start++
	}
	word.till, word.end = rest.from, rest.start
	return word, rest
}

func skipSpace(body string, s span) span {
	from := s.till - len(strings.TrimLeftFunc(body[s.from:s.till], unicode.IsSpace))
	s.start += utf8.RuneCountInString(body[s.from:from])
	s.from = from
	return s
}

func count(body string, s span) int {
	n := 0
	for s = skipSpace(body, s); !s.empty(); s = skipSpace(body, s) {
		_, s = nextWord(body, s)
		n++
	}
	return n
}
