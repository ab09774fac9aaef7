package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run that fails or times out is not a failure of the service, in any API that its message came through. No request
// of it leaves a warning, and answers with 5xx have the code run_failed in the metrics.
func TestNoDoorCountsAFailedRunAsAFailureOfTheService(t *testing.T) {
	t.Parallel()
	p, log := built(t), &logged{}
	p.log, p.environ = log, []string{"LOG_LEVEL=info", "ACTIVE_LIMIT=1s"}
	p.start()
	defer p.stop()
	ask := func(method, url, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+p.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(raw)
	}
	agent := fmt.Sprint(p.make("/agents", `{"name":"Unlucky"}`)["agent_id"])
	for _, message := range []string{"/fail no luck", "/sleep 9s"} { // the second times out
		fields := []string{"agent_id", agent, "message", message, "idempotency_key", message}
		run := ""
		for _, more := range [][]string{nil, nil, {"wait", "false"}} { // twice; the second is answered from the first
			status, answer, err := p.post(t.Context(), append(fields, more...)...)
			require.NoError(t, err)
			require.Equal(t, []any{http.StatusInternalServerError, "run_failed"}, []any{status, answer["code"]})
			run = fmt.Sprint(answer["run_id"])
		}
		for _, read := range []string{"", "?wait_ms=1000", "/steps", "/stream"} {
			status, _ := ask(http.MethodGet, p.url+"/runs/"+run+read, "")
			assert.Equal(t, http.StatusOK, status, read)
		}
		status, _, _ := p.post(t.Context(), append(fields[:4:4], "streaming", "true")...) // lines, not one object
		assert.Equal(t, http.StatusOK, status)
		for path, body := range map[string]string{
			"/responses": `{"model":"Unlucky","input":%q}`,
			"/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Unlucky",` +
				`"arguments":{"message":%q}}}`,
			"/a2a/" + agent: `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message",` +
				`"messageId":"m","role":"user","parts":[{"kind":"text","text":%q}]}}}`,
			"/agui/" + agent: `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":%q}],` +
				`"tools":[],"context":[],"state":{},"forwardedProps":{}}`,
		} {
			status, text := ask(http.MethodPost, p.url+path, fmt.Sprintf(body, message))
			assert.Equal(t, http.StatusOK, status, "%s: %s", path, text)
			assert.Regexp(t, "no luck|limit of 1s", text, path)
		}
	}
	_, metrics := ask(http.MethodGet, strings.TrimSuffix(p.url, "/api/v1")+"/metrics", "")
	var failed []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "agentplatform_http_requests_total{") && strings.Contains(line, `status="5`) {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	assert.Equal(t, []string{
		`agentplatform_http_requests_total{code="run_failed",route="POST /api/v1/chat",status="500"} 6`,
	}, failed)
	lines := log.lines("request", "")
	assert.NotEmpty(t, lines)
	for _, line := range lines {
		assert.Equal(t, "INFO", line["level"], line)
	}
}
