package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/platform/trace/otlp"
)

// world is an exporter with its receiver and its clock.
type world struct {
	*otlp.Exporter

	mu      sync.Mutex
	now     time.Time
	got     []string // names of spans
	batches []int
	last    *http.Request
	spans   ptrace.Span
	answer  func(w http.ResponseWriter, r *http.Request)
	log     bytes.Buffer
}

func open(t *testing.T, change func(*otlp.Options)) *world {
	t.Helper()
	w := &world{now: time.Unix(1_700_000_000, 0)}
	server := httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(server.Close)
	o := otlp.Options{
		Endpoint: server.URL, Now: w.clock, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Resource:  []attribute.KeyValue{attribute.String("service.name", "us")},
		Transport: server.Client().Transport,
	}
	if change != nil {
		change(&o)
	}
	var err error
	w.Exporter, err = otlp.New(o)
	require.NoError(t, err)
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// receive reads a request by the collector's own definitions.
func (w *world) receive(answer http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = r
	if w.answer != nil {
		w.answer(answer, r)
		return
	}
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	body, _ := io.ReadAll(unpacked)
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalJSON(body); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	spans := request.Traces().ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for _, s := range spans.All() {
		w.got = append(w.got, s.Name())
		w.spans = s
	}
	w.batches = append(w.batches, spans.Len())
	response, _ := ptraceotlp.NewExportResponse().MarshalJSON()
	_, _ = answer.Write(response)
}

func ended(name string) tracetest.SpanStub {
	return tracetest.SpanStub{Name: name, SpanKind: oteltrace.SpanKindClient, StartTime: time.Unix(1, 2),
		EndTime: time.Unix(3, 4), SpanContext: named(1, 2)}
}

func named(trace, span byte) oteltrace.SpanContext {
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{trace},
		SpanID: oteltrace.SpanID{span}})
}

// take gives the exporter a span, as the SDK does.
func (w *world) take(e tracetest.SpanStub) {
	_ = w.ExportSpans(context.Background(), []sdktrace.ReadOnlySpan{e.Snapshot()})
}

// The sent data is read by the collector's definitions, member by member.
func TestASpanArrivesAsItWas(t *testing.T) {
	w := open(t, func(o *otlp.Options) { o.Headers = []string{"x-key=a%20b", " Other = c=d "} })
	e := ended("chat m")
	e.Parent, e.Status = named(1, 3), sdktrace.Status{Code: codes.Error, Description: "PRIVATE"}
	e.Links = []sdktrace.Link{{SpanContext: named(4, 5)}}
	e.Events = []sdktrace.Event{{Name: "PRIVATE"}}
	e.Attributes = []attribute.KeyValue{
		attribute.String("s", "é\"<"), attribute.Int64("i", 1<<60), attribute.Float64("f", 0.5),
		attribute.Bool("b", true), attribute.StringSlice("l", []string{"stop"}), attribute.String("empty", ""),
		attribute.IntSlice("n", []int{1, 2}), attribute.String("error.type", "throttled"),
	}
	w.take(e)
	w.Flush(t.Context())
	require.Equal(t, []string{"chat m"}, w.got, w.log.String())
	assert.Equal(t, "/v1/traces", w.last.URL.Path)
	assert.Equal(t, "application/json", w.last.Header.Get("Content-Type"))
	assert.Equal(t, []string{"a b", "c=d"}, []string{w.last.Header.Get("X-Key"), w.last.Header.Get("Other")})
	s := w.spans
	assert.Equal(t, oteltrace.TraceID{1}.String(), s.TraceID().String())
	assert.Equal(t, oteltrace.SpanID{2}.String(), s.SpanID().String())
	assert.Equal(t, oteltrace.SpanID{3}.String(), s.ParentSpanID().String())
	assert.Equal(t, ptrace.SpanKindClient, s.Kind())
	assert.Equal(t, time.Unix(1, 2).UTC(), s.StartTimestamp().AsTime())
	assert.Equal(t, time.Unix(3, 4).UTC(), s.EndTimestamp().AsTime())
	assert.Equal(t, ptrace.StatusCodeError, s.Status().Code())
	assert.Equal(t, uint32(1), s.Flags())
	require.Equal(t, 1, s.Links().Len())
	assert.Equal(t, oteltrace.TraceID{4}.String(), s.Links().At(0).TraceID().String())
	assert.Equal(t, oteltrace.SpanID{5}.String(), s.Links().At(0).SpanID().String())
	assert.Empty(t, s.Status().Message())
	assert.Zero(t, s.Events().Len())
	assert.Equal(t, map[string]any{"s": "é\"<", "i": int64(1 << 60), "f": 0.5, "b": true, "l": []any{"stop"},
		"n": "[1,2]", "error.type": "throttled"}, s.Attributes().AsRaw())
	w.take(ended(strings.Repeat("é", 1000)))
	w.Flush(t.Context())
	assert.LessOrEqual(t, len(w.spans.Name()), 256)
	assert.True(t, w.spans.ParentSpanID().IsEmpty())
	assert.Equal(t, ptrace.StatusCodeUnset, w.spans.Status().Code())
}

func TestSpansAreSentInBatches(t *testing.T) {
	w := open(t, nil)
	for range 600 {
		w.take(ended("x"))
	}
	w.Flush(t.Context())
	assert.Equal(t, []int{256, 256, 88}, w.batches)
	assert.Zero(t, w.Dropped())
	w.Flush(t.Context())
	assert.Len(t, w.batches, 3, "nothing is sent twice, or empty")
}

// A missing receiver delays nothing. Spans wait up to a bound; the newest are dropped and counted. The exporter tries
// again after a pause, which is longer each time.
func TestAReceiverThatRefusesIsLeftAlone(t *testing.T) {
	w := open(t, nil)
	requests := 0
	w.answer = func(answer http.ResponseWriter, _ *http.Request) {
		requests++
		answer.WriteHeader(http.StatusServiceUnavailable)
	}
	for range 5000 {
		w.take(ended("x"))
	}
	assert.Equal(t, int64(5000-4096), w.Dropped())
	for range 10 {
		w.Flush(t.Context())
	}
	assert.Equal(t, 1, requests)
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		before := requests
		w.later(wait - time.Millisecond)
		w.Flush(t.Context())
		assert.Equal(t, before, requests, wait)
		w.later(time.Millisecond)
		w.Flush(t.Context())
		assert.Equal(t, before+1, requests, wait)
	}
	assert.Equal(t, 1, strings.Count(w.log.String(), "level=WARN"), "it is said once")
	w.answer = nil
	w.later(time.Minute)
	w.Flush(t.Context())
	assert.Len(t, w.got, 4096, "what waited is not lost")
	assert.Equal(t, int64(904), w.Dropped())
	assert.Contains(t, w.log.String(), "traces can be sent again")
}

func TestAnAnswerReportsWhatBecomesOfABatch(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		dropped int64
		kept    bool
	}{
		{http.StatusOK, `{"partialSuccess":{"rejectedSpans":"1"}}`, 1, false},
		{http.StatusOK, `{"partialSuccess":{"rejectedSpans":7}}`, 2, false},
		{http.StatusOK, `<html>`, 0, false},
		{http.StatusBadRequest, "", 2, false},
		{http.StatusUnauthorized, "", 2, false},
		{http.StatusFound, "", 2, false},
		{http.StatusTooManyRequests, "", 0, true},
		{http.StatusBadGateway, "", 0, true},
	} {
		w := open(t, nil)
		w.answer = func(answer http.ResponseWriter, _ *http.Request) {
			answer.Header().Set("Location", "/elsewhere")
			answer.WriteHeader(c.status)
			_, _ = io.WriteString(answer, c.body)
		}
		w.take(ended("a"))
		w.take(ended("b"))
		w.Flush(t.Context())
		assert.Equal(t, c.dropped, w.Dropped(), c)
		w.answer = nil
		w.later(time.Minute)
		w.Flush(t.Context())
		want := []string(nil)
		if c.kept {
			want = []string{"a", "b"}
		}
		assert.Equal(t, want, w.got, c)
	}
}

// The end of a span does not wait for a receiver that hangs. A flush waits until its own deadline, and a stop ends the
// request in progress.
func TestAReceiverThatHangsHoldsNobody(t *testing.T) {
	hanging, release := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hanging <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	w := open(t, func(o *otlp.Options) { o.Endpoint = server.URL + "/base/"; o.Now = time.Now })
	running, stop := context.WithCancel(t.Context())
	ended1 := make(chan struct{})
	go func() {
		defer close(ended1)
		w.Run(running)
	}()
	for range 300 {
		w.take(ended("x"))
	}
	<-hanging
	for range 5000 {
		w.take(ended("y")) // returns
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.Flush(gone) // returns, though another is sending
	stop()
	<-ended1
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w.Flush(short)
	assert.NotZero(t, w.Dropped())
}

func TestARequestIsSigned(t *testing.T) {
	var signed []byte
	fail := false
	w := open(t, func(o *otlp.Options) {
		o.Sign = func(_ context.Context, r *http.Request, body []byte) error {
			signed = body
			r.Header.Set("Authorization", "AWS4 x")
			if fail {
				return errors.New("no credentials")
			}
			return nil
		}
	})
	w.take(ended("x"))
	w.Flush(t.Context())
	require.Equal(t, []string{"x"}, w.got)
	assert.Equal(t, "AWS4 x", w.last.Header.Get("Authorization"))
	assert.NotEmpty(t, signed)
	fail = true
	w.take(ended("y"))
	w.Flush(t.Context())
	assert.Contains(t, w.log.String(), "no credentials")
}

func TestInvalidOptionsAreReported(t *testing.T) {
	for _, o := range []otlp.Options{
		{Endpoint: ""}, {Endpoint: "collector:4318"}, {Endpoint: "ftp://x"}, {Endpoint: "http://"},
		{Endpoint: "http://x", Headers: []string{"x"}}, {Endpoint: "http://x", Headers: []string{"x=%zz"}},
	} {
		_, err := otlp.New(o)
		require.Error(t, err, o)
		assert.NotContains(t, err.Error(), "zz", "a value may be a secret")
	}
}

// The address may have a secret in it, and is not in the log.
func TestAnAddressIsNotLogged(t *testing.T) {
	w := open(t, func(o *otlp.Options) { o.Endpoint = "http://127.0.0.1:1/secret" })
	w.take(ended("x"))
	w.Flush(t.Context())
	assert.Contains(t, w.log.String(), "cannot be sent")
	assert.NotContains(t, w.log.String(), "secret")
}
