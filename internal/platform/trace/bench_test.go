package trace_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/platform/trace"
)

// BenchmarkRun has the spans of a plain run, with its attributes. It measures with traces off, with a trace that is not
// sampled, and with one that is.
func BenchmarkRun(b *testing.B) {
	discard := tracetest.NewNoopExporter()
	for name, t := range map[string]*trace.Tracer{
		"off": nil, "unsampled": trace.New(0, discard), "sampled": trace.New(1, discard),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, entry := t.StartRequest(b.Context(), nil)
				trace.Root(ctx, run)
				_, send := trace.StartOf(ctx, run, oteltrace.SpanKindProducer, "send", "run")
				send.End()
				if entry != nil {
					span := entry.Record("POST /api/v1/chat")
					span.SetAttributes(attribute.String("http.route", "/api/v1/chat"))
					span.End()
				}
				ctx = trace.With(b.Context(), t)
				ctx, attempt := trace.StartOf(ctx, run, oteltrace.SpanKindConsumer, "invoke_agent", "")
				if attempt.IsRecording() {
					attempt.SetAttributes(trace.RunID.String(run))
				}
				_, call := trace.Start(ctx, oteltrace.SpanKindClient, "chat", "m")
				if call.IsRecording() {
					call.SetAttributes(attribute.String("gen_ai.request.model", "m"),
						attribute.Int("gen_ai.usage.input_tokens", 10))
				}
				call.End()
				attempt.End()
			}
		})
	}
}
