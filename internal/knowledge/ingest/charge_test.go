package ingest_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/text/ranking"
)

// The tokens that a document's embeddings used stand in the ledger. They also count in the budgets of its sender and of
// the organization. Failed requests that used tokens are charged, too. The built-in model uses none.
func TestIngestionIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(1000)
		w.ready(w.base(), "for free")
		entries, _ := w.charged()
		assert.Empty(t, entries)

		b := w.baseOf("paid")
		id := w.add(b, "The word is swordfish.")
		w.model.fail = func() error {
			w.model.fail = nil
			return embedding.Fail(embedding.Retryable, "the server is away")
		}
		w.ingest(id)
		entries, tokens := w.charged()
		assert.Equal(t, int64(tokensOfText+1), tokens)
		require.Len(t, entries, 2, "the request that failed, and the other")
		for n, want := range []int64{tokensOfText, 1} { // newest first
			e := entries[n]
			assert.Equal(t, record.Entry{
				ID: e.ID, Kind: record.OfIngestion, UserID: w.admin.User, DocumentID: id, KnowledgeBaseID: b.ID,
				Status: "completed", Billed: true, InputTokens: want, FinishedAt: e.FinishedAt,
				Model: "paid/m", SortKey: e.SortKey,
			}, e)
		}
		_, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
		require.NoError(t, err)
		w.settle()
		_, tokens = w.charged()
		assert.Equal(t, int64(tokensOfText+1), tokens, "it outlives the document")
	})
}

// When a budget is used up, no further piece is sent to the model. The ingestion fails with the reason, and no other
// begins.
func TestIngestionEndsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(tokensOfText * catalog.ChunksOfPiece)
		b := w.baseOf("paid")
		id, later := w.add(b, long("swordfish")), w.add(b, "later")
		w.ingest(id)
		d := w.read(id)
		require.Greater(t, d.Ingestion.Total, catalog.ChunksOfPiece)
		require.NotNil(t, d.Ingestion.Failure)
		assert.Equal(t, []any{docstate.Embedding, docstate.OverBudget, catalog.ChunksOfPiece},
			[]any{d.Ingestion.Failure.Stage, d.Ingestion.Failure.Code, d.Ingestion.Done})
		assert.Contains(t, d.Ingestion.Failure.Message, "the budget of organization "+w.admin.Organization)
		_, tokens := w.charged()
		assert.Equal(t, int64(tokensOfText*catalog.ChunksOfPiece), tokens)
		w.ingest(later)
		assert.Equal(t, docstate.Failed, w.read(later).Ingestion.Status, "it was accepted before")

		_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
		assert.True(t, problem.Is(err, "budget_exhausted"), "%v", err)
		text := knowledge.NewDocument{Source: catalog.Source{Kind: catalog.FromText}}
		_, err = w.knowledge.Check(t.Context(), w.admin, b.ID, "body.", text)
		assert.True(t, problem.Is(err, "budget_exhausted"), "%v", err)
		_, err = w.knowledge.Check(t.Context(), w.admin, w.base().ID, "body.", text)
		assert.NoError(t, err, "the built-in model uses none")
	})
}

// With concurrent charges, budgets and ledger agree, also when answers of the store are lost.
func TestChargesAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(1_000_000)
		b := w.baseOf("paid")
		ids := []string{w.add(b, long("swordfish")), w.add(b, long("marlin"))}
		var calls atomic.Int64
		w.table.Before = func(c faulttable.Call) faulttable.Fault {
			if c.Commit && calls.Add(1)%3 == 0 {
				return faulttable.AppliedUnknown
			}
			return faulttable.None
		}
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() { w.ingest(id) })
		}
		const searches = 40
		for range searches {
			all.Go(func() {
				paid := record.Embeddings{{Model: "p/e", Tokens: 3}}
				assert.NoError(t, w.knowledge.ChargeSearch(t.Context(), w.admin, paid))
			})
		}
		all.Wait()
		w.table.Before = nil
		want := 3 * searches
		for _, id := range ids {
			d := w.read(id)
			require.Equal(t, docstate.Ready, d.Ingestion.Status, "%+v", d.Ingestion)
			want += tokensOfText * d.Ready.Count
		}
		entries, tokens := w.charged()
		assert.Equal(t, int64(want), tokens)
		assert.Greater(t, len(entries), searches+len(ids))
	})
}

// A search returns the tokens that its models used, and charges nothing by itself. The asker's budgets refuse a search
// that counts against them and would use tokens.
func TestSearchIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(tokensOfText)
		b := w.baseOf("paid")
		q := knowledge.Question{
			Query: "swordfish", Mode: ranking.Hybrid, Limit: 5, Bases: []string{b.ID}, OwnBudgets: true,
		}
		found, err := w.knowledge.Search(t.Context(), w.admin, q)
		require.NoError(t, err)
		assert.Equal(t, int64(tokensOfText), found.Paid.Tokens())
		entries, _ := w.charged()
		assert.Empty(t, entries)
		require.NoError(t, w.knowledge.ChargeSearch(t.Context(), w.admin, nil))
		require.NoError(t, w.knowledge.ChargeSearch(t.Context(), w.admin, found.Paid))
		entries, tokens := w.charged()
		require.Len(t, entries, 1)
		assert.Equal(t, []any{record.OfSearch, w.admin.User, int64(tokensOfText)},
			[]any{entries[0].Kind, entries[0].UserID, tokens})

		assert.Equal(t, []any{"paid/m", record.Embeddings(nil)}, []any{entries[0].Model, entries[0].Embedded})
		several := found.Paid.With(record.Embedded{Model: "paid/n", Tokens: 2})
		require.NoError(t, w.knowledge.ChargeSearch(t.Context(), w.admin, several))
		entries, _ = w.charged()
		require.Len(t, entries, 2)
		assert.Contains(t, [][]any{{entries[0].Model, entries[0].Embedded}, {entries[1].Model, entries[1].Embedded}},
			[]any{"", several})

		found, err = w.knowledge.Search(t.Context(), w.admin, q)
		assert.True(t, problem.Is(err, "budget_exhausted"), "%v", err)
		assert.Zero(t, found.Paid.Tokens())
		q.Mode = ranking.Keyword
		_, err = w.knowledge.Search(t.Context(), w.admin, q)
		require.NoError(t, err, "words cost nothing")
		q.Mode, q.OwnBudgets = ranking.Semantic, false
		w.model.fail = func() error { return embedding.Fail(embedding.Retryable, "the server is away") }
		found, err = w.knowledge.Search(t.Context(), w.admin, q)
		assert.True(t, problem.Is(err, "embedding_unavailable"), "%v", err)
		assert.Equal(t, int64(1), found.Paid.Tokens(), "what was used before the failure")
	})
}

// Embeddings whose document is deleted meanwhile, or is lost to another ingester, are charged in a commit of their own.
func TestEmbeddingsOfALostDocumentAreCharged(t *testing.T) {
	for name, lose := range map[string]func(w *world, b catalog.KnowledgeBase, id string){
		"deleted": func(w *world, b catalog.KnowledgeBase, id string) {
			_, err := w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, id)
			require.NoError(t, err)
		},
		"taken": func(w *world, _ catalog.KnowledgeBase, id string) {
			_, err := record.Change(t.Context(), w.store, record.System(), id, 0,
				func(d *catalog.Document, _ *record.Tx) error {
					d.Ingestion.Lease.Claim = "another"
					return nil
				})
			require.NoError(t, err)
		},
	} {
		for _, fails := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.budgets(1000)
				b := w.baseOf("paid")
				id := w.add(b, "The word is swordfish.")
				w.model.fail = func() error {
					w.model.fail = nil
					lose(w, b, id)
					if fails {
						return embedding.Fail(embedding.Retryable, "the server is away")
					}
					return nil
				}
				_, err := w.ingester.Handle(t.Context(), id)
				require.NoError(t, err)
				entries, tokens := w.charged()
				require.Len(t, entries, 1, name)
				want := map[bool]int64{false: tokensOfText, true: 1}[fails]
				assert.Equal(t, []int64{want, want}, []int64{entries[0].InputTokens, tokens}, name)
				assert.Equal(t, []string{w.admin.User, id}, []string{entries[0].UserID, entries[0].DocumentID}, name)
			})
		}
	}
}

// Embeddings are charged with the end of the attempt if the commit that was to charge them was surely not made. After a
// lost answer that is unknown, and then they are not charged twice.
func TestEmbeddingsOfACommitThatFailsAreCharged(t *testing.T) {
	for fault, lost := range map[faulttable.Fault]int64{faulttable.Down: 0, faulttable.LostUnknown: tokensOfText} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.budgets(1000)
			id := w.add(w.baseOf("paid"), "The word is swordfish.")
			charges := 0
			w.table.Before = func(c faulttable.Call) faulttable.Fault {
				if c.Commit && slices.ContainsFunc(c.Ops, func(op table.Op) bool {
					return strings.HasPrefix(op.Item.Part, "ledger/")
				}) {
					if charges++; charges <= 8 { // as often as a commit is tried
						return fault
					}
				}
				return faulttable.None
			}
			w.ingest(id)
			assert.Equal(t, docstate.Ready, w.read(id).Ingestion.Status)
			_, tokens := w.charged()
			assert.Equal(t, 2*tokensOfText-lost, tokens, "both calls of the model, %s", fault)
		})
	}
}
