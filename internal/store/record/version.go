package record

import (
	"context"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// Versions of a resource are items next to it, written once each. They stay when the resource is deleted, for those
// runs that began with them, until [EraseVersions].

func versionKey(kind, id string, n int) table.Key {
	return table.Key{Part: kind + "/" + id, Sort: "version/" + padded(8, int64(n))}
}

// PutVersion writes version n of a resource, which must not exist.
func PutVersion[T Resourceful](tx *Tx, v T, n int) {
	kind, id, owner := v.Placed()
	put(tx, Fresh(v), table.Item{Key: versionKey(kind, id, n), Owner: owner})
	tx.grows()
}

// Version reads version n of a resource, also of a deleted one. It returns a problem of kind NotFound or Forbidden.
func Version[T Resourceful](ctx context.Context, s Reader, scope Scope, id string, n int) (T, error) {
	kind := kindOf[T]()
	e, err := load[T](ctx, s, scope, kind+" "+id, versionKey(kind, id, n))
	return e.Value, err
}

// Versions lists the versions of a resource, newest first. after is Page.Next of the page before.
func Versions[T Resourceful](ctx context.Context, s Reader, id, after string, limit int) (Page[T], error) {
	kind := kindOf[T]()
	items, err := s.reads().query(ctx, table.Range{
		Part: kind + "/" + id, Prefix: "version/", After: after, Reverse: true, Limit: limit + 1,
	})
	if err != nil {
		return Page[T]{}, err
	}
	var page Page[T]
	if len(items) > limit {
		items = items[:limit]
		page.Next = items[limit-1].Sort
	}
	list, err := seen[T](System(), items)
	for i, e := range list {
		page.Rows, page.Positions = append(page.Rows, e.Value), append(page.Positions, items[i].Sort)
	}
	return page, err
}

// LastVersion reads the newest version of a resource, also of a deleted one. It returns a problem of kind NotFound or
// Forbidden.
func LastVersion[T Resourceful](ctx context.Context, s Reader, scope Scope, id string) (T, error) {
	kind := kindOf[T]()
	page, err := Versions[T](ctx, s, id, "", 1)
	if err != nil {
		return *new(T), err
	}
	if len(page.Rows) == 0 {
		return *new(T), problem.Missing(kind + " " + id)
	}
	last := page.Rows[0]
	if _, _, owner := last.Placed(); !scope.Includes(owner) {
		return *new(T), problem.Outside(kind + " " + id)
	}
	return last, nil
}

// EraseVersions deletes all versions of a resource. The errors are those of a read and of [Tx.Commit].
func EraseVersions[T Resourceful](ctx context.Context, s *Store, id string) error {
	return s.erase(ctx, table.Range{Part: kindOf[T]() + "/" + id, Prefix: "version/"})
}

// erase deletes all items of a range, some at a time.
func (s *Store) erase(ctx context.Context, r table.Range) error {
	r.Limit = table.MaxOps
	for {
		items, err := s.query(ctx, r)
		if err != nil || len(items) == 0 {
			return err
		}
		tx := s.Begin(s.host.NewID())
		for _, item := range items {
			tx.delete(item.Key, table.Always())
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
}
