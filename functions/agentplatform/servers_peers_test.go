//go:build peersall

package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// watched is an address that leads to another one, and whether no request to it is in progress.
func watched(t *testing.T, address string) (string, func() bool) {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}
	var working atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		working.Add(1)
		defer working.Add(-1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() bool { return working.Load() == 0 }
}

// Ollama works for agents. It cuts a long prompt without a word.
func TestOllama(t *testing.T) {
	address, idle := watched(t, peertest.Ollama(t))
	p := onModels(t, address)
	p.converses("smol:latest", idle)
	agent := p.smallAgent("smol:latest", nil)
	run := p.runOf(agent, "completed", "message", strings.Repeat("The quick brown fox jumps. ", 300)+"Say hello.")
	assert.NotEmpty(t, answerOf(t, run), "a prompt over the window is cut by the server")

	five := p.smallAgent("smol:latest", object{"model": object{
		"provider": "openai", "name": "smol:latest", "temperature": 0, "max_tokens": 5}})
	run = p.runOf(five, "completed", "message", "Count from 1 to 1000: 1, 2, 3, 4,")
	row := peertest.Counterpart{
		Area: "models", Name: "Ollama with SmolLM2", Version: peertest.OllamaVersion,
		Works: "a plain answer, a stream, usage, a tool call and its result, an approval, a question, a cancel, a prompt " +
			"over the window, which the server cuts by itself",
		Not: "`max_tokens`; a name without `:latest`",
	}
	// Both expectations turn when the adapter knows what Ollama reads, and how it lists its models.
	assert.Greater(t, run["usage"].(object)["output_tokens"], 5.0, "max_tokens")
	p.ask(http.MethodPost, "/agents", object{"name": "Short", "model": object{"provider": "openai", "name": "smol"}},
		http.StatusBadRequest)
	peertest.Seen(t, row)
}
