package record_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// runFails is a table whose calls all fail.
type runFails struct {
	table.Table

	err   error
	calls int
}

func (f *runFails) Get(context.Context, ...table.Key) ([]*table.Item, error) {
	f.calls++
	return nil, f.err
}

func (f *runFails) Commit(context.Context, string, ...table.Op) error {
	f.calls++
	return f.err
}

// Errors that another attempt may resolve are retried, eight times with growing pauses; others are not. The error of a
// commit means that nothing was done, or that the outcome is unknown.
func TestTransientErrorsAreRetried(t *testing.T) {
	other := errors.New("something else")
	kind := func(k table.Kind) error { return &table.Error{Kind: k} }
	for name, c := range map[string]struct {
		err    error
		reads  int // how many calls of the table are made
		writes int
		code   string // of the problem of a failed commit
	}{
		"contended":      {kind(table.Contended), 8, 8, "unavailable"},
		"throttled":      {kind(table.Throttled), 8, 8, "unavailable"},
		"down":           {kind(table.Down), 8, 8, "unavailable"},
		"no answer":      {kind(table.Unknown), 8, 8, ""},
		"too large":      {kind(table.TooLarge), 1, 1, ""},
		"something else": {other, 1, 1, ""},
		"refused":        {&table.Refused{Conflicts: []table.Conflict{{}}}, 1, 1, ""},
		"refused by us": {
			&table.Refused{Conflicts: []table.Conflict{{}, {Current: &table.Item{WriteID: "m"}}}}, 1, 1, "done",
		},
		"refused, theirs": {&table.Refused{Conflicts: []table.Conflict{{Current: &table.Item{WriteID: "n"}}}}, 1, 1,
			""},
	} {
		w := runBlank(t)
		f := &runFails{err: c.err}
		w.items.Inner = f
		_, err := w.Link(w.ctx(), "r")
		require.ErrorIs(t, err, c.err, name)
		assert.Equal(t, c.reads, f.calls, name)
		assert.Equal(t, c.reads > 1, runCode(err) == "unavailable", name)

		w.host.slept, f.calls = nil, 0
		err = commitOps(w.ctx(), w.Store, "m", table.Put(table.Item{}, table.Absent()))
		assert.Equal(t, c.writes, f.calls, name)
		if c.code == "done" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, c.err, name)
		assert.Equal(t, c.code, runCode(err), "%s: %v", name, err)
		_, refused := errors.AsType[*table.Refused](c.err)
		assert.Equal(t, refused, errors.Is(err, record.ErrConflict), name)
		if c.writes == 1 {
			assert.Empty(t, w.host.slept, name)
			continue
		}
		var all time.Duration
		for i, d := range w.host.slept {
			assert.LessOrEqual(t, d, time.Second, "%s: pause %d", name, i)
			assert.Greater(t, d, all*3/4, "%s: pause %d", name, i)
			all += d
		}
		assert.Greater(t, all, time.Second, "%s: a moment is ridden out", name)
		assert.Less(t, all, 5*time.Second, name)
		w.host.slept, w.host.draw = nil, func(int64) int64 { return 0 }
		_ = commitOps(w.ctx(), w.Store, "m")
		for _, d := range w.host.slept {
			assert.Equal(
				t,
				time.Millisecond,
				d,
				"%s: all but that is chance, so that those who met do not meet again",
				name,
			)
		}
	}
}

// After one lost response, no error means that nothing was done.
func TestLostAnswerMakesTheOutcomeUnknown(t *testing.T) {
	w := newRunWorld(t)
	calls := 0
	w.items.Before = func(faulttable.Call) faulttable.Fault {
		if calls++; calls == 2 {
			return faulttable.LostUnknown
		}
		return faulttable.Throttled
	}
	err := commitOps(w.ctx(), w.Store, "m", table.Delete(table.Key{Part: "a", Sort: "b"}, table.Always()))
	require.ErrorContains(t, err, "not known")
	assert.Empty(t, runCode(err))
}

// The end of the caller's context does not interrupt a commit; only the commit's own bound does. Reads are interrupted.
func TestEndedContextDoesNotInterruptACommit(t *testing.T) {
	w := newRunWorld(t)
	gone, cancel := context.WithCancel(w.ctx())
	cancel()
	op := table.Put(table.Item{Key: table.Key{Part: "a", Sort: "b"}, Owner: "o"}, table.Absent())
	faults := 3
	w.items.Before = func(faulttable.Call) faulttable.Fault {
		if faults--; faults >= 0 {
			return faulttable.Contended
		}
		return faulttable.None
	}
	require.NoError(t, commitOps(gone, w.Store, "m", op))
	assert.Equal(t, 20*time.Second, w.host.given[len(w.host.given)-1])
	faults = 1
	w.host.slept = nil
	_, err := w.Link(gone, w.id)
	assert.Equal(t, "unavailable", runCode(err))
	assert.Len(t, w.host.slept, 1)
	faults = 1
	_, err = w.Interrupts(gone, w.id, 1)
	assert.Equal(t, "unavailable", runCode(err))

	short := w.Within(time.Nanosecond) // the bound is over after the first try
	faults, w.host.slept = 100, nil
	err = commitOps(w.ctx(), short, "m", op)
	assert.Equal(t, "unavailable", runCode(err))
	assert.Len(t, w.host.slept, 1)
	assert.Equal(t, time.Nanosecond, w.host.given[len(w.host.given)-1])
	faults = 0
	require.NoError(t, commitOps(w.ctx(), w.Store, "n", table.Delete(op.Item.Key, table.Always())))
	assert.Equal(t, 20*time.Second, w.host.given[len(w.host.given)-1], "the store itself has its own bound still")
}

// A scope sees the data of its organization. The zero scope sees nothing, that of the system everything.
func TestScopeSeesWhatItsOrganizationOwns(t *testing.T) {
	w := runBlank(t)
	for _, owner := range []string{"o", record.NoOrganization} {
		w.must("m", func(tx *record.Tx) {
			record.PutResource(tx, record.Fresh(catalog.Group{ID: "of " + owner, Organization: owner}))
		})
	}
	for _, c := range []struct {
		scope record.Scope
		sees  string
	}{{record.Of("o"), "o"}, {record.Of(record.NoOrganization), record.NoOrganization}, {record.Of("p"), ""},
		{record.Of(""), ""}} {
		for _, owner := range []string{"o", record.NoOrganization} {
			e, err := record.Resource[catalog.Group](w.ctx(), w.Store, c.scope, "of "+owner)
			if c.sees != owner {
				assert.Equal(t, "outside_organization", runCode(err))
				assert.Empty(t, e.Value.ID)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, owner, e.Value.Organization)
			assert.Equal(t, owner, c.scope.Organization())
		}
		_, err := record.Resource[catalog.Group](w.ctx(), w.Store, c.scope, "none")
		assert.Equal(t, "not_found", runCode(err))
	}
	for _, owner := range []string{"o", record.NoOrganization} {
		_, err := record.Resource[catalog.Group](w.ctx(), w.Store, record.System(), "of "+owner)
		require.NoError(t, err)
	}
	assert.Same(t, w.blobs, w.Blobs())
}

// Due items are listed in order, up to the limit.
func TestDueItemsAreListedInOrder(t *testing.T) {
	w := runBlank(t)
	var want []string
	for n := range 5 {
		r := runIn("r", 1, 0)
		r.RunID = string(rune('a' + n))
		r.Due = w.host.now.Add(-time.Duration(n) * time.Minute)
		want = append([]string{r.RunID}, want...)
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	}
	seen := map[string]bool{}
	for shard := range table.DueShards {
		found, err := w.Due(w.ctx(), shard, w.host.now.Add(-time.Second), 9)
		require.NoError(t, err)
		for _, e := range found {
			assert.Equal(t, shard, record.RunKey(e.ID).Shard())
			seen[e.Kind+"/"+e.ID] = true
		}
		first, err := w.Due(w.ctx(), shard, w.host.now.Add(-time.Second), 1)
		require.NoError(t, err)
		assert.Len(t, first, min(1, len(found)))
	}
	assert.Len(t, seen, len(want)-1, "what is due later is not")
	assert.NotContains(t, seen, "run/a")
}
