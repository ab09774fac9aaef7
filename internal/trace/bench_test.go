package trace_test

import (
	"testing"
	"time"

	"agentplatform/internal/trace"
)

// BenchmarkRun has the spans of a plain run, with its attributes: where traces are off, of a trace that is not sampled,
// and of one that is.
func BenchmarkRun(b *testing.B) {
	discard := func(trace.Ended) {}
	for name, t := range map[string]*trace.Tracer{
		"off": nil, "unsampled": trace.New(0, time.Now, discard), "sampled": trace.New(1, time.Now, discard),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, door := t.Door(b.Context(), nil)
				trace.Root(ctx, run)
				_, send := trace.StartOf(ctx, run, trace.Producer, "send", "run")
				send.End()
				door.Set("http.route", "/api/v1/chat")
				door.End()
				ctx, attempt := trace.StartOf(trace.With(b.Context(), t), run, trace.Consumer, "invoke_agent", "")
				attempt.Set(trace.RunID, run)
				_, call := trace.Start(ctx, trace.Client, "chat", "m")
				call.Set("gen_ai.request.model", "m")
				call.SetInt("gen_ai.usage.input_tokens", 10)
				call.End()
				attempt.End()
			}
		})
	}
}
