package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// observed counts each answer, writes a request's line in the log, and reports a slow or failed answer. The time of an
// answer does not include the request's waits (see package waiting).
func (s *Server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, began := callOf(r.Context()), s.Host.Elapsed()
		next.ServeHTTP(w, r)
		took := s.Host.Elapsed() - began
		own := took - c.waits.Total()
		s.metrics.observe(c, took)
		status := c.answer.status
		level := levelOf(r.Method, c, status)
		if own >= slowAnswer {
			level = max(level, slog.LevelInfo)
			if s.Slow != nil {
				s.Slow()
			}
		}
		if s.Failed != nil && isFault(status, c.code) {
			s.Failed()
		}
		s.Log.LogAttrs(context.Background(), level, "request",
			slog.String("request_id", c.id), slog.String("method", methodOf(r.Method)),
			slog.String("route", routeOf(c.pattern)), slog.Int("status", status), slog.String("code", c.code),
			slog.Int64("ms", took.Milliseconds()), slog.Int64("own_ms", own.Milliseconds()),
			slog.String("run_id", c.Run), slog.String("organization_id", c.Principal.Organization),
			slog.String("user_id", c.Principal.User), slog.String("api_key_id", c.Principal.Key))
	})
}

// slowAnswer is the service's own time after which an answer is slow: clients and proxies begin to give up after a few
// seconds.
const slowAnswer = 3 * time.Second

// runFailed is the code of the answer for a run that has failed or timed out. The service itself did not fail.
const runFailed = "run_failed"

// isFault reports whether an answer with this status and this code is a failure of the service. Alarms, the level WARN
// and the status of spans depend on it. A full disk is not a failure: it refuses like a limit.
func isFault(status int, code string) bool {
	return status >= http.StatusInternalServerError && code != runFailed && status != http.StatusInsufficientStorage
}

// routeOf is the path of a pattern.
func routeOf(pattern string) string { return pattern[strings.IndexByte(pattern, ' ')+1:] }

// levelOf is the level of a request's line. An operator needs changes, and refusals to a key. There are far more
// successful reads, and polls are most of them. The number of requests without a key, over a limit, or refused by a
// full disk has no bound. The metrics have those.
func levelOf(method string, c *Call, status int) slog.Level {
	reads := method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
	switch {
	case isFault(status, c.code):
		return slog.LevelWarn
	case c.Principal.Key == "" || status == http.StatusTooManyRequests || status == http.StatusInsufficientStorage,
		reads && status < http.StatusBadRequest:
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
