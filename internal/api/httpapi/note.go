package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// observed counts each answer, writes a request's line in the log, and reports a slow or failed answer. Its own time is
// without the request's waits (see package waiting).
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

// slowAnswer is the own time from which on an answer is slow: clients and proxies begin to give up after a few seconds.
const slowAnswer = 3 * time.Second

// runFailed is the code of the answer that a run has failed or timed out. The service did what it was asked for.
const runFailed = "run_failed"

// isFault reports whether an answer with this status and this code is a failure of the service. Alarms, the level WARN
// and the status of spans go by it. A full disk refuses as a limit does.
func isFault(status int, code string) bool {
	return status >= http.StatusInternalServerError && code != runFailed && status != http.StatusInsufficientStorage
}

// routeOf is the path of a pattern.
func routeOf(pattern string) string { return pattern[strings.IndexByte(pattern, ' ')+1:] }

// levelOf is the level of a request's line. An operator needs what changed something and what was refused to one of the
// keys. Reads that succeed are far more, and polls most of them. Requests without a key, over a limit, or refused by a
// full disk can be any amount. Those stand in the metrics.
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
