//go:build peers

package agent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/openaimodel"
	"agentplatform/internal/proof/peertest"
	"agentplatform/internal/run/agent"
)

// A chat grows beyond the window of llama.cpp's server. Each turn from the third on was a failure.
func TestALongChatGoesOnWithLlama(t *testing.T) {
	address := peertest.Llama(t, 512)
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "llama.cpp's server, a full window", Version: peertest.LlamaVersion(t),
		Works: "a chat beyond the window of 512 tokens goes on without its oldest turns",
	})
	most := 5
	var history []model.Message
	for turn := range 5 {
		text := "Tell me more. " + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 12)
		s := newStage(openaimodel.New(address+"/v1", "", http.DefaultClient), func(task *agent.Task) {
			task.Agent.Spec.Model.Name, task.Agent.Spec.Model.MaxTokens = "smol", &most
			task.History, task.Message = history, model.Message{Role: model.User, Text: text}
		})
		r := s.work(t)
		require.NotNil(t, r.Answer, "turn %d: %s", turn+1, r.Failure)
		assert.NotEmpty(t, r.Answer.Text)
		assert.Equal(t, turn > 2, r.All[0].LeftOut > 0, "turn %d left out %d", turn+1, r.All[0].LeftOut)
		history = append(history, s.task.Message, model.Message{Role: model.Assistant, Text: r.Answer.Text})
	}
}
