package meta

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentplatform/internal/api/httpapi"
)

// operatorRoutes are for whoever runs the process, from the same machine.
func operatorRoutes(s *httpapi.Server, profiles bool) {
	if s.Metrics != nil {
		s.HandleOpen("GET /metrics", s.ForOperators(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})))
	}
	if profiles {
		s.HandleOpen("GET /debug/pprof/", s.ForOperators(http.HandlerFunc(pprof.Index)))
		s.HandleOpen("GET /debug/pprof/cmdline", s.ForOperators(http.HandlerFunc(pprof.Cmdline)))
		s.HandleOpen("GET /debug/pprof/profile", s.ForOperators(http.HandlerFunc(pprof.Profile)))
		s.HandleOpen("GET /debug/pprof/trace", s.ForOperators(http.HandlerFunc(pprof.Trace)))
	}
}
