package disktable

import (
	"cmp"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/store/table"
)

// cache holds the partitions that were used last. It holds all items of a small partition, so it knows which items
// that partition does not have, and it can answer ranges. Its partitions are as they are in the newest view: see
// [Table.publish] and [Table.remember].
type cache struct {
	mu    sync.Mutex
	parts *lru.LRU[string, *partition]
	bytes int // of its partitions
	limit int // of bytes
}

// Limits of the cache.
const (
	cacheBytes = 4 << 20
	partBytes  = 64 << 10 // of a small partition
	partItems  = 256      // of a small partition
	entryBytes = 160      // of an item or a partition, besides the item's own size
)

func newCache() *cache {
	c := &cache{limit: cacheBytes}
	// It fails only for a size below 1.
	c.parts, _ = lru.NewLRU(cacheBytes/entryBytes, func(name string, p *partition) { c.bytes -= p.cost(name) })
	return c
}

// get returns a partition, nil if the cache does not hold it.
func (c *cache) get(name string) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.parts.Get(name)
	return p
}

func (c *cache) add(name string, p *partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(name, p)
}

// replace applies a batch's writes, nil for deleted items, to the partitions that the cache holds.
func (c *cache) replace(written map[table.Key]*table.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, item := range written {
		if p, there := c.parts.Peek(k.Part); there {
			c.put(k.Part, p.with(k.Sort, item))
		}
	}
}

func (c *cache) put(name string, p *partition) {
	if p == nil {
		c.parts.Remove(name)
		return
	}
	if old, there := c.parts.Peek(name); there {
		c.bytes -= old.cost(name)
	}
	c.parts.Add(name, p)
	c.bytes += p.cost(name)
	for c.bytes > c.limit {
		c.parts.RemoveOldest()
	}
}

// partition is the cached part of a partition. It does not change, and neither do its items.
type partition struct {
	items   []*table.Item // all of them, by their sort keys; nil if the partition is large
	bytes   int           // of items
	large   bool          // its items must be read from the engine
	deleted int           // how many items were deleted from a large partition since it was read
}

func newPartition(items []*table.Item, bytes int) *partition {
	if len(items) > partItems || bytes > partBytes {
		return &partition{large: true}
	}
	return &partition{items: items, bytes: bytes}
}

// load reads a partition from a view or the engine. A partition with an item that cannot be read counts as large.
func load(from pebble.Reader, name string) *partition {
	var items []*table.Item
	bytes := 0
	err := scan(from, appendItemKey(nil, table.Key{Part: name}), table.Range{}, func(key, value []byte) (bool, error) {
		k, ok := splitItemKey(key)
		if !ok {
			return false, errCorrupt
		}
		item, err := decodeItem(k, value)
		if err != nil {
			return false, err
		}
		items = append(items, item)
		bytes += sizeOf(item)
		return len(items) <= partItems && bytes <= partBytes, nil
	})
	if err != nil {
		return &partition{large: true}
	}
	return newPartition(items, bytes)
}

func sizeOf(item *table.Item) int { return entryBytes + item.Size() }

func (p *partition) cost(name string) int { return entryBytes + len(name) + p.bytes }

// read returns an item, nil if there is none. It reads an item of a large partition from a view or the engine.
func (p *partition) read(from pebble.Reader, k table.Key) (*table.Item, error) {
	if p.large {
		return read(from, k)
	}
	if at, there := p.find(k.Sort); there {
		return p.items[at], nil
	}
	return nil, nil
}

func (p *partition) find(sort string) (int, bool) {
	return slices.BinarySearchFunc(p.items, sort, func(i *table.Item, s string) int { return cmp.Compare(i.Sort, s) })
}

// query returns the live items in a range of a small partition.
func (p *partition) query(r table.Range, live func(*table.Item) *table.Item) (found []*table.Item) {
	for n := range p.items {
		item := p.items[n]
		if r.Reverse {
			item = p.items[len(p.items)-1-n]
		}
		if !r.Includes(item.Sort) || live(item) == nil {
			continue
		}
		if found = append(found, item); len(found) == r.Limit {
			break
		}
	}
	return found
}

// with returns the partition after a write: nil stands for a deleted item. The result is nil if the partition must be
// read again: a large partition may have become small.
func (p *partition) with(sort string, item *table.Item) *partition {
	if p.large {
		switch {
		case item != nil:
			return p
		case p.deleted == partItems:
			return nil
		}
		return &partition{large: true, deleted: p.deleted + 1}
	}
	at, there := p.find(sort)
	bytes, rest := p.bytes, p.items[at:]
	if there {
		bytes, rest = bytes-sizeOf(rest[0]), rest[1:]
	}
	items := append(make([]*table.Item, 0, len(p.items)+1), p.items[:at]...)
	if item != nil {
		bytes, items = bytes+sizeOf(item), append(items, item)
	}
	return newPartition(append(items, rest...), bytes)
}
