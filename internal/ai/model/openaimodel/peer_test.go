//go:build peers

package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
	"agentplatform/internal/proof/peertest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		return openaimodel.New(address+"/v1", "secret-key", http.DefaultClient)
	})
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "`@copilotkit/aimock`", Variant: "chat completions",
		Version: peertest.NPM(t, "@copilotkit/aimock"),
		Works:   "texts, tool calls, pictures, usage, refusals, broken streams",
	})
}

func TestLlama(t *testing.T) {
	modeltest.RunLlama(t, func(address string) model.Model {
		return openaimodel.New(address+"/v1", "", http.DefaultClient)
	})
}
