package record

import (
	"encoding/json"
	"strings"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/table"
)

// Audit is what stored items say to somebody who checks invariants: what they are, by kind.
type Audit struct {
	Runs    map[string]Run
	Chats   []lifecycle.Chat
	Slots   map[table.Key]string // the run that each row names
	Ledger  map[string][]Entry   // by run
	Hooks   []Hook
	Decided map[string][]string // the interrupts that a pause's end named, by run
	Counts  map[table.Key]int64 // what has been used of budgets
	Files   []File
	Steps   []Step
}

// NewAudit makes an empty audit.
func NewAudit() *Audit {
	return &Audit{Runs: map[string]Run{}, Slots: map[table.Key]string{}, Ledger: map[string][]Entry{}, Counts: map[table.Key]int64{}, Decided: map[string][]string{}}
}

// Held is the run and the file of a row by which the one holds the other, if it is such a row.
func Held(key table.Key) (run, file string, is bool) {
	run, isRun := strings.CutPrefix(key.Part, runPart(""))
	file, isHold := strings.CutPrefix(key.Sort, holdPrefix)
	return run, file, isRun && isHold
}

// Add takes an item in. Items of other kinds are passed over.
func (a *Audit) Add(item *table.Item) error {
	kind, rest, _ := strings.Cut(item.Part, "/")
	switch {
	case kind == "run" && item.Sort == headSort:
		e, err := decodeRun(item)
		a.Runs[rest] = e.Value
		return err
	case kind == "run" && strings.HasPrefix(item.Sort, "step/"):
		e, err := decode[document](item)
		if err != nil || e.Value.Blob != "" {
			return err
		}
		var step Step
		err = json.Unmarshal(e.Value.Doc, &step)
		a.Steps = append(a.Steps, step)
		return err
	case kind == "run" && strings.HasPrefix(item.Sort, "decision/"):
		e, err := decode[document](item)
		if err != nil || e.Value.Blob != "" {
			return err // what is too large for its item is not looked into
		}
		var d Decisions
		err = json.Unmarshal(e.Value.Doc, &d)
		a.Decided[rest] = []string{}
		for _, one := range d.List {
			a.Decided[rest] = append(a.Decided[rest], one.InterruptID)
		}
		return err
	case kind == "chat":
		e, err := decode[lifecycle.Chat](item)
		a.Chats = append(a.Chats, e.Value)
		return err
	case kind == "active":
		e, err := decode[slot](item)
		a.Slots[item.Key] = e.Value.RunID
		return err
	case kind == "ledger":
		e, err := decode[Entry](item)
		a.Ledger[e.Value.RunID] = append(a.Ledger[e.Value.RunID], e.Value)
		return err
	case kind == "spent":
		e, err := decode[tally](item)
		a.Counts[item.Key] = e.Value.N
		return err
	case kind == "file":
		e, err := decode[File](item)
		a.Files = append(a.Files, e.Value)
		return err
	case kind == "hook":
		e, err := decode[Hook](item)
		a.Hooks = append(a.Hooks, e.Value)
		return err
	default:
		return nil
	}
}
