package disktable

import (
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// twoQueues holds what is known of partitions, the most useful of it, by the algorithm 2Q of Johnson and Shasha (1994).
// What comes is in a queue, fresh, first in, first out. Only what is asked for again soon after it was pushed out comes
// into the other one, kept, which is in the order of the last use. So those of runs, of which there are thousands a
// second and each is used for some milliseconds, do not push out what all runs of an organization need.
//
// An end with items that becomes the oldest of kept is stripped of them, and stays a while longer as where its
// partition ends.
type twoQueues struct {
	seed        maphash.Seed // its own: by that of the cache a shard's partitions would share few places in left
	fresh, kept partQueue
	left        [1 << 10]uint32 // by their hashes, some of what was pushed out lately
}

// partQueue is one of two queues.
type partQueue struct {
	*lru.LRU[string, *end]
	bytes, limit int
	most         int // of an end's items, in bytes
}

// Limits of the queues: with 32 shards, 2 and 6.5 MB.
const (
	freshBytes = 64 << 10
	keptBytes  = 208 << 10
	overhead   = 160 // of an item, or of a partition, besides the item's own size
)

func (t *twoQueues) init() {
	t.seed = maphash.MakeSeed()
	t.fresh.init(freshBytes, freshBytes/2, t)
	t.kept.init(keptBytes, endBytes, t)
}

func (q *partQueue) init(limit, most int, of *twoQueues) {
	q.limit, q.most = limit, most
	// It errs only on a size below 1.
	q.LRU, _ = lru.NewLRU(limit/overhead, func(part string, e *end) {
		q.bytes -= cost(part, e)
		place, mark := of.mark(part)
		*place = mark
	})
}

// cost is what a partition takes of its queue's bytes.
func cost(part string, e *end) int { return overhead + len(part) + len(e.above) + e.bytes }

// mark is where it is noted that a partition was pushed out, and how.
func (t *twoQueues) mark(part string) (place *uint32, mark uint32) {
	h := maphash.String(t.seed, part)
	return &t.left[h%uint64(len(t.left))], uint32(h>>32) | 1
}

// get returns what is known of a partition, nil for nothing.
func (t *twoQueues) get(part string) *end {
	e, _ := t.find(part)
	return e
}

func (t *twoQueues) find(part string) (*end, *partQueue) {
	if e, there := t.kept.Get(part); there {
		return e, &t.kept
	}
	if e, there := t.fresh.Peek(part); there { // in which use does not change the order
		return e, &t.fresh
	}
	return nil, nil
}

// change changes what is known of a partition.
func (t *twoQueues) change(part string, change func(*end)) {
	e, q := t.find(part)
	if e != nil {
		q.bytes -= cost(part, e)
	} else {
		e, q = &end{}, &t.fresh
		if place, mark := t.mark(part); *place == mark {
			q = &t.kept
		}
		q.Add(part, e)
	}
	change(e)
	e.trim(q.most)
	q.bytes += cost(part, e)
	for q.bytes > q.limit {
		oldest, e, _ := q.GetOldest()
		before := cost(oldest, e)
		if q == &t.kept && e.strip() {
			q.bytes += cost(oldest, e) - before
			q.Get(oldest) // which makes it the newest
			continue
		}
		q.RemoveOldest()
	}
}
