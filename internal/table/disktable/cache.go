package disktable

import (
	"hash/maphash"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/table"
)

// cache caches items, by key, that were written or read lately. The committing goroutine replaces what it has written
// while it publishes the new view, so that both have the same commits. A reader may add what it read from a view only
// if nothing in that part of the cache was replaced meanwhile.
type cache struct {
	seed  maphash.Seed
	parts [32]cachePart
}

type cachePart struct {
	mu    sync.Mutex
	epoch uint64
	items *lru.LRU[table.Key, *table.Item]
}

// Limits: larger items are read each time, so the cache holds at most 32 x 512 x 2 KB = 32 MB.
const (
	cachedItems = 512 // in each part
	cachedBytes = 2 << 10
)

func (c *cache) init() {
	c.seed = maphash.MakeSeed()
	for i := range c.parts {
		c.parts[i].items, _ = lru.NewLRU[table.Key, *table.Item](cachedItems, nil) // errs only on a size below 1
	}
}

func (c *cache) part(k table.Key) *cachePart {
	return &c.parts[maphash.Comparable(c.seed, k)%uint64(len(c.parts))]
}

// get returns the cached item of a key, nil if it is known that there is none. If nothing is cached, epoch is for
// learn.
func (c *cache) get(k table.Key) (item *table.Item, epoch uint64, known bool) {
	p := c.part(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	item, known = p.items.Get(k)
	if item != nil {
		copied := *item
		item = &copied
	}
	return item, p.epoch, known
}

// learn adds an item that was read after a get that found nothing.
func (c *cache) learn(k table.Key, item *table.Item, epoch uint64) {
	if item != nil && item.Size() > cachedBytes {
		return
	}
	p := c.part(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == epoch {
		p.items.Add(k, item)
	}
}

// replace adds what a batch has written, nil for deleted items.
func (c *cache) replace(written map[table.Key]*table.Item) {
	for k, item := range written {
		p := c.part(k)
		p.mu.Lock()
		p.epoch++
		if item != nil && item.Size() > cachedBytes {
			p.items.Remove(k)
		} else {
			p.items.Add(k, item)
		}
		p.mu.Unlock()
	}
}
