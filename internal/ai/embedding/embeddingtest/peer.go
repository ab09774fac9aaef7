//go:build peers

package embeddingtest

import (
	"testing"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/proof/peertest"
	"agentplatform/internal/proof/recording"
)

type object = map[string]any

// RunPeer replays the recorded conversations with a mock of the provider by other authors, or records them again. Open
// makes the adapter for the mock's address.
func RunPeer(t *testing.T, open func(address string) embedding.Model) {
	when := func(text string, more object) object {
		m := object{"inputText": text}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	refuses := func(status int, message string) object {
		return object{"error": object{"message": message}, "status": status, "retryAfter": 7}
	}
	vector := object{"embedding": []float32{3, -3, 3, 3}}
	provider := peertest.Models(t,
		object{"match": when("talk", nil), "response": vector},
		object{"match": when("long", object{"sequenceIndex": 0}), "response": refuses(400,
			"This model's maximum context length is 100 tokens, however you requested 200 tokens.")},
		object{"match": when("long", nil), "response": vector},
		object{"match": when("throttled", nil), "response": refuses(429, "slow down")},
		object{"match": when("key", nil), "response": refuses(401, "Incorrect API key provided")},
		object{"match": when("unknown", nil), "response": refuses(404, "The model does not exist")},
		object{"match": when("overloaded", nil), "response": refuses(503, "overloaded")},
	)
	if recording.Anew() {
		recording.Make(t, provider, conversations(open))
		return
	}
	for _, c := range conversations(open) {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, provider) })
	}
}
