package disktable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/store/table"
)

// Prefixes of the rows in the engine. The key of an item row is itemPrefix, the partition, a zero byte, and the sort
// key. Index rows have no value: their keys contain the key of the item. So a change of the body rewrites no index.
const (
	itemPrefix = 'i'
	listPrefix = 'l'
	duePrefix  = 'd'
	endPrefix  = 'e' // by expiry time
	metaPrefix = 'm'
)

var errCorrupt = errors.New("disktable: a stored item cannot be read")

// appendNames appends names with a zero byte between them.
func appendNames(b []byte, first string, others ...string) []byte {
	b = append(b, first...)
	for _, name := range others {
		b = append(append(b, 0), name...)
	}
	return b
}

func appendItemKey(b []byte, k table.Key) []byte {
	return appendNames(append(b, itemPrefix), k.Part, k.Sort)
}

func appendListKey(b []byte, l table.Listing, k table.Key) []byte {
	return appendNames(append(b, listPrefix), string(l.Index), l.Part, l.Sort, k.Part, k.Sort)
}

func appendDueKey(b []byte, due time.Time, k table.Key) []byte {
	b = append(b, duePrefix, byte(k.Shard()))
	return appendNames(binary.BigEndian.AppendUint64(b, uint64(due.UnixMilli())), k.Part, k.Sort)
}

func appendEndKey(b []byte, end time.Time, k table.Key) []byte {
	b = append(b, endPrefix)
	b = binary.BigEndian.AppendUint64(b, uint64(end.UnixMilli()))
	return appendItemKey(b, k)
}

// splitEndKey decodes a key of appendEndKey.
func splitEndKey(b []byte) (end time.Time, k table.Key, ok bool) {
	if len(b) < 10 {
		return end, k, false
	}
	k, ok = splitItemKey(b[9:])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))).UTC(), k, ok
}

// appendItem encodes everything but the key: numbers, then length-prefixed strings, then the body.
func appendItem(b []byte, i *table.Item) []byte {
	b = append(b, 1) // version of this layout
	b = binary.AppendVarint(b, i.Version)
	b = binary.AppendVarint(b, int64(i.Schema))
	b = appendTime(b, i.Due)
	b = appendTime(b, i.Expires)
	b = appendString(b, i.Owner)
	b = appendString(b, i.WriteID)
	b = binary.AppendUvarint(b, uint64(len(i.Lists)))
	for _, l := range i.Lists {
		b = appendString(b, string(l.Index))
		b = appendString(b, l.Part)
		b = appendString(b, l.Sort)
	}
	return append(b, i.Body...)
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMilli())
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeItem decodes the result of appendItem. It checks every length, so that no stored bytes make it panic. The
// error is errCorrupt.
func decodeItem(key table.Key, b []byte) (*table.Item, error) {
	d := decoder{b: b}
	if d.uvarint() != 1 {
		return nil, fmt.Errorf("%w: unknown layout: %s", errCorrupt, key)
	}
	i := &table.Item{Key: key, Version: d.varint(), Schema: int(d.varint()), Due: d.time(), Expires: d.time(),
		Owner: d.string(), WriteID: d.string()}
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
		n = 0
	}
	for range n {
		i.Lists = append(i.Lists, table.Listing{Index: table.Index(d.string()), Part: d.string(), Sort: d.string()})
	}
	if d.bad {
		return nil, fmt.Errorf("%w: %s", errCorrupt, key)
	}
	i.Body = append([]byte(nil), d.b...)
	return i, nil
}

type decoder struct {
	b   []byte
	bad bool
}

// varint decodes the result of [binary.AppendVarint]: the sign is the lowest bit.
func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1) //nolint:gosec // the bits as they were written
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) time() time.Time {
	ms := d.varint()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// splitItemKey decodes a key of appendItemKey. A partition has no zero byte.
func splitItemKey(b []byte) (table.Key, bool) {
	part, sort, ok := bytes.Cut(b[min(1, len(b)):], []byte{0})
	return table.Key{Part: string(part), Sort: string(sort)}, ok
}

// splitEntry decodes "at, zero byte, partition, zero byte, sort key".
func splitEntry(b []byte) (table.Entry, bool) {
	at, _, _ := bytes.Cut(b, []byte{0})
	k, ok := splitItemKey(b[len(at):])
	return table.Entry{Key: k, At: string(at)}, ok
}
