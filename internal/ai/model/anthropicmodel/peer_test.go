//go:build peers

package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/proof/peertest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		return anthropicmodel.New(address, "secret-key", http.DefaultClient)
	})
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "`@copilotkit/aimock`", Variant: "Messages",
		Version: peertest.NPM(t, "@copilotkit/aimock"),
		Works:   "texts, tool calls, pictures, usage, refusals, broken streams",
	})
}

func TestLlama(t *testing.T) {
	modeltest.RunLlama(t, func(address string) model.Model {
		return anthropicmodel.New(address, "", http.DefaultClient)
	})
}
