package httpapi

import (
	"net"
	"net/http"

	"agentplatform/internal/org/tenant"
)

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
		if err = s.gate.admit(w, r, c); err == nil {
			err = c.Principal.May(tenant.LevelOperator)
		}
		if err != nil {
			fail(s.Log, w, c, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}
