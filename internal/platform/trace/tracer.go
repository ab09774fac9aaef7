package trace

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// limits are explicit, so the environment does not change them. Spans have no events, since a panic's text may contain
// the words of others.
var limits = sdktrace.SpanLimits{AttributeCountLimit: 32, AttributeValueLengthLimit: 256, LinkCountLimit: 8}

// Tracer is the SDK's tracer provider, with the ids and the sampling of this service. It is safe for concurrent use; a
// nil Tracer makes no spans.
type Tracer struct {
	oteltrace.TracerProvider

	sampler sdktrace.Sampler
}

// New makes a tracer. A share of its traces, from 0 to 1, reaches the exporter. The trace's id alone decides, so every
// process decides alike; the flag of a caller's trace has no effect. A span goes to the exporter when it ends:
// ExportSpans must not block.
func New(share float64, to sdktrace.SpanExporter) *Tracer {
	sampler := sdktrace.TraceIDRatioBased(share)
	return &Tracer{sampler: sampler, TracerProvider: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(ids{}), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithResource(resource.Empty()), sdktrace.WithoutPanicRecording(), sdktrace.WithSyncer(to),
	)}
}

// flagged is a span context with the sampling decision on its trace.
func (t *Tracer) flagged(at oteltrace.SpanContext) oteltrace.SpanContext {
	decided := t.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: at.TraceID()})
	return at.WithTraceFlags(oteltrace.TraceFlags(0).WithSampled(decided.Decision == sdktrace.RecordAndSample))
}

// ids makes random ids. The span of a [RequestSpan] is the exception: its ids are in the context.
type ids struct{}

type idsKey struct{}

func (ids) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	if at, ok := ctx.Value(idsKey{}).(oteltrace.SpanContext); ok {
		return at.TraceID(), at.SpanID()
	}
	var trace oteltrace.TraceID
	var span oteltrace.SpanID
	// Names, no secrets. The set bit keeps them from being zero; sampling ignores it.
	binary.BigEndian.PutUint64(trace[:8], rand.Uint64())   //nolint:gosec // see above
	binary.BigEndian.PutUint64(trace[8:], rand.Uint64()|1) //nolint:gosec // see above
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)   //nolint:gosec // see above
	return trace, span
}

func (i ids) NewSpanID(ctx context.Context, _ oteltrace.TraceID) oteltrace.SpanID {
	_, span := i.NewIDs(ctx)
	return span
}

// RequestSpan is a request's position in a trace while the request is answered. It begins in a trace of its own. It may
// move to the trace of the thing that the request makes or changes ([Root], [Join]). So [RequestSpan.Record] makes the
// span at the end. Until then the RequestSpan stands for it, as the parent of spans and as the caller of other
// programs. Its methods are safe for concurrent use; a nil RequestSpan has no span.
type RequestSpan struct {
	noop.Span

	tracer *Tracer
	began  time.Time
	from   []oteltrace.Link

	mu          sync.Mutex
	at, below   oteltrace.SpanContext
	moved, done bool
}

type requestSpanKey struct{}

// StartRequest begins a request. traceparent are the values of that header, which any client may send. A valid one
// becomes a link, so the caller's trace is found from ours. It neither names our trace nor decides on its sampling.
func (t *Tracer) StartRequest(ctx context.Context, traceparent []string) (context.Context, *RequestSpan) {
	if t == nil {
		return ctx, nil
	}
	d := &RequestSpan{tracer: t, began: time.Now()}
	if len(traceparent) == 1 {
		if from := parse(traceparent[0]); from.IsValid() {
			d.from = []oteltrace.Link{{SpanContext: from}}
		}
	}
	trace, span := ids{}.NewIDs(context.Background())
	d.at = t.flagged(oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: trace, SpanID: span}))
	return context.WithValue(oteltrace.ContextWithSpan(ctx, d), requestSpanKey{}, d), d
}

// SpanContext names the request's span. It changes when the request moves to another trace.
func (d *RequestSpan) SpanContext() oteltrace.SpanContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// TracerProvider makes the spans below the request's.
func (d *RequestSpan) TracerProvider() oteltrace.TracerProvider { return d.tracer }

// Record makes the request's span, which began when the request did. The caller sets its attributes and ends it. After
// that the request cannot move to another trace, and another Record makes none.
func (d *RequestSpan) Record(name string) oteltrace.Span {
	if d == nil {
		return none
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return none
	}
	d.done = true
	ctx := context.WithValue(context.Background(), idsKey{}, d.at)
	ctx = oteltrace.ContextWithSpanContext(ctx, d.below)
	_, span := d.tracer.Tracer(scope).Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithTimestamp(d.began), oteltrace.WithLinks(d.from...))
	return span
}

// Root makes the context's request the root of a thing's trace: the request has made the thing. It does nothing if
// there is no request, or if the request is already in another thing's trace.
func Root(ctx context.Context, id string) { move(ctx, id, true) }

// Join puts the context's request below the root of a thing's trace: the request has changed the thing. It does nothing
// if there is no request, or if the request is already in another thing's trace.
func Join(ctx context.Context, id string) { move(ctx, id, false) }

func move(ctx context.Context, id string, asRoot bool) {
	d, _ := ctx.Value(requestSpanKey{}).(*RequestSpan)
	if d == nil {
		return
	}
	root, ok := Of(id)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.moved || d.done:
		return
	case asRoot:
		d.at = d.tracer.flagged(root)
	default:
		d.at, d.below = d.tracer.flagged(root).WithSpanID(d.at.SpanID()), root
	}
	d.moved = true
}
