//go:build peers

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

type object = map[string]any

// shop is a tool server with an OpenAPI document that counts orders.
type shop struct{ orders atomic.Int64 }

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/openapi.json" {
		_ = json.NewEncoder(w).Encode(object{
			"openapi": "3.1.0", "info": object{"title": "Shop", "version": "1"}, "servers": []object{{"url": "/"}},
			"paths": object{"/order": object{"post": object{
				"operationId": "order", "summary": "Orders a thing",
				"requestBody": object{"required": true, "content": object{"application/json": object{"schema": object{
					"type": "object", "required": []string{"thing"},
					"properties": object{"thing": object{"type": "string"}, "pieces": object{"type": "integer"}},
				}}}},
				"responses": object{"200": object{"description": "ok"}},
			}}},
		})
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.orders.Add(1)
	_, _ = io.WriteString(w, "ordered: "+string(body))
}

// counted is a proxy in front of an MCP server that counts tool calls.
func counted(t *testing.T, address string) (string, *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	var calls atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			calls.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + to.Path, &calls
}

func (p *program) ask(method, path string, body any, want int) object {
	p.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(raw))
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, want, answer.StatusCode, string(text))
	var o object
	_ = json.Unmarshal(text, &o)
	return o
}

// stream posts a message, optionally with a file's name and content. It passes the events of its stream to see until
// see returns false.
func (p *program) stream(agent, message string, see func(object) bool, file ...string) {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"agent_id": agent, "message": message, "streaming": "true"} {
		require.NoError(p.t, form.WriteField(name, value))
	}
	if len(file) > 0 {
		part, err := form.CreateFormFile("files", file[0])
		require.NoError(p.t, err)
		_, err = io.WriteString(part, file[1])
		require.NoError(p.t, err)
	}
	require.NoError(p.t, form.Close())
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/chat", &body)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", form.FormDataContentType())
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event object
		require.NoError(p.t, json.Unmarshal(lines.Bytes(), &event), lines.Text())
		if !see(event) {
			return
		}
	}
	require.Fail(p.t, "the stream ended early")
}

func (p *program) await(run, status string) object {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if o := p.ask(http.MethodGet, "/runs/"+run+"?wait_ms=5000", nil, http.StatusOK); o["status"] == status {
			return o
		}
	}
	require.Fail(p.t, "the run never was "+status)
	return nil
}

// seenMock writes the row of the mock of model providers.
func seenMock(t *testing.T, what, works string) {
	const name = "@copilotkit/aimock"
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "`" + name + "`, " + what, Version: peertest.NPM(t, name), Works: works,
	})
}

// TestTheTour is the tour of docs/models-and-tools.md with servers of other projects. An agent whose model is an
// OpenAI-compatible endpoint calls an MCP server and an OpenAPI service, and streams. It is killed between the two
// calls, pauses for an approval, and ends. Each call was made once.
func TestTheTour(t *testing.T) {
	p := built(t)
	models := peertest.Models(t,
		object{"match": object{"userMessage": "the word is swordfish"},
			"response": object{"content": "I have read it."}},
		object{"match": object{"userMessage": "buy pens", "hasToolResult": false}, "response": object{
			"content":   "Let me count first.",
			"toolCalls": []object{{"name": "get-sum", "arguments": object{"a": 2, "b": 3}}},
		}},
		object{"match": object{"toolResultContains": "ordered"},
			"response": object{"content": "Five pens are ordered."}},
		object{"match": object{"toolResultContains": "5"}, "latency": 1500, "response": object{
			"toolCalls": []object{{"name": "order", "arguments": object{"body": object{"thing": "pen", "pieces": 5}}}},
		}},
	)
	everything, counts := counted(t, peertest.Everything(t))
	goods := &shop{}
	store := httptest.NewServer(goods)
	defer store.Close()
	host := func(address string) string {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return u.Host
	}
	p.environ = []string{"OPENAI_BASE_URL=" + models + "/v1", "OPENAI_API_KEY=none",
		"TOOL_ALLOW_HOSTS=" + host(everything) + "," + host(store.URL)}
	p.start()

	toolkits := []any{
		p.ask(http.MethodPost, "/toolkits", object{"kind": "mcp", "name": "everything", "url": everything,
			"enabled": []string{"get-sum", "echo"}}, 201)["toolkit_id"],
		p.ask(http.MethodPost, "/toolkits",
			object{"kind": "openapi", "name": "shop", "url": store.URL + "/openapi.json"}, 201)["toolkit_id"],
	}
	p.ask(http.MethodPatch, "/toolkits/"+toolkits[1].(string)+"/tools/order", object{"approval": "always"}, 200)
	reached := p.ask(http.MethodGet, "/models", nil, 200)
	require.Nil(t, reached["unreachable"])
	agent := p.ask(http.MethodPost, "/agents", object{
		"name": "Buyer", "instructions": "You buy things.", "toolkit_ids": toolkits,
		"model": object{"provider": "openai", "name": "some-model"}, "skip_check": true,
	}, 201)["agent_id"].(string)

	var run string
	var answer strings.Builder
	p.stream(agent, "Please buy pens: two and three.", func(event object) bool {
		run = event["run_id"].(string)
		if text, ok := event["text"].(string); ok && event["event"] == "delta" {
			answer.WriteString(text)
		}
		step, _ := event["step"].(object)
		return event["event"] != "step" || step["state"] != "finished"
	})
	assert.Equal(t, "Let me count first.", answer.String(), "it streams")
	p.kill() // the sum is known, and the model's next call is in progress
	assert.EqualValues(t, 1, counts.Load())
	assert.Zero(t, goods.orders.Load())

	p.start()
	paused := p.await(run, "awaiting_input")
	interrupt := paused["interrupts"].([]any)[0].(object)
	assert.Equal(t, "order", interrupt["tool"].(object)["name"])
	assert.Zero(t, goods.orders.Load(), "nothing is ordered before a human says so")
	p.ask(http.MethodPost, "/runs/"+run+"/resume",
		object{"decisions": []object{{"interrupt_id": interrupt["id"], "decision": "approve"}}}, 200)
	done := p.await(run, "completed")
	assert.Equal(t, "Let me count first.\n\nFive pens are ordered.", done["result"].(object)["answer"])
	assert.EqualValues(t, 1, counts.Load(), "the first call was not made again")
	assert.EqualValues(t, 1, goods.orders.Load())
	steps := p.ask(http.MethodGet, "/runs/"+run+"/steps", nil, 200)["steps"].([]any)
	for _, one := range steps {
		step := one.(object)
		if step["kind"] == "model" {
			assert.NotEmpty(t, step["request_id"], "the provider's name of the call is journalled")
		}
	}
	p.stream(agent, "What does the file say?", func(event object) bool {
		if event["event"] == "done" {
			assert.Equal(t, "I have read it.", event["run"].(object)["result"].(object)["answer"],
				"a file reaches the model")
		}
		return event["event"] != "done"
	}, "notes.html", "<p>the word is <b>swordfish</b></p>")
	p.stop()
	seenMock(t, "a tour", "stream, two kinds of tool calls, file, approval, `kill -9` between two calls")
}
