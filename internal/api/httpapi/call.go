package httpapi

import (
	"context"
	"net/http"
	"strings"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/platform/waiting"
)

// Call has the server's data of the present request.
type Call struct {
	Principal tenant.Principal // the sender
	Run       string           // the run it concerns, for the log

	id          string
	pattern     string // its route; empty: none
	waits       *waiting.Clock
	code        string   // of the error that it was answered with
	spoken      bool     // its errors are Open Responses', too
	ifNoneMatch []string // of its header
	keys        []string // idempotency keys of its header
	answer      *answer
	body        *steady      // nil: there is none
	release     func()       // frees the room of its body; see [Server.Hold]
	slot        *share.Part  // its stream slot; nil: none
	giveWait    func()       // releases the slot of its wait, if it has one
	shared      []sharedSlot // that it has, where processes share them
	streaming   bool         // its answer is a stream, of which a stop shortens the write deadlines
	broken      bool         // its handler panicked after the answer had begun
}

// ID is the request's id, which its answer has as X-Request-Id.
func (c *Call) ID() string { return c.id }

// Release frees the room of the request's body before the request has been answered. The body must not be used any
// more.
func (c *Call) Release() { c.release() }

type callKey struct{}

func callOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// identified puts a Call into the context of a request: its id, its route and the clock of its waits.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, waits := waiting.New(r.Context(), s.Host.Elapsed)
		c := &Call{
			id: s.Host.NewID(), pattern: s.pattern(r), waits: waits, ifNoneMatch: r.Header.Values("If-None-Match"),
			keys:   r.Header.Values(IdempotencyKey),
			spoken: strings.HasPrefix(r.URL.Path, spokenPaths), release: func() {},
			giveWait: func() {},
		}
		w.Header().Set("X-Request-Id", c.id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callKey{}, c)))
		if c.broken && r.Context().Value(http.ServerContextKey) != nil {
			panic(http.ErrAbortHandler) // net/http cuts the connection, so the client sees that the answer is not whole
		}
	})
}
