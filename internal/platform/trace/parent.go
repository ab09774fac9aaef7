package trace

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// header is the name of W3C Trace Context for the span of a caller. Its state and baggage are neither read nor sent.
const header = "traceparent"

// parse reads a traceparent. For an invalid text the span context is not valid.
func parse(traceparent string) oteltrace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: traceparent})
	return oteltrace.SpanContextFromContext(ctx)
}

// Parent is the traceparent for requests that are a part of the context's span; empty if that is not sampled.
func Parent(ctx context.Context) string {
	if !oteltrace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	sent := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, sent)
	return sent[header]
}

// Under returns a context whose spans are below the span that a traceparent names. If it names none, [Start] makes no
// spans. Use it only for a traceparent that another of our programs sent with [Parent]; do not use it for values from
// clients.
func Under(ctx context.Context, traceparent string) context.Context {
	at := oteltrace.SpanFromContext(ctx)
	if at == none {
		return ctx
	}
	from := parse(traceparent)
	return parent{at: from, provider: at.TracerProvider(), silent: !from.IsValid()}.in(ctx)
}

// Outgoing adds the header traceparent to requests, unless they have one or the context's span is not sampled.
func Outgoing(next http.RoundTripper) http.RoundTripper { return outgoing{next} }

type outgoing struct{ next http.RoundTripper }

func (o outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	if p := Parent(r.Context()); p != "" && r.Header.Get(header) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(header, p)
	}
	return o.next.RoundTrip(r)
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (o outgoing) CloseIdleConnections() {
	if c, ok := o.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
