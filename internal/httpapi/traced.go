package httpapi

import (
	"net/http"
	"strings"

	"agentplatform/internal/trace"
)

// traced leaves a span of a request to the API: not of files, metrics and checks of health. No other part of the
// framework knows spans.
func (s *Server) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ofTheAPI(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, span := s.Tracer.Door(r.Context(), r.Header.Values("Traceparent"))
		next.ServeHTTP(w, r.WithContext(ctx))
		if span == nil {
			return
		}
		c := callOf(ctx)
		method, route, status := methodOf(r.Method), routeOf(c.pattern), c.answer.status
		span.Rename(strings.TrimSpace(method + " " + route))
		span.Set("http.request.method", method)
		span.Set("http.route", route)
		span.SetInt("http.response.status_code", int64(status))
		span.Set("agentplatform.request.id", c.id)
		span.Set(trace.RunID, c.Run)
		span.Set(trace.OrganizationID, c.Principal.Organization)
		span.Set("agentplatform.code", c.code)
		if isFault(status, c.code) {
			span.Fail(c.code)
		}
		span.End()
	})
}
