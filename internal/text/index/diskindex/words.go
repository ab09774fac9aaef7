package diskindex

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"agentplatform/internal/text/index"
)

// A term that a share above common of a collection's chunks have does not distinguish chunks much. It is left out where
// another term, which is not common, has at least enough times the limit of chunks. Those chunks are the candidates
// then.
const (
	common = 0.3
	enough = 4
)

// searched is a word of a query in one collection.
type searched struct {
	lists  [][]byte // postings of its variants
	live   int      // chunks that have its most frequent variant
	weight float32  // inverse document frequency
}

// lists are the postings of the variants of a word that chunks have; live is how many have the most frequent one.
func (s *state) lists(variants []string) (lists [][]byte, live int) {
	for _, t := range variants {
		if n, known := s.terms[t]; known && s.postings[n].live > 0 {
			lists = append(lists, s.postings[n].list)
			live = max(live, s.postings[n].live)
		}
	}
	return lists, live
}

// frequency is the number of live chunks that have one of the variants of a word.
func (s *state) frequency(variants []string, m *merger) int {
	lists, live := s.lists(variants)
	if len(lists) < 2 {
		return live
	}
	live = 0
	for _, slot := range m.merge(len(s.at), lists) {
		m.weights[slot] = 0
		if s.versions[slot] != dead {
			live++
		}
	}
	return live
}

// chosen returns the words that are searched in a collection, rarest first.
func (s *state) chosen(q index.Query, all index.Statistics) []searched {
	var list []searched
	for i, variants := range q.Terms {
		lists, live := s.lists(variants)
		if live == 0 {
			continue
		}
		// Changes since the words were counted may have made the frequency larger than the number of chunks.
		list = append(list, searched{lists, live, float32(max(index.Rarity(all.Frequencies[i], all.Chunks), 1e-6))})
	}
	slices.SortFunc(list, func(a, b searched) int { return cmp.Compare(a.live, b.live) })
	if len(q.Documents) > 0 {
		return list
	}
	n, _ := slices.BinarySearchFunc(list, common*float64(s.live), func(t searched, first float64) int {
		return cmp.Compare(float64(t.live), first)
	})
	if n > 0 && list[n-1].live >= enough*q.Limit {
		return list[:n]
	}
	return list
}

// score adds what a word gives to the score of each slot that has it, as [index.BM25] does.
func (s *state) score(scores []float32, t searched, mean float64, m *merger) {
	fixed := float32(index.Saturation * (1 - index.ByLength))
	perWord := float32(index.Saturation * index.ByLength / max(mean, 1))
	lengths := s.lengths
	if len(t.lists) > 1 {
		for _, slot := range m.merge(len(s.at), t.lists) {
			w := float32(m.weights[slot])
			m.weights[slot] = 0
			scores[slot] += t.weight * w / (w + fixed + perWord*float32(lengths[slot]))
		}
		return
	}
	for slot, weight := range each(t.lists[0]) {
		w := float32(weight)
		scores[slot] += t.weight * w / (w + fixed + perWord*float32(lengths[slot]))
	}
}

// merger makes one list of several: each slot once, with the highest of its weights. Queries use it one at a time.
type merger struct {
	weights []uint32 // of each slot; who reads one sets it to zero
	slots   []uint32
	scores  []float32 // of each slot, all zero between queries
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

// merge returns the slots of postings of a collection with so many slots, and has their weights.
func (m *merger) merge(slots int, lists [][]byte) []uint32 {
	if len(m.weights) < slots {
		m.weights = make([]uint32, slots+slots/4)
	}
	m.slots = m.slots[:0]
	for _, list := range lists {
		for slot, weight := range each(list) {
			if m.weights[slot] == 0 {
				m.slots = append(m.slots, slot)
			}
			m.weights[slot] = max(m.weights[slot], weight)
		}
	}
	return m.slots
}

// each yields the slots of postings with their weights.
func each(list []byte) iter.Seq2[uint32, uint32] {
	return func(yield func(slot, weight uint32) bool) {
		for slot := uint32(0); len(list) > 0; {
			step, rest := uvarint(list)
			weight := uint32(1)
			if slot += step >> 1; step&1 == 1 {
				weight, rest = uvarint(rest)
			}
			if list = rest; !yield(slot, weight) {
				return
			}
		}
	}
}

// uvarint takes the first varint from bytes that this package wrote.
func uvarint(b []byte) (value uint32, rest []byte) {
	if b[0] < 0x80 {
		return uint32(b[0]), b[1:]
	}
	n, size := binary.Uvarint(b)
	return uint32(n), b[size:]
}
