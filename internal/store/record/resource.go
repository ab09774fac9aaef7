package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"time"

	"agentplatform/internal/store/table"
)

// Resourceful is a thing with its own id that is listed by its organization: an agent, a user, a key.
type Resourceful interface {
	// Placed returns the kind, the id and the owner of the resource.
	Placed() (kind, id, owner string)
}

// Inner is implemented by resources that are listed by another thing instead of their organization, like the documents
// of a knowledge base.
type Inner interface {
	// Within returns the id of that thing.
	Within() string
}

// Uploaded is implemented by resources that are listed by a user, too.
type Uploaded interface {
	// Uploader returns the id of the user.
	Uploader() string
}

// Active is implemented by resources that the sweeper reads.
type Active interface {
	// DueAt is the due time; zero: never.
	DueAt() time.Time
}

// headSort is the sort key of a thing itself, among the items that are kept with it.
const headSort = "head"

func resourceKey(kind, id string) table.Key { return table.Key{Part: kind + "/" + id, Sort: headSort} }

// IDOf is the id of a resource.
func IDOf[T Resourceful](v T) string {
	_, id, _ := v.Placed()
	return id
}

// kindOf is the kind of the resources of a type.
func kindOf[T Resourceful]() string {
	var none T
	kind, _, _ := none.Placed()
	return kind
}

// DerivedID is the id of a thing that every organization has once.
func DerivedID(what, organization string) string {
	sum := sha256.Sum256([]byte(what + "/" + organization))
	return hex.EncodeToString(sum[:12])
}

// Resource reads a resource within the scope. It returns a problem of kind NotFound or Forbidden.
func Resource[T Resourceful](ctx context.Context, s Reader, scope Scope, id string) (Entity[T], error) {
	kind := kindOf[T]()
	return load[T](ctx, s, scope, kind+" "+id, resourceKey(kind, id))
}

// Existing returns those of the ids whose resources exist within the scope, each once.
func Existing[T Resourceful](ctx context.Context, s Reader, scope Scope, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	kind := kindOf[T]()
	var once []string
	for _, id := range ids {
		if !slices.Contains(once, id) {
			once = append(once, id)
		}
	}
	ids = once
	keys := keysOf(ids, func(id string) table.Key { return resourceKey(kind, id) })
	items, err := s.reads().read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var there []string
	for i, item := range items {
		if item != nil && scope.Includes(item.Owner) {
			there = append(there, ids[i])
		}
	}
	return there, nil
}

// PutResource writes a resource and returns it as it is after the commit.
func PutResource[T Resourceful](tx *Tx, e Entity[T]) Entity[T] {
	kind, id, owner := e.Value.Placed()
	item := table.Item{
		Key: resourceKey(kind, id), Owner: owner,
		Lists: []table.Listing{{Index: table.ByOwner, Part: listPart(kind, owner), Sort: id}},
	}
	if v, may := any(e.Value).(Inner); may {
		item.Lists[0].Part = innerPart(kind, v.Within())
	}
	if v, may := any(e.Value).(Uploaded); may {
		item.Lists = append(item.Lists,
			table.Listing{Index: table.ByChat, Part: innerPart(kind, owner+"/"+v.Uploader()), Sort: id})
	}
	if v, may := any(e.Value).(Active); may {
		item.Due = v.DueAt()
	}
	after := put(tx, e, item)
	if e.version == 0 && audited[kind] {
		tx.grows()
	}
	return after
}

// listPart is the partition of the listing of a resource. Organizations own themselves and are listed together.
func listPart(kind, owner string) string {
	if kind == "organization" {
		return "organizations"
	}
	return kind + "s/" + owner
}

// innerPart is the partition of the listing of resources within another thing.
func innerPart(kind, within string) string { return kind + "s-of/" + within }

// DeleteResource deletes a resource on condition that it is as it was read.
func DeleteResource[T Resourceful](tx *Tx, e Entity[T]) {
	deleteResource(tx, e.Value, table.VersionIs(e.version))
}

// Unchanged makes the commit require that a resource is still as it was read.
func Unchanged[T Resourceful](tx *Tx, e Entity[T]) {
	kind, id, _ := e.Value.Placed()
	tx.add(table.Check(resourceKey(kind, id), table.VersionIs(e.version)))
}

// deleteResource names the owner, which the audit log needs.
func deleteResource[T Resourceful](tx *Tx, v T, cond table.Condition) {
	kind, id, owner := v.Placed()
	op := table.Delete(resourceKey(kind, id), cond)
	op.Item.Owner = owner
	tx.add(op)
}

// Resources lists an organization's resources of one kind, newest first. after is Page.Next of the page before.
func Resources[T Resourceful](
	ctx context.Context, s *Store, scope Scope, after string, limit int,
) (Page[Entity[T]], error) {
	return listed[T](ctx, s, scope, listPart(kindOf[T](), scope.organization), after, limit)
}

// All are an organization's resources of one kind, newest first, of which atOnce are read at a time. An error is the
// last.
func All[T Resourceful](ctx context.Context, s *Store, scope Scope, atOnce int) iter.Seq2[Entity[T], error] {
	return Rows(func(after string) (Page[Entity[T]], error) { return Resources[T](ctx, s, scope, after, atOnce) })
}

// Rows are those of all pages of a listing. An error is the last. A page may be empty and yet have a next one: the
// listing lags.
func Rows[T any](read func(after string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := ""; ; {
			page, err := read(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// OldestResources is Resources, oldest first.
func OldestResources[T Resourceful](
	ctx context.Context, s *Store, scope Scope, after string, limit int,
) (Page[Entity[T]], error) {
	part := listPart(kindOf[T](), scope.organization)
	return listedIn[T](ctx, s, scope, table.ByOwner, table.Range{Part: part, After: after, Limit: limit})
}

// ResourcesWithin lists the resources of one kind within another thing (see [Inner]), newest first. after is Page.Next
// of the page before.
func ResourcesWithin[T interface {
	Resourceful
	Inner
}](ctx context.Context, s *Store, scope Scope, within, after string, limit int) (Page[Entity[T]], error) {
	return listed[T](ctx, s, scope, innerPart(kindOf[T](), within), after, limit)
}

// Several reads the resources with these ids that exist within the scope, by id.
func Several[T Resourceful](ctx context.Context, s Reader, scope Scope, ids []string) (map[string]Entity[T], error) {
	kind := kindOf[T]()
	items, err := s.reads().readAll(ctx, keysOf(ids, func(id string) table.Key { return resourceKey(kind, id) }))
	if err != nil {
		return nil, err
	}
	list, err := seen[T](scope, items)
	if err != nil {
		return nil, err
	}
	found := make(map[string]Entity[T], len(list))
	for _, e := range list {
		found[IDOf(e.Value)] = e
	}
	return found, nil
}
