package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// What has more than one meaning has no stored form: nothing is written of it, and that is said.
func TestWhatHasNoStoredFormIsNotStored(t *testing.T) {
	w := runBlank(t)
	twice := json.RawMessage(`{"a":1,"a":2}`)
	r := runIn("r", 1, 0)
	r.Output = twice
	op, err := record.PutRun(record.Fresh(r), "m")
	require.ErrorIs(t, err, record.ErrUnstorable)
	assert.Empty(t, op)
	_, err = w.PutDecisions(w.ctx(), r, "m", 1, record.Decisions{List: []record.Decision{{Arguments: twice}}})
	require.ErrorIs(t, err, record.ErrUnstorable)
	op, err = w.PutStep(w.ctx(), r, "m", record.Step{Arguments: json.RawMessage(`{`)})
	require.Error(t, err)
	assert.Empty(t, op)
	ops, err := w.SetOutput(w.ctx(), &r, "m", json.RawMessage(`"`+runLarge))
	require.Error(t, err)
	assert.Empty(t, ops[0])
	agent := record.Agent{ID: "a", Organization: "o"}
	_, err = record.Create(w.ctx(), w.Store, agent, "m")
	require.NoError(t, err)
	_, err = record.Change(
		w.ctx(),
		w.Store,
		record.Of("o"),
		"a",
		0,
		func(a *record.Agent, _ string) ([]table.Op, error) {
			a.Spec.OutputSchema = twice
			return nil, nil
		},
	)
	require.ErrorIs(t, err, record.ErrUnstorable)
	agent.ID, agent.Spec.OutputSchema = "b", twice
	_, err = record.Create(w.ctx(), w.Store, agent, "m")
	require.ErrorIs(t, err, record.ErrUnstorable)
	assert.Len(t, w.places(), 1)
	assert.Empty(t, w.blobs.Keys())
}

// What was written under one version is written again under that one only; what is new must be new.
func TestAnEntityIsWrittenOverItsOwnVersion(t *testing.T) {
	w := newRunWorld(t)
	first := w.group()
	assert.EqualValues(t, 1, first.Version())
	assert.Zero(t, record.Fresh(record.Group{}).Version())
	first.Value.Name = "two"
	op, err := record.PutResource(first, "two")
	require.NoError(t, err)
	require.NoError(t, w.Commit(w.ctx(), "two", op))
	second := first.Written(first.Value, "two")
	assert.Equal(t, w.group(), second)
	assert.True(t, second.WrittenBy("two"))
	assert.False(t, second.WrittenBy("group"))
	for name, e := range map[string]record.Entity[record.Group]{
		"an old one": first, "a new one": record.Fresh(first.Value),
	} {
		op, err = record.PutResource(e, "three")
		require.NoError(t, err)
		require.ErrorIs(t, w.Commit(w.ctx(), "three", op), record.ErrStale, name)
	}
	op, err = record.PutResource(second, "three")
	require.NoError(t, err)
	require.NoError(t, w.Commit(w.ctx(), "three", op))
	assert.EqualValues(t, 3, w.group().Version())
	require.ErrorIs(t, w.Commit(w.ctx(), "four", record.Unchanged(second)), record.ErrStale)
}
