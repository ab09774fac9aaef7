package ingest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/text/ranking"
)

// choose searches as a run does.
func (w *world) choose(query string, change func(*knowledge.Question)) (texts []string, of map[string]int) {
	q := knowledge.Question{
		Query: query, Mode: ranking.Hybrid, Limit: 6, Floor: true, PerDocument: 3, Distinct: true,
	}
	if change != nil {
		change(&q)
	}
	found, err := w.knowledge.Search(w.Context(), w.admin, q)
	require.NoError(w, err)
	of = map[string]int{}
	for _, h := range found.Hits {
		texts = append(texts, h.Chunk.Text)
		of[h.Document.ID]++
	}
	return texts, of
}

// Versions of one text, and a long document, must not take all the places.
func TestARunsSearchIsSpreadOverDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		rules := "Remote work is allowed for all who have agreed on it with their manager, in writing, before it " +
			"begins, and who can be reached by telephone and by mail during the hours that the team chose. Edition "
		for i := range 12 {
			w.ready(b, rules+string(rune('a'+i))+".")
		}
		whole := w.ready(b, long("remote work rule")[:20_000])
		others := []string{
			w.ready(b, "Remote work from abroad needs a permit."),
			w.ready(b, "Remote work is insured like work on site."),
		}
		texts, of := w.choose("remote work", nil)
		assert.Len(t, texts, 6)
		for _, id := range others {
			assert.Equal(t, 1, of[id], "%q", texts)
		}
		assert.LessOrEqual(t, of[whole], 3)
		editions := 0
		for _, text := range texts {
			if strings.HasPrefix(text, rules) {
				editions++
			}
		}
		assert.Equal(t, 1, editions, "%q", texts)
		_, of = w.choose("remote work", func(q *knowledge.Question) { q.PerDocument, q.Distinct = 1, false })
		assert.Len(t, of, 6)
	})
}

// If only the bound of one document leaves places free, the index gets no further query.
func TestTheBoundOfADocumentCostsNoFurtherLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		ask := func(mode ranking.Mode, hits int, queries ...int) {
			x := &counting{Index: w.index}
			w.knowledge.Index = x
			texts, _ := w.choose("wing", func(q *knowledge.Question) { q.Mode, q.Distinct = mode, false })
			assert.Len(t, texts, hits, mode)
			assert.Equal(t, queries, x.queries, mode)
		}
		require.Greater(t, w.read(w.ready(b, strings.Repeat(long("wing"), 5))).Ready.Count, 5*firstCandidates)
		ask(ranking.Hybrid, 3, firstCandidates)
		ask(ranking.Keyword, 3, firstCandidates)
		ask(ranking.Semantic, 3, firstCandidates, 4*firstCandidates)
		w.ready(b, "Nothing is said here of lifts, of flaps and of wheels.")
		ask(ranking.Keyword, 3, firstCandidates, 4*firstCandidates)
	})
}

// The old and the new price differ in nothing but a number.
func TestTextsThatDifferInANumberAreBothFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		for _, price := range []string{"49", "59"} {
			w.ready(b, "The price of the basic plan is "+price+" euros a month, paid in advance for the year, with "+
				"all updates, and with help by mail on working days, from nine to five, in English and in German.")
		}
		texts, _ := w.choose("price of the basic plan", nil)
		assert.Len(t, texts, 2)
	})
}

// A question that nothing answers finds nothing, and the index gets no further query.
func TestWhatIsBelowTheFloorIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		for i := range 100 {
			w.ready(b, fmt.Sprintf("Our canteen opens at noon and serves soup, bread and salad, dish %d.", i))
		}
		for _, mode := range []ranking.Mode{ranking.Hybrid, ranking.Semantic, ranking.Keyword} {
			x := &counting{Index: w.index}
			w.knowledge.Index = x
			texts, _ := w.choose("zygote mitosis", func(q *knowledge.Question) { q.Mode = mode })
			assert.Empty(t, texts, mode)
			assert.Equal(t, []int{firstCandidates}, x.queries, mode)
			texts, _ = w.choose("salad of the canteen", func(q *knowledge.Question) {
				q.Mode, q.Distinct = mode, false
			})
			assert.Len(t, texts, 6, mode)
		}
	})
}

// Better hits that are not to be shown do not hide the others.
func TestTheFloorHidesNoFurtherHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		w.ready(b, long("wing"))
		id := w.ready(b, "Much is said here, of lifts and of flaps and of wheels, and at the end there is a wing, too.")
		mark := func(map[string]json.RawMessage) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"mark": json.RawMessage(`true`)}, nil
		}
		_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Metadata: mark})
		require.NoError(t, err)
		texts, _ := w.choose("wing", func(q *knowledge.Question) {
			q.Mode, q.Filter.Metadata = ranking.Keyword, map[string]knowledge.Condition{"mark": {In: []any{true}}}
		})
		assert.Len(t, texts, 1)
	})
}
