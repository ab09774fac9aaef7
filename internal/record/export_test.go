package record

import "agentplatform/internal/table"

// Ops are the writes of a unit of work.
func (tx *Tx) Ops() []table.Op { return tx.ops }

// Add adds writes to a unit of work.
func (tx *Tx) Add(ops ...table.Op) { tx.add(ops...) }

// Release has a run let go of a file.
var Release = (*Tx).release
