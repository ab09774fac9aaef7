package words

import (
	"slices"
	"strings"
)

// Bounds of a query: words that count, and variants of one of them.
const (
	mostQueryTerms = 256
	mostVariants   = 24
)

// QueryTerms returns the words of a query over documents of these languages, the most frequent first. Each word is its
// variants: the word as written, and its stems in each of the languages. A text with one of the variants has the word.
// Stop words are left out, unless the query has no other words. They are those of the query's own language, or of the
// most frequent one where that is unknown.
func QueryTerms(query string, languages []string) [][]string {
	q := parsedQuery{main: QueryLanguage(query, languages), at: map[[2]int]int{}}
	counting := q.main
	if counting == "" && len(languages) > 0 {
		counting = base(languages[0])
	}
	seen := []string{""}
	for _, l := range append([]string{counting}, languages...) {
		if l = base(l); !slices.Contains(seen, l) {
			seen = append(seen, l)
			q.analyze(query, l, l == counting)
		}
	}
	q.analyze(query, "", false)
	if q.main != vietnamese && slices.Contains(languages, vietnamese) {
		q.loosen()
	}
	q.others(query)
	return q.terms()
}

type parsedQuery struct {
	main  string
	words []queryWord
	at    map[[2]int]int // places in words, by where a word begins and ends
	stop  []bool         // of each character of the query
}

type queryWord struct {
	start    int
	end      int
	variants []string
	exact    bool     // no other language has variants of it
	stops    []string // terms of languages in which it is a stop word
}

// analyze adds the variants of a language. Where the language is one that counts, its stop words are left out.
func (q *parsedQuery) analyze(query, language string, counts bool) {
	for _, w := range Analyze(query, language) {
		if w.Part {
			continue
		}
		bounds := [2]int{w.Start, w.End}
		i, there := q.at[bounds]
		if !there {
			if len(q.words) == 4*mostQueryTerms {
				continue
			}
			i = len(q.words)
			q.at[bounds] = i
			q.words = append(q.words, queryWord{start: w.Start, end: w.End})
		}
		q.words[i].add(w, language == vietnamese && q.main == vietnamese)
		for len(q.stop) < w.End {
			q.stop = append(q.stop, false)
		}
		for at := w.Start; w.Stop && counts && at < w.End; at++ {
			q.stop[at] = true
		}
	}
}

// loosen lets words without marks find words that become the same without their marks.
func (q *parsedQuery) loosen() {
	for i, w := range q.words {
		if len(w.variants) > 0 && len(w.variants) < mostVariants && !w.exact {
			q.words[i].variants = append(q.words[i].variants, looseMark+w.variants[len(w.variants)-1])
		}
	}
}

// others adds the other writings of words, also those of several words together.
func (q *parsedQuery) others(query string) {
	for _, w := range Analyze(query, "") {
		if !w.Part {
			continue
		}
		for i, a := range q.words {
			if covers := w.Start <= a.start && a.end <= w.End; covers && len(a.variants) > 0 {
				q.words[i].add(w, false)
			}
		}
	}
}

// add adds the variants that a language has of the word. tones reports that its marks make it another word.
func (a *queryWord) add(w Word, tones bool) {
	if a.exact {
		return
	}
	add := func(list *[]string, term string) {
		if len(*list) < mostVariants && !slices.Contains(*list, term) {
			*list = append(*list, term)
		}
	}
	if w.Stop {
		add(&a.stops, w.Term)
	} else {
		add(&a.variants, w.Term)
	}
	if a.exact = tones && w.Term != w.Written; a.exact { // what was written, or indexed, without marks
		add(&a.variants, strings.TrimPrefix(w.Written, looseMark))
	} else {
		add(&a.variants, w.Written)
	}
}

// terms are the variants of the words that are searched, each word once.
func (q *parsedQuery) terms() [][]string {
	isStop := func(w queryWord) bool { return q.stop[w.start] }
	all := !slices.ContainsFunc(q.words, func(w queryWord) bool { return !isStop(w) })
	var terms [][]string
	byFirst := map[string]bool{}
	for _, w := range q.words {
		variants := w.variants
		switch {
		case all:
			variants = append(variants, w.stops...)
		case isStop(w):
			continue
		}
		if byFirst[variants[0]] || len(terms) == mostQueryTerms {
			continue
		}
		byFirst[variants[0]] = true
		terms = append(terms, variants)
	}
	return terms
}
