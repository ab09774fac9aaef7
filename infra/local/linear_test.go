//go:build integration

package local

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/linear"
)

// The linearizability check of the local process, run against the deployed service.
func theServiceIsLinearizable(t *testing.T, w world) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/agents",
		bytes.NewBufferString(`{"name":"linear"}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+w.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var agent struct {
		ID string `json:"agent_id"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&agent))
	service := linear.Service{Address: func() (string, string) { return w.URL, w.Key }, Agent: agent.ID}
	for seed := range uint64(4) {
		v, err := service.Chats(t.Context(), seed, 8, 6)
		require.NoError(t, err)
		require.Equal(t, porcupine.Ok, v.Result, v.Words)
		assert.NotZero(t, v.Succeeded)
	}
	v, err := service.Caps(t.Context(), 1, 6, 5, 4, false)
	require.NoError(t, err)
	require.Equal(t, porcupine.Ok, v.Result, v.Words)
}
