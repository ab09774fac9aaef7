package httpapi

import (
	"net"
	"net/http"

	"agentplatform/internal/org/tenant"
)

// ForOperators lets callers on this machine in who show an operator's key. Being on this machine alone is not enough:
// behind a proxy here everybody is, and what a request says of where it comes from, anybody may write.
func (s *Server) ForOperators(h http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request, c *Call) error {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(address); err != nil || ip == nil || !ip.IsLoopback() {
			http.NotFound(w, r)
			return nil
		}
		if err := s.admit(w, r, c); err != nil {
			return err
		}
		if err := c.Principal.May(tenant.LevelOperator); err != nil {
			return err
		}
		h.ServeHTTP(w, r)
		return nil
	})
}
