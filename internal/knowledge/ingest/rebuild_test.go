package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/ranking"
)

func (w *world) readBase(id string) catalog.KnowledgeBase {
	e, err := record.Resource[catalog.KnowledgeBase](w.Context(), w.store, record.System(), id)
	require.NoError(w, err)
	return e.Value
}

// edit asks for other settings of a base; 0 leaves one as it is.
func (w *world) edit(base string, size, dimensions int) {
	edit := knowledge.BaseEdit{}
	if size > 0 {
		edit.Size = &size
	}
	if dimensions > 0 {
		edit.Embedding = &catalog.EmbeddingModel{Provider: embedding.Builtin, Dimensions: dimensions}
	}
	_, err := w.knowledge.EditBase(w.Context(), w.admin, base, 0, edit)
	require.NoError(w, err)
}

func (w *world) state(base string) knowledge.IndexState {
	n, err := w.knowledge.CountedIn(w.Context(), base)
	require.NoError(w, err)
	s, err := w.knowledge.StateOf(w.Context(), w.readBase(base), n)
	require.NoError(w, err)
	return s
}

// rebuilt goes on until no rebuild is under way, and returns the state then.
func (w *world) rebuilt(base string) knowledge.IndexState {
	for turns := 0; w.state(base).State == knowledge.IndexRebuilding; turns++ {
		require.Less(w, turns, 1000, "it does not end: %+v", w.state(base))
		w.turn()
	}
	return w.state(base)
}

// whole checks that search finds these documents and no others, by words and by vectors, and nothing is left over.
func (w *world) whole(base string, ids ...string) {
	w.settle()
	b := w.readBase(base)
	in := map[string]int{}
	for _, v := range w.index.Versions() {
		assert.Equal(w, b.Collection, v.Collection, "another collection is left")
		in[v.Document]++
	}
	want, blobs := map[string]int{}, 0
	for _, id := range ids {
		d := w.read(id)
		want[id] = 1
		assert.Empty(w, d.Next)
		assert.Equal(w, b.Collection, d.Ready.Collection)
		assert.Equal(w, b.Embedding.Dimensions, d.Ready.Dimensions)
		blobs += 3 + 2*((d.Ready.Count+catalog.ChunksOfPiece-1)/catalog.ChunksOfPiece)
	}
	assert.Equal(w, want, in)
	assert.Len(w, w.blobs.Keys(), blobs, "blobs are left: %v", w.blobs.Keys())
	n, err := w.store.Counts(w.Context(), catalog.DocumentsOf(base))
	require.NoError(w, err)
	for what := range n {
		assert.False(w, strings.HasPrefix(what, "buil"), "counts of a rebuild are left: %v", n)
	}
}

// documents are those of the hits, in order, each once.
func documents(hits []knowledge.Hit) (ids []string) {
	for _, h := range hits {
		ids = append(ids, h.Document.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func TestRebuildIsFoundAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		var ids []string
		for i := range 120 {
			ids = append(ids, w.ready(b, fmt.Sprintf("swordfish n%d", i)))
		}
		long := w.ready(b, long("marlin"))
		w.settle()
		requested := len(w.model.requests)
		w.edit(b.ID, 100, 256)
		assert.Equal(t, []any{100, 256}, []any{w.readBase(b.ID).Chunking.Size, w.readBase(b.ID).Embedding.Dimensions})
		s := w.state(b.ID)
		assert.Equal(t, []any{knowledge.IndexRebuilding, int64(0), int64(121), 50, 512},
			[]any{s.State, s.Done, s.Total, s.Settings.Chunking.Size, s.Settings.Embedding.Dimensions})
		before := w.read(long)
		var done []int64
		for w.state(b.ID).State == knowledge.IndexRebuilding {
			require.Less(t, len(done), 100)
			w.turn()
			done = append(done, w.state(b.ID).Done)
			assert.Len(t, w.find("marlin"), 50, "one of both is found, whole")
		}
		assert.Greater(t, len(done), 2, "not all at once: %v", done)
		assert.True(t, slices.IsSorted(done), "%v", done)
		assert.Equal(t, knowledge.IndexState{State: knowledge.IndexReady, Done: 121, Total: 121,
			Settings: w.readBase(b.ID).Wanted()}, w.state(b.ID))
		w.whole(b.ID, append(ids, long)...)
		d := w.read(long)
		assert.Less(t, d.Ready.Count, before.Ready.Count, "larger chunks")
		assert.Equal(t, before.Ready.Extracted(), d.Ready.Extracted(), "it is not read anew")
		assert.Equal(t, []any{before.UpdatedAt, 1, before.Ingestion.ReadyAt},
			[]any{d.UpdatedAt, d.Ingestion.Version, d.Ingestion.ReadyAt}, "the document is as it was")
		assert.Greater(t, len(w.model.requests), requested)
		assert.Equal(t, []string{ids[7]}, documents(w.find("n7")))
	})
}

// Another model needs only new vectors: the chunks stay.
func TestRebuildForAnotherModelKeepsTheChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, long("swordfish"))
		before := w.read(id).Ready
		w.edit(b.ID, 0, 256)
		w.rebuilt(b.ID)
		w.whole(b.ID, id)
		after := w.read(id).Ready
		assert.Equal(t, before.Chunks, after.Chunks)
		assert.NotEqual(t, before.Vectors, after.Vectors)
		assert.Len(t, w.find("swordfish"), 50)
	})
}

func TestRebuildOfABaseInWhichNothingIsFoundIsDoneImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "The word is swordfish.")
		w.beforePut = func() { w.edit(b.ID, 100, 256) } // the document is about to be indexed with the settings before
		w.ingest(id)
		assert.Equal(t, knowledge.IndexReady, w.state(b.ID).State)
		assert.Len(t, w.find("swordfish"), 1)
		assert.Equal(t, 1, w.read(id).Ingestion.Version)
		w.whole(b.ID, id)
	})
}

func TestSecondChangeReplacesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		ids := []string{w.ready(b, long("swordfish")), w.ready(b, "swordfish again")}
		w.edit(b.ID, 100, 0)
		w.jobs()
		w.ingest(ids[0])
		require.Equal(t, int64(1), w.state(b.ID).Done)
		first := w.readBase(b.ID).Building()
		w.edit(b.ID, 200, 256)
		assert.NotEqual(t, first, w.readBase(b.ID).Building())
		assert.Equal(t, 50, w.state(b.ID).Settings.Chunking.Size)
		w.rebuilt(b.ID)
		w.whole(b.ID, ids...)
		assert.Equal(t, []int{200, 256}, []int{w.readBase(b.ID).Chunking.Size, w.readBase(b.ID).Embedding.Dimensions})
		assert.Equal(t, ids, documents(w.find("swordfish")))
	})
}

func TestRebuildThatIsGivenUpLeavesNothing(t *testing.T) {
	for name, back := range map[string]func(w *world, base string) error{
		"by DELETE": func(w *world, base string) error { return w.knowledge.CancelRebuild(w.Context(), w.admin, base) },
		"by asking for what is in force": func(w *world, base string) error {
			w.edit(base, 50, 512)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := w.base()
				ids := []string{w.ready(b, long("swordfish")), w.ready(b, "swordfish again")}
				require.NoError(t, w.knowledge.CancelRebuild(t.Context(), w.admin, b.ID), "there is none")
				w.edit(b.ID, 100, 256)
				w.beforePut = func() { require.NoError(t, back(w, b.ID)) }
				for range 20 {
					w.turn()
				}
				assert.Nil(t, w.beforePut)
				now := w.readBase(b.ID)
				assert.Equal(t, b.Wanted(), now.Wanted())
				assert.Equal(t, b.Collection, now.Collection)
				assert.Equal(t, knowledge.IndexReady, w.state(b.ID).State)
				w.whole(b.ID, ids...)
				assert.Len(t, w.find("swordfish"), 50)
			})
		})
	}
}

// A failed rebuild of a document does not fail the document.
func TestRebuildThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		ids := []string{w.ready(b, "swordfish one"), w.ready(b, "swordfish two")}
		w.edit(b.ID, 100, 0)
		w.jobs()
		w.ingest(ids[0])
		w.model.fail = func() error { return embedding.Fail(embedding.Retryable, "the server is away") }
		var failures []docstate.Code
		w.ingester.OnMove = func(m ingest.Move) {
			if m.Failure != nil {
				failures = append(failures, m.Failure.Code)
			}
		}
		s := w.rebuilt(b.ID)
		assert.Equal(t, knowledge.IndexFailed, s.State)
		assert.Equal(t, []docstate.Code{docstate.EmbeddingUnavailable}, failures,
			"whoever counts is told, though the documents' states say nothing of it")
		assert.Contains(t, s.Error, "the server is away")
		assert.Contains(t, s.Error, "send embedding_model, chunking or language again")
		assert.NotContains(t, s.Error, "reprocess")
		for _, id := range ids {
			for w.read(id).Ingestion.Active() {
				w.turn()
			}
			assert.Equal(t, []any{docstate.Ready, (*docstate.Failure)(nil)},
				[]any{w.read(id).Ingestion.Status, w.read(id).Ingestion.Failure})
		}
		assert.Equal(t, ids, documents(w.find("swordfish")))
		assert.Equal(t, []any{100, 50}, []any{w.readBase(b.ID).Chunking.Size, s.Settings.Chunking.Size})
		w.settle()
		for _, v := range w.index.Versions() {
			assert.Equal(t, b.Collection, v.Collection, "what had been made is gone")
		}
		w.model.fail = nil
		ids = append(ids, w.ready(b, "swordfish three"))
		w.edit(b.ID, 0, 0)
		assert.Equal(t, knowledge.IndexFailed, w.state(b.ID).State, "an edit of something else changes nothing")
		w.edit(b.ID, 100, 0)
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		assert.Equal(t, 100, w.state(b.ID).Settings.Chunking.Size)
		w.whole(b.ID, ids...)
	})
}

// The error of unreadable bytes does not hide a later failure to index the old text, and it stays.
func TestAFailureDoesNotHideALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "swordfish")
		w.ingester.Extract = func(context.Context, string, extract.File) (document.Text, error) {
			return document.Text{}, extract.Fault{Code: extract.Unreadable}
		}
		w.must(w.replace(b, id, "marlin"))
		w.ingest(id)
		var failures []docstate.Code
		w.ingester.OnMove = func(m ingest.Move) {
			if m.Failure != nil {
				failures = append(failures, m.Failure.Code)
			}
		}
		stays := func(seen ...docstate.Code) {
			d := w.read(id).Ingestion
			require.NotNil(t, d.Failure)
			assert.Equal(t, []any{docstate.Ready, docstate.Unreadable, false},
				[]any{d.Status, d.Failure.Code, d.Active()})
			assert.Equal(t, seen, failures)
		}
		rename := func(title string) {
			_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Title: &title})
			require.NoError(t, err)
		}
		rename("fish")
		w.ingest(id)
		stays()
		rename("prices")
		time.Sleep(docstate.MaxWait)
		w.ingest(id)
		stays(docstate.PastDeadline)

		w.model.fail = func() error { return embedding.Fail(embedding.BadRequest, "the text is refused") }
		w.edit(b.ID, 100, 0)
		s := w.rebuilt(b.ID)
		assert.Equal(t, knowledge.IndexFailed, s.State)
		assert.Contains(t, s.Error, "the text is refused")
		stays(docstate.PastDeadline, docstate.EmbeddingUnavailable)
	})
}

// Embeddings of a rebuild are charged like other embeddings of a document. Without a budget the rebuild fails, with the
// reason.
func TestRebuildIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(tokensOfText + 1)
		b := w.baseOf("paid")
		id := w.ready(b, "swordfish")
		w.edit(b.ID, 100, 0)
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		_, tokens := w.charged()
		assert.Equal(t, int64(2*tokensOfText), tokens)
		w.edit(b.ID, 200, 0)
		s := w.rebuilt(b.ID)
		assert.Equal(t, knowledge.IndexFailed, s.State)
		assert.Contains(t, s.Error, "budget")
		assert.Nil(t, w.read(id).Ingestion.Failure)
		_, after := w.charged()
		assert.Equal(t, tokens, after)
	})
}

func TestRebuildEndsWithinADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "swordfish")
		w.edit(b.ID, 100, 0)
		w.jobs() // nobody works on documents
		time.Sleep(knowledge.RebuildTime)
		w.turn()
		s := w.rebuilt(b.ID)
		assert.Equal(t, knowledge.IndexFailed, s.State)
		assert.Len(t, w.find("swordfish"), 1)
		require.NoError(t, w.knowledge.CancelRebuild(t.Context(), w.admin, b.ID))
		assert.Equal(t, knowledge.IndexReady, w.state(b.ID).State)
		w.turn()
		w.whole(b.ID, id)
	})
}

func TestBaseThatIsDeletedInTheMiddleOfARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		w.ready(b, long("swordfish"))
		w.ready(b, "swordfish again")
		w.edit(b.ID, 100, 256)
		w.beforePut = func() {
			_, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
			require.NoError(t, err)
		}
		for range 20 {
			w.turn()
		}
		assert.Empty(t, w.find("swordfish"))
		w.settle()
		assert.Empty(t, w.index.Versions())
		assert.Empty(t, w.blobs.Keys())
	})
}

// Documents and settings change in any order during rebuilds. Each ready document is found by its own word, and no
// deleted one is.
func TestReadyDocumentsAreFoundInAnyOrderOfChangesDuringRebuilds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			w, r := newWorld(t), rand.New(rand.NewPCG(seed, 1))
			b := w.base()
			there, words := []string{}, []string{}
			text := func() string {
				words = append(words, fmt.Sprintf("word%dx", len(words)))
				return strings.Repeat(words[len(words)-1]+" is here. ", 1+r.IntN(60))
			}
			add := func() { there = append(there, w.add(b, text())) }
			act := func() {
				id := there[r.IntN(len(there))]
				done := func(err error) { // another action may have deleted the document
					require.True(t, err == nil || problem.Is(err, "not_found"), "%v", err)
				}
				switch what := r.IntN(9); {
				case what == 0:
					add()
				case what == 8:
					_, _, err := w.replace(b, id, text())
					done(err)
				case what == 1 && len(there) > 3:
					_, err := w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, id)
					done(err)
					there = slices.DeleteFunc(there, func(other string) bool { return other == id })
				case what == 2:
					title := fmt.Sprintf("title%dx", r.IntN(1000))
					_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0,
						knowledge.DocumentEdit{Title: &title})
					done(err)
				case what == 3:
					_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
					done(err)
				case what == 4:
					w.edit(b.ID, 50+50*r.IntN(3), 0)
				case what == 5:
					w.edit(b.ID, 0, 128<<r.IntN(3))
				case what == 6:
					require.NoError(t, w.knowledge.CancelRebuild(t.Context(), w.admin, b.ID))
				}
			}
			check := func(when string) {
				by := map[string][]string{} // the document of each word
				for _, id := range there {
					if d := w.read(id); d.Ready.Number > 0 {
						by[w.word(d)] = []string{id}
					}
				}
				for _, word := range words {
					assert.Equal(t, by[word], documents(w.find(word)), "seed %d, %s: %s of %+v", seed, when, word,
						w.readBase(b.ID))
				}
			}
			for range 4 {
				add()
			}
			for step := range 40 {
				if r.IntN(3) == 0 {
					w.beforePut = act // in the middle of indexing
				}
				switch r.IntN(4) { // between the reads for a commit and the commit
				case 0:
					w.overtake.set(r.IntN(20), act)
				case 1:
					w.overtake.set(r.IntN(20), w.jobs)
				case 2:
					id := there[r.IntN(len(there))]
					w.overtake.set(r.IntN(20), func() { _, _ = w.ingester.Handle(t.Context(), id) })
				}
				if r.IntN(2) == 0 {
					act()
				}
				check(fmt.Sprint("after the act of step ", step))
				w.turn()
				check(fmt.Sprint("after step ", step))
				if t.Failed() {
					return
				}
			}
			w.beforePut = nil
			w.overtake.set(0, nil)
			for range 30 {
				w.turn()
			}
			assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State, "seed %d", seed)
			check("in the end")
			w.settle()
			w.whole(b.ID, there...)
			for _, id := range there {
				assert.False(t, w.read(id).Ingestion.Active())
				if title := w.read(id).Title; title != "title" {
					assert.Contains(t, documents(w.find(title)), id, "seed %d: the last title is found", seed)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A document may become ready between the reads for the end of a rebuild and its commit, or the other way round. It is
// found.
func TestDocumentThatBecomesReadyAsCollectionsChange(t *testing.T) {
	for name, play := range map[string]func(w *world, commit int, base, document string){
		"the document overtakes the rebuild": func(w *world, commit int, _, document string) {
			w.overtake.set(commit, func() { _, _ = w.ingester.Handle(w.Context(), document) })
			w.jobs()
		},
		"the rebuild overtakes the document": func(w *world, commit int, _, document string) {
			w.overtake.set(commit, w.jobs)
			_, _ = w.ingester.Handle(w.Context(), document)
		},
		"the document overtakes a change": func(w *world, commit int, base, document string) {
			w.overtake.set(commit, func() { _, _ = w.ingester.Handle(w.Context(), document) })
			w.edit(base, 200, 128)
		},
	} {
		for _, alone := range []bool{false, true} { // then nothing is found before
			t.Run(fmt.Sprintf("%s, alone: %v", name, alone), func(t *testing.T) {
				for commit := range 15 {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						b := w.base()
						var ids []string
						if !alone {
							ids = append(ids, w.ready(b, "swordfish"))
							w.edit(b.ID, 100, 256)
							w.jobs()
							w.ingest(ids[0])
							time.Sleep(time.Second)
						}
						ids = append(ids, w.add(b, "swordfish too"))
						play(w, commit, b.ID, ids[len(ids)-1])
						w.overtake.set(0, nil)
						for range 10 {
							if w.read(ids[len(ids)-1]).Ready.Number > 0 {
								assert.Equal(t, ids, documents(w.find("swordfish")), "overtaken at %d", commit)
							}
							w.turn()
						}
						assert.Equal(t, ids, documents(w.find("swordfish")), "overtaken at commit %d", commit)
						w.whole(b.ID, ids...)
					})
				}
			})
		}
	}
}

// After a rebuild was replaced, a late piece of it does not change the results of the new one.
func TestReplacedRebuildBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "swordfish")
		w.edit(b.ID, 100, 256)
		made := 0
		w.overtake.set(0, func() {
			w.edit(b.ID, 150, 128)
			w.jobs()
			w.ingest(id)
			made = w.read(id).Next.Number
		})
		w.jobs()
		assert.Equal(t, made, w.read(id).Next.Number)
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		w.whole(b.ID, id)
	})
}

// Replaced builds that are still in the index do not keep other chunks from being found.
func TestReplacedBuildsHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, strings.Repeat("The swordfish is here, and then it is there. ", 400))
		for n := range 5 {
			title := fmt.Sprint("title ", n)
			_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Title: &title})
			require.NoError(t, err)
			w.ingest(id)
			assert.Len(t, w.find("swordfish"), 50, "with %d builds in the index", n+2)
		}
	})
}

// A search begins before the end of a rebuild and goes on after the old collection was removed. It finds everything.
func TestSearchAcrossTheEndOfARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "The word is swordfish.")
		w.edit(b.ID, 100, 256)
		w.jobs()
		w.ingest(id)
		require.Equal(t, int64(1), w.state(b.ID).Done)
		w.model.fail = func() error { // the question's vector takes its time
			w.model.fail = nil
			time.Sleep(time.Second)
			w.jobs()
			w.jobs()
			return nil
		}
		found, err := w.knowledge.Search(t.Context(), w.admin, knowledge.Question{
			Query: "swordfish", Mode: ranking.Hybrid, Limit: 50,
		})
		require.NoError(t, err)
		assert.Nil(t, w.model.fail)
		assert.Nil(t, w.readBase(b.ID).Rebuild)
		for _, v := range w.index.Versions() {
			assert.NotEqual(t, b.Collection, v.Collection, "it is gone")
		}
		assert.Len(t, found.Hits, 1)
	})
}

// A rebuild during which the index is lost switches only when everything is there again.
func TestIndexThatIsLostDuringARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := record.Create(t.Context(), w.store, w.organization(), w.host.NewID())
		require.NoError(t, err)
		w.knowledge.IndexID = "first"
		b := w.base()
		ids := []string{w.ready(b, long("swordfish")), w.ready(b, "marlin"), w.ready(b, "marlin again")}
		w.edit(b.ID, 100, 256)
		w.jobs()
		for _, id := range ids {
			w.ingest(id)
		}
		require.Equal(t, int64(3), w.state(b.ID).Done)
		*w.index = memindex.Index{}
		w.knowledge.IndexID = "second"
		_, err = w.remover.Handle(t.Context(), w.readBase(b.ID).Building())
		require.NoError(t, err)
		assert.NotNil(t, w.readBase(b.ID).Rebuild, "what was made is not there")
		require.NoError(t, w.ingester.Recover(t.Context()))
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		assert.Equal(t, ids[:1], documents(w.find("swordfish")))
		assert.Equal(t, ids[1:], documents(w.find("marlin")))
		w.whole(b.ID, ids...)
	})
}
