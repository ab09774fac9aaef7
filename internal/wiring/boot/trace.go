package boot

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"agentplatform/internal/platform/metric"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/trace/otlp"
	"agentplatform/internal/platform/version"
)

// trace makes the tracer and its exporter, if the setting for the endpoint is set.
func (l *Local) trace(registry *prometheus.Registry) (err error) {
	s := l.Settings
	if s.OTLPEndpoint == "" {
		return nil
	}
	built, _ := version.Read()
	l.traces, err = otlp.New(otlp.Options{
		Endpoint: s.OTLPEndpoint, Headers: s.OTLPHeaders, Log: l.log, Now: time.Now,
		Resource: []attribute.KeyValue{
			attribute.String("service.name", "agent-platform"), attribute.String("service.version", built),
		},
	})
	if err != nil {
		return err
	}
	l.tracer = trace.New(s.TraceShare, l.traces)
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: metric.Namespace,
		Name: "trace_spans_dropped_total", Help: "Spans that found no place or that the receiver refused."},
		func() float64 { return float64(l.traces.Dropped()) }))
	return nil
}

// lastTraces sends the remaining traces at a stop, in two seconds at most and within the ten of the stop.
func (l *Local) lastTraces(began time.Time) {
	left := min(2*time.Second, workTime+300*time.Millisecond-time.Since(began))
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	l.traces.Flush(ctx)
}
