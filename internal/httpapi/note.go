package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/trace"
)

// answered is how a request was answered.
type answered struct {
	pattern string
	status  int
	took    time.Duration
	own     time.Duration // without what it waited for (see waiting)
}

// slowAnswer is the own time from which on an answer is slow: clients and proxies begin to give up after a few seconds.
const slowAnswer = 3 * time.Second

// runFailed is the code of the answer that a run has failed or timed out. The service did what it was asked for.
const runFailed = "run_failed"

// isFault reports whether an answer with this status and this code is a failure of the service. Alarms, the level WARN
// and the status of spans go by it.
func isFault(status int, code string) bool {
	return status >= http.StatusInternalServerError && code != runFailed
}

// note writes a request's line in the log, reports a slow or failed answer, and ends the request's span.
func (s *Server) note(asked string, c *Call, a answered, span *trace.Span) {
	method := methodOf(asked)
	route := a.pattern[strings.IndexByte(a.pattern, ' ')+1:]
	level := levelOf(asked, c, a.status)
	if a.own >= slowAnswer {
		level = max(level, slog.LevelInfo)
		if s.Slow != nil {
			s.Slow()
		}
	}
	if s.Failed != nil && isFault(a.status, c.code) {
		s.Failed()
	}
	s.Log.LogAttrs(context.Background(), level, "request",
		slog.String("request_id", c.id), slog.String("method", method), slog.String("route", route),
		slog.Int("status", a.status), slog.String("code", c.code), slog.Int64("ms", a.took.Milliseconds()),
		slog.Int64("own_ms", a.own.Milliseconds()),
		slog.String("run_id", c.Run), slog.String("organization_id", c.Principal.Organization),
		slog.String("user_id", c.Principal.User), slog.String("api_key_id", c.Principal.Key))
	if span == nil {
		return
	}
	span.Rename(strings.TrimSpace(method + " " + route))
	span.Set("http.request.method", method)
	span.Set("http.route", route)
	span.SetInt("http.response.status_code", int64(a.status))
	span.Set("agentplatform.request.id", c.id)
	span.Set(trace.RunID, c.Run)
	span.Set(trace.OrganizationID, c.Principal.Organization)
	span.Set("agentplatform.code", c.code)
	if isFault(a.status, c.code) {
		span.Fail(c.code)
	}
	span.End()
}

// levelOf is the level of a request's line. An operator needs what changed something and what was refused to one of the
// keys. Reads that succeed are far more, and polls most of them; and what has no key, or is over its limit, can be any
// amount: those stand in the metrics.
func levelOf(method string, c *Call, status int) slog.Level {
	reads := method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
	switch {
	case isFault(status, c.code):
		return slog.LevelWarn
	case c.Principal.Key == "" || status == http.StatusTooManyRequests || reads && status < http.StatusBadRequest:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// methodOf is a method as OpenTelemetry names it: a client may send any word.
func methodOf(method string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"},
		method) {
		return method
	}
	return "_OTHER"
}
