package disktable

import (
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"agentplatform/internal/store/table"
)

// batch is what the requests of one sync write. It belongs to the committing goroutine.
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
		if live := b.table.live(item); !op.If.Holds(live) {
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
		b.table.nextEnd = earlier(b.table.nextEnd, item.Expires)
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

// maxPurged bounds how many expired items are removed with one batch.
const maxPurged = 8

// never is the expiry time of the first item if none expires.
var never = time.UnixMilli(math.MaxInt64)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// purge removes a few expired items along with a batch, so that they need neither space for long nor commits of their
// own. Items written before the index of expiry times existed are not removed.
func (b *batch) purge() error {
	t := b.table
	now := t.now()
	if now.Before(t.nextEnd) {
		return nil
	}
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: []byte{endPrefix}, UpperBound: []byte{endPrefix + 1}})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	next := never
	ok := it.First()
	for n := 0; ok; ok, n = it.Next(), n+1 {
		end, key, valid := splitEndKey(it.Key())
		if n == maxPurged || valid && end.After(now) {
			next = end
			break
		}
		item, err := b.read(key)
		switch {
		case !valid || err != nil:
			t.log.Error("the store cannot read what has expired, and leaves it", "key", key, "error", err)
			b.delete(it.Key())
		case item == nil || item.Expires.UnixMilli() != end.UnixMilli():
			b.delete(it.Key()) // the batch itself has put or deleted the item
		case item.Expires.After(now): // expires within this millisecond
			next = earlier(next, item.Expires)
		default:
			b.remove(item)
		}
	}
	for _, item := range b.queued {
		if item != nil && !item.Expires.IsZero() {
			next = earlier(next, item.Expires)
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	t.nextEnd = next
	return nil
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
