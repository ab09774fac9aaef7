//go:build peers

package openaiembedding_test

import (
	"testing"

	"agentplatform/internal/ai/embedding/embeddingtest"
	"agentplatform/internal/proof/peertest"
)

func TestPeer(t *testing.T) {
	embeddingtest.RunPeer(t, protocol.Open)
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "`@copilotkit/aimock`", Variant: "embeddings",
		Version: peertest.NPM(t, "@copilotkit/aimock"),
		Works:   "vectors, usage, refusals",
	})
}
