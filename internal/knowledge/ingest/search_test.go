package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
)

// counting is an index that counts the queries. It may report that there is nothing more to find.
type counting struct {
	index.Index

	queries []int // their limits
	all     bool
}

func (c *counting) Query(ctx context.Context, q index.Query) (index.Result, error) {
	c.queries = append(c.queries, q.Limit)
	r, err := c.Index.Query(ctx, q)
	r.More = r.More && !c.all
	return r, err
}

// A search asks the index again, for more, only where that may find what is still wanted.
func TestSearchAsksForMoreWhereThereMayBeMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		d := w.read(w.ready(b, long("wing")))
		require.Greater(t, d.Ready.Count, firstCandidates)
		require.Less(t, d.Ready.Count, 4*firstCandidates)
		none := knowledge.Filter{Metadata: map[string]knowledge.Condition{"there": {In: []any{"is none"}}}}
		for _, row := range []struct {
			name    string
			q       knowledge.Question
			all     bool // the index reports that this is all
			queries []int
			most    int // hits; the best of a hybrid search has the score 1
		}{
			{"enough", knowledge.Question{Limit: 10}, false, []int{firstCandidates}, 10},
			{"scores that nothing has", knowledge.Question{Limit: 10, MinScore: 0.999}, false,
				[]int{firstCandidates}, 1},
			{"nothing passes the filter", knowledge.Question{Limit: 10, Filter: none}, false,
				[]int{firstCandidates, 4 * firstCandidates}, 0},
			{"the index has no more", knowledge.Question{Limit: 10, Filter: none}, true,
				[]int{firstCandidates}, 0},
		} {
			for _, mode := range []ranking.Mode{ranking.Keyword, ranking.Semantic, ranking.Hybrid} {
				x := &counting{Index: w.index, all: row.all}
				w.knowledge.Index = x
				row.q.Mode, row.q.Query = mode, "wing number"
				found, err := w.knowledge.Search(t.Context(), w.admin, row.q)
				require.NoError(t, err)
				assert.Equal(t, row.queries, x.queries, "%s, %s", row.name, mode)
				for _, h := range found.Hits {
					assert.GreaterOrEqual(t, h.Score, row.q.MinScore)
				}
				assert.LessOrEqual(t, len(found.Hits), row.most, "%s, %s", row.name, mode)
			}
		}
	})
}

// firstCandidates is how many candidates a search asks for at first.
const firstCandidates = 50

// Words in quotation marks stand so in each hit, even if other chunks have these words more often.
func TestPhrasesStandInWhatIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		right := w.ready(b, "On Monday the quiet harbour lay in the sun, and nobody saw what the tide had brought.")
		for i := range 60 {
			w.ready(b, fmt.Sprintf("The harbour is quiet, the quiet of a harbour, harbour and quiet, number %d.", i))
		}
		search := func(mode ranking.Mode, query string, quoted bool) (ids []string) {
			found, err := w.knowledge.Search(t.Context(), w.admin,
				knowledge.Question{Query: query, Mode: mode, Limit: 5, Phrases: quoted})
			require.NoError(t, err)
			for _, h := range found.Hits {
				ids = append(ids, h.Document.ID)
			}
			return ids
		}
		for _, mode := range []ranking.Mode{ranking.Keyword, ranking.Hybrid} {
			assert.NotContains(t, search(mode, `quiet harbour`, true), right, "%s: others have more of the words", mode)
			for _, query := range []string{
				`"quiet harbour"`, `“Quiet Harbour” number`, `harbour "the quiet harbour lay"`,
			} {
				assert.Equal(t, []string{right}, search(mode, query, true), "%s: %s", mode, query)
			}
			for _, query := range []string{`"harbour quiet tide"`, `"quiet harbour" "number seven"`} {
				assert.Empty(t, search(mode, query, true), "%s: %s", mode, query)
			}
			assert.Len(t, search(mode, `"quiet of a harbour"`, true), 5, mode)
			assert.Len(t, search(mode, `"harbour quiet tide"`, false), 5, "%s: the question of a run", mode)
		}
		assert.Len(t, search(ranking.Semantic, `"harbour quiet tide"`, true), 5)
	})
}

// The texts that are read for a phrase are bounded: those of the best candidates are.
func TestTextsReadForAPhraseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		w.ready(b, "On Monday the quiet harbour lay in the sun, and nobody saw what the tide had brought.")
		best := w.ready(b, "quiet harbour quiet harbour quiet harbour quiet harbour")
		for i := range 120 {
			w.ready(b, fmt.Sprintf("harbour quiet, quiet or harbour, harbour quiet, number %d", i))
		}
		x := &counting{Index: w.index}
		w.knowledge.Index = x
		found, err := w.knowledge.Search(t.Context(), w.admin,
			knowledge.Question{Query: `"quiet harbour"`, Mode: ranking.Keyword, Limit: 5, Phrases: true})
		require.NoError(t, err)
		require.Len(t, found.Hits, 1, "the other is behind a hundred that have the words more often")
		assert.Equal(t, best, found.Hits[0].Document.ID)
		assert.Equal(t, []int{firstCandidates, 4 * firstCandidates}, x.queries)
	})
}

// reprocessed replaces what was made of a document, as soon as a blob is read, and removes what was there before.
func (w *world) reprocessed(b catalog.KnowledgeBase, id string) {
	w.beforeGet = func() {
		_, err := w.knowledge.Reprocess(w.Context(), w.admin, b.ID, id)
		require.NoError(w, err)
		w.ingest(id)
		w.settle()
	}
}

// A document that is replaced after a request has read it, and before the request reads its parts, is there.
func TestReadingAcrossTheReplacementOfADocument(t *testing.T) {
	search := func(query string) func(*world, string, string) (int, error) {
		return func(w *world, _, _ string) (int, error) {
			found, err := w.knowledge.Search(w.Context(), w.admin, knowledge.Question{
				Query: query, Phrases: true, Mode: ranking.Keyword, Limit: 50,
			})
			return len(found.Hits), err
		}
	}
	for name, read := range map[string]func(w *world, base, id string) (int, error){
		"search":  search("swordfish"),
		"phrases": search(`"word is swordfish"`),
		"text": func(w *world, base, id string) (int, error) {
			content, size, err := w.knowledge.Text(w.Context(), w.admin, base, id)
			if err == nil {
				require.NoError(w, content.Bytes.Close())
			}
			return min(1, int(size)), err
		},
		"chunks": func(w *world, base, id string) (int, error) {
			chunks, _, err := w.knowledge.Chunks(w.Context(), w.admin, base, id, 0, 10)
			return len(chunks), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := w.base()
				id := w.ready(b, "The word is swordfish.")
				w.reprocessed(b, id)
				n, err := read(w, b.ID, id)
				require.NoError(t, err)
				require.Nil(t, w.beforeGet)
				require.Equal(t, 2, w.read(id).Ready.Number)
				assert.Equal(t, 1, n)
			})
		})
	}
}

// A document that is deleted after a search has read it is left out.
func TestSearchAcrossTheDeletionOfADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id, other := w.ready(b, "The word is swordfish."), w.ready(b, "Another swordfish.")
		w.beforeGet = func() {
			_, err := w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, id)
			require.NoError(t, err)
			w.settle()
		}
		hits := w.find("swordfish")
		require.Nil(t, w.beforeGet)
		require.Len(t, hits, 1)
		assert.Equal(t, other, hits[0].Document.ID)
	})
}

// Where something is gone of a document that nobody has changed, a request looks once: another look costs, and finds
// the same.
func TestNothingIsLookedForAgainWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "The word is swordfish.")
		require.NoError(t, w.blobs.DeleteAll(t.Context(), ""))
		require.Empty(t, w.blobs.Keys())
		x := &counting{Index: w.index}
		w.knowledge.Index = x
		assert.Empty(t, w.find("swordfish"))
		assert.Len(t, x.queries, 1)
		calls := w.fate.calls
		_, _, err := w.knowledge.Text(t.Context(), w.admin, b.ID, id)
		assert.True(t, problem.Is(err, "not_found"), "%v", err)
		assert.LessOrEqual(t, w.fate.calls-calls, 8)
	})
}
