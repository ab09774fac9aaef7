//go:build !race

package ingest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/queue"
)

// For each call of a port, the process dies at that call and another process goes on. The ingestion ends, and each
// chunk is there once. Recorded vectors are not embedded again, and are charged once. Nothing is left over.
func TestIngestionSurvivesADeathAtEveryCall(t *testing.T) {
	for _, done := range []bool{false, true} {
		for dieAt := 1; ; dieAt++ {
			died := false
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.budgets(1_000_000)
				b := w.baseOf("paid")
				id := w.add(b, long("swordfish"))
				w.fate.calls, w.fate.dieAt, w.fate.done = 0, dieAt, done
				w.ingester.Waits = func(queue.Message) bool { return done } // it is given back after each piece
				for again := time.Duration(1); again > 0; {
					again, _ = w.ingester.Handle(w.Context(), id)
				}
				died, w.fate.dead, w.fate.dieAt = w.fate.dead, false, 0
				found := len(w.find("swordfish"))
				assert.Contains(t, []int{0, 50}, found, "dead at call %d: half of it is found", dieAt)
				w.ingest(id)
				d := w.read(id)
				require.Equal(t, docstate.Ready, d.Ingestion.Status, "dead at call %d: %+v", dieAt, d.Ingestion)
				assert.Len(t, w.find("swordfish"), 50)
				again := 0
				for _, n := range w.model.requests {
					again += n - 1
				}
				assert.LessOrEqual(t, again, catalog.ChunksOfPiece, "dead at call %d: only the batch under way", dieAt)
				entries, tokens := w.charged()
				assert.Len(t, entries, (d.Ready.Count+63)/64, "dead at call %d: an entry for each piece", dieAt)
				assert.Equal(t, int64(tokensOfText*d.Ready.Count), tokens, "dead at call %d", dieAt)
				w.settle()
				assert.Equal(t, map[string]int{id: 1}, w.indexed(), "dead at call %d", dieAt)
				kept := map[string]bool{}
				for _, key := range w.blobs.Keys() {
					kept[strings.Split(key, "/")[2]] = true
				}
				assert.Equal(t, map[string]bool{
					"source": true, "text": true, "structure": true, "chunks": true, "vectors": true,
				}, kept)
				assert.LessOrEqual(t, len(w.blobs.Keys()), 3+2*((d.Ready.Count+63)/64),
					"dead at call %d: blobs are left", dieAt)
			})
			if !died {
				t.Logf("%d calls, each of which may be the last", dieAt-1)
				break
			}
		}
	}
}

// For each call of a port, the process dies at that call and another process goes on. The rebuild ends, everything is
// found at all times, and nothing is left over.
func TestRebuildSurvivesADeathAtEveryCall(t *testing.T) {
	t.Parallel()
	for dieAt := 1; ; dieAt++ {
		died := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			b := w.base()
			ids := []string{w.ready(b, strings.Repeat("The swordfish is here. ", 40)), w.ready(b, "marlin")}
			w.settle()
			found := func() []string { return documents(append(w.find("swordfish"), w.find("marlin")...)) }
			requested := 0
			for _, n := range w.model.requests {
				requested += n
			}
			w.fate.calls, w.fate.dieAt, w.fate.done = 0, dieAt, dieAt%2 == 0 // the call is done or not
			size := 100
			_, _ = w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Size: &size})
			for turns := 0; turns < 10 && !w.fate.dead; turns++ {
				w.turn()
			}
			died, w.fate.dead, w.fate.dieAt = w.fate.dead, false, 0
			assert.Equal(t, ids, found(), "dead at call %d", dieAt)
			w.edit(b.ID, size, 0)
			assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State, "dead at call %d", dieAt)
			assert.Equal(t, ids, found(), "dead at call %d", dieAt)
			w.whole(b.ID, ids...)
			assert.Equal(t, size, w.state(b.ID).Settings.Chunking.Size)
			again := -requested
			for _, n := range w.model.requests {
				again += n
			}
			chunks := w.read(ids[0]).Ready.Count + w.read(ids[1]).Ready.Count
			assert.LessOrEqual(t, again, chunks+catalog.ChunksOfPiece, "dead at call %d: only the batch under way",
				dieAt)
		})
		if !died {
			t.Logf("%d calls, each of which may be the last", dieAt-1)
			break
		}
	}
}
