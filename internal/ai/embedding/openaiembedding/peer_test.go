//go:build peers

package openaiembedding_test

import (
	"testing"

	"agentplatform/internal/ai/embedding/embeddingtest"
)

func TestPeer(t *testing.T) { embeddingtest.RunPeer(t, protocol.Open) }
