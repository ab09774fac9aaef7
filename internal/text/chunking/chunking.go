// Package chunking divides the text of a document into the pieces in which it is searched. The pieces follow the text's
// structure. A heading begins a piece. A paragraph, an item of a list, a row of a table or a sentence is divided only
// where it must be.
//
// It takes any text, and works in time linear in its length. Bounds on the length are for its caller.
//
// It must not know where texts come from, how chunks are indexed or what they are worth. It imports document, whose
// texts it divides into its chunks, and words, to know scripts without spaces.
package chunking

import (
	"errors"
	"strings"

	"agentplatform/internal/text/document"
)

// MostChunks is how many chunks a document may have.
const MostChunks = 20_000

// ErrTooMany is returned for a text of more chunks than [MostChunks].
var ErrTooMany = errors.New("chunking: the text has too many chunks")

// Split divides a text into chunks, in the order of the text. The chunks hold all of its characters, except white space
// between chunks. A chunk has at most size words. It begins with the end of the previous chunk: about overlap words,
// whole sentences if they fit, and nothing across a heading. The error is [ErrTooMany].
//
// A word is a run of characters between spaces, but at most 32 characters of it. In scripts without spaces, a word is
// two characters.
func Split(t document.Text, size, overlap int) ([]document.Chunk, error) {
	size = max(size, 1)
	s := &splitter{
		text: t, size: size, overlap: max(0, min(overlap, (size-1)/2)),
		parts: partsOf(t),
	}
	for at := range s.parts {
		for i, u := range s.units(at) {
			s.add(u, i == 0)
			if len(s.chunks) > MostChunks {
				return nil, ErrTooMany
			}
		}
	}
	if s.close(); len(s.chunks) > MostChunks {
		return nil, ErrTooMany
	}
	return s.chunks, nil
}

// splitter gathers units in the open chunk until it is full.
type splitter struct {
	text          document.Text
	size, overlap int
	parts         []part
	chunks        []document.Chunk
	path          []heading

	open   []unit // what the open chunk has
	words  int    // of it
	fresh  int    // of them, those that no chunk before has
	page   int    // the one on which the last chunk began
	within bool   // the open chunk has more than headings
}

// add adds a unit to the open chunk, or to a new one.
func (s *splitter) add(u unit, first bool) {
	p := &s.parts[u.part]
	isHeading := p.kind == document.Heading
	if isHeading && first {
		if s.within {
			s.close()
			s.begin(nil)
		}
		s.enter(*p)
	}
	// A part stays whole if it fits a chunk and leaves no chunk before it that is nearly empty.
	together := u.words
	if first && p.words <= s.size && s.fresh >= s.size/4 {
		together = p.words
	}
	if len(s.open) > 0 && (s.words+together > s.size || s.tooLong(u)) {
		s.close()
		if s.begin(s.tail(min(s.overlap, s.size-together))); len(s.open) > 0 && s.tooLong(u) {
			s.begin(nil)
		}
	}
	s.open = append(s.open, u)
	s.words += u.words
	s.fresh += u.words
	s.within = s.within || !isHeading
}

// longest is how many characters a chunk may have: a longer one has much white space.
func (s *splitter) longest() int { return s.size * (longestWord + 1) }

// tooLong reports whether the open chunk would be too long with a unit.
func (s *splitter) tooLong(u unit) bool { return u.end-s.open[0].start > s.longest() }

// begin opens a chunk with the units that it shares with the previous one.
func (s *splitter) begin(common []unit) {
	s.open = append(s.open[:0], common...)
	s.words, s.fresh, s.within = 0, 0, len(common) > 0
	for _, u := range common {
		s.words += u.words
	}
}

// tail is the end of the open chunk, of at most so many words, without the chunk's first unit. It is whole units, or,
// if none fits, the end of one. A unit that must stay whole is not cut.
func (s *splitter) tail(words int) []unit {
	from := len(s.open)
	left := words
	for from > 1 && s.open[from-1].words <= left && s.kind(from-1) != document.Heading {
		from--
		left -= s.open[from].words
	}
	if from < len(s.open) || words == 0 {
		return s.open[from:]
	}
	if kind := s.kind(from - 1); kind != document.Paragraph && kind != document.Item {
		return nil
	}
	return s.trailingWords(s.open[from-1], words)
}

func (s *splitter) kind(at int) document.Kind { return s.parts[s.open[at].part].kind }

// trailingWords returns the last n words of a unit, which has more.
func (s *splitter) trailingWords(u unit, n int) []unit {
	skip := u.words - n
	if skip <= 0 {
		return nil
	}
	rest := u.span
	for range skip {
		_, rest = nextWord(s.text.Body, rest)
	}
	u.span, u.words = trim(s.text.Body, rest), n
	return []unit{u}
}

func (s *splitter) close() {
	if len(s.open) == 0 {
		return
	}
	all := s.open[0].to(s.open[len(s.open)-1].span)
	s.chunks = append(s.chunks, document.Chunk{
		Index: len(s.chunks), Start: all.start, End: all.end,
		PageFrom: s.pageOf(all.start), PageTo: s.pageOf(all.end - 1),
		Heading: s.heading(), Text: s.text.Body[all.from:all.till], Context: s.context(all),
	})
}

// pageOf is the page of a character: 0, if the text has no pages.
func (s *splitter) pageOf(at int) int {
	pages := s.text.Pages
	if len(pages) == 0 {
		return 0
	}
	for s.page > 0 && pages[s.page] > at { // an overlap may begin on a page before
		s.page--
	}
	for s.page+1 < len(pages) && pages[s.page+1] <= at {
		s.page++
	}
	return s.page + 1
}

// longestContext bounds the headers of tables that a chunk has, in characters.
const longestContext = 1000

// context returns the headers of the tables whose rows are in a chunk, except headers that are in the chunk itself.
func (s *splitter) context(all span) string {
	var headers []string
	last, length := -1, 0
	for _, u := range s.open {
		p := s.parts[u.part]
		if p.kind != document.Row || p.header < 0 || p.header == last || length >= longestContext {
			continue
		}
		last = p.header
		header := s.parts[p.header].span
		if header.start >= all.start && header.end <= all.end {
			continue
		}
		text := document.Cut(s.text.Body[header.from:header.till], longestContext-length)
		headers = append(headers, text)
		length += len(text)
	}
	return strings.Join(headers, "\n")
}
