// Package faulttable is the table port with faults: what a real store does on a bad day, when told to.
//
// It decides nothing: a function says for each call which fault it meets. It imports its port.
package faulttable

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/table"
)

// Fault is what happens to a call.
type Fault int

// The faults. Those of commits befall reads as Down.
const (
	None           Fault = iota
	Contended            // nothing is done
	Throttled            // nothing is done
	Down                 // nothing is done
	AppliedUnknown       // it is done, and the answer is lost
	LostUnknown          // it is not done, and nobody can know
	RefusedByOwn         // it is done, and sent again by the client library: the second one is refused
	Slow                 // it takes a while
)

// Faults lists all of them.
func Faults() []Fault {
	return []Fault{None, Contended, Throttled, Down, AppliedUnknown, LostUnknown, RefusedByOwn, Slow}
}

func (f Fault) String() string {
	return [...]string{"none", "contended", "throttled", "down", "applied, answer lost", "lost", "refused by its own write", "slow"}[f]
}

// Call is what a fault may befall.
type Call struct {
	Commit bool
	Ops    []table.Op // of a commit
}

// Table is a table with faults.
type Table struct {
	Inner table.Table
	// Before is asked before each call which fault it meets; nil: none.
	Before func(Call) Fault
	// After is told when the call has been made, before its answer is given. It may be nil.
	After func(Call)
	// Sleep is how a slow call passes its time.
	Sleep func(ctx context.Context, d time.Duration) error
	// Delay is how long a slow call takes.
	Delay time.Duration
}

var errInjected = errors.New("injected")

// Overtake has first done before the next commit, once: somebody else's write that comes before it.
func (t *Table) Overtake(first func()) {
	t.Before = func(c Call) Fault {
		if c.Commit {
			t.Before = nil
			first()
		}
		return None
	}
}

func (t *Table) meet(ctx context.Context, c Call) (Fault, error) {
	if t.Before == nil {
		return None, nil
	}
	switch f := t.Before(c); f {
	case Contended:
		return f, &table.Error{Kind: table.Contended, Err: errInjected}
	case Throttled:
		return f, &table.Error{Kind: table.Throttled, Err: errInjected}
	case Down:
		return f, &table.Error{Kind: table.Down, Err: errInjected}
	case LostUnknown:
		return f, &table.Error{Kind: table.Unknown, Err: errInjected}
	case Slow:
		if err := t.Sleep(ctx, t.Delay); err != nil {
			return f, &table.Error{Kind: table.Down, Err: err} // given up before it was begun
		}
		return f, nil
	default:
		return f, nil
	}
}

func (t *Table) made(c Call) {
	if t.After != nil {
		t.After(c)
	}
}

// reading meets the fault of a read: whatever went wrong, nothing was read.
func (t *Table) reading(ctx context.Context) error {
	f, err := t.meet(ctx, Call{})
	if err == nil && (f == AppliedUnknown || f == RefusedByOwn) {
		err = &table.Error{Kind: table.Down, Err: errInjected}
	}
	return err
}

// Get reads items by their keys.
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if err := t.reading(ctx); err != nil {
		return nil, err
	}
	defer t.made(Call{})
	return t.Inner.Get(ctx, keys...)
}

// Query reads a range of a partition.
func (t *Table) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := t.reading(ctx); err != nil {
		return nil, err
	}
	defer t.made(Call{})
	return t.Inner.Query(ctx, r)
}

// List reads a range of a listing index.
func (t *Table) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	if err := t.reading(ctx); err != nil {
		return nil, err
	}
	defer t.made(Call{})
	return t.Inner.List(ctx, index, r)
}

// Due lists the overdue items of a shard.
func (t *Table) Due(ctx context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	if err := t.reading(ctx); err != nil {
		return nil, err
	}
	defer t.made(Call{})
	return t.Inner.Due(ctx, shard, until, limit)
}

// Commit does all of the operations or none, and tells the truth about it unless the fault is that it does not.
func (t *Table) Commit(ctx context.Context, token string, ops ...table.Op) error {
	c := Call{Commit: true, Ops: ops}
	f, err := t.meet(ctx, c)
	if err != nil {
		return err
	}
	err = t.Inner.Commit(ctx, token, ops...)
	if err == nil && f == RefusedByOwn {
		err = t.Inner.Commit(ctx, token, ops...) // unconditional writes go through again, as they would
	}
	t.made(c)
	if err == nil && f == AppliedUnknown {
		return &table.Error{Kind: table.Unknown, Err: errInjected}
	}
	return err
}
