package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A provider returns the request and its headers. Our key is in no text that clients can read, nor in the log.
func TestAKeyThatAProviderRepeatsIsNotShown(t *testing.T) {
	const key = "sk-OURS-1234567890"
	p := built(t)
	errorMessage := func(r *http.Request) string {
		words, _ := json.Marshal("bad key " + r.Header.Get("Authorization") + " at http://" + r.Host + r.URL.Path)
		return string(words)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":`+errorMessage(r)+`}}`)
	}))
	t.Cleanup(provider.Close)
	p.environ = []string{"OPENAI_BASE_URL=" + provider.URL + "/v1", "OPENAI_API_KEY=" + key}
	p.start()
	t.Cleanup(p.stop)
	shown := func(answer map[string]any) string {
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "1234567890")
		assert.NotContains(t, string(text), strings.TrimPrefix(provider.URL, "http://"))
		return string(text)
	}
	body := `{"name":"a","skip_check":%t,"model":{"provider":"openai","name":"m"}}`
	agent := fmt.Sprint(p.make("/agents", fmt.Sprintf(body, true))["agent_id"])
	_, answer, err := p.post(t.Context(), "agent_id", agent, "message", "hello")
	require.NoError(t, err)
	assert.Contains(t, shown(answer), "bad key")
	for _, path := range []string{"/models", "/runs?limit=10"} {
		_, answer, err := p.call(t.Context(), http.MethodGet, path, "", nil)
		require.NoError(t, err)
		shown(answer)
	}
	status, answer, err := p.call(
		t.Context(),
		http.MethodPost,
		"/agents",
		"application/json",
		strings.NewReader(fmt.Sprintf(body, false)),
	)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, shown(answer), "answered 401")
}

// A provider reports implausibly low usage. The budget still counts the tokens.
func TestAProviderThatReportsLowUsageIsChargedToTheBudget(t *testing.T) {
	p := built(t)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}],"+
			"\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":1,\"total_tokens\":1}}\n\ndata: "+
			"[DONE]\n\n", strings.Repeat("word ", 5000))
	}))
	t.Cleanup(provider.Close)
	p.environ = []string{"OPENAI_BASE_URL=" + provider.URL + "/v1", "OPENAI_API_KEY=none"}
	p.start()
	t.Cleanup(p.stop)
	agent := fmt.Sprint(p.make("/agents", `{"name":"a","skip_check":true,"model":{"provider":"openai","name":"m"},
		"budget":{"period":"day","max_tokens":30}}`)["agent_id"])
	var statuses []int
	for range 2 {
		status, _, err := p.post(t.Context(), "agent_id", agent, "message", strings.Repeat("word ", 5000))
		require.NoError(t, err)
		statuses = append(statuses, status)
	}
	assert.Equal(t, []int{http.StatusOK, http.StatusTooManyRequests}, statuses)
}
