package ingest_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// Of large texts one at a time is in memory, from its extraction until its chunks are stored.
func TestLargeTextsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		begun, goOn := make(chan string, 2), make(chan struct{})
		w.ingester.Extract = func(ctx context.Context, group string, f extract.File) (document.Text, error) {
			for range 2 { // it may be called again
				if err := f.Room(ctx); err != nil {
					return document.Text{}, err
				}
			}
			text, err := plain(ctx, group, f)
			begun <- text.Body
			<-goOn
			text.Body = strings.Repeat(" ", extract.LargeText) + text.Body
			return text, err
		}
		ids := []string{w.add(b, "swordfish"), w.add(b, "herring")}
		for _, id := range ids {
			go func() {
				_, err := w.ingester.Handle(t.Context(), id)
				assert.NoError(t, err)
			}()
		}
		synctest.Wait()
		require.Len(t, begun, 1, "the second waits")
		w.model.fail = func() error { // of the first, whose chunks are stored
			w.model.fail = nil
			synctest.Wait()
			assert.Len(t, begun, 2, "the place is free before the first is embedded")
			return io.ErrUnexpectedEOF
		}
		goOn <- struct{}{}
		synctest.Wait()
		goOn <- struct{}{}
		synctest.Wait()
		for i, word := range []string{"swordfish", "herring"} {
			w.ingest(ids[i])
			d := w.read(ids[i])
			assert.Equal(t, docstate.Ready, d.Ingestion.Status, d.Ingestion.Failure)
			assert.Len(t, w.find(word), 1, word)
		}
	})
}
