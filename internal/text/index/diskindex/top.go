package diskindex

import (
	"cmp"
	"math"
	"slices"
)

// item is a slot of one of a query's collections, with a score.
type item struct {
	score      float32
	collection int32
	slot       uint32
}

// top keeps the items of the highest scores. It holds up to twice the limit and then drops the lower half. So an item
// costs little more than a comparison.
type top struct {
	limit int
	items []item
	floor float32 // what has no higher score is not among the best
}

func newTop(limit int) *top { return &top{limit: limit, floor: float32(math.Inf(-1))} }

func (t *top) add(i item) {
	if i.score <= t.floor {
		return
	}
	t.items = append(t.items, i)
	if len(t.items) == 2*t.limit {
		t.prune()
	}
}

func (t *top) prune() {
	if len(t.items) <= t.limit {
		return
	}
	t.sort()
	t.items = t.items[:t.limit]
	t.floor = t.items[t.limit-1].score
}

// sort orders the items, highest scores first.
func (t *top) sort() {
	slices.SortFunc(t.items, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.collection, b.collection),
			cmp.Compare(a.slot, b.slot))
	})
}
