//go:build peers

package worker_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/openaimodel"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/peertest"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
)

// A run that was cancelled in the stream of llama.cpp's server once had 0 tokens and no text.
func TestACancelInAStreamOfLlamaCountsAndKeepsItsText(t *testing.T) {
	llama := openaimodel.New(peertest.Llama(t, 2048)+"/v1", "", http.DefaultClient)
	s := newStage(t, local)
	var run string
	var streamed strings.Builder
	s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		pieces := 0
		return llama.Converse(ctx, r, func(text string) {
			emit(text)
			streamed.WriteString(text)
			if pieces++; pieces == 10 {
				s.cancel(run)
			}
		})
	}
	run = s.send(intake.Message{Text: "Write a long story of the sea, with many chapters."}).Run.ID()
	s.handle(t.Context(), run)
	r := s.run(run)
	require.Equal(t, lifecycle.Cancelled, r.Status, s.log.String())
	assert.Positive(t, r.Usage.InputTokens)
	assert.Positive(t, r.Usage.OutputTokens)
	assert.EqualValues(t, 1, r.Usage.ModelCalls)
	got, err := view.PartialOf(t.Context(), s.store, r)
	require.NoError(t, err)
	require.NotNil(t, got)
	assert.Equal(t, streamed.String(), got.Answer)
	e := s.entry(run)
	assert.Equal(t, []int64{r.Usage.InputTokens, r.Usage.OutputTokens}, []int64{e.InputTokens, e.OutputTokens})
}
