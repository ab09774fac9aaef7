package record

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/table"
)

// schema is the number of the shapes that this program writes.
const schema = 1

// Entity is a stored value with what is needed to write it again.
type Entity[T any] struct {
	Value T

	version int64
	move    string
	schema  int
	unknown jsontext.Value
}

// Fresh wraps a value that is not stored yet.
func Fresh[T any](v T) Entity[T] { return Entity[T]{Value: v} }

// Version is the stored version, 0 for a value that is not stored yet.
func (e Entity[T]) Version() int64 { return e.version }

// WrittenBy says whether this move wrote the stored version.
func (e Entity[T]) WrittenBy(move string) bool { return e.move == move }

// Written is the entity after a commit by move has stored v in its place.
func (e Entity[T]) Written(v T, move string) Entity[T] {
	e.Value, e.move, e.schema = v, move, schema
	e.version++
	return e
}

type envelope[T any] struct {
	Value   T              `json:",embed"`
	Unknown jsontext.Value `json:",embed"` // members that this program does not know
}

func decode[T any](item *table.Item) (Entity[T], error) {
	var e envelope[T]
	if err := json.Unmarshal(item.Body, &e); err != nil {
		return Entity[T]{}, fmt.Errorf("record: %s: %w", item.Key, err)
	}
	return Entity[T]{Value: e.Value, version: item.Version, move: item.Move, schema: item.Schema, unknown: e.Unknown}, nil
}

// ErrUnstorable says that a value has no stored form, and never will: it holds JSON that has more than one meaning.
var ErrUnstorable = errors.New("record: the value cannot be stored")

// put is the write of an entity, conditioned on the version that was read; item brings everything but body and schema.
func put[T any](e Entity[T], item table.Item) (table.Op, error) {
	if e.schema > schema {
		return table.Op{}, fmt.Errorf("record: %s has the newer schema %d; this program knows %d", item.Key, e.schema, schema)
	}
	body, err := json.Marshal(envelope[T]{Value: e.Value, Unknown: e.unknown})
	if err != nil {
		return table.Op{}, fmt.Errorf("%w: %s: %w", ErrUnstorable, item.Key, err)
	}
	item.Body, item.Schema = body, schema
	if e.version == 0 {
		return table.Put(item, table.Absent()), nil
	}
	return table.Put(item, table.VersionIs(e.version)), nil
}

// blind is a write without a condition, for rows whose safety comes from another item of the same commit.
func blind[T any](v T, item table.Item) (table.Op, error) {
	op, err := put(Fresh(v), item)
	op.If = table.Always()
	return op, err
}

func versionSort(n int) string { return fmt.Sprintf("version/%08d", n) }

func isStale(err error) bool { return errors.Is(err, ErrStale) }
