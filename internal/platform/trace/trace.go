// Package trace adds what this service needs to OpenTelemetry's API. Trace ids follow from a thing's id, requests can
// join such a trace late, and shared attributes have names. The spans are those of go.opentelemetry.io/otel.
//
// The trace of a run follows from its id (see [StartOf]). Every hop derives it: attempts, resumes after three days and
// attempts of a webhook. Nothing is stored, and nothing travels with a queue's message.
//
// A span finds its tracer provider by the context. Without one, nothing is made and [Start] allocates nothing. Code
// that sets many attributes checks [oteltrace.Span.IsRecording] first.
//
// Spans have ids, names, counts and codes. They never have the words of a client, a model or a tool.
package trace

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Attributes of our own that spans of several packages have.
const (
	RunID          = attribute.Key("agentplatform.run.id")
	OrganizationID = attribute.Key("agentplatform.organization.id")
)

const (
	errorType = attribute.Key("error.type")
	scope     = "agentplatform" // of every span
)

// Provider is the name of a model provider by OpenTelemetry's conventions for generative AI.
func Provider(name string) string {
	if name == "bedrock" {
		return "aws.bedrock"
	}
	return name
}

// Of is the span context of the root of a thing's trace. The id is one of package host. The trace's id is its 24 digits
// and the last 8 of them again; the root's id is its last 16 digits. A trace's id begins with the second of the thing's
// creation, as X-Ray requires. The part that decides on sampling is random. ok is false if id has another form.
func Of(id string) (root oteltrace.SpanContext, ok bool) {
	var trace oteltrace.TraceID
	if len(id) != 24 || strings.ToLower(id) != id {
		return root, false
	}
	if _, err := hex.Decode(trace[:12], []byte(id)); err != nil {
		return root, false
	}
	copy(trace[12:], trace[8:12])
	root = oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: trace, SpanID: oteltrace.SpanID(trace[4:12])})
	return root, root.IsValid()
}

// parent is the parent of spans that have no span of this process above them.
type parent struct {
	noop.Span

	at       oteltrace.SpanContext // not valid: spans below it begin traces
	provider oteltrace.TracerProvider
	silent   bool // only StartOf makes spans below it
}

func (p parent) SpanContext() oteltrace.SpanContext       { return p.at }
func (p parent) TracerProvider() oteltrace.TracerProvider { return p.provider }
func (p parent) in(ctx context.Context) context.Context   { return oteltrace.ContextWithSpan(ctx, p) }
func isSilent(s oteltrace.Span) bool                      { p, ok := s.(parent); return ok && p.silent }

// none is the span of a context without one.
var none = oteltrace.SpanFromContext(context.Background())

// With is a context in which t makes the spans. If t is nil, no spans are made.
func With(ctx context.Context, t *Tracer) context.Context {
	if t == nil {
		return ctx
	}
	return parent{provider: t}.in(ctx)
}

// Start begins a span below the span in the context. Its name is the operation, and the subject if there is one.
func Start(
	ctx context.Context, kind oteltrace.SpanKind, operation, subject string,
) (context.Context, oteltrace.Span) {
	if at := oteltrace.SpanFromContext(ctx); at == none || isSilent(at) {
		return ctx, none
	}
	return start(ctx, kind, operation, subject)
}

// StartOf is Start in the trace of a thing (see [Of]). If the context is in another trace, the span is below the root
// of the thing's trace. It then has a link to the span in the context.
func StartOf(
	ctx context.Context, id string, kind oteltrace.SpanKind, operation, subject string,
) (context.Context, oteltrace.Span) {
	at := oteltrace.SpanFromContext(ctx)
	root, ok := Of(id)
	if at == none || !ok || at.SpanContext().TraceID() == root.TraceID() {
		return Start(ctx, kind, operation, subject)
	}
	below := parent{at: root, provider: at.TracerProvider()}.in(ctx)
	if !at.SpanContext().IsValid() {
		return start(below, kind, operation, subject)
	}
	return start(below, kind, operation, subject, oteltrace.Link{SpanContext: at.SpanContext()})
}

func start(
	ctx context.Context, kind oteltrace.SpanKind, operation, subject string, links ...oteltrace.Link,
) (context.Context, oteltrace.Span) {
	name := operation
	if subject != "" {
		name += " " + subject
	}
	return oteltrace.SpanFromContext(ctx).TracerProvider().Tracer(scope).
		Start(ctx, name, oteltrace.WithSpanKind(kind), oteltrace.WithLinks(links...))
}

// Fail marks a span's work as failed, by a code of ours: an error's text may have the words of others. It does nothing
// if code is empty.
func Fail(span oteltrace.Span, code string) {
	if code != "" && span.IsRecording() {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(errorType.String(code))
	}
}
