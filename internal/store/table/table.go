// Package table is the port to the store: items under two-part keys, read with strong consistency, written by atomic
// commits.
//
// The caller guarantees: at most [MaxOps] operations, at most [MaxCommitBytes] bytes and no duplicate key in one
// commit; items of at most [MaxItemBytes]; the same token only for the same operations. An item that was committed or
// read is shared with other readers and the adapter: nobody changes it or its content.
//
// The adapter guarantees: a commit that returned nil is durable and visible to every later read. One that returned
// [Refused] or an [Error] of any kind except [Unknown] changed nothing. After [Unknown] it may have been applied, or be
// applied a little later.
//
// The port must not know the meaning of an item. It imports only the standard library.
package table

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Limits of a commit: those of the adapter with the lowest limits (DynamoDB's TransactWriteItems).
const (
	MaxOps         = 100       // operations of a commit
	MaxCommitBytes = 4 << 20   // sum of Item.Size of the items put
	MaxItemBytes   = 400 << 10 // Item.Size
	MaxGetKeys     = 100       // keys of one request of an adapter; Get accepts more
)

// DueShards is the number of shards of the due index; with a single partition, its write rate would limit the
// service.
const DueShards = 16

// Key identifies an item: its partition, and its position within it. Neither may be empty; a partition has no zero
// byte.
type Key struct{ Part, Sort string }

func (k Key) String() string { return k.Part + " " + k.Sort }

// Shard is the shard of the due index for an item with this key, from 0 to [DueShards]-1.
func (k Key) Shard() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Part))
	return int(h.Sum32() % DueShards)
}

// Index is the name of a listing index.
type Index string

// The listing indexes that every adapter has.
const (
	ByOwner Index = "owner" // by the organization that owns an item
	ByChat  Index = "chat"  // runs by their chat; chats, deliveries and files by their user
)

// Listing is the position of an item in a listing index. An index has keys only, and may lag behind the items.
type Listing struct {
	Index Index
	Part  string
	Sort  string
}

// NoOwner is the owner of items that belong to no organization.
const NoOwner = "-"

// Item is a stored item.
type Item struct {
	Key
	Owner   string    // the organization that owns it, or [NoOwner]; never empty
	Version int64     // 1 after a put with Absent, plus 1 with each VersionIs, 0 after an unconditional put
	WriteID string    // id of the commit that wrote it
	Schema  int       // version of the body's schema
	Due     time.Time // when it must be reconciled; zero: never
	Expires time.Time // from then on it counts as absent, and is removed later; zero: never
	Lists   []Listing
	Body    []byte // a JSON object
}

// Condition must hold for an operation, otherwise the whole commit is refused. The zero value always holds.
type Condition struct {
	kind    conditionKind
	version int64
}

type conditionKind int

const (
	always conditionKind = iota
	absent
	versionIs
)

// Always is the condition that always holds.
func Always() Condition { return Condition{} }

// Absent holds if there is no such item.
func Absent() Condition { return Condition{kind: absent} }

// VersionIs holds if the item exists in this version.
func VersionIs(v int64) Condition { return Condition{kind: versionIs, version: v} }

// Version returns the version that the condition requires; asks is false if it requires none.
func (c Condition) Version() (v int64, asks bool) { return c.version, c.kind == versionIs }

// Matches reports whether the condition holds for the current item, nil if there is none.
func (c Condition) Matches(current *Item) bool {
	switch c.kind {
	case absent:
		return current == nil
	case versionIs:
		return current != nil && current.Version == c.version
	default:
		return true
	}
}

// After is the version of an item after a put with this condition.
func (c Condition) After() int64 {
	switch c.kind {
	case absent:
		return 1
	case versionIs:
		return c.version + 1
	default:
		return 0
	}
}

// Op is an operation of a commit.
type Op struct {
	Kind OpKind
	Item *Item     // for DeleteOp and CheckOp only its key is used
	If   Condition // of a put it goes with the item's version, see [Put]
}

// OpKind is the kind of an operation.
type OpKind int

// The kinds of operation.
const (
	PutOp OpKind = iota
	DeleteOp
	CheckOp
)

// Put replaces the whole item. Its version is that after a put with the condition. Its times are truncated to
// milliseconds.
func Put(item Item, cond Condition) Op {
	item.Version = cond.After()
	item.Due, item.Expires = ofMillisecond(item.Due), ofMillisecond(item.Expires)
	return Op{Kind: PutOp, Item: &item, If: cond}
}

func ofMillisecond(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Delete removes an item. If there is none, it does nothing.
func Delete(key Key, cond Condition) Op { return Op{Kind: DeleteOp, Item: &Item{Key: key}, If: cond} }

// Check only checks a condition.
func Check(key Key, cond Condition) Op { return Op{Kind: CheckOp, Item: &Item{Key: key}, If: cond} }

// Range selects items of a partition by their sort key.
type Range struct {
	Part    string
	Prefix  string // the prefix of the sort keys
	After   string // only sort keys above it, or below it if Reverse; empty: no limit
	Reverse bool
	Limit   int // maximal number of results; must be positive
}

// Includes reports whether a sort key of the partition is in the range.
func (r Range) Includes(sort string) bool {
	return strings.HasPrefix(sort, r.Prefix) && (r.After == "" || sort != r.After && (sort > r.After) != r.Reverse)
}

// Entry is a row of an index: the key of an item.
type Entry struct {
	Key
	At string // its position in the index
}

// Table is the port. Implementations are safe for concurrent use.
//
// A read fails with an [Error] of the kind [Throttled] or [Down], or with ctx's error. It fails with another error if
// the call is invalid or a stored item cannot be decoded.
type Table interface {
	// Get reads items with strong consistency. The result has one element for each key, nil if there is no item. The
	// errors are those of a read, see above.
	Get(ctx context.Context, keys ...Key) ([]*Item, error)
	// Query reads a range of a partition with strong consistency, in the order of the sort keys. The errors are those
	// of a read.
	Query(ctx context.Context, r Range) ([]*Item, error)
	// List reads a range of a listing index. It may lag behind the items: an entry may be missing for a while, or be of
	// a deleted item. The errors are those of a read.
	List(ctx context.Context, index Index, r Range) ([]Entry, error)
	// Due lists the items of a shard whose due time is not after until, the longest overdue first. It may lag, too.
	// The errors are those of a read.
	Due(ctx context.Context, shard int, until time.Time, limit int) ([]Entry, error)
	// Commit applies all operations or none. The token identifies the attempt for adapters that recognize
	// repetitions.
	//
	// The error is a [Refused] if conditions did not hold, an [Error], or another error if the operations are invalid
	// (see [Validate]).
	Commit(ctx context.Context, token string, ops ...Op) error
}

// Mark is the result of a poll of an item: whether it exists, and in which version.
type Mark struct {
	There   bool
	Version int64
}

// Poller is a [Table] that polls many items with few and cheap calls.
type Poller interface {
	// Poll polls items. It may lag behind Get: an item may be missing for a while, or be returned in an earlier
	// version, or after it was deleted. The result has one mark for each key. The errors are those of a read.
	Poll(ctx context.Context, keys ...Key) ([]Mark, error)
}

// Poll polls items by a [Poller]'s calls if the table is one, otherwise by Get. The result has one mark for each
// key; the errors are those of a read.
func Poll(ctx context.Context, t Table, keys ...Key) ([]Mark, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if g, can := t.(Poller); can {
		return g.Poll(ctx, keys...)
	}
	items, err := t.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	marks := make([]Mark, len(keys))
	for i, item := range items {
		if item != nil {
			marks[i] = Mark{There: true, Version: item.Version}
		}
	}
	return marks, nil
}

// Kind is why a call failed without being refused.
type Kind int

// The kinds of failure.
const (
	Contended Kind = iota // a concurrent commit has one of the items; nothing was done
	Throttled             // too many requests; nothing was done
	Down                  // the store could not be reached; nothing was done
	Unknown               // no response was received: it may have been done
	TooLarge              // a limit is exceeded; nothing was done, and a retry fails, too
	Full                  // the disk is full; nothing was done
)

func (k Kind) String() string {
	return [...]string{"contended", "throttled", "down", "outcome unknown", "too large", "full"}[k]
}

// Error is a failure of the store. It wraps the cause.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return "table: " + e.Kind.String()
	}
	return "table: " + e.Kind.String() + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// IsKind reports whether err is or wraps an [Error] of this kind.
func IsKind(err error, kind Kind) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Kind == kind
}

// Conflict is an operation whose condition did not hold.
type Conflict struct {
	Op      int   // its index in the commit
	Current *Item // the current item, nil if there is none
}

// Refused is the error of a commit whose conditions did not hold. Nothing was done.
type Refused struct{ Conflicts []Conflict }

func (r *Refused) Error() string {
	return fmt.Sprintf("table: %d of the conditions did not hold", len(r.Conflicts))
}

// Size is the size of an item for the limits in bytes: its names, its body, and 64.
func (i Item) Size() int {
	n := len(i.Part) + len(i.Sort) + len(i.Owner) + len(i.WriteID) + len(i.Body) + 64
	for _, l := range i.Lists {
		n += len(l.Part) + len(l.Sort)
	}
	return n
}

// Validate checks the guarantees of Commit's caller; every adapter calls it first. The error is an [Error] of the kind
// [TooLarge] for the limits. It is another error for an empty or duplicate key, or a missing owner.
func Validate(ops []Op) error {
	if len(ops) == 0 || len(ops) > MaxOps {
		return &Error{Kind: TooLarge, Err: fmt.Errorf("%d operations, 1 to %d fit", len(ops), MaxOps)}
	}
	total := 0
	seen := make(map[Key]bool, len(ops))
	for _, op := range ops {
		if op.Item.Part == "" || op.Item.Sort == "" {
			return fmt.Errorf("table: a key has an empty part: %q", op.Item.Key)
		}
		if seen[op.Item.Key] {
			return fmt.Errorf("table: %s stands twice in one commit", op.Item.Key)
		}
		seen[op.Item.Key] = true
		if op.Kind != PutOp {
			continue
		}
		if op.Item.Owner == "" {
			return fmt.Errorf("table: %s names no owner", op.Item.Key)
		}
		size := op.Item.Size()
		if size > MaxItemBytes {
			return &Error{Kind: TooLarge, Err: fmt.Errorf("%s has %d bytes, %d fit", op.Item.Key, size, MaxItemBytes)}
		}
		total += size
	}
	if total > MaxCommitBytes {
		return &Error{Kind: TooLarge, Err: fmt.Errorf("%d bytes, %d fit in one commit", total, MaxCommitBytes)}
	}
	return nil
}
