package ingest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/store/record"
)

// An index that was lost is filled again from what is stored; no model is asked.
func TestLostIndexIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := record.Create(t.Context(), w.store, w.organization(), w.host.NewID())
		require.NoError(t, err)
		w.knowledge.IndexID = "first"
		b := w.base()
		var ids []string
		for i := range 70 {
			ids = append(ids, w.ready(b, fmt.Sprintf("swordfish n%d", i)))
		}
		pending := w.add(b, "pending")
		require.NoError(t, w.ingester.Recover(t.Context()))
		w.turn()
		assert.Equal(t, knowledge.IndexReady, w.state(b.ID).State, "nothing was lost")
		ids = append(ids, pending)

		*w.index = memindex.Index{}
		w.knowledge.IndexID = "second"
		w.model.fail = func() error { panic("a model is asked") }
		require.NoError(t, w.ingester.Recover(t.Context()))
		require.NoError(t, w.ingester.Recover(t.Context()), "and once more, after a crash")
		s := w.state(b.ID)
		assert.Equal(t, []any{knowledge.IndexRebuilding, int64(0), int64(71)}, []any{s.State, s.Done, s.Total})
		assert.Empty(t, w.find("swordfish"), "what is there is found")
		partly := false
		for w.state(b.ID).State == knowledge.IndexRebuilding {
			s, found := w.state(b.ID), len(w.find("n7"))
			partly = partly || s.Done > 0 && s.Done < 71 && found <= 1
			w.jobs()
			time.Sleep(time.Second)
		}
		assert.True(t, partly, "it was seen on its way")
		assert.Equal(t, "second", w.readBase(b.ID).Index)
		for i, id := range ids {
			if i < 70 {
				assert.Equal(t, []string{id}, documents(w.find(fmt.Sprint("n", i))))
			}
		}
		assert.Len(t, w.index.Versions(), 71)
	})
}

// Bases of nobody's organization are restored, too.
func TestLostIndexIsRestoredForTheScopeOfNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.admin.Organization = record.NoOrganization
		w.knowledge.IndexID = "first"
		b := w.base()
		id := w.ready(b, "swordfish")
		*w.index = memindex.Index{}
		w.knowledge.IndexID = "second"
		require.NoError(t, w.ingester.Recover(t.Context()))
		for range 10 {
			w.jobs()
			time.Sleep(time.Second)
		}
		assert.Equal(t, knowledge.IndexReady, w.state(b.ID).State)
		assert.Equal(t, []string{id}, documents(w.find("swordfish")))
	})
}

// Refill fills an index again that was emptied and kept its name.
func TestIndexThatWasEmptiedIsRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := record.Create(t.Context(), w.store, w.organization(), w.host.NewID())
		require.NoError(t, err)
		w.knowledge.IndexID = "one"
		b := w.base()
		ids := []string{w.ready(b, "swordfish one"), w.ready(b, "swordfish two")}
		*w.index = memindex.Index{}
		w.model.fail = func() error { panic("a model is asked") }
		require.NoError(t, w.ingester.Recover(t.Context()))
		w.turn()
		assert.Empty(t, w.find("swordfish"), "nobody has noticed")
		require.NoError(t, w.ingester.Refill(t.Context()))
		require.NoError(t, w.ingester.Refill(t.Context()), "and once more, as after a failure")
		assert.Equal(t, knowledge.IndexRebuilding, w.state(b.ID).State)
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		w.whole(b.ID, ids...)
		assert.Equal(t, ids, documents(w.find("swordfish")))
	})
}

// For each call of a port, the process dies at that call, and the next start goes on.
func TestRestorationSurvivesADeathAtEveryCall(t *testing.T) {
	for dieAt := 1; ; dieAt++ {
		died := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			_, err := record.Create(t.Context(), w.store, w.organization(), w.host.NewID())
			require.NoError(t, err)
			w.knowledge.IndexID = "first"
			b := w.base()
			ids := []string{w.ready(b, "swordfish one"), w.ready(b, "swordfish two")}
			w.settle()
			*w.index = memindex.Index{}
			w.knowledge.IndexID = "second"
			w.fate.calls, w.fate.dieAt, w.fate.done = 0, dieAt, dieAt%2 == 0
			_ = w.ingester.Recover(t.Context())
			for turns := 0; turns < 5 && !w.fate.dead; turns++ {
				w.turn()
			}
			died, w.fate.dead, w.fate.dieAt = w.fate.dead, false, 0
			require.NoError(t, w.ingester.Recover(t.Context()))
			assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State, "dead at call %d", dieAt)
			w.whole(b.ID, ids...)
			assert.Equal(t, ids, documents(w.find("swordfish")), "dead at call %d", dieAt)
		})
		if !died {
			t.Logf("%d calls, each of which may be the last", dieAt-1)
			return
		}
	}
}
