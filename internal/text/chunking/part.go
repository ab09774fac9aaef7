package chunking

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// span is a piece of the text: in bytes, from (inclusive) till (exclusive), and in characters, start to end.
type span struct{ from, till, start, end int }

func (s span) to(last span) span { return span{s.from, last.till, s.start, last.end} }
func (s span) empty() bool       { return s.from >= s.till }

// part is a block of the text, or the text between two blocks.
type part struct {
	span
	kind   document.Kind
	level  int // of a heading
	header int // of a row: the part that has the names of the columns; -1: there is none
	words  int // known when it was divided into units
}

// partsOf returns the parts of a text in order. A block that overlaps earlier ones, or is out of order, loses the text
// that was read before. Text between blocks is a paragraph.
func partsOf(t document.Text) []part {
	r := reader{body: t.Body, parts: make([]part, 0, len(t.Blocks)+1)}
	indices := make([]int, len(t.Blocks)) // of each block among the parts; -1: it is empty
	for i, b := range t.Blocks {
		r.add(b.Start, part{kind: document.Paragraph, header: -1})
		indices[i] = r.add(b.End, part{kind: b.Kind, level: b.Level, header: b.Header})
	}
	r.add(len(t.Body), part{kind: document.Paragraph, header: -1})
	for at := range r.parts {
		p := &r.parts[at]
		if p.kind == document.Row && p.header >= 0 && p.header < len(indices) {
			p.header = indices[p.header]
		} else {
			p.header = -1
		}
		if p.header >= 0 && r.parts[p.header].kind != document.Row {
			p.header = -1
		}
	}
	return r.parts
}

type reader struct {
	body     string
	byte, at int // where it stands: the byte and the character
	parts    []part
}

// read goes on to a character, and returns the span up to it.
func (r *reader) read(to int) span {
	from := span{from: r.byte, start: r.at}
	for r.at < to && r.byte < len(r.body) {
		_, width := utf8.DecodeRuneInString(r.body[r.byte:])
		r.byte += width
		r.at++
	}
	from.till, from.end = r.byte, r.at
	return from
}

// add adds the text up to a character as a part. It returns the part's index, or -1 if it has no text.
func (r *reader) add(to int, p part) int {
	if p.span = lines(r.body, r.read(to)); p.empty() {
		return -1
	}
	r.parts = append(r.parts, p)
	return len(r.parts) - 1
}

// lines removes white space from both ends, but not from the beginning and end of a line. There it is indentation, or
// stands for empty cells.
func lines(body string, s span) span {
	if s = trim(body, s); s.empty() {
		return s
	}
	first := len(strings.TrimRight(body[:s.from], blanks))
	if first == 0 || body[first-1] == '\n' {
		s.start -= s.from - first
		s.from = first
	}
	last := len(body) - len(strings.TrimLeft(body[s.till:], blanks))
	if last == len(body) || body[last] == '\n' {
		s.end += last - s.till
		s.till = last
	}
	return s
}

// blanks are what stands within lines between words.
const blanks = " \t"

func trim(body string, s span) span {
	s = skipSpace(body, s)
	till := s.from + len(strings.TrimRightFunc(body[s.from:s.till], unicode.IsSpace))
	s.end -= utf8.RuneCountInString(body[till:s.till])
	s.till = till
	return s
}
