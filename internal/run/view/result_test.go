package view_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

var errAway = errors.New("the store is away")

// quoting is a stored result that quotes the documents d1 and d2.
func quoting(t *testing.T) json.RawMessage {
	t.Helper()
	found := []record.Source{
		{N: 1, Document: "d1", KnowledgeBase: "b", Title: "Swords", Text: "the sword is dull", Score: 0.5},
		{N: 2, Document: "d2", KnowledgeBase: "b", Title: "Fish", Text: "the fish is a swordfish", Score: 0.25},
	}
	result, err := json.Marshal(view.Result{
		RunID: "r", Answer: "A fish [2] and a sword [1].", Files: []record.FileRef{}, FinishReason: "stop",
		Citations: citation.Cited("[2] [1]", false, map[int]record.Source{1: found[0], 2: found[1]}),
		Steps: []view.ResultStep{
			{Name: "search", Arguments: json.RawMessage(`{"query":"sword"}`), Outcome: "succeeded", Found: found},
			{Name: "echo", Arguments: json.RawMessage(`{"found":[{}]}`), Outcome: "succeeded", Output: "a text"},
		},
	})
	require.NoError(t, err)
	return result
}

// Each read decides which documents are hidden. The same stored result is whole for one reader and has only numbers for
// another.
func TestAResultShowsEachReaderWhatTheReaderMayRead(t *testing.T) {
	stored := quoting(t)
	var requested []string
	hide := func(h citation.Hidden) citation.Reader {
		return func(_ context.Context, documents []string) (citation.Hidden, error) {
			requested = documents
			return h, nil
		}
	}

	whole, err := view.Rendered(t.Context(), stored, hide(nil))
	require.NoError(t, err)
	assert.Equal(t, []string{"d1", "d2"}, requested)
	var all view.Result
	require.NoError(t, json.Unmarshal(whole, &all))
	assert.Nil(t, all.Steps[0].Found)
	assert.Equal(t, `{"n":1,"title":"Swords","text":"the sword is dull"}`+"\n"+
		`{"n":2,"title":"Fish","text":"the fish is a swordfish"}`, all.Steps[0].Output)
	assert.Equal(t, "a text", all.Steps[1].Output)
	require.Len(t, all.Citations, 2)
	assert.Equal(t, "the fish is a swordfish", *all.Citations[0].Text)

	less, err := view.Rendered(t.Context(), stored, hide(citation.Hidden{"d1": "deleted", "d2": "restricted"}))
	require.NoError(t, err)
	for _, secret := range []string{"sword is", "swordfish", "Swords", "Fish", `"d1"`, `"d2"`} {
		assert.NotContains(t, string(less), secret)
	}
	var bare struct {
		Answer    string            `json:"answer"`
		Citations []json.RawMessage `json:"citations"`
	}
	require.NoError(t, json.Unmarshal(less, &bare))
	assert.Equal(t, "A fish [2] and a sword [1].", bare.Answer)
	assert.JSONEq(t, `{"n":2,"state":"restricted"}`, string(bare.Citations[0]))
	assert.JSONEq(t, `{"n":1,"state":"deleted"}`, string(bare.Citations[1]))
}

func TestAReaderThatCannotBeAskedShowsNothing(t *testing.T) {
	_, err := view.Rendered(t.Context(), quoting(t), func(context.Context, []string) (citation.Hidden, error) {
		return nil, errAway
	})
	assert.ErrorIs(t, err, errAway)
}

// A result without quotes costs no read, with any text.
func TestAResultThatQuotesNothingIsShownAsItIsStored(t *testing.T) {
	for _, stored := range []string{
		`{"answer":"yes","citations":[],"steps":[]}`,
		`{"answer":"\"found\":[{","citations":[],"steps":[]}`,
	} {
		got, err := view.Rendered(t.Context(), json.RawMessage(stored), nil)
		require.NoError(t, err)
		assert.Equal(t, stored, string(got))
	}
}

// Code that forgets the reader returns too little, not too much.
func TestARunIsWithoutItsResultUntilItsReaderIsKnown(t *testing.T) {
	w := newWorld(t)
	r := head(lifecycle.Completed)
	w.commit(func(tx *record.Tx) { tx.SetOutput(t.Context(), &r, quoting(t)) })
	v, err := view.Of(t.Context(), w.Store, w.store(r))
	require.NoError(t, err)
	assert.Equal(t, "null", string(v.Result))
	v, err = v.For(t.Context(), func(context.Context, []string) (citation.Hidden, error) {
		return citation.Hidden{"d1": citation.Deleted, "d2": citation.Deleted}, nil
	})
	require.NoError(t, err)
	assert.NotContains(t, string(v.Result), "swordfish")
	assert.Contains(t, string(v.Result), "deleted")
}
