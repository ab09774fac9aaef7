package ingest_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// replace gives a document another text.
func (w *world) replace(b catalog.KnowledgeBase, id, text string) (catalog.Document, bool, error) {
	bytes, err := w.knowledge.Receive(w.Context(), b.Organization, id, strings.NewReader(text))
	if err != nil {
		return catalog.Document{}, false, err
	}
	e, same, err := w.knowledge.ReplaceContent(w.Context(), w.admin, b.ID, id, 0, knowledge.NewDocument{
		Source: catalog.Source{Kind: catalog.FromText}, ContentType: "text/plain",
	}, bytes)
	w.knowledge.Discard(w.Context(), bytes)
	return e.Value, same, err
}

// word is the first one of the text that search finds of a document.
func (w *world) word(d catalog.Document) string {
	text, err := w.knowledge.Extracted(w.Context(), d.Ready)
	require.NoError(w, err)
	return strings.Fields(text.Body)[0]
}

// alone checks that a base has one document, which has these bytes, and that nothing else is left of it.
func (w *world) alone(b catalog.KnowledgeBase, id, text string) {
	w.whole(b.ID, id)
	d := w.read(id)
	assert.Equal(w, text, string(w.blob(d.Bytes)))
	n, err := w.knowledge.CountedIn(w.Context(), b.ID)
	require.NoError(w, err)
	assert.Equal(w, []int64{1, 1, int64(len(text)), int64(d.Ready.Count)},
		[]int64{n.Documents, n.Ready, n.Bytes, n.Chunks})
	assert.Equal(w, map[string]int64{}, w.inIngestion())
	again, err := w.sent(w.admin, b, text)
	require.NoError(w, err)
	assert.Equal(w, id, again, "its bytes are reserved for it")
}

func (w *world) blob(key string) []byte {
	raw, err := w.store.Blob(w.Context(), key)
	require.NoError(w, err)
	return raw
}

func (w *world) must(d catalog.Document, same bool, err error) catalog.Document {
	w.Helper()
	require.NoError(w, err)
	require.False(w, same)
	return d
}

// The old text is found until the new one is ready, then never; the old bytes, and their reservation, are gone.
func TestReplacedContentIsFoundOnceItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, long("swordfish"))
		d := w.must(w.replace(b, id, long("marlin")))
		assert.Equal(t, docstate.Pending, d.Ingestion.Status)
		assert.Equal(t, long("marlin"), string(w.blob(d.Bytes)), "the bytes are the new ones from the answer on")
		before := func() {
			assert.Equal(t, []int{50, 0}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
		}
		before()
		w.beforePut = before
		w.ingest(id)
		assert.Equal(t, []int{0, 50}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
		assert.Equal(t, 2, w.read(id).Ingestion.Version)
		w.alone(b, id, long("marlin"))
		other, err := w.sent(w.admin, b, long("swordfish"))
		require.NoError(t, err)
		assert.NotEqual(t, id, other, "the old bytes are free")
	})
}

// The same bytes change nothing, unless they could not be ingested.
func TestTheSameContentIsIngestedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "swordfish")
		keys := w.blobs.Keys()
		d, same, err := w.replace(b, id, "swordfish")
		require.NoError(t, err)
		assert.True(t, same)
		assert.Equal(t, []any{1, docstate.Ready, keys}, []any{d.Ingestion.Build, d.Ingestion.Status, w.blobs.Keys()})

		bytes, err := w.knowledge.Receive(t.Context(), b.Organization, id, strings.NewReader("swordfish"))
		require.NoError(t, err)
		e, same, err := w.knowledge.ReplaceContent(t.Context(), w.admin, b.ID, id, 0, knowledge.NewDocument{
			Source: catalog.Source{Kind: catalog.FromUpload, Name: "fish.csv"}, ContentType: "text/csv",
		}, bytes)
		d = w.must(e.Value, same, err)
		assert.Equal(t, []any{2, "fish.csv"}, []any{d.Ingestion.Build, d.Source.Name},
			"another type is read in another way")
		w.ingest(id)

		read := w.ingester.Extract
		w.ingester.Extract = func(context.Context, string, extract.File) (document.Text, error) {
			return document.Text{}, extract.Fault{Code: extract.Unreadable}
		}
		w.must(w.replace(b, id, "marlin"))
		_, same, err = w.replace(b, id, "marlin")
		require.NoError(t, err)
		assert.True(t, same, "it is on its way")
		w.ingest(id)
		d = w.read(id)
		assert.Equal(t, []any{docstate.Ready, docstate.Unreadable}, []any{d.Ingestion.Status, d.Ingestion.Failure.Code})
		assert.Len(t, w.find("swordfish"), 1, "what was ready is found")
		w.ingester.Extract = read
		w.must(w.replace(b, id, "marlin"))
		w.ingest(id)
		assert.Equal(t, []int{0, 1}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
		w.alone(b, id, "marlin")
	})
}

// An address replaces a text, and the other way round. The old bytes stay until others have been fetched.
func TestContentIsReplacedByAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ingester.Fetch = ingest.Fetch{Client: &site{text: "marlin"}}
		b := w.base()
		id := w.ready(b, "swordfish")
		url := knowledge.NewDocument{Source: catalog.Source{Kind: catalog.FromURL, URL: "https://example.com/a"}}
		old := w.read(id)
		for range 2 { // the server's first answer is forgotten
			e, same, err := w.knowledge.ReplaceContent(t.Context(), w.admin, b.ID, id, 0, url, nil)
			d := w.must(e.Value, same, err)
			assert.Equal(t, []any{old.Bytes, old.SHA256, old.Size, docstate.Fetching}, []any{d.Bytes, d.SHA256, d.Size,
				d.Ingestion.Stage})
			assert.Len(t, append(w.find("swordfish"), w.find("marlin")...), 1, "the old text is found")
			w.ingest(id)
			assert.Equal(t, []int{0, 1}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
			old = w.read(id)
			assert.Equal(t, "marlin", string(w.blob(old.Bytes)))
		}
		assert.Equal(t, 3, w.read(id).Ingestion.Version)
		w.must(w.replace(b, id, "swordfish"))
		w.ingest(id)
		assert.Equal(t, catalog.Source{Kind: catalog.FromText}, w.read(id).Source)
		w.alone(b, id, "swordfish")

		w.ingester.Fetch = ingest.Fetch{Client: absent{}}
		e, same, err := w.knowledge.ReplaceContent(t.Context(), w.admin, b.ID, id, 0, url, nil)
		w.must(e.Value, same, err)
		_, same, err = w.replace(b, id, "swordfish")
		require.NoError(t, err)
		assert.False(t, same, "the address is on its way")
		e, same, err = w.knowledge.ReplaceContent(t.Context(), w.admin, b.ID, id, 0, url, nil)
		w.must(e.Value, same, err)
		w.ingest(id)
		assert.Equal(t, docstate.FetchFailed, w.read(id).Ingestion.Failure.Code)
		w.alone(b, id, "swordfish")
	})
}

// A document that nobody gave a title has the name of its new file.
func TestTheTitleFollowsTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := ""
		for _, name := range []string{"prices-2024.txt", "prices-2025.txt"} {
			bytes, err := w.knowledge.Receive(t.Context(), b.Organization, id, strings.NewReader(name))
			require.NoError(t, err)
			n := knowledge.NewDocument{
				Source: catalog.Source{Kind: catalog.FromUpload, Name: name}, ContentType: "text/plain",
			}
			if id == "" {
				e, _, err := w.knowledge.Add(t.Context(), w.admin, b, n, bytes)
				require.NoError(t, err)
				id = e.Value.ID
			} else {
				e, same, err := w.knowledge.ReplaceContent(t.Context(), w.admin, b.ID, id, 0, n, bytes)
				w.must(e.Value, same, err)
			}
			w.ingest(id)
			assert.Equal(t, []any{name, false}, []any{w.read(id).Title, w.read(id).Titled})
		}
	})
}

// The user who replaces a document's content pays for its ingestions from then on.
func TestWhoReplacesContentPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.baseOf("paid")
		id := w.ready(b, "swordfish")
		first := w.admin.User
		w.admin.User = "another"
		w.must(w.replace(b, id, "marlin"))
		w.ingest(id)
		var payers []string
		entries, _ := w.charged()
		for _, e := range entries {
			payers = append(payers, e.UserID)
		}
		assert.ElementsMatch(t, []string{first, "another"}, payers)
	})
}

// absent is a server that has nothing.
type absent struct{}

func (absent) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusNotFound)
	response := w.Result()
	response.Request = r
	return response, nil
}

// The process dies at each call of a port while content is replaced. The client sends it again, and nothing of the old
// content is left.
func TestReplacingSurvivesADeathAtEveryCall(t *testing.T) {
	for _, done := range []bool{false, true} {
		for dieAt := 1; ; dieAt++ {
			died := false
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := w.base()
				id := w.ready(b, "swordfish")
				w.settle()
				w.fate.calls, w.fate.dieAt, w.fate.done = 0, dieAt, done
				_, _, err := w.replace(b, id, "marlin")
				_, _ = w.ingester.Handle(w.Context(), id)
				died, w.fate.dead, w.fate.dieAt = w.fate.dead, false, 0
				found := documents(append(w.find("swordfish"), w.find("marlin")...))
				assert.Equal(t, []string{id}, found, "dead at call %d: either is found", dieAt)
				if err != nil {
					_, _, err = w.replace(b, id, "marlin")
					require.NoError(t, err, "dead at call %d", dieAt)
				}
				w.ingest(id)
				assert.Equal(t, []int{0, 1}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
				w.alone(b, id, "marlin")
			})
			if t.Failed() {
				return
			}
			if !died {
				t.Logf("%d calls, each of which may be the last", dieAt-1)
				break
			}
		}
	}
}

// A document changes between the reads of a commit and the commit: the last content is found.
func TestReplacingMeetsOtherChanges(t *testing.T) {
	for name, act := range map[string]func(w *world, b catalog.KnowledgeBase, id string) (text string){
		"by another content": func(w *world, b catalog.KnowledgeBase, id string) string {
			w.must(w.replace(b, id, "tuna"))
			return "tuna"
		},
		"by an ingestion anew": func(w *world, b catalog.KnowledgeBase, id string) string {
			_, err := w.knowledge.Reprocess(w.Context(), w.admin, b.ID, id)
			require.NoError(w, err)
			return ""
		},
		"by a rebuild": func(w *world, b catalog.KnowledgeBase, _ string) string {
			w.edit(b.ID, 100, 256)
			w.jobs()
			return ""
		},
		"by the ingester": func(w *world, _ catalog.KnowledgeBase, id string) string {
			_, _ = w.ingester.Handle(w.Context(), id)
			return ""
		},
		"by another document with its bytes": func(w *world, b catalog.KnowledgeBase, _ string) string {
			w.add(b, "marlin")
			return ""
		},
		"by its end": func(w *world, b catalog.KnowledgeBase, id string) string {
			_, err := w.knowledge.RemoveDocument(w.Context(), w.admin, b.ID, id)
			require.NoError(w, err)
			return "gone"
		},
	} {
		t.Run(name, func(t *testing.T) {
			for commit := range 9 {
				synctest.Test(t, func(t *testing.T) { replacedAt(newWorld(t), commit, act) })
			}
		})
	}
}

func replacedAt(w *world, commit int, act func(w *world, b catalog.KnowledgeBase, id string) string) {
	b, last := w.base(), ""
	id := w.ready(b, "swordfish")
	w.overtake.set(commit, func() { last = cmp.Or(act(w, b, id), last) })
	_, _, err := w.replace(b, id, "marlin")
	if last != "gone" {
		last = "marlin" // an act in its middle came before it
	}
	_, _ = w.ingester.Handle(w.Context(), id)
	w.overtake.set(0, nil)
	for range 10 {
		w.turn()
	}
	w.rebuilt(b.ID)
	if last == "gone" {
		require.True(w, err == nil || problem.Is(err, "not_found"), "commit %d: %v", commit, err)
		w.whole(b.ID)
		return
	}
	require.NoError(w, err, "commit %d", commit)
	d := w.read(id)
	assert.Equal(w, []string{last, last}, []string{string(w.blob(d.Bytes)), w.word(d)}, "commit %d", commit)
	assert.Empty(w, w.find("swordfish"))
	ids := documents(append(w.find(last), w.find("marlin")...))
	assert.Contains(w, ids, id)
	w.whole(b.ID, ids...)
}

// An ingestion that begins again before its end fetches the page whole again: search has not found the first one.
func TestAnIngestionThatBeginsAgainFetchesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), &site{text: "swordfish"}
		w.ingester.Fetch = ingest.Fetch{Client: s}
		b := w.base()
		e, _, err := w.knowledge.Add(t.Context(), w.admin, b, knowledge.NewDocument{
			Source: catalog.Source{Kind: catalog.FromURL, URL: "https://example.com/a"},
		}, nil)
		require.NoError(t, err)
		w.ingest(e.Value.ID)
		again := func() {
			_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, e.Value.ID)
			require.NoError(t, err)
		}
		s.text = "marlin"
		w.beforePut = again // the new page has been fetched
		again()
		w.ingest(e.Value.ID)
		assert.Equal(t, []int{0, 1}, []int{len(w.find("swordfish")), len(w.find("marlin"))})
		assert.Equal(t, "marlin", w.word(w.read(e.Value.ID)))
	})
}
