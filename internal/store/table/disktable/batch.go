package disktable

import (
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"agentplatform/internal/store/table"
)

// batch has the writes of the requests of one sync. It belongs to the committing goroutine.
type batch struct {
	table  *Table
	write  *pebble.Batch
	dead   int                       // rows that it removes or replaces
	queued map[table.Key]*table.Item // results of the batch's earlier requests; nil: deleted
	row    []byte                    // room for the key of a row, which the engine copies
	value  []byte                    // and for its value
}

func (b *batch) add(ops []table.Op) error {
	current := make([]*table.Item, len(ops))
	var conflicts []table.Conflict
	for i, op := range ops {
		item, err := b.read(op.Item.Key)
		if err != nil {
			return err
		}
		current[i] = item
		if live := b.table.live(item); !op.If.Matches(live) {
			conflicts = append(conflicts, table.Conflict{Op: i, Current: live})
		}
	}
	if conflicts != nil {
		return &table.Refused{Conflicts: conflicts}
	}
	for i, op := range ops {
		switch op.Kind {
		case table.PutOp:
			b.unindex(current[i], op.Item)
			b.put(current[i], op.Item)
			b.queued[op.Item.Key] = op.Item
		case table.DeleteOp:
			if current[i] == nil {
				continue
			}
			b.remove(current[i])
		case table.CheckOp:
		}
	}
	return nil
}

func (b *batch) read(k table.Key) (*table.Item, error) {
	if item, ok := b.queued[k]; ok {
		return item, nil
	}
	p := b.table.cache.get(k.Part)
	if p == nil {
		p = load(b.table.db, k.Part)
		b.table.cache.add(k.Part, p)
	}
	return p.read(b.table.db, k)
}

// put writes an item and its index entries. Operations on a batch cannot fail before its commit; their errors are nil
// by the contract of the engine.
func (b *batch) put(old, item *table.Item) {
	if old != nil {
		b.dead++
	}
	b.value = appendItem(b.value[:0], item)
	b.set(appendItemKey(b.row[:0], item.Key), b.value)
	for _, l := range item.Lists {
		if !lists(old, l) {
			b.set(appendListKey(b.row[:0], l, item.Key), nil)
		}
	}
	if !item.Due.IsZero() && (old == nil || !old.Due.Equal(item.Due)) {
		b.set(appendDueKey(b.row[:0], item.Due, item.Key), nil)
	}
	if !item.Expires.IsZero() {
		b.set(appendEndKey(b.row[:0], item.Expires, item.Key), nil)
	}
}

func (b *batch) unindex(old, next *table.Item) {
	if old == nil {
		return
	}
	for _, l := range old.Lists {
		if !lists(next, l) {
			b.delete(appendListKey(b.row[:0], l, old.Key))
		}
	}
	if !old.Due.IsZero() && (next == nil || !next.Due.Equal(old.Due)) {
		b.delete(appendDueKey(b.row[:0], old.Due, old.Key))
	}
	if !old.Expires.IsZero() {
		b.delete(appendEndKey(b.row[:0], old.Expires, old.Key))
	}
}

// maxPurged bounds how many expired items are removed with one batch. A batch that finds fewer is the last one for a
// purgePause.
const (
	maxPurged  = 8
	purgePause = time.Second
)

// purge removes a few expired items along with a batch. So they need neither space for long nor commits of their own.
// Items written before the index of expiry times existed are not removed.
func (b *batch) purge() error {
	t, now, purged := b.table, b.table.now(), 0
	if now.Sub(t.purgedAt).Abs() < purgePause {
		return nil
	}
	err := scan(t.db, []byte{endPrefix}, table.Range{}, func(row, _ []byte) (bool, error) {
		end, key, valid := splitEndKey(row)
		if purged == maxPurged || valid && end.After(now) {
			return false, nil
		}
		purged++
		item, err := b.read(key)
		switch {
		case !valid || err != nil:
			t.log.Error("the store cannot read what has expired, and leaves it", "key", key, "error", err)
			b.delete(row)
		case item == nil || !item.Expires.Equal(end):
			b.delete(row) // the batch itself has put or deleted the item
		default:
			b.remove(item)
		}
		return true, nil
	})
	if err == nil && purged < maxPurged {
		t.purgedAt = now
	}
	return err
}

func (b *batch) set(row, value []byte) {
	_ = b.write.Set(row, value, nil)
	b.row = row
}

func (b *batch) delete(row []byte) {
	_ = b.write.Delete(row, nil)
	b.dead++
}

func (b *batch) remove(item *table.Item) {
	b.unindex(item, nil)
	b.delete(appendItemKey(b.row[:0], item.Key))
	b.queued[item.Key] = nil
}

func lists(i *table.Item, l table.Listing) bool { return i != nil && slices.Contains(i.Lists, l) }
