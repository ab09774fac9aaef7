package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// seen is an API whose log and traces a test reads.
type seen struct {
	httpapitest.API

	t     *testing.T
	log   bytes.Buffer
	spans tracetest.InMemoryExporter
}

// errorOf is the code of a span that failed.
func errorOf(s tracetest.SpanStub) string {
	all := attribute.NewSet(s.Attributes...)
	code, _ := all.Value("error.type")
	return code.AsString()
}

func observe(t *testing.T, more ...func(*service.Config)) *seen {
	t.Helper()
	s := &seen{t: t}
	s.API = httpapitest.New(t, func(c *service.Config) {
		c.Log = slog.New(slog.NewJSONHandler(&s.log, nil)) // from info up, as deployments have it
		c.Tracer = trace.New(1, &s.spans)
		for _, change := range more {
			change(c)
		}
	})
	return s
}

// do makes a request and returns its answer, its line in the log if there is one, and the span of the request.
func (s *seen) do(r *http.Request) (*httptest.ResponseRecorder, map[string]any, tracetest.SpanStub) {
	s.t.Helper()
	s.log.Reset()
	s.spans.Reset()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var line map[string]any
	for text := range strings.Lines(s.log.String()) {
		var o map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(text), &o))
		if o["msg"] == "request" {
			line = o
		}
	}
	spans := s.spans.GetSpans()
	require.NotEmpty(s.t, spans)
	return w, line, spans[len(spans)-1]
}

func (s *seen) request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

func (s *seen) message(text string) *http.Request {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("agent_id", s.Agent)
	_ = w.WriteField("message", text)
	_ = w.WriteField("wait", "false")
	_ = w.Close()
	r := s.request(http.MethodPost, "/api/v1/chat", b.String())
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

// The log line of a request answers an operator's questions: which request, by whom, about which run, and how it ended.
func TestARequestLeavesALineThatAnOperatorCanUse(t *testing.T) {
	s := observe(t)
	w, line, span := s.do(s.message("SECRET WORDS"))
	require.Equal(t, http.StatusAccepted, w.Code)
	id, run := w.Header().Get("X-Request-Id"), w.Header().Get("X-Agent-Run-Id")
	assert.Equal(t, []any{"INFO", id, run, "POST", "/api/v1/chat", 202.0, ""}, []any{line["level"], line["request_id"],
		line["run_id"], line["method"], line["route"], line["status"], line["code"]})
	for _, name := range []string{"organization_id", "user_id", "api_key_id"} {
		assert.Len(t, line[name], 24, name)
	}
	assert.Contains(t, line, "ms")
	assert.Equal(t, id[12:], run[12:], "the run's id ends as the request's")
	assert.NotContains(t, s.log.String(), "SECRET")
	assert.NotContains(t, s.log.String(), s.Key)
	root, _ := trace.Of(run)
	assert.Equal(t, []any{root.TraceID(), root.SpanID(), "POST /api/v1/chat"},
		[]any{span.SpanContext.TraceID(), span.SpanContext.SpanID(), span.Name})

	_, line, _ = s.do(s.request(http.MethodPost, "/api/v1/agents?key=SECRET", `{"name":""}`))
	assert.Equal(t, []any{"INFO", "/api/v1/agents", 400.0, "invalid_request"}, []any{line["level"], line["route"],
		line["status"], line["code"]}, "what was refused, and why")
	assert.NotContains(t, s.log.String(), "SECRET")
	_, line, _ = s.do(s.request(http.MethodGet, "/api/v1/runs/"+strings.Repeat("0", 24), ""))
	assert.Equal(t, []any{"/api/v1/runs/{run_id}", 404.0, "not_found"}, []any{line["route"], line["status"],
		line["code"]})
}

// Successful reads, and requests of anonymous connections, write no lines at this level: their number has no bound.
func TestReadsAndAnonymousRequestsLeaveNoLines(t *testing.T) {
	s := observe(t)
	w, line, span := s.do(s.request(http.MethodGet, "/api/v1/agents", ""))
	require.Equal(t, http.StatusOK, w.Code)
	assert.Nil(t, line)
	assert.Equal(t, "GET /api/v1/agents", span.Name)
	s.spans.Reset()
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	assert.Empty(t, s.spans.GetSpans(), "nor does what is not of the API leave a span")
	for _, key := range []string{"", "Bearer wrong"} {
		r := s.message("x")
		r.Header.Set("Authorization", key)
		w, line, _ = s.do(r)
		require.Equal(t, http.StatusUnauthorized, w.Code)
		assert.Nil(t, line)
	}
}

// counted are the labels and the value of each series of a counter.
func counted(t *testing.T, from *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return all
}

// A run that failed or timed out is answered with 500. That is not a failure of the service: not in the log, not in
// traces, and not in the count for alarms. Its metric has the code.
func TestAFailedRunIsNotAFailureOfTheService(t *testing.T) {
	metrics, failures := prometheus.NewRegistry(), 0
	s := observe(t, func(c *service.Config) { c.Metrics, c.Failed = metrics, func() { failures++ } })
	work := lifecycle.Work{Attempt: 1}
	for i, by := range []lifecycle.Event{lifecycle.Fail{Work: work, Error: "no luck"}, lifecycle.TimeOut{Work: work}} {
		key := fmt.Sprint("k", i)
		s.End(t, s.Begin(t, "idempotency_key", key).RunID, by)
		for _, wait := range []string{"true", "false"} { // a retry is answered as the first request is
			kind, form := s.Form("message", "m", "wait", wait, "idempotency_key", key)
			r := s.request(http.MethodPost, "/api/v1/chat", string(form))
			r.Header.Set("Content-Type", kind)
			w, line, span := s.do(r)
			require.Equal(t, http.StatusInternalServerError, w.Code, w.Body)
			assert.Equal(t, []any{"INFO", 500.0, "run_failed"}, []any{line["level"], line["status"], line["code"]})
			assert.NotContains(t, s.log.String(), `"WARN"`)
			assert.NotContains(t, s.log.String(), `"ERROR"`)
			assert.Empty(t, errorOf(span))
		}
	}
	assert.Zero(t, failures)
	assert.Equal(t, map[string]float64{
		"code= route=POST /api/v1/chat status=202":           2,
		"code=run_failed route=POST /api/v1/chat status=500": 4,
	}, counted(t, metrics, "agentplatform_http_requests_total"))
}

// full is a table whose disk is full.
type full struct{ table.Table }

func (full) Commit(context.Context, string, ...table.Op) error { return &table.Error{Kind: table.Full} }

// A refusal for a full disk is not a failure of the service, and has no line in the log. The store notes one in a
// while.
func TestAFullDiskIsARefusal(t *testing.T) {
	failures := 0
	s := observe(t, func(c *service.Config) { c.Failed = func() { failures++ } })
	s.Items.Table = full{s.Items.Table}
	for _, r := range []*http.Request{
		s.message("x"), s.request(http.MethodPost, "/api/v1/agents", `{"name":"a","model":{"provider":"demo"}}`),
	} {
		w, line, span := s.do(r)
		require.Equal(t, http.StatusInsufficientStorage, w.Code, w.Body)
		assert.Contains(t, w.Body.String(), `"code":"insufficient_storage"`)
		assert.Nil(t, line)
		assert.Empty(t, errorOf(span))
		assert.Empty(t, s.log.String())
	}
	assert.Zero(t, failures)
}

// A 5xx answer for any other reason is a failure of the service.
func TestAFailureOfTheServiceIsReported(t *testing.T) {
	metrics, failures := prometheus.NewRegistry(), 0
	s := observe(t, func(c *service.Config) { c.Metrics, c.Failed = metrics, func() { failures++ } })
	s.Items.Break("") // no item can be read any more
	w, line, span := s.do(s.request(http.MethodGet, "/api/v1/agents/"+s.Agent, ""))
	require.Equal(t, http.StatusInternalServerError, w.Code, w.Body)
	assert.Equal(t, []any{"WARN", 500.0, "internal"}, []any{line["level"], line["status"], line["code"]})
	assert.Equal(t, "internal", errorOf(span))
	assert.Equal(t, 1, failures)
	assert.Equal(t, map[string]float64{"code=internal route=GET /api/v1/agents/{id} status=500": 1},
		counted(t, metrics, "agentplatform_http_requests_total"))
}

// prober attempts an address for some time of the clock, in which it waits, and calls its function.
type prober struct {
	host.Host

	clock, waits, own time.Duration
}

func (p *prober) Elapsed() time.Duration { return p.clock }

func (p *prober) Probe(ctx context.Context, _, _ string) (record.DeliveryAttempt, error) {
	end := waiting.Start(ctx)
	p.clock += p.waits
	end()
	p.clock += p.own
	return record.DeliveryAttempt{}, nil
}

// A slow answer is counted, and leaves a line. An answer that waits for long because the client requested it is not.
func TestSlowAnswersAreThoseThatTakeTheServiceItselfLong(t *testing.T) {
	slow := 0
	p := &prober{}
	s := observe(t, func(c *service.Config) {
		p.Host = c.Host
		c.Host, c.Prober, c.Slow = p, p, func() { slow++ }
	})
	for _, c := range []struct {
		waits, own time.Duration
		slow       int
	}{{time.Minute, 0, 0}, {0, 2999 * time.Millisecond, 0}, {time.Minute, 3 * time.Second, 1}} {
		p.waits, p.own = c.waits, c.own
		w, line, _ := s.do(
			s.request(http.MethodPost, "/api/v1/webhooks/test", `{"callback_url":"https://example.com/"}`))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		assert.Equal(t, c.slow, slow, "%v", c)
		assert.EqualValues(t, c.own.Milliseconds(), line["own_ms"])
		assert.EqualValues(t, (c.waits + c.own).Milliseconds(), line["ms"])
	}
}

// Every wait_ms of the API is counted as a wait. There is a case for each, and no worker takes the runs.
func TestRequestedWaitsDoNotCountAsTimeOfTheService(t *testing.T) {
	s := observe(t, func(c *service.Config) {
		c.Log = slog.New(everything{c.Log.Handler()})
	})
	part := func(w *httptest.ResponseRecorder, name string) string {
		t.Helper()
		require.Less(t, w.Code, 300, w.Body)
		var o map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &o))
		return o[name].(string)
	}
	base := part(s.Send(http.MethodPost, "/knowledge-bases", `{"name":"b"}`), "knowledge_base_id")
	document := part(s.Send(http.MethodPost, "/knowledge-bases/"+base+"/documents", `{"text":"x"}`), "document_id")
	run := part(s.Chat("message", "x", "wait", "false"), "run_id")
	cases := map[string]string{
		"/api/v1/runs/{run_id}": "/api/v1/runs/" + run,
		"/api/v1/interrupts":    "/api/v1/interrupts",
		"/api/v1/knowledge-bases/{id}/documents/{document_id}": "/api/v1/knowledge-bases/" + base +
			"/documents/" + document,
	}
	var described struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
		}
	}
	require.NoError(t, json.Unmarshal(s.Send(http.MethodGet, "/openapi.json", "").Body.Bytes(), &described))
	for path, operations := range described.Paths {
		for method, operation := range operations {
			for _, p := range operation.Parameters {
				if p.Name != "wait_ms" {
					continue
				}
				require.Contains(t, cases, path, method)
				w, line, _ := s.do(s.request(strings.ToUpper(method), cases[path]+"?wait_ms=300", ""))
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				waited := line["ms"].(float64) - line["own_ms"].(float64)
				assert.GreaterOrEqual(t, waited, 100.0, "%s: what is not counted is about 0", path)
				delete(cases, path)
			}
		}
	}
	assert.Empty(t, cases, "these offer no wait")
}

// everything is a handler that writes the lines of all levels.
type everything struct{ slog.Handler }

func (everything) Enabled(context.Context, slog.Level) bool { return true }

// Requests do not decide about our traces: not by their trace, not by its sampling, and not by names without a bound.
func TestHostileRequestsDecideNothingAboutTraces(t *testing.T) {
	s := observe(t)
	for _, parent := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "x", "",
		strings.Repeat("0", 1<<12), "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01"} {
		r := s.request("BREW"+strings.Repeat("A", 100), "/api/v1/"+strings.Repeat("b", 1000), "")
		r.Header.Set("Traceparent", parent)
		_, _, span := s.do(r)
		assert.Equal(t, "_OTHER", span.Name)
		assert.NotEqual(t, "4bf92f3577b34da6a3ce929d0e0e4736", span.SpanContext.TraceID().String())
		assert.LessOrEqual(t, len(span.Links), 1)
		assert.Empty(t, errorOf(span), "a refusal is no failure of ours")
	}
}

// A run that begins by another door has its trace's root there.
func TestARunByMCPBeginsItsTraceAtTheRequest(t *testing.T) {
	s := observe(t)
	list, _, _ := s.do(s.request(http.MethodPost, "/api/v1/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	var tools struct {
		Result struct{ Tools []struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(list.Body.Bytes(), &tools), list.Body.String())
	require.NotEmpty(t, tools.Result.Tools)
	call, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{
		"name": tools.Result.Tools[0].Name, "arguments": map[string]any{"message": "hello"}}})
	w, _, span := s.do(s.request(http.MethodPost, "/api/v1/mcp", string(call)))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	spans := s.spans.GetSpans()
	require.Len(t, spans, 2, "the request, and the nudge that it sent")
	assert.Equal(t, "send run", spans[0].Name)
	assert.Equal(t, span.SpanContext.TraceID(), spans[0].SpanContext.TraceID())
	assert.Equal(t, span.SpanContext.SpanID(), spans[0].Parent.SpanID())
	assert.False(t, span.Parent.IsValid())
}
