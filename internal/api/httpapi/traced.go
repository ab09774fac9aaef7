package httpapi

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"agentplatform/internal/platform/trace"
)

// traced leaves a span of a request to the API: not of files, metrics and checks of health. No other part of the
// framework knows spans.
func (s *Server) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ofTheAPI(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, requestSpan := s.Tracer.StartRequest(r.Context(), r.Header.Values("Traceparent"))
		next.ServeHTTP(w, r.WithContext(ctx))
		if requestSpan == nil {
			return
		}
		c := callOf(ctx)
		method, route, status := methodOf(r.Method), routeOf(c.pattern), c.answer.status
		span := requestSpan.Record(strings.TrimSpace(method + " " + route))
		defer span.End()
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
			attribute.Int("http.response.status_code", status), attribute.String("agentplatform.request.id", c.id),
			trace.RunID.String(c.Run), trace.OrganizationID.String(c.Principal.Organization),
			attribute.String("agentplatform.code", c.code))
		if isFault(status, c.code) {
			trace.Fail(span, c.code)
		}
	})
}
