package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ranking"
)

func TestJudge(t *testing.T) {
	c := collection{queries: []question{
		{ID: "1", Relevant: []string{"a", "b", "c", "d"}}, {ID: "2", Relevant: []string{"a"}},
	}}
	// the first and the third of four; nothing for the other query
	f := c.judge(map[string][]string{"1": {"a", "x", "c"}})
	second, third, fourth := 1/math.Log2(3), 1/math.Log2(4), 1/math.Log2(5)
	assert.InDelta(t, (1+third)/(1+second+third+fourth)/2, f.ndcg, 1e-12)
	assert.InDelta(t, 2./4/2, f.recall, 1e-12)

	late := make([]string, depth, depth+1)
	f = c.judge(map[string][]string{"2": append(late, "a")})
	assert.Equal(t, figures{ndcg: 0, recall: 1. / 2}, f, "the eleventh counts for recall alone")
	f = c.judge(map[string][]string{"2": append(make([]string, reach), "a")})
	assert.Equal(t, figures{}, f, "behind the hundredth")
}

func TestSearchFindsWhatIsAsked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.WriteFile(name+suffix, []byte(`{"id": "a", "title": "Wings", "text": "Wings lift the plane."}
{"id": "b", "title": "Flaps", "text": "The flaps brake it, and they are on the wings."}
{"id": "c", "title": "Wheels", "text": "It rolls on them."}`), 0o600))
	require.NoError(t, os.WriteFile(name+".queries.jsonl", []byte(`{"id": "1", "text": "wing", "relevant": ["a"]}
{"id": "2", "text": "none", "relevant": []}`), 0o600))
	c, err := read(name)
	require.NoError(t, err)
	require.Len(t, c.queries, 1, "a query without relevant documents says nothing")
	for _, divided := range []bool{false, true} {
		s, err := newSearch(t.Context(), c, divided)
		require.NoError(t, err)
		found, err := s.all(t.Context(), c.queries, ranking.Keyword, nil)
		require.NoError(t, err)
		assert.Equal(t, map[string][]string{"1": {"a", "b"}}, found)
		indexed, err := s.indexed(t.Context(), c)
		require.NoError(t, err)
		for _, r := range indexed {
			assert.Positive(t, r.ndcg, r.name)
			assert.InDelta(t, 1, r.recall, 0, r.name)
		}
	}
}

func TestRowsBelowTheirFloorAreNamed(t *testing.T) {
	rows := []row{
		{name: "bm25s", figures: figures{0.4, 0.7}},
		{name: "keyword, x", figures: figures{0.4, 0.7}, floor: "bm25s"},
		{name: "hybrid, x", figures: figures{0.4, 0.7}, floor: "keyword, x"},
	}
	require.NoError(t, show("c", collection{}, rows))
	rows[1].recall = 0.6999
	require.EqualError(t, show("c", collection{}, rows), "c: keyword, x is below bm25s")
	rows[1].recall, rows[2].recall = 0.7, 0.6999
	require.EqualError(t, show("c", collection{}, rows), "c: hybrid, x is below keyword, x")
	rows[2].recall, rows[2].ndcg = 0.7, 0.3999
	require.EqualError(t, show("c", collection{}, rows), "c: hybrid, x is below keyword, x")
}
