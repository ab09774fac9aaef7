package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// JSON with more than one meaning is refused with ErrUnstorable, and nothing is written.
func TestAmbiguousJSONIsNotStored(t *testing.T) {
	w := runBlank(t)
	twice := json.RawMessage(`{"a":1,"a":2}`)
	r := runIn("r", 1, 0)
	r.Output = twice
	op, err := opOf(w.Store, "m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	require.ErrorIs(t, err, record.ErrUnstorable)
	assert.Empty(t, op)
	_, err = opOf(w.Store, "m", func(tx *record.Tx) {
		tx.PutDecisions(w.ctx(), r, 1, record.Decisions{List: []record.Decision{{Arguments: twice}}})
	})
	require.ErrorIs(t, err, record.ErrUnstorable)
	op, err = opOf(w.Store, "m",
		func(tx *record.Tx) { tx.PutStep(w.ctx(), r, record.Step{Arguments: json.RawMessage(`{`)}) })
	require.Error(t, err)
	assert.Empty(t, op)
	ops, err := opsOf(w.Store, "m", func(tx *record.Tx) { tx.SetOutput(w.ctx(), &r, json.RawMessage(`"`+runLarge)) })
	require.Error(t, err)
	assert.Empty(t, ops)
	agent := catalog.Agent{ID: "a", Organization: "o"}
	_, err = record.Create(w.ctx(), w.Store, agent, "m")
	require.NoError(t, err)
	_, err = record.Change(
		w.ctx(),
		w.Store,
		record.Of("o"),
		"a",
		0,
		func(a *catalog.Agent, _ *record.Tx) error {
			a.Spec.OutputSchema = twice
			return nil
		},
	)
	require.ErrorIs(t, err, record.ErrUnstorable)
	agent.ID, agent.Spec.OutputSchema = "b", twice
	_, err = record.Create(w.ctx(), w.Store, agent, "m")
	require.ErrorIs(t, err, record.ErrUnstorable)
	assert.Len(t, w.keys(), 1)
	assert.Empty(t, w.blobs.Keys())
}

// An entity is written only over the version that was read; a new one requires that none exists.
func TestEntityIsWrittenOnlyOverTheVersionRead(t *testing.T) {
	w := newRunWorld(t)
	first := w.group()
	assert.EqualValues(t, 1, first.Version())
	assert.Zero(t, record.Fresh(catalog.Group{}).Version())
	first.Value.Name = "two"
	tx := w.Begin("two")
	second := record.PutResource(tx, first)
	require.NoError(t, tx.Commit(w.ctx()))
	assert.Equal(t, w.group(), second)
	assert.True(t, second.WrittenBy("two"))
	assert.False(t, second.WrittenBy("group"))
	for name, e := range map[string]record.Entity[catalog.Group]{
		"an old one": first, "a new one": record.Fresh(first.Value),
	} {
		err := committed(w.ctx(), w.Store, "three", func(tx *record.Tx) { record.PutResource(tx, e) })
		require.ErrorIs(t, err, record.ErrConflict, name)
	}
	require.NoError(t, committed(w.ctx(), w.Store, "three", func(tx *record.Tx) { record.PutResource(tx, second) }))
	assert.EqualValues(t, 3, w.group().Version())
	require.ErrorIs(t, committed(w.ctx(), w.Store, "four", func(tx *record.Tx) { record.Unchanged(tx, second) }),
		record.ErrConflict)
}
