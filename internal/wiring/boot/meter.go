package boot

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/platform/metric"
	"agentplatform/internal/run/transition"
)

// runMeter counts the transitions of runs and the attempts of their webhooks.
type runMeter struct {
	transitions *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
}

func newRunMeter(r *prometheus.Registry) runMeter {
	m := runMeter{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: metric.Namespace,
			Name: "runs_entered_total", Help: "Runs that entered a status."}, []string{"status"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: metric.Namespace,
			Name: "webhook_attempts_total", Help: "Attempts to deliver a webhook, by outcome."}, []string{"delivered"}),
	}
	r.MustRegister(m.transitions, m.deliveries)
	return m
}

// transition counts a transition of a run.
func (m runMeter) transition(made transition.Move) {
	if made.After.Status != made.Before.Status {
		m.transitions.WithLabelValues(string(made.After.Status)).Inc()
	}
}

// delivered counts an attempt to deliver a webhook, by whether it succeeded.
func (m runMeter) delivered(delivered bool) {
	m.deliveries.WithLabelValues(strconv.FormatBool(delivered)).Inc()
}

// knowledgeMeter counts ingestions of documents, and searches.
type knowledgeMeter struct {
	ended    *prometheus.CounterVec
	waited   prometheus.Histogram
	searches *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newKnowledgeMeter(r *prometheus.Registry) knowledgeMeter {
	m := knowledgeMeter{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: metric.Namespace,
			Name: "ingestions_ended_total",
			Help: "Ingestions of documents that ended, by outcome; those that failed by stage and code."},
			[]string{"outcome", "stage", "code"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: metric.Namespace,
			Name:    "ingestion_wait_seconds",
			Help:    "How long documents waited for their first worker.",
			Buckets: prometheus.ExponentialBuckets(0.01, 5, 9)}),
		searches: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: metric.Namespace,
			Name: "searches_total", Help: "Searches by mode and outcome: whole, degraded, failed."},
			[]string{"mode", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: metric.Namespace,
			Name:    "search_duration_seconds",
			Help:    "How long searches took, by mode.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10)}, []string{"mode"}),
	}
	r.MustRegister(m.ended, m.waited, m.searches, m.seconds)
	return m
}

// moved counts a change of a document's ingestion.
func (m knowledgeMeter) moved(made ingest.Move) {
	if made.Before.Begun.IsZero() && !made.After.Begun.IsZero() {
		m.waited.Observe(made.After.Begun.Sub(made.After.RequestedAt).Seconds())
	}
	switch {
	case !docstate.Ended(made.Before, made.After):
	case made.Failure != nil:
		m.ended.WithLabelValues("failed", string(made.Failure.Stage), string(made.Failure.Code)).Inc()
	default:
		m.ended.WithLabelValues("ready", "", "").Inc()
	}
}

// searched counts a search, unless it was refused as invalid.
func (m knowledgeMeter) searched(f knowledge.Found, took time.Duration, err error) {
	outcome := knowledge.OutcomeOf(f, err)
	if outcome == knowledge.Refused {
		return
	}
	m.searches.WithLabelValues(string(f.Mode), string(outcome)).Inc()
	m.seconds.WithLabelValues(string(f.Mode)).Observe(took.Seconds())
}
