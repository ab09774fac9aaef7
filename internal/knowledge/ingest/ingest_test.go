package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/ranking"
)

// long is a text of some chunks, more than one piece has.
func long(word string) string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "The %s number %d is here. ", word, i)
	}
	return b.String()
}

// indexed is how many chunks the index has of each document.
func (w *world) indexed() map[string]int {
	n := map[string]int{}
	for _, v := range w.index.Versions() {
		n[v.Document]++
	}
	return n
}

func TestTextBecomesADocumentThatIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "The word is swordfish.")
		assert.Equal(t, docstate.Pending, w.read(id).Ingestion.Status)
		assert.Empty(t, w.find("swordfish"), "not before it is ready")
		assert.Equal(t, 1, w.ingest(id), "one claim is enough")
		d := w.read(id)
		assert.Equal(t, []any{docstate.Ready, 1, 1, "en"},
			[]any{d.Ingestion.Status, d.Ingestion.Version, d.Ready.Count, d.Ready.Language})
		assert.Empty(t, d.Work)
		hits := w.find("swordfish")
		require.Len(t, hits, 1)
		assert.Equal(t, "The word is swordfish.", hits[0].Chunk.Text)
		assert.Equal(t, [][2]int{{12, 21}}, hits[0].Highlights)

		text, err := blob.GetBytes(t.Context(), w.blobs, d.Ready.Text)
		require.NoError(t, err)
		assert.Equal(t, "The word is swordfish.", string(text))
		assert.Equal(t, int64(len(text)), d.Ready.TextSize)
		structure, err := blob.GetBytes(t.Context(), w.blobs, d.Ready.Structure)
		require.NoError(t, err)
		assert.NotContains(t, string(structure), "swordfish", "the text is stored once")
	})
}

// OnMove is called for each move of an ingestion, and OnSearch for each search.
func TestMovesAndSearchesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.add(w.base(), "The word is swordfish.")
		var stages, searches []any
		w.ingester.OnMove = func(m ingest.Move) {
			stages = append(stages, [2]any{m.Before.Stage, m.After.Stage})
		}
		w.knowledge.OnSearch = func(f knowledge.Found, took time.Duration, err error) {
			assert.GreaterOrEqual(t, took, time.Duration(0))
			searches = append(searches, f.Mode, len(f.Hits), err == nil)
		}
		w.ingest(id)
		assert.Equal(t, []any{
			[2]any{docstate.Extracting, docstate.Extracting}, [2]any{docstate.Extracting, docstate.Chunking},
			[2]any{docstate.Chunking, docstate.Embedding}, [2]any{docstate.Embedding, docstate.Indexing},
			[2]any{docstate.Indexing, docstate.Stage("")},
		}, stages)
		w.find("swordfish")
		_, err := w.knowledge.Search(t.Context(), w.admin, knowledge.Question{Mode: ranking.Hybrid})
		require.Error(t, err)
		assert.Equal(t, []any{ranking.Keyword, 1, true, ranking.Hybrid, 0, false}, searches)
	})
}

func TestEmbeddingModelThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "The word is swordfish.")
		requests := 0
		w.model.fail = func() error {
			requests++
			return embedding.Fail(embedding.Retryable, "the server is away")
		}
		w.ingest(id)
		f := w.read(id).Ingestion.Failure
		require.NotNil(t, f)
		assert.Equal(t, []any{docstate.Embedding, docstate.EmbeddingUnavailable}, []any{f.Stage, f.Code})
		assert.Contains(t, f.Message, "the server is away")
		assert.Equal(t, docstate.MaxAttempts, requests)
		w.model.fail = nil
		_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
		require.NoError(t, err)
		w.ingest(id)
		assert.Len(t, w.find("swordfish"), 1)
		w.settle()
		assert.Len(t, w.blobs.Keys(), 5, "what the first try had made is gone: %v", w.blobs.Keys())
	})
}

// An unreachable store does not fail the document: the ingestion is tried again.
func TestExtractorThatPanicsOrFailsEndsTheIngestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "x")
		w.ingester.Extract = nil // a panic
		w.ingest(id)
		assert.Equal(t, docstate.Internal, w.read(id).Ingestion.Failure.Code)
	})
}

// A document that is deleted in the middle of its ingestion is not found, and leaves nothing.
func TestDeletionInTheMiddleOfAnIngestion(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			b := w.base()
			id := w.add(b, long("swordfish"))
			n := 0
			w.model.fail = func() error {
				if n++; n == 2 {
					if whole {
						_, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
						return err
					}
					_, err := w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, id)
					return err
				}
				return nil
			}
			_, err := w.ingester.Handle(t.Context(), id)
			require.NoError(t, err)
			assert.Empty(t, w.find("swordfish"))
			w.settle()
			assert.Empty(t, w.index.Versions())
			assert.Empty(t, w.blobs.Keys())
			_, err = record.Resource[catalog.Document](t.Context(), w.store, record.System(), id)
			assert.True(t, problem.Is(err, "not_found"), "%v", err)
		})
	}
}

// A base is deleted with documents of every status: ready, waiting and failed.
func TestDeletionOfABaseWithDocumentsOfEveryStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b, other := w.base(), w.base()
		ids := []string{w.ready(b, "swordfish"), w.add(b, "pending")}
		stays := w.ready(other, "swordfish stays")
		ids = append(ids, w.add(b, " "))
		w.ingest(ids[2])
		require.Equal(t, docstate.Failed, w.read(ids[2]).Ingestion.Status)
		_, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
		require.NoError(t, err)
		assert.Len(t, w.find("swordfish"), 1)
		w.settle()
		for _, id := range ids {
			_, err := record.Resource[catalog.Document](t.Context(), w.store, record.System(), id)
			assert.True(t, problem.Is(err, "not_found"), "%v", err)
		}
		assert.Equal(t, map[string]int{stays: 1}, w.indexed())
		assert.Len(t, w.blobs.Keys(), 5, "those of the other base")
		n, err := w.store.Counts(t.Context(), catalog.DocumentsOf(b.ID))
		require.NoError(t, err)
		assert.Empty(t, n)
	})
}

// A document that is reprocessed in the middle of its ingestion begins again; the ingester that had it changes nothing.
func TestReprocessInTheMiddleOfAnIngestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, long("swordfish"))
		once := errors.New("once")
		w.model.fail = func() error {
			w.model.fail = nil
			_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
			return errors.Join(err, once)
		}
		_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
		require.NoError(t, err)
		_, err = w.ingester.Handle(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, []any{docstate.Pending, 3}, []any{w.read(id).Ingestion.Status, w.read(id).Ingestion.Build})
		assert.Len(t, w.find("swordfish"), 50, "what was ready is found")
		w.ingest(id)
		assert.Equal(t, 2, w.read(id).Ingestion.Version)
		w.settle()
		assert.Equal(t, map[string]int{id: 1}, w.indexed())
		assert.Len(t, w.find("swordfish"), 50)
	})
}

// site is the server of a document.
type site struct {
	text, ifNoneMatch string // what it has, and the tag of what the last request knew
}

func (s *site) Do(r *http.Request) (*http.Response, error) {
	s.ifNoneMatch = r.Header.Get("If-None-Match")
	w := httptest.NewRecorder()
	w.Header().Set("ETag", s.text)
	if s.ifNoneMatch == s.text {
		w.WriteHeader(http.StatusNotModified)
	} else {
		_, _ = w.WriteString(s.text)
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

// Bytes that were fetched and could not be ingested are fetched again, for any reason of the failure. If the server
// answered that nothing is new, search would find the older text forever.
func TestWhatFailedIsFetchedWhole(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"an unreadable file": func(w *world) {
			w.ingester.Extract = func(context.Context, string, extract.File) (document.Text, error) {
				return document.Text{}, extract.Fault{Code: extract.Unreadable}
			}
		},
		"the deadline": func(w *world) {
			w.model.fail = func() error {
				time.Sleep(w.ingester.Deadline)
				return embedding.Fail(embedding.Retryable, "the server is away")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t), &site{text: "swordfish"}
				w.ingester.Fetch = ingest.Fetch{Client: s}
				b := w.base()
				source := catalog.Source{Kind: catalog.FromURL, URL: "https://example.com/a"}
				e, _, err := w.knowledge.Add(t.Context(), w.admin, b, knowledge.NewDocument{Source: source}, nil)
				require.NoError(t, err)
				id := e.Value.ID
				again := func() {
					_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
					require.NoError(t, err)
					w.ingest(id)
				}
				w.ingest(id)
				again()
				assert.Equal(t, "swordfish", s.ifNoneMatch)
				assert.Equal(t, 1, w.read(id).Ingestion.Version, "nothing is new")

				read := w.ingester.Extract
				fail(w)
				s.text = "marlin"
				again()
				require.NotNil(t, w.read(id).Ingestion.Failure)
				assert.Empty(t, w.read(id).Work, "what it had made is dropped")
				w.ingester.Extract, w.model.fail = read, nil
				again()
				assert.Empty(t, s.ifNoneMatch)
				assert.Equal(t, 2, w.read(id).Ingestion.Version)
				assert.Len(t, w.find("marlin"), 1)
			})
		})
	}
}

// A title that changes while the document is ingested is the one that it is found by in the end.
func TestTitleThatChangesMeanwhileIsIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id, title := w.add(b, "The word is swordfish."), "Zebra"
		w.beforePut = func() {
			_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Title: &title})
			require.NoError(t, err)
		}
		w.ingest(id)
		d := w.read(id)
		assert.Equal(t, []any{docstate.Ready, 1}, []any{d.Ingestion.Status, d.Ingestion.Version})
		assert.Len(t, w.find("zebra"), 1)
		w.settle()
		assert.Equal(t, map[string]int{id: 1}, w.indexed())
		assert.Len(t, w.find("swordfish"), 1)
	})
}

// The counts of a base are those of its documents, after any change of them.
func TestCountsOfABaseAreOfItsDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		ready, pending := w.ready(b, "one"), w.add(b, "two")
		gone := w.ready(b, "three")
		n, err := w.knowledge.CountedIn(t.Context(), b.ID)
		require.NoError(t, err)
		assert.Equal(t, []int64{3, 2, 1, 2, 11}, []int64{n.Documents, n.Ready, n.Pending, n.Chunks, n.Bytes})
		_, err = w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, gone)
		require.NoError(t, err)
		_, err = w.knowledge.Reprocess(t.Context(), w.admin, b.ID, ready)
		require.NoError(t, err)
		w.ingest(ready)
		w.ingest(pending)
		n, err = w.knowledge.CountedIn(t.Context(), b.ID)
		require.NoError(t, err)
		assert.Equal(t, []int64{2, 2, 0, 2, 6}, []int64{n.Documents, n.Ready, n.Pending, n.Chunks, n.Bytes})
		_, err = record.Resource[catalog.Document](t.Context(), w.store, record.System(), gone)
		require.Error(t, err)
	})
}
