package words

import (
	"slices"

	"agentplatform/internal/document"
	"agentplatform/internal/index"
)

// How often an occurrence counts. A title says what a document is about, a heading what a part of it is about; the
// header of a table only what its columns are.
const (
	titleWeight   = 3
	headingWeight = 2
	contextWeight = 1
	textWeight    = 1
)

// longestNote bounds what is read of a title, of headings and of a context, in characters.
const longestNote = 2000

// ChunkTerms returns what a chunk of a document is indexed by, in the order of first occurrence, and its length: its
// words, each as often as its weight says.
func ChunkTerms(title, language string, c document.Chunk) ([]index.Term, int) {
	t := tally{places: map[string]int{}}
	t.add(Analyze(cutTo(title, longestNote), language), titleWeight)
	t.add(Analyze(cutTo(c.Heading, longestNote), language), headingWeight)
	t.add(Analyze(cutTo(c.Context, longestNote), language), contextWeight)
	t.add(Analyze(c.Text, language), textWeight)
	return t.terms, t.length
}

// tally counts terms.
type tally struct {
	terms  []index.Term
	places map[string]int
	length int
}

func (t *tally) add(words []Word, weight int) {
	for _, w := range words {
		at, there := t.places[w.Term]
		if !there {
			at = len(t.terms)
			t.places[w.Term] = at
			t.terms = append(t.terms, index.Term{Text: w.Term})
		}
		t.terms[at].Weight += weight
		if !w.Part {
			t.length += weight
		}
	}
}

// A query is analysed in the first languages that it is given; of its terms the first count.
const (
	mostLanguages  = 4
	mostQueryTerms = 256
)

// QueryTerms returns the distinct terms of a query over documents of these languages, the most frequent first: its
// words as each of the languages has them, and unstemmed, as documents of unknown languages have them. Stop words are
// left out, unless the query has no other words in that language.
func QueryTerms(query string, languages []string) []string {
	q := queryTerms{seen: map[string]bool{}}
	stop := map[int]bool{} // by start: stop words of one of the languages
	for _, l := range languages[:min(len(languages), mostLanguages)] {
		words := Analyze(query, l)
		for _, w := range words {
			stop[w.Start] = stop[w.Start] || w.Stop
		}
		q.add(words, func(w Word) bool { return w.Stop })
	}
	q.add(Analyze(query, ""), func(w Word) bool { return stop[w.Start] })
	return q.terms
}

type queryTerms struct {
	terms []string
	seen  map[string]bool
}

// add adds the words that are no stop words; if there is no other, all.
func (q *queryTerms) add(words []Word, isStop func(Word) bool) {
	all := !slices.ContainsFunc(words, func(w Word) bool { return !isStop(w) })
	for _, w := range words {
		if len(q.terms) < mostQueryTerms && !w.Part && (all || !isStop(w)) && !q.seen[w.Term] {
			q.seen[w.Term] = true
			q.terms = append(q.terms, w.Term)
		}
	}
}
