package ingest_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// A call that is under way at the deadline is ended then. Its tokens are charged once.
func TestACallInFlightEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(1000)
		b := w.baseOf("paid")
		id := w.add(b, "The word is swordfish.")
		w.model.hang = 1
		w.ingest(id)
		d := w.read(id)
		require.NotNil(t, d.Ingestion.Failure, "%+v", d.Ingestion)
		assert.Equal(t, []any{docstate.Failed, docstate.Embedding, docstate.PastDeadline},
			[]any{d.Ingestion.Status, d.Ingestion.Failure.Stage, d.Ingestion.Failure.Code})
		assert.Contains(t, d.Ingestion.Failure.Message, "the ingestion took longer than 1h0m0s")
		assert.Equal(t, w.ingester.Deadline, d.Ingestion.Failure.At.Sub(d.Ingestion.Begun))
		_, tokens := w.charged()
		assert.Equal(t, int64(1), tokens)

		_, err := w.knowledge.Reprocess(t.Context(), w.admin, b.ID, id)
		require.NoError(t, err)
		w.ingest(id)
		assert.Equal(t, docstate.Ready, w.read(id).Ingestion.Status, "another ingestion has its own time")
	})
}

// prompt is a table that reads and commits nothing for a context that has ended.
type prompt struct{ table.Table }

func (p prompt) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Table.Commit(ctx, token, ops...)
}

func (p prompt) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.Table.Get(ctx, keys...)
}

// before are blobs that are put after something else.
type before struct {
	blob.Store

	do func()
}

func (b before) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	b.do()
	return b.Store.Put(ctx, key, r, limit)
}

// The deadline passes while the vectors of a call are stored. The tokens of the call are charged all the same, once.
func TestACallBeforeTheDeadlineIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.budgets(1000)
		w.knowledge.Store = record.New(prompt{w.table}, before{w.blobs, func() {
			if len(w.model.requests) > 0 {
				time.Sleep(w.ingester.Deadline + time.Second)
			}
		}}, w.host)
		id := w.add(w.baseOf("paid"), "The word is swordfish.")
		w.ingest(id)
		_, tokens := w.charged()
		assert.Equal(t, int64(tokensOfText), tokens)
		require.NotNil(t, w.read(id).Ingestion.Failure)
		assert.Equal(t, docstate.PastDeadline, w.read(id).Ingestion.Failure.Code)
	})
}

// Every stage ends at the deadline.
func TestEveryStageEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ingester.Extract = func(ctx context.Context, _ string, _ extract.File) (document.Text, error) {
			<-ctx.Done()
			return document.Text{}, ctx.Err()
		}
		id := w.add(w.base(), "The word is swordfish.")
		began := w.host.Now()
		w.ingest(id)
		d := w.read(id)
		require.NotNil(t, d.Ingestion.Failure, "%+v", d.Ingestion)
		assert.Equal(t, []any{docstate.Extracting, docstate.PastDeadline},
			[]any{d.Ingestion.Failure.Stage, d.Ingestion.Failure.Code})
		assert.Equal(t, w.ingester.Deadline, w.host.Now().Sub(began))
	})
}

// An ingester that is stopped gives the document back, with the time that is left.
func TestAStopLeavesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.add(w.baseOf("paid"), "The word is swordfish.")
		w.model.hang = 2
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(w.ingester.Deadline/2, stop)
		_, err := w.ingester.Handle(ctx, id)
		require.NoError(t, err)
		d := w.read(id)
		assert.Equal(t, []any{docstate.Processing, 0}, []any{d.Ingestion.Status, d.Ingestion.Attempts})
		w.ingest(id)
		d = w.read(id)
		require.NotNil(t, d.Ingestion.Failure, "%+v", d.Ingestion)
		assert.Equal(t, w.ingester.Deadline, d.Ingestion.Failure.At.Sub(d.Ingestion.Begun))
	})
}

// A base is not made while its model does not answer.
func TestAModelThatDoesNotAnswerRefusesABase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.hang = 1
		name := "base"
		_, err := w.knowledge.CreateBase(t.Context(), w.admin, knowledge.BaseEdit{
			Name: &name, Embedding: &catalog.EmbeddingModel{Provider: "paid", Name: "m"},
		})
		require.ErrorContains(t, err, "the embedding model paid/m cannot be reached: there was no response within 10s")
	})
}
