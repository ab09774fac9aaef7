// Package invariant reads stored items for checkers of invariants: the simulation, the exploration of small worlds, the
// proofs on AWS. It has its own reader of the items in the table. So a mistake in the program's reader does not hide a
// mistake in its writes.
//
// Nothing that is shipped imports it. It must not know use cases. It imports lifecycle, record (for its types alone)
// and the table port.
package invariant

import (
	"cmp"
	encoding "encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// Audit has the contents of stored items, by kind.
type Audit struct {
	Runs       map[string]record.Run
	Chats      []lifecycle.Chat
	Slots      map[table.Key]string      // the run that each row names
	Ledger     map[string][]record.Entry // by run, or by its own id if it is of no run
	Deliveries []record.Delivery
	Decided    map[string][]string // the interrupts that a pause's end named, by run
	Counts     map[table.Key]int64 // use of budgets
	Files      []record.File
	Steps      []record.Step // except those that are too large for their items
}

// NewAudit makes an empty audit.
func NewAudit() *Audit {
	return &Audit{
		Runs: map[string]record.Run{}, Slots: map[table.Key]string{}, Ledger: map[string][]record.Entry{},
		Counts:  map[table.Key]int64{},
		Decided: map[string][]string{},
	}
}

// Held returns the run and the file of a row that records that the run holds the file. is reports whether key is that
// of such a row.
func Held(key table.Key) (run, file string, is bool) {
	run, isRun := strings.CutPrefix(key.Part, "run/")
	file, isFile := strings.CutPrefix(key.Sort, "file/")
	return run, file, isRun && isFile
}

// Add adds an item. It ignores items of other kinds. It returns an error if the item cannot be read.
func (a *Audit) Add(item *table.Item) error {
	kind, id, _ := strings.Cut(item.Part, "/")
	prefix, _, _ := strings.Cut(item.Sort, "/")
	switch {
	case kind == "run" && item.Sort == "head":
		r, err := read[record.Run](item)
		r.RunID, r.Organization, r.Due = id, item.Owner, item.Due
		a.Runs[id] = r
		return err
	case kind == "run" && prefix == "step":
		step, inline, err := document[record.Step](item)
		if inline {
			a.Steps = append(a.Steps, step)
		}
		return err
	case kind == "run" && prefix == "decision":
		d, inline, err := document[record.Decisions](item)
		if inline {
			a.Decided[id] = []string{}
		}
		for _, one := range d.List {
			a.Decided[id] = append(a.Decided[id], one.InterruptID)
		}
		return err
	case kind == "chat":
		c, err := read[lifecycle.Chat](item)
		a.Chats = append(a.Chats, c)
		return err
	case kind == "active":
		slot, err := read[struct {
			RunID string `json:"run_id"`
		}](item)
		a.Slots[item.Key] = slot.RunID
		return err
	case kind == "ledger":
		entry, err := read[record.Entry](item)
		named := cmp.Or(entry.ID, entry.RunID)
		a.Ledger[named] = append(a.Ledger[named], entry)
		return err
	case kind == "spent":
		count, err := read[struct {
			N int64 `json:"n"`
		}](item)
		a.Counts[item.Key] = count.N
		return err
	case kind == "file":
		f, err := read[record.File](item)
		a.Files = append(a.Files, f)
		return err
	case kind == "hook":
		h, err := read[record.Delivery](item)
		a.Deliveries = append(a.Deliveries, h)
		return err
	default:
		return nil
	}
}

func read[T any](item *table.Item) (v T, err error) {
	if err := json.Unmarshal(item.Body, &v); err != nil {
		return v, fmt.Errorf("invariant: %s: %w", item.Key, err)
	}
	return v, nil
}

// document reads a value that may be too large for its item, and is then in the blob store. inline reports whether it
// is in the item.
func document[T any](item *table.Item) (v T, inline bool, err error) {
	d, err := read[struct {
		Doc  encoding.RawMessage `json:"doc"`
		Blob string              `json:"blob"`
	}](item)
	if err != nil || d.Blob != "" {
		return v, false, err
	}
	if err := encoding.Unmarshal(d.Doc, &v); err != nil { // as it was written
		return v, false, fmt.Errorf("invariant: %s: %w", item.Key, err)
	}
	return v, true, nil
}

// SlotsOf returns the partition of the user or the organization that has a slot, for any of its shards.
func SlotsOf(slot table.Key) string {
	// active/user/<organization>/<user> or active/org/<organization>, then the shard
	parts := strings.Split(slot.Part, "/")
	whole := 3
	if len(parts) > 1 && parts[1] == "user" {
		whole = 4
	}
	return strings.Join(parts[:min(whole, len(parts))], "/")
}
