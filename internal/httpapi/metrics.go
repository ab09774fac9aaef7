package httpapi

import (
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total", Help: "Requests by route and status."},
			[]string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_seconds", Help: "Time to answer by route.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
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

// operatorRoutes are for whoever runs the process, from the same machine.
func (s *Server) operatorRoutes() {
	if s.Metrics != nil {
		s.mux.Handle("GET /metrics", loopbackOnly(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})))
	}
	if s.Pprof {
		s.mux.Handle("GET /debug/pprof/", loopbackOnly(http.HandlerFunc(pprof.Index)))
		s.mux.Handle("GET /debug/pprof/profile", loopbackOnly(http.HandlerFunc(pprof.Profile)))
		s.mux.Handle("GET /debug/pprof/trace", loopbackOnly(http.HandlerFunc(pprof.Trace)))
	}
}

func loopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(address); err != nil || ip == nil || !ip.IsLoopback() {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
