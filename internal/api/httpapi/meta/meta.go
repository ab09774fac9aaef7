// Package meta is the area of the API about the service itself: whether it is up, its documentation, and, for operators
// of the process, its metrics and profiles.
//
// It must not know the purpose of the service. It imports the framework above it and no other area.
package meta

import (
	"context"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/metric"
	"agentplatform/internal/platform/version"
)

type health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version" doc:"the version of the program; dev if none was set"`
	Commit  string `json:"commit" doc:"the commit of the program; unknown if none was set"`
}

// Routes adds the area's operations to a server, with profiles of the process if profiles is true.
func Routes(s *httpapi.Server, profiles bool) {
	up := health{Status: "ok"}
	up.Version, up.Commit = version.Read()
	httpapi.Route(httpapi.Routes{Server: s, Tag: "meta"}, "GET /healthz", "health", "Check that the service is up",
		func(context.Context, tenant.Principal, *struct{}) (*httpapi.Answer[health], error) {
			return httpapi.Body(up), nil
		}, httpapi.Open)
	s.HandleOpen("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = httpapi.WriteJSON(w, http.StatusOK, up)
	}))
	docsRoutes(s)
	operatorRoutes(s, profiles)
}

// operatorRoutes are for operators of the process, from the same machine.
func operatorRoutes(s *httpapi.Server, profiles bool) {
	if s.Metrics != nil {
		metrics := promhttp.HandlerFor(metric.WithFormerNames(s.Metrics), promhttp.HandlerOpts{})
		s.HandleOpen("GET /metrics", s.ForOperators(metrics, true))
	}
	if profiles {
		for path, handle := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "trace": pprof.Trace,
		} {
			s.HandleOpen("GET /debug/pprof/"+path, s.ForOperators(handle, false))
		}
	}
}
