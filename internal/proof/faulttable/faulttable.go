// Package faulttable is the table port with injected faults, for tests.
//
// It decides nothing. A function returns the fault of each call. It imports its port.
package faulttable

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/store/table"
)

// Fault is the fault of a call.
type Fault int

// The faults. For reads, those of commits act as Down.
const (
	None           Fault = iota
	Contended            // nothing is done
	Throttled            // nothing is done
	Down                 // nothing is done
	AppliedUnknown       // it is done, but its response is lost
	LostUnknown          // it is not done, and its outcome is unknown
	RefusedByOwn         // it is done, and repeated by the client library: the repetition is refused
	Slow                 // it is delayed by Table.Delay
)

// Faults lists all faults.
func Faults() []Fault {
	return []Fault{None, Contended, Throttled, Down, AppliedUnknown, LostUnknown, RefusedByOwn, Slow}
}

func (f Fault) String() string {
	return [...]string{"none", "contended", "throttled", "down", "applied, answer lost", "lost",
		"refused by its own write", "slow"}[f]
}

// Call is a call that may get a fault.
type Call struct {
	Commit bool
	Ops    []table.Op // if it is a commit
}

// Table is a table with faults.
type Table struct {
	Inner table.Table
	// Before is called before each call and returns its fault; nil: no faults.
	Before func(Call) Fault
	// After is called when the call has been made, before it returns. It may be nil.
	After func(Call)
	// Sleep delays a slow call.
	Sleep func(ctx context.Context, d time.Duration) error
	// Delay is how long a slow call is delayed.
	Delay time.Duration
}

var errInjected = errors.New("injected")

// fatal has the faults after which nothing is done.
var fatal = map[Fault]table.Kind{
	Contended: table.Contended, Throttled: table.Throttled, Down: table.Down, LostUnknown: table.Unknown,
}

// Overtake calls first before the next commit, once: a concurrent write of another process.
func (t *Table) Overtake(first func()) {
	t.Before = func(c Call) Fault {
		if c.Commit {
			t.Before = nil
			first()
		}
		return None
	}
}

func (t *Table) inject(ctx context.Context, c Call) (Fault, error) {
	if t.Before == nil {
		return None, nil
	}
	f := t.Before(c)
	if kind, fails := fatal[f]; fails {
		return f, &table.Error{Kind: kind, Err: errInjected}
	}
	if f == Slow {
		if err := t.Sleep(ctx, t.Delay); err != nil {
			return f, &table.Error{Kind: table.Down, Err: err} // cancelled before it was sent
		}
	}
	return f, nil
}

func (t *Table) made(c Call) {
	if t.After != nil {
		t.After(c)
	}
}

// read makes a read with its fault. If it fails, nothing was read.
func read[T any](ctx context.Context, t *Table, do func() ([]T, error)) ([]T, error) {
	f, err := t.inject(ctx, Call{})
	if err == nil && (f == AppliedUnknown || f == RefusedByOwn) {
		err = &table.Error{Kind: table.Down, Err: errInjected}
	}
	if err != nil {
		return nil, err
	}
	defer t.made(Call{})
	return do()
}

// Get implements [table.Table].
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	return read(ctx, t, func() ([]*table.Item, error) { return t.Inner.Get(ctx, keys...) })
}

// Query implements [table.Table].
func (t *Table) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	return read(ctx, t, func() ([]*table.Item, error) { return t.Inner.Query(ctx, r) })
}

// List implements [table.Table].
func (t *Table) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	return read(ctx, t, func() ([]table.Entry, error) { return t.Inner.List(ctx, index, r) })
}

// Due implements [table.Table].
func (t *Table) Due(ctx context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	return read(ctx, t, func() ([]table.Entry, error) { return t.Inner.Due(ctx, shard, until, limit) })
}

// Commit implements [table.Table]. The error is that of the fault, or of the underlying table.
func (t *Table) Commit(ctx context.Context, token string, ops ...table.Op) error {
	c := Call{Commit: true, Ops: ops}
	f, err := t.inject(ctx, c)
	if err != nil {
		return err
	}
	err = t.Inner.Commit(ctx, token, ops...)
	if err == nil && f == RefusedByOwn {
		err = t.Inner.Commit(ctx, token, ops...) // unconditional writes succeed again, as they would
	}
	t.made(c)
	if err == nil && f == AppliedUnknown {
		return &table.Error{Kind: table.Unknown, Err: errInjected}
	}
	return err
}
