package words

import (
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/index"
)

// Weights of an occurrence. A title describes a document, and a heading a part of it; the header of a table describes
// only its columns.
const (
	titleWeight   = 3
	headingWeight = 2
	contextWeight = 1
	textWeight    = 1
)

// longestNote bounds how much of a title, of headings and of a context is read, in characters.
const longestNote = 2000

// ChunkTerms returns the terms by which a chunk of a document is indexed, in the order of first occurrence, and the
// chunk's length in words. Each occurrence of a word counts with its weight. A word is indexed by its stem and, where
// that is another term, as written; it counts once in the length. Its parts and other writings are indexed, too, and
// count nothing in the length.
func ChunkTerms(title, language string, c document.Chunk) ([]index.Term, int) {
	t := tally{positions: map[string]int{}}
	t.add(Analyze(document.Cut(title, longestNote), language), titleWeight)
	t.add(Analyze(document.Cut(c.Heading, longestNote), language), headingWeight)
	t.add(Analyze(document.Cut(c.Context, longestNote), language), contextWeight)
	t.add(Analyze(c.Text, language), textWeight)
	return t.terms, t.length
}

// tally counts terms.
type tally struct {
	terms     []index.Term
	positions map[string]int
	length    int
}

func (t *tally) add(words []Word, weight int) {
	for _, w := range words {
		if w.Part && len(t.terms) >= mostTerms {
			continue
		}
		t.count(w.Term, weight)
		if !w.Stop && w.Written != w.Term {
			t.count(w.Written, weight)
		}
		if !w.Part {
			t.length += weight
		}
	}
}

func (t *tally) count(term string, weight int) {
	at, there := t.positions[term]
	if !there {
		at = len(t.terms)
		t.positions[term] = at
		t.terms = append(t.terms, index.Term{Text: term})
	}
	t.terms[at].Weight += weight
}
