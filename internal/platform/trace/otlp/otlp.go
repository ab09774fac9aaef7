// Package otlp is an exporter for OpenTelemetry's SDK. It sends spans by the OpenTelemetry Protocol over HTTP, as JSON
// in gzip. JSON is one of the protocol's two forms.
//
// Spans wait in a bounded buffer. Spans that do not fit are dropped and counted. The end of a span never waits for the
// receiver: a goroutine sends ([Exporter.Run]), or the process does before it may be frozen ([Exporter.Flush]). After a
// failure the exporter pauses, longer each time. The SDK's own batch processor would do neither: it does not count what
// it drops, and it drops a batch that fails.
//
// The official exporter needs gRPC and Protocol Buffers. It makes a zipped function 5 MB larger, and functions have a
// limit (ADR 20). Tests read the sent data by the official definitions.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds. A span has about half a kilobyte, and never more than 20 KB. So a batch stays below the limits of receivers.
// X-Ray takes 5 MB, 200 KB of them for a span, and 10,000 spans.
const (
	waiting     = 4096 // spans in the buffer
	batch       = 256  // spans of a request
	every       = time.Second
	sendTime    = 5 * time.Second // for a request, with its answer
	firstPause  = time.Second     // after a failure
	longest     = time.Minute
	maxAnswer   = 64 << 10 // bytes
	path        = "/v1/traces"
	contentType = "application/json"
)

// Options configure an exporter.
type Options struct {
	Endpoint string   // the receiver's address without the path v1/traces
	Headers  []string // name=value, the value percent-encoded, that each request has, as of OTEL_EXPORTER_OTLP_HEADERS
	Resource []attribute.KeyValue
	// Sign signs a request with this body; nil: requests are not signed.
	Sign func(ctx context.Context, r *http.Request, body []byte) error
	Log  *slog.Logger
	Now  func() time.Time
	// Transport is nil for the usual one.
	Transport http.RoundTripper
}

// Exporter is a [sdktrace.SpanExporter]. It is safe for concurrent use.
type Exporter struct {
	Options

	url    string
	header http.Header
	client *http.Client
	wake   chan struct{} // there is a batch
	turn   chan struct{} // held by the goroutine that sends

	mu       sync.Mutex
	spans    []sdktrace.ReadOnlySpan
	dropped  int64
	reported int64 // of the dropped, by Lost
	failing  bool
	pause    time.Duration
	quiet    time.Time // nothing is sent before
}

// New makes an exporter. It fails if the endpoint or a header cannot be used.
func New(o Options) (*Exporter, error) {
	at, err := url.Parse(o.Endpoint)
	if err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
		return nil, errors.New("otlp: the endpoint must be an http or https URL")
	}
	e := &Exporter{
		Options: o, url: at.JoinPath(path).String(), header: http.Header{}, wake: make(chan struct{}, 1),
		turn: make(chan struct{}, 1),
		client: &http.Client{Transport: o.Transport, Timeout: sendTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(strings.TrimSpace(h), "=")
		if value, err = url.PathUnescape(strings.TrimSpace(value)); !ok || name == "" || err != nil {
			return nil, errors.New("otlp: a header must be name=value, with the value percent-encoded")
		}
		e.header.Set(strings.TrimSpace(name), value)
	}
	return e, nil
}

// ExportSpans keeps spans until they are sent. It does not block and does not fail.
func (e *Exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	n := min(len(spans), waiting-len(e.spans))
	e.spans = append(e.spans, spans[:n]...)
	e.dropped += int64(len(spans) - n)
	enough := len(e.spans) >= batch
	e.mu.Unlock()
	if enough {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Shutdown is Flush, for the SDK.
func (e *Exporter) Shutdown(ctx context.Context) error {
	e.Flush(ctx)
	return ctx.Err()
}

// Dropped counts the spans that were lost: they found no place, or the receiver refused them.
func (e *Exporter) Dropped() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// Lost is how many spans were lost since the last call.
func (e *Exporter) Lost() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.dropped - e.reported
	e.reported = e.dropped
	return n
}

// Run sends each second, and earlier if many spans wait, until ctx ends. [Exporter.Flush] sends later spans.
func (e *Exporter) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.wake:
		}
		e.Flush(ctx)
	}
}

// Flush sends the spans in the buffer, until ctx ends. In the pause after a failure it sends nothing, and they wait.
func (e *Exporter) Flush(ctx context.Context) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		spans := e.next()
		if len(spans) == 0 {
			return
		}
		refused, again, err := e.post(ctx, spans)
		e.note(spans, refused, again, err)
	}
}

// next takes the next batch; none during the pause after a failure.
func (e *Exporter) next() []sdktrace.ReadOnlySpan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Now().Before(e.quiet) {
		return nil
	}
	n := min(len(e.spans), batch)
	spans := e.spans[:n:n]
	if e.spans = e.spans[n:]; len(e.spans) == 0 {
		e.spans = nil // the array of the old slice can be freed
	}
	return spans
}

// note records the outcome of sending a batch. A batch that may be sent again returns to the buffer, if there is room.
func (e *Exporter) note(spans []sdktrace.ReadOnlySpan, refused int64, again time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropped += refused
	if err == nil {
		if e.failing {
			e.Log.Info("traces can be sent again", "spans_dropped", e.dropped)
		}
		e.failing, e.pause = false, 0
		return
	}
	if again >= 0 {
		n := max(0, min(len(spans), waiting-len(e.spans)))
		e.spans = append(spans[len(spans)-n:], e.spans...)
		e.dropped += int64(len(spans) - n)
	} else {
		e.dropped += int64(len(spans))
	}
	if errors.Is(err, context.Canceled) { // the process stops; the rest is sent at its end
		return
	}
	e.pause = min(max(2*e.pause, firstPause, again), longest)
	e.quiet = e.Now().Add(e.pause)
	if !e.failing {
		e.Log.Warn("traces cannot be sent; they wait, and those beyond the buffer are dropped", "error", err,
			"spans_dropped", e.dropped)
	}
	e.failing = true
}

// post sends a batch. refused counts the spans that the receiver rejected. If err is not nil, again is the wait that
// the receiver requests, 0 for none. It is less than 0 if the batch would be refused again.
func (e *Exporter) post(
	ctx context.Context, spans []sdktrace.ReadOnlySpan,
) (refused int64, again time.Duration, err error) {
	body, err := packed(e.Resource, spans)
	if err != nil {
		return 0, -1, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, err
	}
	for name, values := range e.header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", "gzip")
	if e.Sign != nil {
		if err := e.Sign(ctx, r, body); err != nil {
			return 0, 0, fmt.Errorf("the request cannot be signed: %w", err)
		}
	}
	answer, err := e.client.Do(r)
	if err != nil {
		// its text has the address, which may have a secret
		if wrapped, is := errors.AsType[*url.Error](err); is {
			err = wrapped.Err
		}
		return 0, 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return rejected(raw, len(spans)), 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		again = time.Duration(min(max(seconds, 0), 60)) * time.Second
	default:
		again = -1
	}
	return 0, again, fmt.Errorf("the receiver answered %d", answer.StatusCode)
}

// rejected counts the spans that a response lists as rejected, at most all of them.
func rejected(answer []byte, sent int) int64 {
	var result struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // int64 are texts in this JSON, or numbers
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &result) != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.Trim(string(result.PartialSuccess.RejectedSpans), `"`), 10, 64)
	return min(max(n, 0), int64(sent))
}

func packed(resource []attribute.KeyValue, spans []sdktrace.ReadOnlySpan) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(w).Encode(requestOf(resource, spans)), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
