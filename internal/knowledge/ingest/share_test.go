package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// sent is what adding a text answers.
func (w *world) sent(p tenant.Principal, b catalog.KnowledgeBase, text string) (string, error) {
	bytes, err := w.knowledge.Receive(w.Context(), b.Organization, "", strings.NewReader(text))
	require.NoError(w, err)
	e, _, err := w.knowledge.Add(w.Context(), p, b, knowledge.NewDocument{
		Source: catalog.Source{Kind: catalog.FromText}, ContentType: "text/plain",
	}, bytes)
	return e.Value.ID, err
}

// inIngestion is what is counted of the administrator's organization.
func (w *world) inIngestion() map[string]int64 {
	n, err := w.store.Counts(w.Context(), catalog.IngestingOf(w.admin.Organization))
	require.NoError(w, err)
	return n
}

// refused checks that an error is the refusal of one document too many.
func (w *world) refused(err error, scope string, maximum, used int64) {
	w.Helper()
	p, is := problem.As(err)
	require.True(w, is, "%v", err)
	assert.Equal(w, problem.Limited, p.Kind)
	assert.Equal(w, "share_exceeded", p.Code)
	assert.NotZero(w, p.RetryAfter)
	assert.Equal(w, map[string]any{
		"limit": "documents_in_ingestion", "scope": scope, "max": maximum, "used": used,
	}, p.Extras)
}

func TestDocumentsInIngestionAreLimited(t *testing.T) {
	synctest.Test(t, documentsInIngestionAreLimited)
}

func documentsInIngestionAreLimited(t *testing.T) {
	w := newWorld(t)
	w.knowledge.Ingesting = 3
	b, other := w.base(), w.base()
	ready := w.add(b, "ready")
	w.ingest(ready)
	assert.Empty(t, w.inIngestion(), "what has ended does not count")
	var waiting []string
	for n := range 3 {
		waiting = append(waiting, w.add(b, fmt.Sprint("text ", n)))
	}
	assert.Equal(t, map[string]int64{"": 3, w.admin.User: 3}, w.inIngestion())
	_, err := w.sent(w.admin, other, "one more")
	w.refused(err, "user", 3, 3)
	_, err = w.sent(w.admin, b, "text 1")
	require.NoError(t, err, "a retry of what is in ingestion")
	_, err = w.knowledge.Reprocess(t.Context(), w.admin, b.ID, waiting[0])
	require.NoError(t, err, "so is this")
	_, err = w.knowledge.Reprocess(t.Context(), w.admin, b.ID, ready)
	w.refused(err, "user", 3, 3)
	title := "another"
	_, err = w.knowledge.EditDocument(t.Context(), w.admin, b.ID, ready, 0, knowledge.DocumentEdit{Title: &title})
	w.refused(err, "user", 3, 3)
	assert.Equal(t, "title", w.read(ready).Title, "nothing is half done")

	colleague, neighbour := w.admin, w.admin
	colleague.User = w.host.NewID()
	first, err := w.sent(colleague, b, "of a colleague")
	require.NoError(t, err, "who has none is not refused for those of others")
	_, err = w.sent(colleague, b, "another of the colleague")
	w.refused(err, "organization", 3, 4)
	neighbour.Organization, neighbour.User = w.host.NewID(), w.host.NewID()
	theirs, err := w.knowledge.CreateBase(t.Context(), neighbour, knowledge.BaseEdit{Name: &title})
	require.NoError(t, err)
	_, err = w.sent(neighbour, theirs.Value, "theirs")
	require.NoError(t, err, "another organization is not refused")

	w.ingest(waiting[0])
	_, err = w.knowledge.RemoveDocument(t.Context(), w.admin, b.ID, waiting[1])
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"": 2, w.admin.User: 1, colleague.User: 1}, w.inIngestion())
	_, err = w.sent(w.admin, other, "one more")
	require.NoError(t, err, "places come free")
	for _, id := range []string{waiting[2], first} {
		w.ingest(id)
	}
	assert.Equal(t, map[string]int64{"": 1, w.admin.User: 1}, w.inIngestion())
}

func TestARebuildLeavesRoomForDocuments(t *testing.T) {
	synctest.Test(t, aRebuildLeavesRoomForDocuments)
}

func aRebuildLeavesRoomForDocuments(t *testing.T) {
	w := newWorld(t)
	b := w.base()
	for n := range 12 {
		w.ingest(w.add(b, fmt.Sprint("text ", n)))
	}
	w.knowledge.Ingesting = 8
	size := 100
	_, err := w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Size: &size})
	require.NoError(t, err)
	_, err = w.remover.Handle(t.Context(), w.readBase(b.ID).Building())
	require.NoError(t, err)
	assert.Equal(t, int64(4), w.inIngestion()[""], "at most half of the organization's limit")
	_, err = w.sent(w.admin, b, "a new one")
	require.NoError(t, err)
	for n := range 3 {
		_, err = w.sent(w.admin, b, fmt.Sprint("and another ", n))
		require.NoError(t, err)
	}
	_, err = w.sent(w.admin, b, "one too many")
	w.refused(err, "user", 8, 8)
}

// An ingestion that an earlier version has begun was not counted. Its end is not, either.
func TestIngestionsOfAnEarlierVersionDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "text")
		_, err := record.Change(t.Context(), w.store, record.System(), id, 0,
			func(d *catalog.Document, _ *record.Tx) error {
				d.Ingestion.Counted = false
				return nil
			})
		require.NoError(t, err)
		require.NoError(t, w.store.EraseCounts(t.Context(), catalog.IngestingOf(w.admin.Organization)))
		w.ingest(id)
		assert.Empty(t, w.inIngestion())
		_, err = w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
		require.NoError(t, err)
		assert.Equal(t, map[string]int64{"": 1, w.admin.User: 1}, w.inIngestion())
	})
}

func TestARemovedBaseLeavesNothingInIngestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b, other := w.base(), w.base()
		for n := range 3 {
			w.add(b, fmt.Sprint("text ", n))
		}
		w.add(other, "it stays")
		job, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
		require.NoError(t, err)
		_, err = w.remover.Handle(t.Context(), job)
		require.NoError(t, err)
		assert.Equal(t, map[string]int64{"": 1, w.admin.User: 1}, w.inIngestion())
	})
}
