package ingest_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// ingesting runs so many ingesters over a queue, as a laptop does. The caller calls stop.
func (w *world) ingesting(workers int64) (q *localqueue.Queue, stop func()) {
	q = localqueue.Shared(share.Limits{All: workers + 2, Reserve: 2, Organization: workers})
	w.ingester.Waits = q.Waits
	ctx, cancel := context.WithCancel(w.Context())
	done := w.host.Go(func() {
		dispatch.Run(ctx, q, int(workers)+2, slog.New(slog.DiscardHandler), w.ingester.Handle)
	})
	return q, func() { cancel(); done(); q.Close() }
}

// send puts documents of a base into the queue.
func (w *world) send(q queue.Queue, b catalog.KnowledgeBase, ids ...string) {
	for _, id := range ids {
		require.NoError(w, q.Send(w.Context(), queue.OfDocument(id, b.Organization, w.admin.User, b.ID)))
	}
}

// Huge documents occupy all ingesters. A small one of another base does not wait for their end. They go on after it,
// with their former attempts, deadline and vectors.
func TestASmallDocumentDoesNotWaitForHugeOnesOfAnotherBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var ended []string
		w.ingester.OnMove = func(m ingest.Move) {
			mu.Lock()
			defer mu.Unlock()
			if docstate.Ended(m.Before, m.After) {
				ended = append(ended, string(m.After.Status))
			}
		}
		imports, other := w.baseOf("paid"), w.baseOf("paid")
		w.model.slow = 200 * time.Millisecond
		q, stop := w.ingesting(4)
		defer stop()
		var huge []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			huge = append(huge, w.add(imports, strings.Repeat(long(name), 8)))
		}
		w.send(q, imports, huge...)
		time.Sleep(time.Second)
		synctest.Wait()
		before := map[string]docstate.State{}
		for _, id := range huge[:4] {
			before[id] = w.read(id).Ingestion
			require.Equal(t, docstate.Embedding, before[id].Stage)
		}
		small := w.add(other, "The word is swordfish.")
		w.send(q, other, small)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, docstate.Ready, w.read(small).Ingestion.Status)
		assert.Equal(t, []string{"ready"}, ended)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range huge[:4] {
			now := w.read(id).Ingestion
			assert.Equal(t, []any{1, before[id].Begun}, []any{now.Attempts, now.Begun})
			assert.Greater(t, now.Done, before[id].Done)
		}
		for _, id := range huge[4:] {
			assert.Equal(t, docstate.Pending, w.read(id).Ingestion.Status, "what was begun goes on before it")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, ended, 7)
		assert.NotContains(t, ended, "failed")
		for text, n := range w.model.requests {
			assert.LessOrEqual(t, n, 8, text) // as often as the text has the chunk
		}
	})
}

// A document that others pass at each piece has the second half of its time for itself.
func TestADocumentThatOthersPassEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ingester.Waits = func(queue.Message) bool { return true }
		id := w.add(w.baseOf("paid"), strings.Repeat(long("swordfish"), 4))
		var passed []time.Duration
		for w.read(id).Ingestion.Active() {
			_, err := w.ingester.Handle(t.Context(), id)
			require.NoError(t, err)
			passed = append(passed, w.host.Now().Sub(w.read(id).Ingestion.Begun))
			time.Sleep(w.ingester.Deadline / 5)
		}
		assert.Equal(t, docstate.Ready, w.read(id).Ingestion.Status, "%+v", w.read(id).Ingestion)
		assert.Len(t, passed, 4, "%v", passed)
		assert.Less(t, slices.Max(passed), w.ingester.Deadline)
	})
}
