package disktable

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"agentplatform/internal/table"
)

// cache caches, by partition, what was written or read lately; most reads are of that, or of what is not there yet. It
// may know the end of a partition, so that nothing is looked for there in the engine: a small partition is all end.
//
// The committing goroutine replaces what it has written while it publishes the new view, so that both have the same
// commits. A reader may add what it read from a view only if nothing in that part of the cache was replaced meanwhile.
type cache struct {
	seed   maphash.Seed
	shards [32]cacheShard
}

type cacheShard struct {
	mu    sync.Mutex
	epoch uint64
	parts twoQueues
}

// Limits of the cache, besides those of its queues.
const (
	cachedBytes = 2 << 10  // of an item; larger ones are read each time
	endItems    = 256      // of a partition
	endBytes    = 64 << 10 // of one in the queue kept; of one in fresh half of that queue
)

// end is what is known of a partition: some of its items, and, if it is complete, that there is no other one above a
// key.
type end struct {
	items    []kept // by their sort keys
	complete bool
	above    string
	trimmed  bool // what was known was more
	bytes    int
}

// wanting says that reading the end would tell more than it does.
func (e *end) wanting() bool {
	from, _ := e.find(e.above)
	return !e.complete || e.trimmed && len(e.items)-from < endItems/4
}

// kept is an item by its sort key. The item is nil where there is none, and where it is too large to be kept.
type kept struct {
	sort  string
	item  *table.Item
	large bool
}

// keep is what is kept of an item, which nobody may change any more. The body is shared with those who read it: they do
// not change it.
func keep(sort string, item *table.Item) kept {
	if item == nil {
		return kept{sort: sort}
	}
	if item.Size() > cachedBytes {
		return kept{sort: sort, large: true}
	}
	return kept{sort: sort, item: item}
}

func (k kept) size() int {
	if k.item == nil {
		return overhead + len(k.sort)
	}
	return overhead + k.item.Size()
}

func (c *cache) init() {
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].parts.init()
	}
}

func (c *cache) shard(part string) *cacheShard {
	return &c.shards[maphash.String(c.seed, part)%uint64(len(c.shards))]
}

// get returns the cached item of a key, which nobody may change; nil if it is known that there is none. If that is not
// known, epoch is for learn.
func (c *cache) get(k table.Key) (item *table.Item, epoch uint64, known bool) {
	s := c.shard(k.Part)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.parts.get(k.Part)
	if e == nil {
		return nil, s.epoch, false
	}
	item, known = e.get(k.Sort)
	return item, s.epoch, known
}

// query answers a range from the end of its partition. If that is not enough, wanting says that reading the end would
// help, and epoch is for learnEnd.
func (c *cache) query(r table.Range, live func(*table.Item) *table.Item) (
	found []*table.Item, epoch uint64, wanting, known bool,
) {
	s := c.shard(r.Part)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.parts.get(r.Part)
	if e == nil || !e.complete {
		return nil, s.epoch, true, false
	}
	found, known = e.query(r, live)
	return found, s.epoch, e.wanting(), known
}

// learn adds an item that was read after a get that did not know it. wanting says that the end of its partition should
// be read: something is known of it already, and it was asked for what is not there.
func (c *cache) learn(k table.Key, item *table.Item, epoch uint64) (wanting bool) {
	s := c.shard(k.Part)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return false
	}
	e := s.parts.get(k.Part)
	wanting = e != nil && item == nil && e.wanting()
	s.parts.change(k.Part, func(e *end) { e.set(k.Sort, item) })
	return wanting
}

// ends says whether it is known where a partition ends.
func (c *cache) ends(part string) bool {
	s := c.shard(part)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.parts.get(part)
	return e != nil && e.complete
}

// learnEnd adds the end of a partition that was read after a query that did not know it.
func (c *cache) learnEnd(part string, read *end, epoch uint64) {
	s := c.shard(part)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		s.parts.change(part, func(e *end) {
			if read.bare() {
				e.endsAt(read.above)
			} else {
				*e = *read
			}
		})
	}
}

// replace adds what a batch has written, nil for deleted items; nobody changes these any more. begun are partitions
// that had nothing before it; it changes that map.
func (c *cache) replace(written map[table.Key]*table.Item, begun map[string]bool) {
	for k, item := range written {
		s := c.shard(k.Part)
		s.mu.Lock()
		s.epoch++
		s.parts.change(k.Part, func(e *end) {
			if begun[k.Part] && !e.complete {
				*e = end{complete: true}
			}
			begun[k.Part] = false // what is written next may push this out, and is not all there is
			e.write(k.Sort, item)
		})
		s.mu.Unlock()
	}
}

func (e *end) find(sort string) (int, bool) {
	return slices.BinarySearchFunc(e.items, sort, func(k kept, sort string) int { return cmp.Compare(k.sort, sort) })
}

func (e *end) get(sort string) (item *table.Item, known bool) {
	i, there := e.find(sort)
	if !there {
		return nil, e.complete && sort > e.above
	}
	return e.items[i].item, !e.items[i].large
}

// query answers a range, unless an item may be in it that is not kept.
func (e *end) query(r table.Range, live func(*table.Item) *table.Item) (found []*table.Item, known bool) {
	enough := e.above == "" || r.Prefix > e.above // all that can be in the range is above
	if !r.Reverse {
		if !enough && r.After < e.above {
			return nil, false
		}
		i, _ := e.find(max(r.Prefix, r.After))
		for ; i < len(e.items) && len(found) < r.Limit; i++ {
			k := e.items[i]
			switch {
			case r.After != "" && k.sort <= r.After:
				continue
			case !strings.HasPrefix(k.sort, r.Prefix):
				return found, true
			case k.large:
				return nil, false
			}
			if item := live(k.item); item != nil {
				found = append(found, item)
			}
		}
		return found, true
	}
	for i := len(e.items) - 1; i >= 0 && e.items[i].sort > e.above; i-- {
		k := e.items[i]
		switch {
		case len(found) == r.Limit:
			return found, true
		case !strings.HasPrefix(k.sort, r.Prefix) || r.After != "" && k.sort >= r.After:
			continue
		case k.large:
			return nil, false
		}
		if item := live(k.item); item != nil {
			found = append(found, item)
		}
	}
	if !enough && len(found) < r.Limit {
		return nil, false
	}
	return found, true
}

// write notes what was written; nil for what was deleted. A bare end stays bare: of what nobody reads nothing is kept.
func (e *end) write(sort string, item *table.Item) {
	switch {
	case !e.bare():
		e.set(sort, item)
	case item != nil:
		e.above = max(e.above, sort)
	}
}

// set makes an item known; nil for none.
func (e *end) set(sort string, item *table.Item) {
	i, there := e.find(sort)
	if item == nil && e.complete && sort > e.above {
		if there { // that it is not there goes without saying
			e.bytes -= e.items[i].size()
			e.items = slices.Delete(e.items, i, i+1)
			if cap(e.items) > 4*len(e.items)+8 {
				e.items = slices.Clone(e.items)
			}
		}
		return
	}
	k := keep(sort, item)
	if there {
		e.bytes -= e.items[i].size()
		e.items[i] = k
	} else {
		e.items = slices.Insert(e.items, i, k)
	}
	e.bytes += k.size()
}

// trim forgets the lower half of what has become too much: more than some bytes.
func (e *end) trim(most int) {
	for len(e.items) > endItems || e.bytes > most {
		e.forget((len(e.items) + 1) / 2)
	}
}

// forget forgets the lowest n items.
func (e *end) forget(n int) {
	if e.complete {
		e.above, e.trimmed = max(e.above, e.items[n-1].sort), true
	}
	e.items = slices.Clone(e.items[n:])
	e.bytes = 0
	for _, k := range e.items {
		e.bytes += k.size()
	}
}

// strip forgets all items, and keeps where the partition ends. It returns false if there is nothing to forget, or no
// end to keep.
func (e *end) strip() bool {
	if !e.complete || len(e.items) == 0 {
		return false
	}
	e.forget(len(e.items))
	return true
}

// endsAt notes that there is nothing above a key, which is there.
func (e *end) endsAt(above string) {
	from, there := e.find(above)
	if there {
		from++
	}
	for _, k := range e.items[from:] { // that they are not there goes without saying
		e.bytes -= k.size()
	}
	e.items = slices.Delete(e.items, from, len(e.items))
	e.complete, e.above, e.trimmed = true, above, true
}

// bare says that nothing is known but where the partition ends, as after strip.
func (e *end) bare() bool { return e.complete && e.trimmed && len(e.items) == 0 }

// readEnd reads the end of a partition, from a view or the engine: half as many items as are kept of one, or fewer
// where they are large; or only where it ends, if that is enough by the last sort key.
func readEnd(r pebble.Reader, part string, enough func(last string) bool) (*end, error) {
	low := appendItemKey(nil, table.Key{Part: part})
	high := append(slices.Clone(low[:len(low)-1]), 1) // the byte after the one that ends the partition
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return nil, err
	}
	defer func() { _ = it.Close() }()
	e, read := &end{complete: true}, 0
	for ok := it.Last(); ok; ok = it.Prev() {
		k, valid := splitItemKey(it.Key())
		if !valid {
			return nil, errCorrupt
		}
		if len(e.items) == 0 && enough(k.Sort) {
			e.above, e.trimmed = k.Sort, true
			break
		}
		if len(e.items) == endItems/2 || read > endBytes/2 {
			e.above = k.Sort
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		item, err := decodeItem(k, value)
		if err != nil {
			return nil, err
		}
		read += len(value) + overhead
		next := keep(k.Sort, item)
		e.items = append(e.items, next)
		e.bytes += next.size()
	}
	slices.Reverse(e.items)
	return e, it.Error()
}
