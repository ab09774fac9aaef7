package httpapi

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"agentplatform/internal/platform/metric"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

// newMetrics registers the metrics; for nil it uses a registry that has no reader.
func newMetrics(r *prometheus.Registry) *metrics {
	in := promauto.With(cmp.Or(r, prometheus.NewRegistry()))
	return &metrics{
		requests: in.NewCounterVec(
			prometheus.CounterOpts{
				Namespace: metric.Namespace, Name: "http_requests_total",
				Help: "Requests by route, status and error code.",
			},
			[]string{"route", "status", "code"},
		),
		seconds: in.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: metric.Namespace, Name: "http_request_duration_seconds",
			Help:    "Time to answer by route.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"route"}),
		streams: in.NewGauge(prometheus.GaugeOpts{
			Namespace: metric.Namespace, Name: "http_streams_open", Help: "Open event streams.",
		}),
	}
}

// observe counts an answer.
func (m *metrics) observe(c *Call, took time.Duration) {
	pattern, status := cmp.Or(c.pattern, "none"), c.answer.status
	m.requests.WithLabelValues(pattern, strconv.Itoa(status), codeLabel(status, c.code)).Inc()
	m.seconds.WithLabelValues(pattern).Observe(took.Seconds())
}

// codeLabel is the code as a label: a code that the API documents, or "other", so that labels have a bound. It is empty
// for an answer that is not an error, also where one broke off after its head had gone out.
func codeLabel(status int, code string) string {
	switch {
	case status < http.StatusBadRequest || code == "":
		return ""
	case slices.Contains(documentedCodes(), code):
		return code
	default:
		return "other"
	}
}

// documentedCodes are the codes of errors in the OpenAPI document.
var documentedCodes = sync.OnceValue(func() []string {
	field, _ := reflect.TypeFor[errorBody]().FieldByName("Code")
	return strings.Split(field.Tag.Get("enum"), ",")
})
