package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// collector receives traces like OpenTelemetry's own collector: it decodes them with the collector's definitions.
type collector struct {
	t     *testing.T
	mu    sync.Mutex
	raw   bytes.Buffer
	spans []ptrace.Span
	keys  []string // of the requests, by the header that the setting names
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if !assert.NoError(c.t, err) {
		return
	}
	body, err := io.ReadAll(unpacked)
	assert.NoError(c.t, err)
	request := ptraceotlp.NewExportRequest()
	assert.NoError(c.t, request.UnmarshalJSON(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	c.keys = append(c.keys, r.URL.Path+" "+r.Header.Get("X-Token"))
	for _, of := range request.Traces().ResourceSpans().All() {
		name, _ := of.Resource().Attributes().Get("service.name")
		assert.Equal(c.t, "agent-platform", name.Str())
		for _, in := range of.ScopeSpans().All() {
			for _, s := range in.Spans().All() {
				c.spans = append(c.spans, s)
			}
		}
	}
	_, _ = io.WriteString(w, "{}")
}

// tree is a trace as text: each span below its parent, those of one parent in order of their names.
func (c *collector) tree(trace string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	below := map[string][]ptrace.Span{}
	for _, s := range c.spans {
		if s.TraceID().String() == trace {
			below[s.ParentSpanID().String()] = append(below[s.ParentSpanID().String()], s)
		}
	}
	var lines []string
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		slices.SortFunc(below[parent], func(a, b ptrace.Span) int {
			return strings.Compare(a.Name()+a.StartTimestamp().String(), b.Name()+b.StartTimestamp().String())
		})
		for _, s := range below[parent] {
			lines = append(lines, indent+strings.ToLower(s.Kind().String())+" "+s.Name())
			walk(s.SpanID().String(), indent+"  ")
		}
		delete(below, parent)
	}
	walk("", "")
	assert.Empty(c.t, below, "no span is below one that was not sent")
	return strings.Join(lines, "\n")
}

// of is span n with a name in a trace, by time.
func (c *collector) of(trace, name string, n int) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []ptrace.Span
	for _, s := range c.spans {
		if s.TraceID().String() == trace && s.Name() == name {
			found = append(found, s)
		}
	}
	require.Greater(c.t, len(found), n, name)
	slices.SortFunc(found, func(a, b ptrace.Span) int { return int(a.StartTimestamp()) - int(b.StartTimestamp()) })
	return found[n].Attributes().AsRaw()
}

// callers keeps the traceparent of each request that a server gets.
type callers struct {
	mu  sync.Mutex
	got []string
}

func (c *callers) note(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, r.Header.Get("Traceparent"))
}

func (c *callers) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// talks is a model that calls the tool once and then answers.
func talks(c *callers) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.note(r)
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"role":"tool"`)) {
			_, _ = io.WriteString(w,
				`data: {"choices":[{"delta":{"content":"PRIVATE-ANSWER"},"finish_reason":"stop"}]}`+
					"\n\n"+`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}}`+
					"\n\ndata: [DONE]\n\n")
			return
		}
		_, _ = io.WriteString(w,
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"act",`+
				`"arguments":"{\"body\":\"PRIVATE-ARGUMENT\"}"}}]},"finish_reason":"tool_calls"}]}`+
				"\n\n"+`data: {"choices":[],"model":"m-2","usage":`+
				`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`+
				"\n\ndata: [DONE]\n\n")
	})
}

// logged keeps a program's log.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// lines returns the lines with a message; those of one run if run is not empty.
func (l *logged) lines(message, run string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		var o map[string]any
		if json.Unmarshal([]byte(line), &o) == nil && o["msg"] == message && (run == "" || o["run_id"] == run) {
			found = append(found, o)
		}
	}
	return found
}

// A run from its request to its webhook is one trace, with a pause in between: each hop finds it by the run's id. It
// contains no text of the conversation, and no key.
func TestARunIsOneTrace(t *testing.T) {
	traces := &collector{t: t}
	receiver := httptest.NewServer(traces)
	t.Cleanup(receiver.Close)
	var providerCallers, called, pushed callers
	provider := httptest.NewServer(talks(&providerCallers))
	t.Cleanup(provider.Close)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called.note(r)
		_, _ = io.WriteString(w, "PRIVATE-RESULT")
	}))
	t.Cleanup(shop.Close)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { pushed.note(r) }))
	t.Cleanup(hook.Close)

	p := built(t)
	log := &logged{}
	p.log = log
	p.environ = []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-token=PRIVATE%2DTOKEN",
		"OPENAI_BASE_URL=" + provider.URL + "/v1", "OPENAI_API_KEY=PRIVATE-KEY", "LOG_LEVEL=info",
		"TOOL_ALLOW_HOSTS=" + strings.TrimPrefix(shop.URL, "http://"), trusting(t, hook),
		"WEBHOOK_ALLOW_HOSTS=" + strings.TrimPrefix(hook.URL, "https://"),
	}
	p.start()
	agent := p.maker(shop.URL+"/PRIVATE-PATH", "always")
	run, request := p.postMessage(agent, hook.URL+"/PRIVATE-HOOK",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	paused := p.awaits(run, "awaiting_input")
	asks := paused["interrupts"].([]any)[0].(map[string]any)["id"]
	status, _, err := p.call(t.Context(), http.MethodPost, "/runs/"+run+"/resume", "application/json",
		strings.NewReader(fmt.Sprintf(`{"decisions":[{"interrupt_id":%q,"decision":"approve"}]}`, asks)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	done := p.awaits(run, "completed")
	for wait := time.Now().Add(time.Minute); len(log.lines("webhook delivered", run)) < 2; {
		require.True(t, time.Now().Before(wait), "two webhooks")
		_, _, err := p.call(t.Context(), http.MethodGet, "/runs/"+run+"?wait_ms=50", "", nil)
		require.NoError(t, err)
	}
	p.stop()

	trace := run + run[16:]
	assert.Equal(t, strings.TrimSpace(`
server POST /api/v1/chat
  server POST /api/v1/runs/{run_id}/resume
    producer send run
  client deliver webhook
  client deliver webhook
  consumer invoke_agent
    client chat m
    producer send webhook
  consumer invoke_agent
    client chat m
    internal execute_tool act
    producer send webhook`), traces.tree(trace), "a free worker has begun without a nudge")
	root := traces.of(trace, "POST /api/v1/chat", 0)
	assert.Equal(t, map[string]any{
		"http.request.method": "POST", "http.route": "/api/v1/chat", "http.response.status_code": int64(202),
		"agentplatform.request.id": request, "agentplatform.run.id": run,
		"agentplatform.organization.id": root["agentplatform.organization.id"],
	}, root)
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
		"gen_ai.response.model":     "m-2",
		"gen_ai.usage.input_tokens": int64(10), "gen_ai.usage.output_tokens": int64(2),
		"gen_ai.response.finish_reasons": []any{"tool_calls"}, "agentplatform.run.id": run,
		"agentplatform.model.try": int64(1),
	}, traces.of(trace, "chat m", 0))
	call := traces.of(trace, "execute_tool act", 0)
	assert.Equal(t, []any{"execute_tool", "act", "function", run}, []any{call["gen_ai.operation.name"],
		call["gen_ai.tool.name"], call["gen_ai.tool.type"], call["agentplatform.run.id"]})
	for n, left := range []string{"awaiting_input", "completed"} {
		attempt := traces.of(trace, "invoke_agent", n)
		assert.Equal(t, []any{"invoke_agent", agent, done["chat_id"], run, int64(n + 1), left},
			[]any{attempt["gen_ai.operation.name"], attempt["gen_ai.agent.id"], attempt["gen_ai.conversation.id"],
				attempt["agentplatform.run.id"], attempt["agentplatform.run.attempt"],
				attempt["agentplatform.run.status"]})
		webhook := traces.of(trace, "deliver webhook", n)
		assert.Equal(t, []any{left, int64(200), run}, []any{webhook["agentplatform.run.status"],
			webhook["http.response.status_code"], webhook["agentplatform.run.id"]})
	}

	// Each called server gets the span to which its request belongs.
	assert.Len(t, providerCallers.all(), 2)
	assert.Len(t, called.all(), 1)
	assert.Len(t, pushed.all(), 2)
	for _, parent := range slices.Concat(providerCallers.all(), called.all(), pushed.all()) {
		assert.True(t, strings.HasPrefix(parent, "00-"+trace+"-") && strings.HasSuffix(parent, "-01"), parent)
	}
	// Our trace links to the caller's trace, but is a separate one.
	traces.mu.Lock()
	defer traces.mu.Unlock()
	for _, s := range traces.spans {
		assert.NotEqual(t, "4bf92f3577b34da6a3ce929d0e0e4736", s.TraceID().String())
		if s.SpanID().String() == run[8:] {
			require.Equal(t, 1, s.Links().Len())
			assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", s.Links().At(0).TraceID().String())
		}
	}
	assert.NotContains(t, traces.raw.String(), "PRIVATE")
	assert.NotContains(t, traces.raw.String(), p.key)
	for _, key := range traces.keys {
		assert.Equal(t, "/v1/traces PRIVATE-TOKEN", key)
	}

	// The id of the request that began the run is in the log, and its last digits are in every line of the run.
	assert.Equal(t, request[12:], run[12:])
	lines := log.lines("request", run)
	require.Len(t, lines, 2, "reads are not logged at this level")
	assert.Equal(t, []any{request, "POST", "/api/v1/chat", 202.0}, []any{lines[0]["request_id"], lines[0]["method"],
		lines[0]["route"], lines[0]["status"]})
	assert.NotEmpty(t, lines[0]["api_key_id"])
	assert.Len(t, log.lines("webhook delivered", run), 2)
	assert.NotContains(t, log.b.String(), "PRIVATE")
}

// postMessage posts a message with a caller's traceparent, and returns the run and the answer's request id.
func (p *program) postMessage(agent, callback, traceparent string) (run, request string) {
	p.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, value := range map[string]string{
		"agent_id": agent, "message": "PRIVATE-MESSAGE", "wait": "false", "callback_url": callback,
	} {
		_ = w.WriteField(name, value)
	}
	_ = w.Close()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/chat?PRIVATE=QUERY", &b)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Traceparent", traceparent)
	r.Header.Set("Tracestate", "PRIVATE=1")
	r.Header.Set("Baggage", "PRIVATE=1")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(p.t, http.StatusAccepted, answer.StatusCode)
	return answer.Header.Get("X-Agent-Run-Id"), answer.Header.Get("X-Request-Id")
}

// awaits waits until a run has a status.
func (p *program) awaits(run, status string) map[string]any {
	p.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		_, now, err := p.call(p.t.Context(), http.MethodGet, "/runs/"+run+"?wait_ms=1000", "", nil)
		require.NoError(p.t, err)
		if now["status"] == status {
			return now
		}
	}
	require.Failf(p.t, "too late", "run %s is not %s", run, status)
	return nil
}

// A receiver of traces that hangs, or does not exist, delays nothing: neither requests nor runs nor a stop.
func TestAReceiverOfTracesThatHangsHoldsNobody(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hanging.Close)
	defer close(release)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, address := range []string{hanging.URL, gone.URL} {
		p := built(t)
		p.log = io.Discard
		p.environ = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + address}
		p.start()
		own := fmt.Sprint(p.make("/agents", `{"name":"a"}`)["agent_id"])
		for range 20 {
			status, answer, err := p.post(t.Context(), "agent_id", own, "message", "hello")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, answer)
		}
		p.stop()
	}
}
