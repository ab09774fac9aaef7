// Package metric names the Prometheus metrics of the service, now and in earlier versions. It must not know what a
// metric counts.
package metric

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Namespace begins the name of each metric.
const Namespace = "agentplatform"

// former are the names before the first release, by the names of today. The release after it no longer has them.
var former = map[string]string{
	Namespace + "_http_request_duration_seconds": "http_request_seconds",
	Namespace + "_http_requests_total":           "http_requests_total",
	Namespace + "_http_streams_open":             "http_streams_open",
	Namespace + "_ingestion_wait_seconds":        "ingestion_wait_seconds",
	Namespace + "_ingestions_ended_total":        "ingestions_ended_total",
	Namespace + "_runs_entered_total":            "runs_entered_total",
	Namespace + "_search_duration_seconds":       "search_seconds",
	Namespace + "_searches_total":                "searches_total",
	Namespace + "_trace_spans_dropped_total":     "trace_spans_dropped_total",
	Namespace + "_webhook_attempts_total":        "webhook_tries_total",
}

// WithFormerNames adds the metrics that had another name in an earlier version a second time, with that name.
func WithFormerNames(all prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		for _, family := range families {
			name, renamed := former[family.GetName()]
			if !renamed {
				continue
			}
			help := "Deprecated: use " + family.GetName() + "."
			families = append(families, &dto.MetricFamily{
				Name: &name, Help: &help, Type: family.Type, Unit: family.Unit, Metric: family.Metric,
			})
		}
		slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return families, err
	})
}
