// Package cachetable is a table port that answers Get, for a while, from what it read before: for items that are read
// with every request and seldom change. Where several processes write, its answers may be older than its life.
//
// What this process writes it forgets, and so does what a refusal names: a caller that decides afresh reads afresh. It
// imports its port and an LRU list.
package cachetable

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/table"
)

// Life is how long answers are kept. That there is nothing is forgotten sooner: a key that was just made must work.
type Life struct{ Found, Missing time.Duration }

// size bounds the cache; settings have some kilobytes each.
const size = 4096

// Table caches another table's Get.
type Table struct {
	table.Table

	life    Life
	elapsed func() time.Duration

	mu     sync.Mutex
	epoch  uint64 // counts what was forgotten, so that a read that began before is not kept
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

// Get answers from what is known, and reads the rest.
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	items := make([]*table.Item, len(keys))
	var missing []table.Key
	var at []int
	t.mu.Lock()
	epoch, now := t.epoch, t.elapsed()
	for i, k := range keys {
		if a, known := t.answer.Get(k); known && now < a.until {
			items[i] = clone(a.item)
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
		t.answer.Add(missing[n], answer{clone(item), now + life})
	}
	return items, nil
}

func clone(i *table.Item) *table.Item {
	if i == nil {
		return nil
	}
	copied := *i
	return &copied
}

// Commit passes a commit on and forgets what it names, whatever came of it.
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
