package diskindex

import (
	"cmp"
	"context"
	"math"
	"slices"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/text/index"
)

// rescored is how many vectors, chosen by their estimates, have their cosine computed, at least. At least rescoredEach
// are computed for each requested candidate.
const (
	rescored     = 1000
	rescoredEach = 5
)

// estimateError divided by the root of the dimensions bounds the error of an estimate: it is four standard deviations.
const estimateError = 3

// limitsOfQueries are for parallel queries, on so many cores. Others wait.
func limitsOfQueries(cores int) share.Limits {
	return share.Limits{All: int64(3 * cores), Reserve: int64(cores)}
}

// Query implements [index.Index].
func (x *Index) Query(ctx context.Context, q index.Query) (index.Result, error) {
	if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
		return index.Result{}, err
	}
	x.calls.RLock()
	defer x.calls.RUnlock()
	if x.closed {
		return index.Result{}, ErrClosed
	}
	turn := x.turns.Part(share.Of(ctx))
	if err := turn.Wait(ctx); err != nil {
		return index.Result{}, err
	}
	defer turn.Give()
	q.Collections = slices.Compact(slices.Sorted(slices.Values(q.Collections)))
	s := &search{
		q: q, statistics: index.Statistics{Frequencies: make([]int, len(q.Terms))},
		words: newTop(q.Limit), vectors: newTop(q.Limit), estimates: newTop(max(rescored, rescoredEach*q.Limit)),
		found: map[location]*index.Candidate{},
	}
	passes := []func(*state){s.count, s.search}
	if len(q.Terms) == 0 && q.Vector == nil {
		passes = passes[:1]
	}
	for _, pass := range passes {
		if err := x.each(ctx, s, pass); err != nil {
			return index.Result{}, err
		}
	}
	if s.err != nil {
		return index.Result{}, s.err
	}
	more := len(s.words.items) >= q.Limit || len(s.vectors.items) >= q.Limit
	return index.Result{Candidates: s.candidates(), Statistics: s.statistics, More: more}, nil
}

// each calls pass with the collections, one after the other.
func (x *Index) each(ctx context.Context, s *search, pass func(*state)) error {
	for i, name := range s.q.Collections {
		if err := cmp.Or(ctx.Err(), s.err); err != nil {
			return err
		}
		c := x.acquire(name)
		err := c.load()
		c.mu.RLock()
		if c.state != nil {
			s.collection, s.name = int32(i), name
			pass(c.state)
		}
		c.mu.RUnlock()
		x.release(c)
		if err != nil {
			return err
		}
	}
	return nil
}

// location is where a chunk is during a query.
type location struct {
	collection int32
	slot       uint32
}

type search struct {
	q          index.Query
	statistics index.Statistics
	length     int // of all chunks together
	collection int32
	name       string
	probe      *probe
	words      *top
	estimates  *top
	vectors    *top
	found      map[location]*index.Candidate
	buffer     []byte
	err        error
}

func (s *search) count(c *state) {
	s.statistics.Chunks += c.live
	s.length += c.length
	m := mergers.Get().(*merger)
	defer mergers.Put(m)
	for i, variants := range s.q.Terms {
		s.statistics.Frequencies[i] += c.frequency(variants, m)
	}
	s.statistics.Length = float64(s.length) / float64(max(s.statistics.Chunks, 1))
}

// search finds a collection's candidates. It also reads them: the slots may be others in the next pass.
func (s *search) search(c *state) {
	eligible := c.eligible(s.q.Documents)
	s.byWords(c, eligible)
	if len(s.q.Vector) == c.dimensions {
		s.byVector(c, eligible)
	}
	for _, t := range []*top{s.words, s.vectors} {
		t.prune()
		for _, i := range t.items {
			p := location{i.collection, i.slot}
			if i.collection == s.collection && s.found[p] == nil && s.err == nil {
				s.found[p], s.err = s.read(c, i.slot)
			}
		}
	}
}

// eligible returns the live slots of the documents, ascending; nil without documents: all that live.
func (s *state) eligible(documents []string) []uint32 {
	if len(documents) == 0 {
		return nil
	}
	slots := []uint32{}
	for _, d := range documents {
		for _, v := range s.documents[d] {
			slots = append(slots, s.keys[v].slots...)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// slots calls f for the live slots: the eligible ones, or all.
func (s *state) slots(eligible []uint32, f func(slot uint32)) {
	if eligible != nil {
		for _, slot := range eligible {
			f(slot)
		}
		return
	}
	for slot, v := range s.versions {
		if v != dead {
			f(uint32(slot))
		}
	}
}

func (s *search) byWords(c *state, eligible []uint32) {
	terms := c.chosen(s.q, s.statistics)
	if len(terms) == 0 {
		return
	}
	m := mergers.Get().(*merger)
	defer mergers.Put(m)
	m.scores = slices.Grow(m.scores[:0], len(c.at))[:len(c.at)]
	for _, t := range terms {
		c.score(m.scores, t, s.statistics.Length, m)
	}
	c.slots(eligible, func(slot uint32) {
		if score := m.scores[slot]; score > 0 {
			s.words.add(item{score, s.collection, slot})
		}
	})
	clear(m.scores)
}

func (s *search) byVector(c *state, eligible []uint32) {
	if s.probe == nil {
		s.probe = c.rotation.probe(s.q.Vector)
	}
	words := c.rotation.words()
	c.slots(eligible, func(slot uint32) {
		at := int(slot) * words
		e := s.probe.estimate(c.signs[at:at+words], c.factors[slot], c.ones[slot])
		s.estimates.add(item{e, s.collection, slot})
	})
	s.rescore(c)
}

// rescore computes the cosines of the collection's vectors that have the best estimates, best first, until no other can
// be among the best.
func (s *search) rescore(c *state) {
	s.estimates.sort()
	margin := float32(estimateError / math.Sqrt(float64(c.rotation.size)))
	for n, i := range s.estimates.items {
		if n%s.q.Limit == 0 {
			s.vectors.prune()
		}
		if i.score+margin < s.vectors.floor || s.err != nil {
			return
		}
		if i.collection != s.collection {
			continue
		}
		if s.buffer, s.err = c.record(i.slot, vectorAt+vectorHeader+s.probe.dimensions, s.buffer); s.err == nil {
			s.vectors.add(item{float32(c.cosine(s.probe, s.buffer)), s.collection, i.slot})
		}
	}
}

func (s *search) read(c *state, slot uint32) (*index.Candidate, error) {
	record, err := c.record(slot, int(c.sizes[slot]), s.buffer)
	if err != nil {
		return nil, err
	}
	s.buffer = record
	key := c.keys[c.versions[slot]]
	found := &index.Candidate{
		Version: index.Version{Collection: s.name, Document: key.document, Number: key.number},
		Index:   int(c.numbers[slot]), Length: int(c.lengths[slot]), Weights: make([]int, len(s.q.Terms)),
	}
	if s.probe != nil && s.probe.dimensions == c.dimensions {
		found.Cosine = c.cosine(s.probe, record)
	}
	return found, c.weights(record, s.q.Terms, found.Weights)
}

// weights sets for each word its weight in the chunk of a record: the highest of its variants.
func (s *state) weights(record []byte, terms [][]string, weights []int) error {
	if len(terms) == 0 {
		return nil
	}
	var e entry
	if err := s.decode(record, &e); err != nil {
		return err
	}
	for i, variants := range terms {
		for _, t := range variants {
			n, known := s.terms[t]
			if !known {
				continue
			}
			at, has := slices.BinarySearchFunc(e.terms, n, func(w weighted, n uint32) int {
				return cmp.Compare(w.term, n)
			})
			if has {
				weights[i] = max(weights[i], int(e.terms[at].weight))
			}
		}
	}
	return nil
}

// candidates returns the chunks that are among the best at the end.
func (s *search) candidates() []index.Candidate {
	var list []index.Candidate
	for _, i := range slices.Concat(s.words.items, s.vectors.items) {
		p := location{i.collection, i.slot}
		if c := s.found[p]; c != nil {
			list = append(list, *c)
			delete(s.found, p)
		}
	}
	return list
}
