// Package memtable is the table port in memory: for what need not outlive the process (stream frames on a laptop), and
// for the simulator, which needs a store that does the same thing each time.
//
// It starts no goroutine. It imports its port and an ordered map.
package memtable

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"agentplatform/internal/table"
)

// Table is a table in memory.
type Table struct {
	now func() time.Time

	mu      sync.RWMutex
	items   btree.Map[string, *table.Item]
	indexes btree.Map[string, table.Entry]
	expiry  btree.Map[string, table.Key] // by the time an item expires, to remove it
}

// New makes an empty table. The clock is for expiry alone.
func New(now func() time.Time) *Table { return &Table{now: now} }

const sep = "\x00"

// Copy is the table as it is now, with another clock. Changes of one are not seen in the other; what both hold is held once.
func (t *Table) Copy(now func() time.Time) *Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Table{now: now, items: *t.items.Copy(), indexes: *t.indexes.Copy(), expiry: *t.expiry.Copy()}
}

func itemKey(k table.Key) string { return k.Part + sep + k.Sort }

func indexKey(index, part, at string, k table.Key) string {
	return index + sep + part + sep + at + sep + itemKey(k)
}

func timeKey(t time.Time) string { return t.UTC().Format("20060102150405.000") }

func shardPart(shard int) string { return string(rune('a' + shard)) }

// Get reads items by their keys.
func (t *Table) Get(_ context.Context, keys ...table.Key) ([]*table.Item, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := make([]*table.Item, len(keys))
	for i, k := range keys {
		found[i] = t.read(k)
	}
	return found, nil
}

func (t *Table) read(k table.Key) *table.Item {
	item, ok := t.items.Get(itemKey(k))
	if !ok || t.expired(item) {
		return nil
	}
	copied := *item
	return &copied
}

func (t *Table) expired(i *table.Item) bool {
	return !i.Expires.IsZero() && !i.Expires.After(t.now())
}

// Query reads a range of a partition.
func (t *Table) Query(_ context.Context, r table.Range) ([]*table.Item, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var found []*table.Item
	scan(&t.items, r.Part+sep, r, func(_ string, item *table.Item) bool {
		if t.expired(item) {
			return true
		}
		copied := *item
		found = append(found, &copied)
		return len(found) < r.Limit
	})
	return found, nil
}

// List reads a range of a listing index.
func (t *Table) List(_ context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	return t.entries(string(index)+sep+r.Part+sep, r), nil
}

// Due lists the overdue items of a shard.
func (t *Table) Due(_ context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var found []table.Entry
	last := timeKey(until)
	scan(&t.indexes, "due"+sep+shardPart(shard)+sep, table.Range{Limit: limit}, func(_ string, e table.Entry) bool {
		if e.At > last {
			return false
		}
		found = append(found, e)
		return len(found) < limit
	})
	return found, nil
}

func (t *Table) entries(prefix string, r table.Range) []table.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var found []table.Entry
	scan(&t.indexes, prefix, r, func(_ string, e table.Entry) bool {
		found = append(found, e)
		return len(found) < r.Limit
	})
	return found
}

// scan walks the rows below prefix that the range selects, in its direction.
func scan[V any](m *btree.Map[string, V], prefix string, r table.Range, visit func(string, V) bool) {
	low := prefix + r.Prefix
	inside := func(k string, v V) bool { return strings.HasPrefix(k, low) && visit(k, v) }
	if !r.Reverse {
		from := low
		if r.After != "" {
			from = max(from, prefix+r.After+"\x01")
		}
		m.Ascend(from, inside)
		return
	}
	from := low + "\xff"
	if r.After != "" {
		from = min(from, prefix+r.After)
	}
	m.Descend(from, func(k string, v V) bool {
		if k >= from { // the row After names, or one that only begins with it
			return true
		}
		return inside(k, v)
	})
}

// Commit does all of the operations or none.
func (t *Table) Commit(_ context.Context, _ string, ops ...table.Op) error {
	if err := table.Validate(ops); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var conflicts []table.Conflict
	for i, op := range ops {
		if current := t.read(op.Item.Key); !op.If.Holds(current) {
			conflicts = append(conflicts, table.Conflict{Op: i, Current: current})
		}
	}
	if conflicts != nil {
		return &table.Refused{Conflicts: conflicts}
	}
	for _, op := range ops {
		switch op.Kind {
		case table.PutOp:
			item := op.Item
			item.Version = op.If.After()
			t.remove(item.Key)
			t.insert(&item)
		case table.DeleteOp:
			t.remove(op.Item.Key)
		case table.CheckOp:
		}
	}
	t.purge()
	return nil
}

func (t *Table) insert(item *table.Item) {
	t.items.Set(itemKey(item.Key), item)
	for _, l := range item.Lists {
		t.indexes.Set(indexKey(string(l.Index), l.Part, l.Sort, item.Key), table.Entry{Key: item.Key, At: l.Sort})
	}
	if !item.Due.IsZero() {
		at := timeKey(item.Due)
		t.indexes.Set(indexKey("due", shardPart(item.Shard()), at, item.Key), table.Entry{Key: item.Key, At: at})
	}
	if !item.Expires.IsZero() {
		t.expiry.Set(timeKey(item.Expires)+sep+itemKey(item.Key), item.Key)
	}
}

func (t *Table) remove(k table.Key) {
	item, ok := t.items.Delete(itemKey(k))
	if !ok {
		return
	}
	for _, l := range item.Lists {
		t.indexes.Delete(indexKey(string(l.Index), l.Part, l.Sort, k))
	}
	if !item.Due.IsZero() {
		t.indexes.Delete(indexKey("due", shardPart(k.Shard()), timeKey(item.Due), k))
	}
	if !item.Expires.IsZero() {
		t.expiry.Delete(timeKey(item.Expires) + sep + itemKey(k))
	}
}

// purge removes a few expired items with each commit, so that memory stays bounded without a goroutine.
func (t *Table) purge() {
	now := timeKey(t.now())
	for range 8 {
		at, key, ok := t.expiry.Min()
		if !ok || at > now {
			return
		}
		t.remove(key)
	}
}

// All visits every live item in the order of the keys. It is for audits.
func (t *Table) All(visit func(*table.Item)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.items.Scan(func(_ string, item *table.Item) bool {
		if !t.expired(item) {
			visit(item)
		}
		return true
	})
}
