package ingest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/text/ranking"
)

// offer has the deployment offer the model paid/m with these options.
func (w *world) offer(options string) {
	names := []embedding.Name{{Provider: "paid", Name: "m", Dimensions: 512}}
	all, err := embedding.ParseOptions(options, names)
	require.NoError(w, err)
	w.knowledge.Models = knowledge.NewModels(w.knowledge.Models.Providers, names, all)
}

// search searches all bases and returns the queries as the model received them, and the hits.
func (w *world) search(mode ranking.Mode, query string) (queries []string, hits []knowledge.Hit) {
	w.model.queries = nil
	found, err := w.knowledge.Search(w.Context(), w.admin, knowledge.Question{Query: query, Mode: mode, Limit: 50})
	require.NoError(w, err)
	return w.model.queries, found.Hits
}

// A base keeps the prefixes that its model had when it was named. So queries and passages of one index always agree,
// also after a change of the setting. If a client sends the model again, a rebuild takes the present prefixes.
func TestPrefixesBelongToTheBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.baseOf("paid")
		w.ready(before, "swordfish")
		assert.Equal(t, map[string]int{"title\nswordfish": 1}, w.model.requests)
		queries, hits := w.search(ranking.Semantic, "marlin")
		assert.Equal(t, []string{"marlin"}, queries)
		assert.Len(t, hits, 1)

		w.offer(`{"paid/m": {"query_prefix": "q: ", "passage_prefix": "p: "}}`)
		w.ready(before, "tuna")
		assert.Equal(t, 1, w.model.requests["title\ntuna"], "the base was made before")
		queries, _ = w.search(ranking.Semantic, "marlin")
		assert.Equal(t, []string{"marlin"}, queries)

		now := w.baseOf("paid")
		w.ready(now, "salmon")
		assert.Equal(t, 1, w.model.requests["p: title\nsalmon"])
		queries, _ = w.search(ranking.Semantic, "marlin")
		assert.ElementsMatch(t, []string{"marlin", "q: marlin"}, queries, "each index by its own prefix")

		edit := knowledge.BaseEdit{Embedding: &catalog.EmbeddingModel{Provider: "paid", Name: "m", Dimensions: 512}}
		_, err := w.knowledge.EditBase(t.Context(), w.admin, now.ID, 0, edit)
		require.NoError(t, err)
		assert.Equal(t, knowledge.IndexReady, w.state(now.ID).State, "it has them already")
		_, err = w.knowledge.EditBase(t.Context(), w.admin, before.ID, 0, edit)
		require.NoError(t, err)
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(before.ID).State)
		assert.Equal(t, 1, w.model.requests["p: title\nswordfish"])
		queries, _ = w.search(ranking.Semantic, "marlin")
		assert.Equal(t, []string{"q: marlin"}, queries)

		w.knowledge.Models = knowledge.NewModels(w.knowledge.Models.Providers, nil, nil)
		_, err = w.knowledge.EditBase(t.Context(), w.admin, now.ID, 0, edit)
		require.NoError(t, err, "the model that a base has need not be offered any more")
	})
}

// The weight counts at each search. With 0 a hybrid search has the order of words. A search by meaning goes by the
// model all the same.
func TestAModelOfNoWeightCountsNothingBesideWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.baseOf("paid")
		for _, text := range []string{"blue marlin", "marlin blue marlin", "marling blues"} {
			w.ready(b, text)
		}
		order := func(hits []knowledge.Hit) (ids []string) {
			for _, h := range hits {
				ids = append(ids, h.Document.ID)
			}
			return ids
		}
		w.offer(`{"paid/m": {"weight": 1}}`)
		_, hits := w.search(ranking.Hybrid, "marlin")
		assert.Len(t, hits, 3)
		w.offer(`{"paid/m": {"weight": 0}}`)
		_, byWords := w.search(ranking.Keyword, "marlin")
		queries, hits := w.search(ranking.Hybrid, "marlin")
		assert.Empty(t, queries, "nobody pays for a vector that counts nothing")
		assert.Equal(t, order(byWords), order(hits))
		assert.Len(t, hits, 2)
		w.model.fail = func() error { return embedding.Fail(embedding.Retryable, "it is away") }
		found, err := w.knowledge.Search(w.Context(), w.admin,
			knowledge.Question{Query: "marlin", Mode: ranking.Hybrid, Limit: 50})
		require.NoError(t, err)
		assert.Empty(t, found.Degraded, "nothing is missing")
		w.model.fail = nil
		_, hits = w.search(ranking.Semantic, "marlin")
		assert.Len(t, hits, 3)
	})
}

// A model that cannot be reached refuses the base for now. A model that its provider refuses does so for good.
func TestABaseIsNotMadeWithoutItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		name := "base"
		make := func(model *catalog.EmbeddingModel) error {
			_, err := w.knowledge.CreateBase(t.Context(), w.admin, knowledge.BaseEdit{Name: &name, Embedding: model})
			return err
		}
		named := &catalog.EmbeddingModel{Provider: "paid", Name: "m", Dimensions: 512}
		w.model.fail = func() error { return embedding.Fail(embedding.Retryable, "the server is away") }
		for _, model := range []*catalog.EmbeddingModel{named, nil} {
			err := make(model)
			assert.True(t, problem.Is(err, "embedding_unavailable"), "%v", err)
			assert.ErrorContains(t, err, "the server is away")
		}
		w.model.fail = nil
		b := w.base()
		w.model.fail = func() error { return embedding.Fail(embedding.Throttled, "too many calls") }
		_, err := w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Embedding: named})
		assert.True(t, problem.Is(err, "embedding_unavailable"), "%v", err)
		w.model.fail = func() error { return embedding.Fail(embedding.BadRequest, "there is no such model") }
		err = make(named)
		assert.True(t, problem.Is(err, "invalid_request"), "%v", err)
		assert.ErrorContains(t, err, "there is no such model")
		err = make(&catalog.EmbeddingModel{Provider: "paid", Name: "other"})
		assert.True(t, problem.Is(err, "invalid_request"), "%v", err)
	})
}
