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

// watched is an address that forwards to another one. It reports whether no request to it is in progress.
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

// Ollama works for agents. It cuts a long prompt silently.
func TestOllama(t *testing.T) {
	server, version := peertest.Ollama(t)
	address, idle := watched(t, server)
	p := onModels(t, address)
	p.converses("smol:latest", idle)
	agent := p.smallAgent("smol:latest", nil)
	run := p.runOf(agent, "completed", "message", strings.Repeat("The quick brown fox jumps. ", 300)+"Say hello.")
	assert.NotEmpty(t, answerOf(t, run), "a prompt over the window is cut by the server")

	five := p.smallAgent("smol:latest", object{"model": object{
		"provider": "openai", "name": "smol:latest", "temperature": 0, "max_tokens": 5}})
	run = p.runOf(five, "completed", "message", "Count from 1 to 1000: 1, 2, 3, 4,")
	assert.LessOrEqual(t, run["usage"].(object)["output_tokens"], 5.0, "max_tokens")
	p.ask(http.MethodPost, "/agents", object{"name": "Short", "model": object{"provider": "openai", "name": "smol"}},
		http.StatusCreated)
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "Ollama with SmolLM2", Version: version,
		Works: "answer, stream, usage, tool call with result, approval, question, cancel, `max_tokens`, " +
			"a name without `:latest`; the server itself cuts a prompt over the window",
	})
}

// liteLLM is a configuration of LiteLLM's proxy: mocks of models' answers, and a real model.
const liteLLM = `
model_list:
- {model_name: plain, litellm_params: {model: openai/x, api_key: x, mock_response: It is fine.}}
- {model_name: busy, litellm_params: {model: openai/x, api_key: x, mock_response: litellm.RateLimitError}}
- {model_name: broken, litellm_params: {model: openai/x, api_key: x, mock_response: litellm.InternalServerError}}
- {model_name: full, litellm_params: {model: openai/x, api_key: x, mock_response: litellm.ContextWindowExceededError}}
- {model_name: blank, litellm_params: {model: openai/x, api_key: x, mock_response: " "}}
- {model_name: smol, litellm_params: {model: openai/smol, api_key: x, api_base: ADDRESS/v1}}
litellm_settings: {num_retries: 0}
router_settings: {num_retries: 0, disable_cooldowns: true}
general_settings: {master_key: KEY}
`

// LiteLLM's proxy: its answers and failures are those of a run. A real model works behind it, with both of its APIs.
func TestLiteLLM(t *testing.T) {
	const key = "sk-0123456789abcdef0123456789abcdef0123456789abcdef"
	llama := peertest.Llama(t, 2048, "--jinja", "--chat-template-file", peertest.ToolsTemplate(t))
	proxy := peertest.LiteLLM(t, strings.NewReplacer("ADDRESS", llama, "KEY", key).Replace(liteLLM))
	p := onModels(t, proxy, "OPENAI_API_KEY="+key, "ANTHROPIC_BASE_URL="+proxy, "ANTHROPIC_API_KEY="+key)
	ask := func(model, status string) object {
		return p.runOf(p.smallAgent(model, nil), status, "message", "What is the capital of France?")
	}
	assert.Equal(t, "It is fine.", answerOf(t, ask("plain", "completed")))
	assert.Contains(t, ask("busy", "failed")["error"], "mock rate limit error")
	assert.Contains(t, ask("broken", "failed")["error"], "mock internal server error")
	assert.Contains(t, ask("full", "failed")["error"], "mock context window exceeded error")
	assert.Empty(t, strings.TrimSpace(answerOf(t, ask("blank", "completed"))), "a reply without a word")
	assert.Contains(t, answerOf(t, ask("smol", "completed")), "Paris")
	p.answersByMessages()
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "LiteLLM's proxy", Version: peertest.PyPI(t, "litellm", "litellm"),
		Works: "answers, also of a real model (chat completions, Messages); readable errors for 429, 500 and a full " +
			"context window; a blank reply ends the run",
		Not: "`mock_response` with Messages: it does not stream",
	})
}

// answersByMessages makes the model smol answer by Anthropic's Messages.
func (p *program) answersByMessages() {
	p.t.Helper()
	agent := p.smallAgent("smol", object{"model": object{
		"provider": "anthropic", "name": "smol", "temperature": 0, "max_tokens": 50}})
	run := p.runOf(agent, "completed", "message", "What is the capital of France?")
	assert.Contains(p.t, answerOf(p.t, run), "Paris")
	assert.Greater(p.t, run["usage"].(object)["output_tokens"], 2.0)
}

// llama.cpp's server has the Messages of Anthropic, too.
func TestMessagesOfLlamaCpp(t *testing.T) {
	address := peertest.Llama(t, 2048, "--jinja", "--chat-template-file", peertest.ToolsTemplate(t))
	onModels(t, address, "ANTHROPIC_BASE_URL="+address).answersByMessages()
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "llama.cpp's server, Anthropic's Messages", Version: peertest.LlamaVersion(t),
		Works: "answer, usage",
	})
}
