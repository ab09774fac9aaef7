package s3index

import (
	"cmp"
	"context"
	"math"
	"slices"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
)

const (
	// wide is the least limit of a query by words. It is above the wanted number, because the results are ranked here.
	// If a filter admits more chunks, S3 Vectors chooses: by the query's vector, or any.
	wide = 400
	// growth is how many times more chunks the next query may admit, if the last did not find enough.
	growth = 4
	// mostPaired is the number of words whose pairs are queried together, as far as a filter takes their variants.
	mostPaired = 7
	// mostVariants limits the variants of a word in a query.
	mostVariants = 24
)

// search finds chunks by words. The first query asks for chunks with the rarest words, which distinguish most: as many
// words as are expected in the wanted number of chunks. At the same time, a query asks for chunks with several of the
// other words. Further queries follow until there are enough chunks or no words are left.
func (p *part) search(ctx context.Context) error {
	w := &byWords{part: p, seen: map[index.ChunkID]bool{}, most: max(wide, p.q.Limit),
		terms: min(mostTerms, mostConstraints-len(p.q.Documents)), constraints: mostConstraints - len(p.q.Documents)}
	left := w.rarest()
	if p.sample == nil {
		var err error
		if left, err = w.guess(ctx, left); err != nil {
			return err
		}
	}
	var first []question
	if now, expected := w.next(left, w.most); len(now) > 0 && expected <= w.most {
		first, left = append(first, w.any(now)), left[len(now):]
	}
	if len(left) > 1 {
		first = append(first, question{filter: w.several(left)})
	}
	err := w.ask(ctx, first...)
	for budget := w.most; err == nil && len(left) > 0 && len(w.found) < p.q.Limit; {
		budget *= growth
		now, _ := w.next(left, budget)
		left = left[len(now):]
		err = w.ask(ctx, w.any(now))
	}
	p.byWords = index.BestByWords(w.found, p.q.Limit, p.statistics)
	return err
}

type question struct {
	filter filter
	words  []int // what has one of these is admitted; nil: not so
}

// byWords is a running search by words. Words are identified by their positions in the query.
type byWords struct {
	*part

	most        int // chunks that a question asks for
	terms       int // variants of the words of a question for any of them, at most
	constraints int // of a filter, at most
	seen        map[index.ChunkID]bool
	found       []index.Candidate
}

func (w *byWords) frequency(i int) int { return w.statistics.Frequencies[i] }

// variants are the variants of a word that are queried.
func (w *byWords) variants(i int) []term { return w.words[i][:min(len(w.words[i]), mostVariants)] }

// with admits what has a word.
func (w *byWords) with(i int) filter { return w.any([]int{i}).filter }

// rarest are all words, the rarest first.
func (w *byWords) rarest() []int {
	order := make([]int, len(w.words))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(w.frequency(i), w.frequency(j)) })
	return order
}

// next returns the words of the next query, at least one, and the number of chunks that are expected. It takes words as
// long as the expected chunks are within the budget and the words fit into a filter.
func (w *byWords) next(left []int, budget int) (now []int, expected int) {
	terms := 0
	for n, i := range left {
		terms += len(w.variants(i))
		if n > 0 && (terms > w.terms || expected+w.frequency(i) > budget) {
			break
		}
		now, expected = append(now, i), expected+w.frequency(i)
	}
	return now, expected
}

// guess is the first query where nothing is known of the words. Its result is a sample of the chunks with any of them,
// which shows which words are rare. A small result is all such chunks. It returns the words that are left.
func (w *byWords) guess(ctx context.Context, order []int) (left []int, err error) {
	now, _ := w.next(order, math.MaxInt)
	q := w.any(now)
	found, err := w.find(ctx, w.most, all(q.filter, w.only))
	if err != nil {
		return nil, err
	}
	if w.add(q, found); len(found) == 0 {
		return order[len(now):], nil
	}
	length := 0
	for _, c := range found {
		length += c.Length
	}
	w.statistics.Length = float64(length) / float64(len(found))
	if len(found) < w.most {
		return order[len(now):], nil
	}
	w.chunks = max(w.chunks, len(found))
	for _, i := range now {
		w.statistics.Frequencies[i] = counted(found, i) * w.chunks / len(found)
	}
	return w.rarest(), nil
}

// any admits what has one of the words.
func (w *byWords) any(words []int) question {
	var each []filter
	for _, i := range words {
		for _, t := range w.variants(i) {
			each = append(each, with(t))
		}
	}
	return question{either(each...), words}
}

// counted is the number of the chunks that have a word.
func counted(chunks []index.Candidate, word int) int {
	n := 0
	for _, c := range chunks {
		n += min(c.Weights[word], 1)
	}
	return n
}

// ask runs queries concurrently, and keeps their results.
func (w *byWords) ask(ctx context.Context, questions ...question) error {
	found := make([][]index.Candidate, len(questions))
	err := host.Each(ctx, len(questions), atOnce, func(ctx context.Context, i int) (err error) {
		found[i], err = w.find(ctx, w.most, all(questions[i].filter, w.only))
		return err
	})
	if err != nil {
		return err
	}
	for i, q := range questions {
		w.add(q, found[i])
	}
	return nil
}

// add keeps results. If these are all chunks with the words of a query, it corrects the words' frequencies.
func (w *byWords) add(q question, found []index.Candidate) {
	for _, c := range found {
		at := index.ChunkID{Version: c.Version, Index: c.Index}
		if !w.seen[at] && slices.Max(c.Weights) > 0 { // else another term has the same name
			w.seen[at] = true
			w.found = append(w.found, c)
		}
	}
	if len(found) < w.most && w.only == nil {
		for _, i := range q.words {
			w.statistics.Frequencies[i] = counted(found, i)
		}
	}
}

// several admits chunks with two of the words. It takes pairs as long as the expected chunks are at most those asked
// for and the pairs fit into a filter. Where the first pair is in too many chunks, it admits chunks with the three
// rarest words, or more of them. Words are taken to be independent.
func (w *byWords) several(words []int) filter {
	words = words[:min(len(words), mostPaired)]
	type pair struct {
		a, b     int
		expected float64
	}
	var pairs []pair
	for n, a := range words {
		for _, b := range words[:n] {
			expected := float64(w.frequency(a)) * float64(w.frequency(b)) / float64(max(1, w.chunks))
			pairs = append(pairs, pair{a, b, expected})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.expected, b.expected) })
	if pairs[0].expected > float64(w.most) {
		return w.every(words, pairs[0].expected)
	}
	var admitted []filter
	sum, terms := 0.0, 0
	for _, p := range pairs {
		sum += p.expected
		terms += len(w.variants(p.a)) + len(w.variants(p.b))
		if sum > float64(w.most) || terms > w.constraints {
			break
		}
		admitted = append(admitted, all(w.with(p.a), w.with(p.b)))
	}
	return either(admitted...)
}

// every admits chunks with each of the rarest words. It begins with two words, for which so many chunks are expected.
// It adds words until no more chunks are expected than are asked for, as far as they fit into a filter.
func (w *byWords) every(words []int, expected float64) filter {
	var each []filter
	terms := 0
	for n, i := range words {
		if terms += len(w.variants(i)); n >= 2 {
			if expected <= float64(w.most) || terms > w.constraints {
				break
			}
			expected *= float64(w.frequency(i)) / float64(max(1, w.chunks))
		}
		each = append(each, w.with(i))
	}
	return all(each...)
}
