package rollup

import (
	"maps"
	"slices"
	"strings"
)

// Entry is an entry of the ledger, as far as it is counted.
type Entry struct {
	Key

	InputTokens, OutputTokens int64
	Embedded                  []Tokens // the part of them that other models than the key's used
	ActiveMS, QueueMS         int64
	ModelCalls, ToolCalls     int64
}

// Tokens are those of the entry by model, since each model has its own price.
func (e Entry) Tokens() []Tokens {
	list := append([]Tokens{{e.Model, e.InputTokens, e.OutputTokens}}, e.Embedded...)
	for _, other := range e.Embedded {
		list[0].Input -= other.Input
		list[0].Output -= other.Output
	}
	return list
}

// Row is the sum of entries.
type Row struct {
	Entries               int64
	ActiveMS, QueueMS     int64
	ModelCalls, ToolCalls int64
	Tokens                []Tokens // by model, in the order of their names
	Active, Queue         Bins     // the distributions of the two times
	Users, Agents         Set
}

// Tokens are those of a model.
type Tokens struct {
	Model         string
	Input, Output int64
}

// RowOf is the row of one entry.
func RowOf(e Entry) Row {
	return Row{
		Entries: 1, ActiveMS: e.ActiveMS, QueueMS: e.QueueMS, ModelCalls: e.ModelCalls, ToolCalls: e.ToolCalls,
		Tokens: e.Tokens(),
		Active: Bins{{binOf(e.ActiveMS), 1}}, Queue: Bins{{binOf(e.QueueMS), 1}},
		Users: setOf(e.User), Agents: setOf(e.Agent),
	}
}

// Add adds another row. It keeps no reference to the slices of o.
func (r *Row) Add(o Row) {
	r.Entries += o.Entries
	r.ActiveMS += o.ActiveMS
	r.QueueMS += o.QueueMS
	r.ModelCalls += o.ModelCalls
	r.ToolCalls += o.ToolCalls
	for _, t := range o.Tokens {
		t.Model = Name(t.Model)
		at, there := slices.BinarySearchFunc(r.Tokens, t.Model,
			func(a Tokens, model string) int { return strings.Compare(a.Model, model) })
		if !there {
			r.Tokens = slices.Insert(r.Tokens, at, Tokens{Model: strings.Clone(t.Model)})
		}
		r.Tokens[at].Input += t.Input
		r.Tokens[at].Output += t.Output
	}
	r.Active, r.Queue = merged(r.Active, o.Active), merged(r.Queue, o.Queue)
	r.Users, r.Agents = united(r.Users, o.Users), united(r.Agents, o.Agents)
}

// Used is the sum of the tokens of all models.
func (r *Row) Used() (sum Tokens) {
	for _, t := range r.Tokens {
		sum.Input += t.Input
		sum.Output += t.Output
	}
	return sum
}

const (
	// MaxName bounds a name, in bytes: a longer one counts as [Other]. So the size of a row has a bound, see [MaxRow].
	MaxName = 300
	// MaxRows bounds a table. Entries beyond it that would make another row go into rows of [Other].
	MaxRows = 20_000
	// MaxModels bounds the models of a row in the same way.
	MaxModels = 200
	// Other stands for users, keys and agents, or models, that found no room. It is not an identifier.
	Other = "other"
)

// Name is the name under which a thing counts: its own, or [Other] if that is longer than [MaxName].
func Name(name string) string {
	if len(name) > MaxName {
		return Other
	}
	return name
}

// Table is the sum of a span of time, by the keys of a view. The zero value is unusable; see [New].
type Table struct {
	view View
	rows map[Key]*Row
}

// New makes an empty table.
func New(v View) *Table { return &Table{view: v, rows: map[Key]*Row{}} }

// Add adds an entry.
func (t *Table) Add(e Entry) { t.Put(e.Key, RowOf(e)) }

// Put adds a row that has, or had, this key. It keeps no reference to the slices of r.
func (t *Table) Put(k Key, r Row) {
	row := t.row(t.view.Of(k.with(Name)))
	if len(row.Tokens)+len(r.Tokens) > MaxModels {
		r.Tokens = folded(row.Tokens, r.Tokens)
	}
	row.Add(r)
}

// row finds or makes the row of a key.
func (t *Table) row(k Key) *Row {
	r := t.rows[k]
	if r == nil && len(t.rows) >= MaxRows {
		k = t.view.Of(Key{Kind: k.Kind, Status: k.Status, Model: Other, Agent: Other, User: Other, APIKey: Other})
		r = t.rows[k]
	}
	if r == nil {
		r = &Row{}
		t.rows[k.with(strings.Clone)] = r // which lets go of the text that the key was cut from
	}
	return r
}

// folded returns the tokens to add if a row may not have room for all models.
func folded(there, more []Tokens) []Tokens {
	more = slices.Clone(more)
	room := MaxModels - len(there)
	for i := range more {
		if slices.ContainsFunc(there, func(t Tokens) bool { return t.Model == Name(more[i].Model) }) {
			continue
		}
		if room--; room < 0 {
			more[i].Model = Other
		}
	}
	return more
}

// Split divides a table into the parts of its view, by their numbers. The rows are shared.
func (t *Table) Split() map[int]*Table {
	parts := map[int]*Table{}
	for k, r := range t.rows {
		n := t.view.Part(k)
		if parts[n] == nil {
			parts[n] = New(t.view)
		}
		parts[n].rows[k] = r
	}
	return parts
}

// keys are in order, so that all results that depend on it are the same each time.
func (t *Table) keys() []Key { return slices.SortedFunc(maps.Keys(t.rows), Key.Compare) }

// Each calls f with each row, in the order of their keys.
func (t *Table) Each(f func(Key, *Row)) {
	for _, k := range t.keys() {
		f(k, t.rows[k])
	}
}
