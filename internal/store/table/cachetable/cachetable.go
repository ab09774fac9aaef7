// Package cachetable is a table port that caches the results of Get: for items that are read with every request and
// rarely change. If several processes write, cached items may be stale for as long as they live in the cache.
//
// A commit removes its keys from the cache, even if it is refused. So a caller that decides again reads the new values.
// The package imports its port and an LRU cache.
package cachetable

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/store/table"
)

// Life is how long items are cached. Missing, for the absence of an item, is shorter, so that a new key works soon.
type Life struct{ Found, Missing time.Duration }

// size bounds the number of cached items; settings have some kilobytes each.
const size = 4096

// Table caches the Get of another table; its other methods are those of that table.
type Table struct {
	table.Table

	life    Life
	elapsed func() time.Duration

	mu     sync.Mutex
	epoch  uint64 // number of commits, so that a read that began before one is not cached
	answer *lru.LRU[table.Key, answer]
}

type answer struct {
	item  *table.Item
	until time.Duration
}

// New makes a cache in front of a table; elapsed is a monotonic clock.
func New(t table.Table, life Life, elapsed func() time.Duration) *Table {
	answers, _ := lru.NewLRU[table.Key, answer](size, nil) // errs only on a size below 1
	return &Table{Table: t, life: life, elapsed: elapsed, answer: answers}
}

// Get returns cached items, and reads the others. The error is that of the underlying table.
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	items := make([]*table.Item, len(keys))
	var missing []table.Key
	var at []int
	t.mu.Lock()
	epoch, now := t.epoch, t.elapsed()
	for i, k := range keys {
		if a, known := t.answer.Get(k); known && now < a.until {
			items[i] = a.item
		} else {
			missing, at = append(missing, k), append(at, i)
		}
	}
	t.mu.Unlock()
	if len(missing) == 0 {
		return items, nil
	}
	read, err := t.Table.Get(ctx, missing...)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, item := range read {
		items[at[n]] = item
		if t.epoch != epoch {
			continue
		}
		life := t.life.Found
		if item == nil {
			life = t.life.Missing
		}
		t.answer.Add(missing[n], answer{item, now + life})
	}
	return items, nil
}

// Commit commits to the underlying table. It removes the keys from the cache, also if the commit fails. The error is
// that of the underlying table.
func (t *Table) Commit(ctx context.Context, token string, ops ...table.Op) error {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.epoch++
		for _, op := range ops {
			t.answer.Remove(op.Item.Key)
		}
	}()
	return t.Table.Commit(ctx, token, ops...)
}
