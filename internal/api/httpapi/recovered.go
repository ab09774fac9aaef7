package httpapi

import (
	"net/http"
	"runtime/debug"

	"agentplatform/internal/platform/host"
)

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
