package record_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
)

// After the first error nothing is read, put into the blob store or written; that error is returned.
func TestUnitOfWorkKeepsItsFirstError(t *testing.T) {
	w := newRunWorld(t)
	parked, err := w.Parked(w.ctx(), w.waiting)
	require.NoError(t, err)
	items, values := w.stored()
	calls := 0
	w.items.Before = func(faulttable.Call) faulttable.Fault { calls++; return faulttable.None }
	w.blobs.before = func(string) error { calls++; return nil }
	r := w.head.Value
	for name, further := range map[string]func(tx *record.Tx){
		"nothing": func(*record.Tx) {},
		"a run":   func(tx *record.Tx) { tx.PutRun(w.head) },
		"a message": func(tx *record.Tx) {
			tx.PutInput(w.ctx(), r.RunSpec, record.Input{Message: runLarge}, w.host.now)
		},
		"no message": func(tx *record.Tx) { tx.DropParked(w.ctx(), parked) },
		"a step":     func(tx *record.Tx) { tx.PutStep(w.ctx(), r, record.Step{Index: 9, Output: runLarge}) },
		"a delivery": func(tx *record.Tx) {
			tx.NewDelivery(w.ctx(), record.Delivery{RunID: w.id, Sequence: 9, Body: runLarge})
		},
		"files": func(tx *record.Tx) {
			tx.ReferenceFiles(w.ctx(), "o", lifecycle.Whose{Agent: "a"}, w.id, []record.FileRef{{FileID: "f3"}})
		},
		"files let go": func(tx *record.Tx) { record.Release(tx, w.ctx(), w.id, "f1") },
		"tokens": func(tx *record.Tx) {
			tx.CountTokens(w.ctx(), &lifecycle.Run{
				RunSpec: lifecycle.RunSpec{RunID: w.id}, Usage: lifecycle.Usage{InputTokens: 1},
				Counting: lifecycle.Counting{Budgets: []lifecycle.Budget{{Name: "n"}}},
			})
		},
		"tokens of embeddings": func(tx *record.Tx) {
			tx.PutEmbedded("o", record.Entry{InputTokens: 1})
			tx.SpendEmbedded(w.ctx(), "o", []record.Limit{{Budget: record.Budget{MaxTokens: new(int64)}}}, 1)
		},
		"a toolkit's value": func(tx *record.Tx) {
			tx.PutBlob(w.ctx(), catalog.Toolkit{ID: "k"}, "tools", []byte("[]"))
		},
		"what has no form, either": func(tx *record.Tx) {
			tx.PutStep(w.ctx(), r, record.Step{Arguments: json.RawMessage(`[`)})
		},
	} {
		tx := w.Begin("m")
		tx.PutPause(w.ctx(), r, 9, []record.Interrupt{{Call: "kept until then"}})
		tx.PutStep(w.ctx(), r, record.Step{Index: 8, Arguments: json.RawMessage(`{`)})
		first := tx.Err()
		require.ErrorIs(t, first, record.ErrUnstorable, name)
		assert.True(t, record.Unstorable(first))
		further(tx)
		assert.Len(t, tx.Ops(), 1, name)
		assert.Equal(t, first, tx.Commit(w.ctx()), name)
		assert.Zero(t, calls, name)
	}
	gotItems, gotValues := w.stored()
	assert.Equal(t, items, gotItems)
	assert.Equal(t, values, gotValues)
}

// A unit of work without writes makes no call; items that are written carry the write id.
func TestUnitOfWorkWritesWhatWasAdded(t *testing.T) {
	w := newRunWorld(t)
	w.items.Before = func(faulttable.Call) faulttable.Fault { return faulttable.Down }
	require.NoError(t, w.Begin("nothing").Commit(w.ctx()))
	w.items.Before = nil
	tx := w.Begin("m")
	assert.Equal(t, "m", tx.WriteID())
	left := tx.PutRun(w.head)
	require.NoError(t, tx.Commit(w.ctx()))
	e, err := w.Run(w.ctx(), record.Of("o"), w.id)
	require.NoError(t, err)
	assert.Equal(t, left, e)
	assert.True(t, e.WrittenBy("m"))
	assert.False(t, record.Unstorable(errors.New("something else")))
}

// The cached reader returns the data of the store.
func TestKnownReadsReturnWhatIsStored(t *testing.T) {
	w := runBlank(t)
	agent := catalog.Agent{ID: "a", Organization: "o", Version: 1}
	stored := func(a catalog.Agent) []any { return []any{a.ID, a.Organization, a.Version} }
	token := record.RunToken{RunID: "r", Organization: "o", End: w.host.now.AddDate(0, 0, 1)}
	w.must("m", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(agent))
		record.PutVersion(tx, agent, agent.Version)
		tx.PutRunToken("hash", token)
	})
	known := w.Cached()
	standing, err := catalog.Standing(w.ctx(), known, record.Of("o"), "a")
	require.NoError(t, err)
	version, err := record.Version[catalog.Agent](w.ctx(), known, record.Of("o"), "a", 1)
	require.NoError(t, err)
	resource, err := record.Resource[catalog.Agent](w.ctx(), known, record.Of("o"), "a")
	require.NoError(t, err)
	for _, a := range []catalog.Agent{standing, version, resource.Value} {
		assert.Equal(t, stored(agent), stored(a))
	}
	there, err := record.Existing[catalog.Agent](w.ctx(), known, record.Of("o"), []string{"a", "b"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, there)
	got, err := record.FindRunToken(w.ctx(), known, "hash")
	require.NoError(t, err)
	assert.Equal(t, token, got)
}
