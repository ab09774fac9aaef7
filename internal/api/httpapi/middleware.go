package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// middleware does one job for every request, around the handler behind it.
type middleware func(http.Handler) http.Handler

// entrance is the way of a request to its operation, the outermost first.
func (s *Server) entrance() http.Handler {
	return behind(s.answered(s.route),
		s.identified, // a request id, and the Call
		s.paced,      // deadlines for slow clients, and the answer
		secured,      // headers for browsers
		s.traced,     // a span
		s.observed,   // metrics and a line of the log
		s.recovered,  // panics, and an answer's head that no handler has sent
		s.slotted,    // slots of streams and of long waits, and the room of the body
		s.admitted,   // the API key and its rate limit
	)
}

// behind puts middleware before a handler.
func behind(h http.Handler, all ...middleware) http.Handler {
	for _, m := range slices.Backward(all) {
		h = m(h)
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
