package record_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

func (w *runWorld) group() record.Entity[catalog.Group] {
	w.t.Helper()
	e, err := record.Resource[catalog.Group](w.ctx(), w.Store, record.System(), "g")
	require.NoError(w.t, err)
	return e
}

// rename is an edit that counts its calls.
func (w *runWorld) rename(made *int) func(*catalog.Group, *record.Tx) error {
	return func(g *catalog.Group, _ *record.Tx) error {
		*made++
		g.Name += " edited"
		return nil
	}
}

// An edit is made of the resource as it is stored, and again when another write comes before its commit. Both writes
// are kept. An edit that always meets conflicts gives up with a problem of kind Unavailable.
func TestConflictingEditIsMadeAgain(t *testing.T) {
	for _, rivals := range []int{0, 1, 15, 16} {
		w := newRunWorld(t)
		made, others, busy := 0, 0, false
		w.items.Before = func(c faulttable.Call) faulttable.Fault {
			if c.Commit && !busy && others < rivals {
				busy = true
				others++
				other := w.group()
				other.Value.Description += "x"
				w.must("another", func(tx *record.Tx) { record.PutResource(tx, other) })
				busy = false
			}
			return faulttable.None
		}
		e, err := record.Change(w.ctx(), w.Store, record.Of("o"), "g", 0, w.rename(&made))
		stands := w.group()
		if rivals == 16 {
			assert.Equal(t, "unavailable", runCode(err))
			assert.Equal(t, "before", stands.Value.Name)
			assert.Empty(t, e.Value)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, rivals+1, made)
		assert.Equal(t, "before edited", stands.Value.Name)
		assert.Len(t, stands.Value.Description, rivals)
		assert.Equal(t, stands, e, "what is returned is what is stored, and may be written again")
	}
}

// An edit that expects a version is made of that version only; a refused edit changes nothing.
func TestRefusedEditChangesNothing(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		scope record.Scope
		id    string
		match record.Match
		err   error
		want  string
	}{
		"of any version":     {record.Of("o"), "g", 0, nil, "ok"},
		"of the version":     {record.Of("o"), "g", 1, nil, "ok"},
		"of another version": {record.Of("o"), "g", 2, nil, "precondition_failed"},
		"of another's":       {record.Of("p"), "g", 0, nil, "outside_organization"},
		"of nothing":         {record.Of("o"), "h", 0, nil, "not_found"},
		"that says no":       {record.Of("o"), "g", 0, no, ""},
		"that always tires":  {record.Of("o"), "g", 0, record.ErrConflict, "unavailable"},
	} {
		w := newRunWorld(t)
		before, _ := w.stored()
		edit := func(g *catalog.Group, _ *record.Tx) error {
			g.Name = "x"
			return c.err
		}
		_, err := record.Change(w.ctx(), w.Store, c.scope, c.id, c.match, edit)
		if c.want == "ok" {
			require.NoError(t, err, name)
			assert.Equal(t, "x", w.group().Value.Name)
			continue
		}
		require.Error(t, err, name)
		assert.Equal(t, c.want, runCode(err), "%s: %v", name, err)
		assert.Equal(t, name == "that says no", errors.Is(err, no), name)
		after, _ := w.stored()
		assert.Equal(t, before, after, name)
	}
}

// Writes together with a resource are in its commit: a second creation is refused whole.
func TestResourceAndItsCompanionsAreOneCommit(t *testing.T) {
	w := runBlank(t)
	other := func(tx *record.Tx, id string) {
		record.PutResource(tx, record.Fresh(catalog.Group{ID: id, Organization: "o"}))
	}
	there := func(id string) bool {
		return w.keys()[table.Key{Part: "group/" + id, Sort: "head"}]
	}
	tx := w.Begin("m")
	other(tx, "one")
	e := record.PutResource(tx, record.Fresh(catalog.Group{ID: "g", Organization: "o", Name: "n"}))
	require.NoError(t, tx.Commit(w.ctx()))
	assert.Equal(t, w.group(), e)
	assert.True(t, there("one"))
	_, err := record.Create(w.ctx(), w.Store, catalog.Group{ID: "g", Organization: "o"}, "n")
	require.ErrorIs(t, err, record.ErrConflict)
	assert.Equal(t, "n", w.group().Value.Name)

	two := func(_ *catalog.Group, tx *record.Tx) error { other(tx, "two"); return nil }
	_, err = record.Change(w.ctx(), w.Store, record.Of("o"), "g", 0, two)
	require.NoError(t, err)
	assert.True(t, there("two"))
	no := errors.New("no")
	for name, more := range map[string]func(record.Entity[catalog.Group], *record.Tx) error{
		"that says no": func(record.Entity[catalog.Group], *record.Tx) error { return no },
		"that cannot be": func(_ record.Entity[catalog.Group], tx *record.Tx) error {
			other(tx, "one") // it exists
			return nil
		},
	} {
		_, err = record.Remove(w.ctx(), w.Store, record.Of("o"), "g", more)
		require.Error(t, err, name)
		assert.Equal(t, name == "that says no", errors.Is(err, no))
		assert.True(t, there("g"), name)
	}
	_, err = record.Remove[catalog.Group](w.ctx(), w.Store, record.Of("p"), "g", nil)
	assert.Equal(t, "outside_organization", runCode(err))
	further := func(e record.Entity[catalog.Group], tx *record.Tx) error {
		other(tx, "after "+e.Value.ID)
		return nil
	}
	gone, err := record.Remove(w.ctx(), w.Store, record.Of("o"), "g", further)
	require.NoError(t, err)
	assert.Equal(t, "n", gone.Value.Name)
	assert.True(t, there("after g"))
	assert.False(t, there("g"))
	_, err = record.Remove[catalog.Group](w.ctx(), w.Store, record.Of("o"), "g", nil)
	assert.Equal(t, "not_found", runCode(err))
	_, err = record.Remove[catalog.Group](w.ctx(), w.Store, record.Of("o"), "one", nil)
	require.NoError(t, err)
}

// The wait between two attempts of an edit ends with the caller's context.
func TestWaitForRetryEndsWithTheContext(t *testing.T) {
	w := newRunWorld(t)
	ctx, cancel := context.WithCancel(w.ctx())
	attempts := 0
	_, err := record.Change(ctx, w.Store, record.Of("o"), "g", 0, func(*catalog.Group, *record.Tx) error {
		attempts++
		cancel()
		return record.ErrConflict
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, attempts)
}
