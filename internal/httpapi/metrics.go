package httpapi

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentplatform/internal/tenant"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "http_requests_total", Help: "Requests by route and status."},
			[]string{"route", "status"},
		),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_seconds",
			Help:    "Time to answer by route.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"route"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "http_streams_open", Help: "Open event streams."}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.seconds, m.streams)
	}
	return m
}

func (m *metrics) observe(_, pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "none"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(pattern).Observe(took.Seconds())
}

// ForOperators lets callers on this machine in who show an operator's key. Being on this machine alone is not enough:
// behind a proxy here everybody is, and what a request says of where it comes from, anybody may write.
func (s *Server) ForOperators(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(address); err != nil || ip == nil || !ip.IsLoopback() {
			http.NotFound(w, r)
			return
		}
		c := callOf(r.Context())
		if err = s.admit(w, r, c); err == nil {
			err = c.Principal.May(tenant.LevelOperator)
		}
		if err != nil {
			s.answerFor(c, err).write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}
