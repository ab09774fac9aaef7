package httpapi

import (
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
)

// entrance is the path of a request to its operation: a list of middleware, each with one job, the outermost first.
func (s *Server) entrance() http.Handler {
	h := s.answered(s.route)
	for _, behind := range slices.Backward([]func(http.Handler) http.Handler{
		s.identified, // a request id, and the Call
		s.paced,      // deadlines for slow clients, and the answer
		secured,      // headers for browsers
		s.traced,     // a span
		s.observed,   // metrics and a line of the log
		s.recovered,  // panics, and an answer's head that no handler has sent
		s.slotted,    // slots of streams and of long waits, and the room of the body
		s.admitted,   // the API key and its rate limit
	}) {
		h = behind(h)
	}
	return h
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.entered.ServeHTTP(w, r) }

// secured sets headers that restrict what browsers do with an answer. A page sets its own values.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), ofEveryAnswer)
		if ofTheAPI(r) {
			w.Header()["Cache-Control"] = noStore
		}
		next.ServeHTTP(w, r)
	})
}

// ofEveryAnswer are headers that all answers share.
var ofEveryAnswer = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"Referrer-Policy":         {"no-referrer"},
	"X-Frame-Options":         {"DENY"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

var noStore = []string{"no-store"}

func ofTheAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, Base+"/") || r.URL.Path == Base
}

// recovered sends the head of an answer that its handler has not sent. It logs a panic of a handler, and answers 500
// where no answer has begun. An answer that has begun is cut.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		defer func() {
			p := recover()
			if p == nil {
				c.answer.send()
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
				panic(p)
			}
			if c.answer.refused { // the library panics where an answer has no room
				return
			}
			stack := debug.Stack()
			if of, ok := p.(*host.Panic); ok { // of a goroutine of the request's
				p, stack = of.Value, of.Stack
			}
			s.Log.Error("a request panicked", "request_id", c.id, "run_id", c.Run, "panic", p, "stack", string(stack))
			if c.answer.retract() {
				fail(s.Log, w, c, ours(nil))
				return
			}
			c.broken = true
		}()
		next.ServeHTTP(w, r)
	})
}

// route hands a request to its operation.
func (s *Server) route(w http.ResponseWriter, r *http.Request, c *Call) error {
	if c.pattern == "" {
		return s.noRoute(w, r)
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// pattern is the route of a request; empty for none. A path with an empty or a relative part has none: the mux would
// answer it with a redirect in HTML.
func (s *Server) pattern(r *http.Request) string {
	escaped := r.URL.EscapedPath()
	if clean := path.Clean(escaped); clean != escaped && clean+"/" != escaped {
		return ""
	}
	_, pattern := s.mux.Handler(r)
	return pattern
}

// noRoute returns an error for an unknown path, or for an unknown method of a known path.
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
	return ErrorOf(http.StatusMethodNotAllowed, r.Method+" is not allowed here")
}
