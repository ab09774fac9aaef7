package record

import (
	"context"
	"time"

	"agentplatform/internal/store/table"
)

// lastUse is when a resource was last used. It is an item of its own, written seldom and without a condition.
type lastUse struct {
	At time.Time `json:"at"`
}

func useKey(kind, id string) table.Key { return table.Key{Part: kind + "/" + id, Sort: "use"} }

// useTime is how long a request may be delayed by writing the use of a resource.
const useTime = time.Second

// NoteUse writes when a resource was last used. It makes one attempt and ignores errors, because a request waits for
// it. A process that may not write notes nothing.
func (s *Store) NoteUse(ctx context.Context, v Resourceful, at time.Time) {
	if s.readOnly {
		return
	}
	kind, id, owner := v.Placed()
	op, err := write(table.Always(), Fresh(lastUse{At: at}),
		table.Item{Key: useKey(kind, id), Owner: owner, WriteID: "use"})
	if err != nil {
		return
	}
	ctx, cancel := s.host.WithTimeout(context.WithoutCancel(ctx), useTime)
	defer cancel()
	_ = s.table.Commit(ctx, "use", op)
}

// DeleteUse deletes the last use of a resource.
func (tx *Tx) DeleteUse(v Resourceful) {
	kind, id, _ := v.Placed()
	tx.delete(useKey(kind, id), table.Always())
}

// LastUses reads when the resources with these ids were last used; zero for never.
func LastUses[T Resourceful](ctx context.Context, s *Store, ids ...string) ([]time.Time, error) {
	kind := kindOf[T]()
	items, err := s.readAll(ctx, keysOf(ids, func(id string) table.Key { return useKey(kind, id) }))
	if err != nil {
		return nil, err
	}
	at := make([]time.Time, len(ids))
	for i, item := range items {
		if item == nil {
			continue
		}
		e, err := decode[lastUse](item)
		if err != nil {
			return nil, err
		}
		at[i] = e.Value.At
	}
	return at, nil
}
