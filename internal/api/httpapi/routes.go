package httpapi

import (
	"net/http"
	"path"
	"strings"

	"agentplatform/internal/platform/problem"
)

// route hands a request to its operation.
func (s *Server) route(w http.ResponseWriter, r *http.Request, c *Call) error {
	if c.pattern == "" {
		return s.noRoute(w, r)
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// pattern is the route of a request; empty for none. A path with an empty or a relative part has none: the mux would
// answer with a redirect in HTML.
func (s *Server) pattern(r *http.Request) string {
	asked := r.URL.EscapedPath()
	if clean := path.Clean(asked); clean != asked && clean+"/" != asked {
		return ""
	}
	_, pattern := s.mux.Handler(r)
	return pattern
}

// noRoute says whether the path or only the method is unknown.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = method
		if s.pattern(other) != "" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil {
		return problem.Missing(r.URL.Path)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return ErrorOf(http.StatusMethodNotAllowed, r.Method+" is not possible here")
}
