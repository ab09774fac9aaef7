// Package table is the port to the store: items under two-part keys, read strongly, written by all-or-nothing commits.
//
// What the caller guarantees: at most [MaxOps] operations, [MaxCommitBytes] bytes and no key twice in one commit; items
// at most [MaxItemBytes]; the same token only for the same operations. What the adapter guarantees: a commit that
// returned nil is durable and visible to every later read; one that returned [Refused] or an [Error] of any kind but
// [Unknown] changed nothing; with [Unknown] it may have been applied, now or a little later.
//
// The port must not know what an item means. It imports only the standard library.
package table

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Limits of a commit, those of the narrowest adapter (DynamoDB's TransactWriteItems).
const (
	MaxOps         = 100
	MaxCommitBytes = 4 << 20
	MaxItemBytes   = 400 << 10
	MaxGetKeys     = 100
)

// DueShards is the number of parts the due index is cut into; one key would bound the whole service's writes.
const DueShards = 16

// Key names an item: a partition, and a place in its order.
type Key struct{ Part, Sort string }

func (k Key) String() string { return k.Part + " " + k.Sort }

// Shard is the part of the due index that an item with this key falls into.
func (k Key) Shard() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Part))
	return int(h.Sum32() % DueShards)
}

// Index names one of the listing indexes.
type Index string

// The listing indexes every adapter has.
const (
	ByOwner Index = "owner" // by the organisation that owns an item
	ByChat  Index = "chat"  // by the conversation an item belongs to
)

// Listing places an item in a listing index. An index holds keys only and may lag behind the items.
type Listing struct {
	Index Index
	Part  string
	Sort  string
}

// Item is one stored thing.
type Item struct {
	Key
	Owner   string    // the organisation it belongs to, "-" for none
	Version int64     // 1 when put as absent, one more with each conditional put, 0 after an unconditional one
	Move    string    // id of the move that wrote it
	Schema  int       // number of the body's shape
	Due     time.Time // when somebody must look at it again; zero: never
	Expires time.Time // after this it counts as absent, and is removed some time; zero: never
	Lists   []Listing
	Body    []byte // a JSON object
}

// Condition guards one operation.
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

// Always guards nothing.
func Always() Condition { return Condition{} }

// Absent holds when there is no such item.
func Absent() Condition { return Condition{kind: absent} }

// VersionIs holds when the item is there in this version.
func VersionIs(v int64) Condition { return Condition{kind: versionIs, version: v} }

// Version is the version that the condition asks for, if it asks for one.
func (c Condition) Version() (v int64, asks bool) { return c.version, c.kind == versionIs }

// Holds says whether the condition is met by the current item, nil for none.
func (c Condition) Holds(current *Item) bool {
	switch c.kind {
	case absent:
		return current == nil
	case versionIs:
		return current != nil && current.Version == c.version
	default:
		return true
	}
}

// After is the version of an item that a put under this condition leaves.
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

// Op is one operation of a commit.
type Op struct {
	Kind OpKind
	Item Item // for Delete and Check only its key counts
	If   Condition
}

// OpKind says what an operation does.
type OpKind int

// The kinds of operation.
const (
	PutOp OpKind = iota
	DeleteOp
	CheckOp
)

// Put writes the whole item.
func Put(item Item, cond Condition) Op { return Op{Kind: PutOp, Item: item, If: cond} }

// Delete removes an item; removing none is no error.
func Delete(key Key, cond Condition) Op { return Op{Kind: DeleteOp, Item: Item{Key: key}, If: cond} }

// Check only guards.
func Check(key Key, cond Condition) Op { return Op{Kind: CheckOp, Item: Item{Key: key}, If: cond} }

// Range selects items of one partition by their sort key.
type Range struct {
	Part    string
	Prefix  string // of the sort key
	After   string // only sort keys above this one (below it, when Reverse); empty: from the end
	Reverse bool
	Limit   int // at most this many; must be positive
}

// Entry is a row of an index: where an item is.
type Entry struct {
	Key
	At string // its place in the index
}

// Table is the port.
type Table interface {
	// Get reads strongly: one place in the answer for each key, nil where there is no item.
	Get(ctx context.Context, keys ...Key) ([]*Item, error)
	// Query reads a range of a partition, strongly.
	Query(ctx context.Context, r Range) ([]*Item, error)
	// List reads a range of a listing index. It may lag behind the items: an entry may be missing for a while, or lead to
	// an item that has gone.
	List(ctx context.Context, index Index, r Range) ([]Entry, error)
	// Due lists items of a shard whose due time is not after the given one, the longest overdue first. It may lag too.
	Due(ctx context.Context, shard int, until time.Time, limit int) ([]Entry, error)
	// Commit does all of the operations or none. The token names the attempt for adapters that can recognise a repetition.
	Commit(ctx context.Context, token string, ops ...Op) error
}

// Kind says why a call failed without being refused.
type Kind int

// The kinds of failure.
const (
	Contended Kind = iota // another commit held one of the items; nothing was done
	Throttled             // too many at once; nothing was done
	Down                  // the store could not be reached; nothing was done
	Unknown               // no answer came: it may have been done
	TooLarge              // over a limit; nothing was done, and nothing ever will be
)

func (k Kind) String() string {
	return [...]string{"contended", "throttled", "down", "outcome unknown", "too large"}[k]
}

// Error is a failure of the store.
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

// IsKind says whether err is a failure of this kind.
func IsKind(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// Conflict is an operation whose condition did not hold.
type Conflict struct {
	Op      int   // its place in the commit
	Current *Item // what is there instead, nil for nothing
}

// Refused says that conditions did not hold: nothing was done.
type Refused struct{ Conflicts []Conflict }

func (r *Refused) Error() string {
	return fmt.Sprintf("table: %d of the conditions did not hold", len(r.Conflicts))
}

// AsRefused finds the refusal in err, if it is one.
func AsRefused(err error) (*Refused, bool) {
	var r *Refused
	ok := errors.As(err, &r)
	return r, ok
}

// Size is what an item counts for in the limits: its names and its body, in bytes.
func (i Item) Size() int {
	n := len(i.Part) + len(i.Sort) + len(i.Owner) + len(i.Move) + len(i.Body) + 64
	for _, l := range i.Lists {
		n += len(l.Part) + len(l.Sort)
	}
	return n
}

// Validate checks what the caller guarantees; every adapter calls it first.
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
