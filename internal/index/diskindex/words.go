package diskindex

import (
	"cmp"
	"math"
	"slices"

	"agentplatform/internal/index"
)

// The ranking within the index, which only chooses candidates, is BM25 with the usual constants.
const (
	saturation = 1.2
	byLength   = 0.75
)

// A term that more than common of a collection's chunks have says little. It is left out where one that is not common
// has enough times the limit of chunks: they are the candidates then.
const (
	common = 0.3
	enough = 4
)

// searched is a term of a query in one collection.
type searched struct {
	*postings
	weight float32 // inverse document frequency
}

// chosen returns the terms that are searched in a collection, rarest first.
func (s *state) chosen(q index.Query, all index.Statistics) []searched {
	var list []searched
	for i, t := range q.Terms {
		n, known := s.terms[t]
		if !known || s.postings[n].live == 0 {
			continue
		}
		df := float64(all.Frequencies[i])
		weight := math.Log(1 + (float64(all.Chunks)-df+0.5)/(df+0.5))
		// Changes since the terms were counted may have the frequency above the number of chunks.
		list = append(list, searched{&s.postings[n], float32(max(weight, 1e-6))})
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

// score adds what a term gives to the score of each slot that has it.
func (s *state) score(scores []float32, t searched, mean float64) {
	fixed := float32(saturation * (1 - byLength))
	perWord := float32(saturation * byLength / max(mean, 1))
	full := t.weight * (saturation + 1)
	slot, list, lengths := uint32(0), t.list, s.lengths
	for i := 0; i < len(list); {
		var step, weight uint32
		step, i = uvarint(list, i)
		slot += step >> 1
		w := float32(1)
		if step&1 == 1 {
			weight, i = uvarint(list, i)
			w = float32(weight)
		}
		scores[slot] += full * w / (w + fixed + perWord*float32(lengths[slot]))
	}
}

// uvarint reads a varint that this package wrote at i, and returns where the next begins.
func uvarint(b []byte, i int) (value uint32, next int) {
	c := b[i]
	if c < 0x80 {
		return uint32(c), i + 1
	}
	value = uint32(c & 0x7f)
	for shift := 7; ; shift += 7 {
		i++
		c = b[i]
		value |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return value, i + 1
		}
	}
}
