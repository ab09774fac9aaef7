package record

import (
	"context"
	"fmt"
	"maps"

	"agentplatform/internal/store/table"
)

// Counts are numbers under one name, like the documents of a knowledge base by status. They change in the commits of
// the counted things, so they are exact. Each name has several items. The id of the counted thing selects the item, so
// that changes at the same time seldom conflict.

type counts struct {
	N map[string]int64 `json:"n"`
}

func (c counts) addTo(sum map[string]int64) {
	for what, n := range c.N {
		sum[what] += n
	}
}

const countShards = 8

func countKey(name string, shard int) table.Key {
	return table.Key{Part: "count/" + name, Sort: fmt.Sprint(shard)}
}

// Count adds to counts of a name. id is the id of the counted thing. The commit is refused with [ErrConflict] when the
// same counts have changed since.
func (tx *Tx) Count(ctx context.Context, owner, name, id string, add map[string]int64) {
	if tx.err != nil {
		return
	}
	key := countKey(name, int(id[len(id)-1])%countShards)
	e, _, err := find[counts](ctx, tx.store, key)
	tx.fail(err)
	sum := map[string]int64{}
	counts{add}.addTo(sum)
	e.Value.addTo(sum)
	maps.DeleteFunc(sum, func(_ string, n int64) bool { return n == 0 })
	e.Value.N = sum
	put(tx, e, table.Item{Key: key, Owner: owner})
}

// Counts reads the counts of a name. A count that is zero has no member.
func (s *Store) Counts(ctx context.Context, name string) (map[string]int64, error) {
	items, err := s.query(ctx, table.Range{Part: countKey(name, 0).Part, Limit: countShards})
	if err != nil {
		return nil, err
	}
	return sumOf(items)
}

// sumOf adds up the items of a name, of which some may be nil.
func sumOf(items []*table.Item) (map[string]int64, error) {
	list, err := seen[counts](System(), items)
	sum := map[string]int64{}
	for _, e := range list {
		e.Value.addTo(sum)
	}
	return sum, err
}

// Counts is [Store.Counts], and makes the commit require that the counts are still the same.
func (tx *Tx) Counts(ctx context.Context, name string) map[string]int64 {
	if tx.err != nil {
		return nil
	}
	keys := make([]table.Key, 0, countShards)
	for shard := range countShards {
		keys = append(keys, countKey(name, shard))
	}
	items, err := tx.store.read(ctx, keys...)
	if err != nil {
		tx.fail(err)
		return nil
	}
	for i, item := range items {
		cond := table.Absent()
		if item != nil {
			cond = table.VersionIs(item.Version)
		}
		tx.add(table.Check(keys[i], cond))
	}
	sum, err := sumOf(items)
	tx.fail(err)
	return sum
}

// EraseCounts deletes the counts of a name. The errors are those of [Tx.Commit].
func (s *Store) EraseCounts(ctx context.Context, name string) error {
	tx := s.Begin(s.host.NewID())
	for shard := range countShards {
		tx.delete(countKey(name, shard), table.Always())
	}
	return tx.Commit(ctx)
}
