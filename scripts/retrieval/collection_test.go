package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	c := collection{queries: []question{
		{ID: "1", Relevant: []string{"a", "b", "c", "d"}}, {ID: "2", Relevant: []string{"a"}},
	}}
	// the first and the third of four; nothing for the other query
	f := c.score(map[string][]string{"1": {"a", "x", "c"}})
	second, third, fourth := 1/math.Log2(3), 1/math.Log2(4), 1/math.Log2(5)
	assert.InDelta(t, (1+third)/(1+second+third+fourth)/2, f.ndcg, 1e-12)
	assert.InDelta(t, 2./4/2, f.recall, 1e-12)

	late := make([]string, depth, depth+1)
	f = c.score(map[string][]string{"2": append(late, "a")})
	assert.Equal(t, figures{ndcg: 0, recall: 1. / 2}, f, "the eleventh counts for recall alone")
	f = c.score(map[string][]string{"2": append(make([]string, reach), "a")})
	assert.Equal(t, figures{}, f, "behind the hundredth")
}

func TestSearchFindsWhatIsAsked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.WriteFile(name+suffix, []byte(`{"id": "a", "title": "Wings", "text": "Wings lift the plane."}
{"id": "b", "title": "Flaps", "text": "The flaps brake it, and they are on the wings."}
{"id": "c", "title": "Wheels", "text": "It rolls on them."}`), 0o600))
	require.NoError(t, os.WriteFile(name+".queries.jsonl", []byte(`
{"id": "1", "text": "wing", "relevant": ["a"], "answers": ["lift the plane"]}
{"id": "2", "text": "none", "relevant": []}`), 0o600))
	c, err := read(name)
	require.NoError(t, err)
	require.Len(t, c.queries, 1, "a query without relevant documents says nothing")
	for _, division := range []string{whole, chunked} {
		s, err := newSearch(t.Context(), c, division == chunked)
		require.NoError(t, err)
		for _, at := range s.targets(division) {
			rows, err := s.measure(t.Context(), c, at)
			require.NoError(t, err)
			require.Len(t, rows, 3)
			assert.Equal(t, map[string][]string{"1": {"a", "b"}}, rows[0].found, rows[0].name)
			for _, r := range rows {
				assert.Positive(t, r.ndcg, r.name)
				assert.InDelta(t, 1, r.recall, 0, r.name)
				assert.Equal(t, r.known, r.answered, r.name)
				assert.Equal(t, at.name == byLaptop, r.known == 1, r.name)
			}
		}
	}
}

func TestRowsBelowTheirFloorAreNamed(t *testing.T) {
	rows := []row{
		{name: "bm25s", figures: figures{0.4, 0.7}},
		{name: "keyword, x", figures: figures{0.4, 0.7}, floors: []string{"bm25s"}},
		{name: "hybrid, x", figures: figures{0.4, 0.7}, floors: []string{"keyword, x"}},
	}
	for i, slack := range []figures{{}, belowPeer, belowKeyword} {
		rows[i].slack = slack
	}
	c := collection{name: "c"}
	require.NoError(t, show(c, rows))
	rows[1].ndcg = 0.391
	require.NoError(t, show(c, rows))
	rows[1].ndcg = 0.389
	require.EqualError(t, show(c, rows), "c: keyword, x is below bm25s")
	rows[1].ndcg, rows[2].ndcg = 0.4, 0.394
	require.EqualError(t, show(c, rows), "c: hybrid, x is below keyword, x")
}

// A base may be good as a whole and bad in one of its languages.
func TestRowsBelowTheirFloorInOneLanguageAreNamed(t *testing.T) {
	c := collection{name: "c"}
	for _, id := range []string{"en-1", "en-2", "en-3", "de-1"} {
		c.queries = append(c.queries, question{ID: id, Language: id[:2], Relevant: []string{id}})
	}
	all := map[string][]string{"en-1": {"en-1"}, "en-2": {"en-2"}, "en-3": {"x", "en-3"}, "de-1": {"de-1"}}
	rows := []row{
		{name: "bm25s", found: all},
		{name: "keyword, x", floors: []string{"bm25s"}, slack: belowPeer, found: map[string][]string{
			"en-1": {"en-1"}, "en-2": {"en-2"}, "en-3": {"en-3"}, "de-1": {"x", "de-1"},
		}},
	}
	for i := range rows {
		rows[i].figures = c.score(rows[i].found)
	}
	require.EqualError(t, show(c, rows), "c, queries in de: keyword, x is below bm25s")
}

func TestBasesOfCollections(t *testing.T) {
	english := collection{name: "a", documents: []article{{ID: "1", Language: "en", Text: strings.Repeat("w ", 50)}},
		queries: []question{{ID: "q", Language: "en", Relevant: []string{"1"}}}}
	two := collection{name: "b", documents: []article{{ID: "en-1", Language: "en"}, {ID: "de-1", Language: "de"}},
		queries: []question{
			{ID: "q", Language: "en", Relevant: []string{"en-1"}},
			{ID: "r", Language: "de", Relevant: []string{"de-1"}},
		}}
	var names []string
	for _, c := range bases([]collection{english, two}) {
		names = append(names, fmt.Sprint(c.name, " ", len(c.documents), " ", len(c.queries)))
		for _, q := range c.queries {
			there := func(a article) bool { return a.ID == q.Relevant[0] }
			assert.True(t, slices.ContainsFunc(c.documents, there), c.name)
		}
	}
	assert.Equal(t, []string{"a 1 1", "a, the first 42 words 1 1", "b 2 2", "b, de alone 1 1", "b, en alone 1 1",
		"a + b 3 3"}, names)
	english.queries[0].Answers = []string{"w"}
	assert.Len(t, bases([]collection{english}), 1)
	assert.Len(t, strings.Fields(english.short().documents[0].Text), shortWords)
}
