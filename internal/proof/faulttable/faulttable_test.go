package faulttable_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/store/table/tabletest"
)

func with(f func() faulttable.Fault) *faulttable.Table {
	return &faulttable.Table{
		Inner: memtable.New(time.Now), Before: func(faulttable.Call) faulttable.Fault { return f() },
		Sleep: func(context.Context, time.Duration) error { return nil },
	}
}

func TestContractWithoutFaults(t *testing.T) {
	tabletest.Run(t, tabletest.Harness{New: func(*testing.T) table.Table {
		return with(func() faulttable.Fault { return faulttable.None })
	}})
}

func TestEachFaultHasItsEffect(t *testing.T) {
	for _, c := range []struct {
		fault   faulttable.Fault
		applied bool
		kind    table.Kind
		refused bool
		fine    bool
	}{
		{fault: faulttable.Contended, kind: table.Contended},
		{fault: faulttable.Throttled, kind: table.Throttled},
		{fault: faulttable.Down, kind: table.Down},
		{fault: faulttable.LostUnknown, kind: table.Unknown},
		{fault: faulttable.AppliedUnknown, kind: table.Unknown, applied: true},
		{fault: faulttable.RefusedByOwn, refused: true, applied: true},
		{fault: faulttable.Slow, fine: true, applied: true},
	} {
		fault := c.fault
		d := with(func() faulttable.Fault { return fault })
		i := table.Item{Key: table.Key{Part: "p", Sort: "s"}, Owner: "-", WriteID: "m", Body: []byte(`{}`)}
		err := d.Commit(t.Context(), "t", table.Put(i, table.Absent()))
		switch {
		case c.fine:
			require.NoError(t, err, c.fault)
		case c.refused:
			r, ok := errors.AsType[*table.Refused](err)
			require.True(t, ok, c.fault)
			assert.Equal(t, "m", r.Conflicts[0].Current.WriteID)
		default:
			assert.True(t, table.IsKind(err, c.kind), c.fault)
		}
		fault = faulttable.None
		items, err := d.Get(t.Context(), i.Key)
		require.NoError(t, err)
		assert.Equal(t, c.applied, items[0] != nil, c.fault)
	}
}
