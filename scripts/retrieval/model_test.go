package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/text/ranking"
)

// A model behind an endpoint receives texts with its prefixes, once for each text. Hybrid search uses its weight.
func TestAModelBehindAnEndpoint(t *testing.T) {
	var texts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		texts = append(texts, body.Input...)
		var data []map[string]any
		for range body.Input {
			data = append(data, map[string]any{"embedding": []float32{1, 0}})
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"data": data}))
	}))
	defer server.Close()
	weight, passage := 0.5, "text: "
	m := behind(server.URL+"/v1", "e5-small", embedding.Options{Weight: &weight, PassagePrefix: &passage})
	assert.Equal(t, ranking.Trust{Weight: 0.5}, m.trust)
	assert.True(t, m.real())
	for range 2 {
		vectors, err := m.embed(t.Context(), embedding.ForQuery, []string{"wing"})
		require.NoError(t, err)
		assert.Equal(t, [][]float32{{1, 0}}, vectors)
		vectors, err = m.embed(t.Context(), embedding.ForDocument, []string{"wing", "wing", "flap"})
		require.NoError(t, err)
		assert.Len(t, vectors, 3)
	}
	assert.ElementsMatch(t, []string{"query: wing", "text: wing", "text: wing", "text: flap"}, texts)
}
