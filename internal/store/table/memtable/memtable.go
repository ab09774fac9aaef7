// Package memtable is the table port in memory. It is for data that need not outlive the process (stream frames on a
// laptop), and for the simulator, which needs a deterministic store.
//
// It starts no goroutine. It imports its port and an ordered map.
package memtable

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"agentplatform/internal/store/table"
)

// Table is a table in memory. It never fails, and its indexes never lag.
type Table struct {
	now func() time.Time

	mu      sync.RWMutex
	items   btree.Map[string, *table.Item]
	indexes btree.Map[string, table.Entry]
}

// New makes an empty table. The clock is used for expiry only.
func New(now func() time.Time) *Table { return &Table{now: now} }

const sep = "\x00"

// Copy returns a copy of the table with another clock. Changes of one are not visible in the other; common data is
// shared.
func (t *Table) Copy(now func() time.Time) *Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Table{now: now, items: *t.items.Copy(), indexes: *t.indexes.Copy()}
}

func itemKey(k table.Key) string { return k.Part + sep + k.Sort }

// indexed calls f with the rows of an item in the indexes: of its listings, its due time, and its expiry.
func indexed(i *table.Item, f func(key string, e table.Entry)) {
	row := func(index, part, at string) {
		f(index+sep+part+sep+at+sep+itemKey(i.Key), table.Entry{Key: i.Key, At: at})
	}
	for _, l := range i.Lists {
		row(string(l.Index), l.Part, l.Sort)
	}
	if !i.Due.IsZero() {
		row("due", shardPart(i.Shard()), timeKey(i.Due))
	}
	if !i.Expires.IsZero() {
		row("end", "", timeKey(i.Expires))
	}
}

func timeKey(t time.Time) string { return t.UTC().Format("20060102150405.000") }

func shardPart(shard int) string { return string(rune('a' + shard)) }

// Get implements [table.Table]. The error is always nil.
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
	return item
}

func (t *Table) expired(i *table.Item) bool {
	return !i.Expires.IsZero() && !i.Expires.After(t.now())
}

// Query implements [table.Table]. The error is always nil.
func (t *Table) Query(_ context.Context, r table.Range) ([]*table.Item, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var found []*table.Item
	scan(&t.items, r.Part+sep, r, func(_ string, item *table.Item) bool {
		if t.expired(item) {
			return true
		}
		found = append(found, item)
		return len(found) < r.Limit
	})
	return found, nil
}

// List implements [table.Table]. The error is always nil.
func (t *Table) List(_ context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries(string(index)+sep+r.Part+sep, r, ""), nil
}

// Due implements [table.Table]. The error is always nil.
func (t *Table) Due(_ context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries("due"+sep+shardPart(shard)+sep, table.Range{Limit: limit}, timeKey(until)), nil
}

// entries are the rows below a prefix that the range selects, up to last; empty: all.
func (t *Table) entries(prefix string, r table.Range, last string) []table.Entry {
	var found []table.Entry
	scan(&t.indexes, prefix, r, func(_ string, e table.Entry) bool {
		if last != "" && e.At > last {
			return false
		}
		found = append(found, e)
		return len(found) < r.Limit
	})
	return found
}

// scan visits the rows below prefix that the range selects, in its direction.
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
		if k >= from { // the row of After, or one of which After is a prefix
			return true
		}
		return inside(k, v)
	})
}

// Commit implements [table.Table]. The error is a [table.Refused], or that of [table.Validate].
func (t *Table) Commit(_ context.Context, _ string, ops ...table.Op) error {
	if err := table.Validate(ops); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var conflicts []table.Conflict
	for i, op := range ops {
		if current := t.read(op.Item.Key); !op.If.Matches(current) {
			conflicts = append(conflicts, table.Conflict{Op: i, Current: current})
		}
	}
	if conflicts != nil {
		return &table.Refused{Conflicts: conflicts}
	}
	for _, op := range ops {
		switch op.Kind {
		case table.PutOp:
			t.remove(op.Item.Key)
			t.insert(op.Item)
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
	indexed(item, func(key string, e table.Entry) { t.indexes.Set(key, e) })
}

func (t *Table) remove(k table.Key) {
	if item, ok := t.items.Delete(itemKey(k)); ok {
		indexed(item, func(key string, _ table.Entry) { t.indexes.Delete(key) })
	}
}

// purge removes up to 8 expired items with each commit, so that memory stays bounded without a goroutine.
func (t *Table) purge() {
	for _, e := range t.entries("end"+sep+sep, table.Range{Limit: 8}, timeKey(t.now())) {
		t.remove(e.Key)
	}
}

// All visits every item that has not expired, in the order of the keys. It is for checkers.
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
