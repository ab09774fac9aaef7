package ingest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stalled ingester may store data of a document that is gone. This data is deleted.
func TestVectorsThatComeLateAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "swordfish")
		w.model.fail = func() error {
			w.model.fail = nil
			_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
			w.jobs()
			return err
		}
		_, err := w.ingester.Handle(t.Context(), id)
		require.NoError(t, err)
		require.Nil(t, w.model.fail)
		w.ingest(id)
		assert.Len(t, w.blobs.Keys(), 6, "the bytes, what was made of them, and what came late")
		w.settle()
		assert.Len(t, w.blobs.Keys(), 5)
	})
}

// A stalled ingester may store data of a document whose base was deleted. This data is deleted, too.
func TestVectorsThatComeAfterTheirBaseAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.add(b, "swordfish")
		w.model.fail = func() error {
			w.model.fail = nil
			_, err := w.knowledge.RemoveBase(t.Context(), w.admin, b.ID)
			w.jobs()
			return err
		}
		_, err := w.ingester.Handle(t.Context(), id)
		require.NoError(t, err)
		assert.Len(t, w.blobs.Keys(), 1, "what came late")
		w.settle()
		assert.Empty(t, w.blobs.Keys())
	})
}
