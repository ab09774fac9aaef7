package record

import "agentplatform/internal/store/table"

// Ops returns the writes of a unit of work.
func (tx *Tx) Ops() []table.Op { return tx.ops }

// Add adds writes to a unit of work.
func (tx *Tx) Add(ops ...table.Op) { tx.add(ops...) }

// Release ends a run's hold of a file.
var Release = (*Tx).release
