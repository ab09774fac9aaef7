package record

import "agentplatform/internal/store/table"

// Ops returns the writes of a unit of work.
func (tx *Tx) Ops() []table.Op { return tx.ops }

// Add adds writes to a unit of work.
func (tx *Tx) Add(ops ...table.Op) { tx.add(ops...) }

// Release ends a run's hold of a file.
var Release = (*Tx).release

// MemoBytes and MemoBody are the bytes that a Known remembers at most, of all and of one body.
const MemoBytes, MemoBody = memoBytes, memoBody

// Remembers is how many items a Known remembers, and the bytes of their bodies.
func (k Known) Remembers() (items, bytes int) { return k.store.memo.decoded.Len(), k.store.memo.bytes }
