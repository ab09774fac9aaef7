package httpapi

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/ratelimit"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/trace"
	"agentplatform/internal/waiting"
)

// Call is what is known of the request in hand.
type Call struct {
	Principal tenant.Principal // who sent it
	Run       string           // the run it concerns, for the log

	id          string
	code        string   // of the error that it was answered with
	spoken      bool     // its errors are Open Responses', too
	ifNoneMatch []string // of its header
	body        *steady  // nil: there is none
	release     func()   // gives back what its body takes of what all may; see [Server.Hold]
	hasSlot     bool     // it has a stream slot
	sharedSlot  *int     // its number among the key's slots, where processes share them
	streaming   bool     // its answer is a stream, of which a stop shortens the write deadlines
}

// ID is the request's id, which its answer has as X-Request-Id.
func (c *Call) ID() string { return c.id }

// Release gives back what the request's body takes of what all may, before the request has been answered. The body must
// not be used any more.
func (c *Call) Release() { c.release() }

type callKey struct{}

func callOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &Call{
		id: s.Host.NewID(), ifNoneMatch: r.Header.Values("If-None-Match"), release: func() {},
		spoken: strings.HasPrefix(r.URL.Path, spokenPaths),
	}
	defer func() {
		c.release()
		s.releaseSlots(r.Context(), c)
	}()
	ctx, waits := waiting.New(r.Context(), s.Host.Elapsed)
	var span *trace.Span
	if ofTheAPI(r) { // not of files, metrics and checks of health
		ctx, span = s.Tracer.Door(ctx, r.Header.Values("Traceparent"))
	}
	r = r.WithContext(context.WithValue(ctx, callKey{}, c))
	controller := http.NewResponseController(w)
	seen := &watcher{ResponseWriter: w, stall: s.Stall}
	seen.deadline = func(t time.Time) error { return s.writeBy(c, controller, t) }
	_ = seen.deadline(time.Time{}) // of the answer before, on this connection
	seen.Header().Set("X-Request-Id", c.id)
	secure(seen.Header(), r)
	body := s.steadyBody(w, r)
	c.body = body
	whole := r // its body is what steadyBody gave it, whatever handlers make of theirs
	seen.refuse = func() {
		if body != nil && !body.ended {
			hangUp(w, whole)
		}
	}
	seen.room = func(n int) (func(), error) { return s.roomFor(c, n) }
	seen.instead = func(err error) { s.answerFor(c, err).write(seen) }
	began := s.Host.Elapsed()
	pattern := s.pattern(r)
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
				panic(p)
			}
			stack := debug.Stack()
			if of, ok := p.(*host.Panic); ok { // of a goroutine of the request's
				p, stack = of.Value, of.Stack
			}
			s.Log.Error("a request panicked", "request_id", c.id, "panic", p, "stack", string(stack))
			if seen.status == 0 || seen.waits {
				seen.status, seen.waits = 0, false
				c.code = "internal"
				(&apiError{status: 500, code: c.code, message: ourFault, requestID: c.id, spoken: c.spoken}).write(seen)
			}
		}
		seen.begin()
		// What is left of the answer goes out when this returns, after a rest of the body that the server waits for.
		_ = seen.deadline(time.Now().Add(2 * s.Stall))
		took := s.Host.Elapsed() - began
		s.tellOf(r.Method, c, answered{pattern, seen.status, took, took - waits.Total()}, span)
		if body != nil && !body.ended && seen.Header().Get("Connection") == "close" {
			c.release()
			body.linger(w, r)
		}
	}()
	if s.isOpen(r) {
		hangUp(seen, r)
	} else {
		if err := s.admit(seen, r, c); err != nil {
			s.answerFor(c, err).write(seen)
			return
		}
		s.limitWaits(r, c, waits)
		r = r.WithContext(record.By(r.Context(), record.Author{
			Organization: c.Principal.Organization, UserID: c.Principal.User, APIKeyID: c.Principal.Key,
			Operation: cmp.Or(s.names[pattern], pattern), AsOperator: c.Principal.Acting,
		}))
	}
	if pattern == "" {
		s.answerFor(c, s.noRoute(seen, r)).write(seen)
		return
	}
	s.mux.ServeHTTP(seen, r)
}

// tellOf counts an answer, and notes it in the log.
func (s *Server) tellOf(method string, c *Call, a answered, span *trace.Span) {
	s.metrics.observe(a, c.code)
	s.note(method, c, a, span)
}

// secure tells browsers what an answer is not: a page to show in a frame, anything but what it says it is, or, of the
// API, to be kept. What is a page says itself what it needs.
func secure(h http.Header, r *http.Request) {
	maps.Copy(h, ofEveryAnswer)
	if ofTheAPI(r) {
		h["Cache-Control"] = noStore
	}
}

// ofEveryAnswer are headers that all answers share: whoever says otherwise sets another value.
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

// pattern is the route of a request; empty for none. A path with an empty or a relative part has none: the mux would
// answer with a redirect in HTML.
func (s *Server) pattern(r *http.Request) string {
	asked := r.URL.EscapedPath()
	if clean := path.Clean(asked); clean != asked && clean+"/" != asked {
		return ""
	}
	_, pattern := s.mux.Handler(r)
	return pattern
}

// noRoute says whether the path or only the method is unknown.
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
	return &apiError{
		status:  http.StatusMethodNotAllowed,
		code:    "method_not_allowed",
		message: r.Method + " is not possible here",
	}
}

// isOpen says whether a path answers without a key.
func (s *Server) isOpen(r *http.Request) bool {
	return !ofTheAPI(r) || s.open[r.URL.Path] // outside of the API are documents and metrics; those guard themselves
}

// admit finds who sends the request and counts it against that key, or against the address when there is none. From
// here on an operator that names an organization is an admin of that one.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *Call) error {
	p, err := s.Tenants.Authenticate(r.Context(), bearer(r))
	perMinute, burst := s.Tenants.RateOf(p)
	limit := ratelimit.Limit{PerMinute: perMinute, Burst: burst}
	if err != nil {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		return cmp.Or(s.limited(w, limit, s.guests.Take(r.Context(), address, limit, s.Host.Elapsed())), err)
	}
	c.Principal = p
	s.strangers.known(r.Context())
	err = s.limited(w, limit, s.keys.Take(r.Context(), p.Key, limit, s.Host.Elapsed()))
	if named := r.Header.Values(organizationHeader); err == nil && len(named) > 0 {
		c.Principal, err = s.Tenants.ActIn(r.Context(), p, strings.Join(named, ","))
	}
	return err
}

// organizationHeader names the organization that an operator acts in.
const organizationHeader = "X-Organization"

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// limited tells the client how far its limit is used, and is the error of a request that is over it.
func (s *Server) limited(w http.ResponseWriter, l ratelimit.Limit, state ratelimit.State) error {
	h := w.Header()
	h.Set("Ratelimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("Ratelimit-Remaining", strconv.Itoa(state.Remaining))
	h.Set("Ratelimit-Reset", strconv.Itoa(wholeSeconds(state.Reset)))
	if state.Allowed {
		return nil
	}
	p := problem.New(
		problem.Limited, "rate_limited", "more than %d requests a minute (and %d at once)", l.PerMinute, l.Burst,
	)
	p.RetryAfter = state.RetryAfter
	return p
}
