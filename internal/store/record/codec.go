package record

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/store/table"
)

// MaxItemBytes bounds an entity as it is stored, in bytes with the names of its item's members.
const MaxItemBytes = table.MaxItemBytes

// schema is the number of the stored shapes that this version writes.
const schema = 1

// Entity is a stored value with the data that a write needs: the version that was read, the write id that wrote it, and
// unknown JSON members.
type Entity[T any] struct {
	Value T

	version int64
	writeID string
	schema  int
	unknown jsontext.Value
}

// Fresh wraps a value that is not stored yet: its write requires that no item exists.
func Fresh[T any](v T) Entity[T] { return Entity[T]{Value: v} }

// Version is the stored version, 0 for a value that is not stored yet.
func (e Entity[T]) Version() int64 { return e.version }

// WrittenBy reports whether the unit of work with this write id wrote the stored version.
func (e Entity[T]) WrittenBy(writeID string) bool { return e.writeID == writeID }

// written is the entity after a unit of work has stored it.
func (e Entity[T]) written(writeID string) Entity[T] {
	e.writeID, e.schema = writeID, schema
	e.version++
	return e
}

type envelope[T any] struct {
	Value   T              `json:",embed"`
	Unknown jsontext.Value `json:",embed"` // members that this version does not know
}

// itemized is implemented by values with a part outside of the body of their item.
type itemized interface{ take(from *table.Item) }

func decode[T any](item *table.Item) (Entity[T], error) {
	var e envelope[T]
	if err := json.Unmarshal(item.Body, &e); err != nil {
		return Entity[T]{}, fmt.Errorf("record: %s: %w", item.Key, err)
	}
	entity := Entity[T]{
		Value: e.Value, version: item.Version, writeID: item.WriteID, schema: item.Schema, unknown: e.Unknown,
	}
	if v, is := any(&entity.Value).(itemized); is {
		v.take(item)
	}
	return entity, nil
}

// ErrUnstorable is the error of a value that can never be stored: it contains JSON that has more than one meaning.
var ErrUnstorable = errors.New("record: the value cannot be stored")

// Unstorable reports whether a unit of work failed because its writes can never be stored: [ErrUnstorable], or an item
// that is too large.
func Unstorable(err error) bool {
	return table.IsKind(err, table.TooLarge) || errors.Is(err, ErrUnstorable)
}

// asRead is the condition that the version which was read is still stored.
func (e Entity[T]) asRead() table.Condition {
	if e.version == 0 {
		return table.Absent()
	}
	return table.VersionIs(e.version)
}

// write is the write of an entity; item has everything but body and schema. The error is [ErrUnstorable], or another
// one if the stored item has a newer schema.
func write[T any](cond table.Condition, e Entity[T], item table.Item) (table.Op, error) {
	if e.schema > schema {
		return table.Op{},
			fmt.Errorf("record: %s has the newer schema %d; this program knows %d", item.Key, e.schema, schema)
	}
	body, err := json.Marshal(&envelope[T]{Value: e.Value, Unknown: e.unknown})
	if err != nil {
		return table.Op{}, fmt.Errorf("%w: %s: %w", ErrUnstorable, item.Key, err)
	}
	item.Body, item.Schema = body, schema
	return table.Put(item, cond), nil
}

// asStored is a JSON value in the form that a read after its write returns: without white space, with only the
// necessary escapes. The error is [ErrUnstorable].
func asStored(value []byte) ([]byte, error) {
	stored, err := json.Marshal(jsontext.Value(value))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnstorable, err)
	}
	return stored, nil
}

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }
