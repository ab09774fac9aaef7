package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/ratelimit"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// call is what the edge knows of the request in hand.
type call struct {
	id        string
	principal tenant.Principal
	run       string // the run it concerns, for the log
	release   func() // gives back what its body takes of what all may; see hold
	seated    bool   // it has taken a place for a stream
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{id: s.Host.NewID(), release: func() {}}
	defer func() {
		c.release()
		s.unseat(c)
	}()
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	seen := &watcher{ResponseWriter: w, stall: s.Stall, deadline: http.NewResponseController(w).SetWriteDeadline}
	_ = seen.deadline(time.Time{}) // of the answer before, on this connection
	seen.Header().Set("X-Request-Id", c.id)
	secure(seen.Header(), r)
	body := s.steadyBody(w, r)
	whole := r // its body is what the door gave it, whatever handlers make of theirs
	seen.refuse = func() {
		if body != nil && !body.ended {
			hangUp(w, whole)
		}
	}
	seen.room = func(n int) (func(), bool) { return s.roomFor(c, n) }
	seen.instead = func() { s.tellFull(c, seen) }
	began := s.Host.Elapsed()
	pattern := s.pattern(r)
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
				panic(p)
			}
			s.Log.Error("a request panicked", "request_id", c.id, "panic", p, "stack", string(debug.Stack()))
			if seen.status == 0 || seen.waits {
				seen.status, seen.waits = 0, false
				(&apiError{status: 500, code: "internal", message: "something went wrong on our side", requestID: c.id}).write(seen)
			}
		}
		seen.begin()
		// What is left of the answer goes out when this returns, after a rest of the body that the server waits for.
		_ = seen.deadline(time.Now().Add(2 * s.Stall))
		took := s.Host.Elapsed() - began
		s.metrics.observe(r.Method, pattern, seen.status, took)
		s.Log.Debug("request", "request_id", c.id, "run_id", c.run, "method", r.Method, "route", pattern, "status", seen.status,
			"ms", took.Milliseconds(), "api_key_id", c.principal.Key.ID)
		if body != nil && !body.ended && seen.Header().Get("Connection") == "close" {
			c.release()
			body.linger(w, r)
		}
	}()
	if !isOpen(r) {
		if err := s.admit(seen, r, c); err != nil {
			s.answerFor(c, err).write(seen)
			return
		}
		r = r.WithContext(record.By(r.Context(), record.Author{
			Organization: c.principal.Organization.ID, UserID: c.principal.User.ID, APIKeyID: c.principal.Key.ID, Operation: cmp.Or(s.names[pattern], pattern),
		}))
	}
	if isOpen(r) {
		hangUp(seen, r)
	}
	if pattern == "" {
		s.answerFor(c, s.noRoute(seen, r)).write(seen)
		return
	}
	s.mux.ServeHTTP(seen, r)
}

// secure tells browsers what an answer is not: a page to show in a frame, anything but what it says it is, or, of the API, to
// be kept. What is a page says itself what it needs.
func secure(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if ofTheAPI(r) {
		h.Set("Cache-Control", "no-store")
	}
}

func ofTheAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, Base+"/") || r.URL.Path == Base
}

func (s *Server) pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// noRoute says whether the path or only the method is unknown.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
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
	return &apiError{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: r.Method + " is not possible here"}
}

// isOpen says whether a path answers without a key.
func isOpen(r *http.Request) bool {
	if !ofTheAPI(r) {
		return true // documents, metrics; they guard themselves
	}
	switch r.URL.Path {
	case Base + "/healthz", Base + "/openapi.json", Base + "/openapi.yaml":
		return true
	}
	return false
}

// admit finds who sends the request and counts it against that key, or against the address when there is none.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *call) error {
	p, err := s.Tenants.Authenticate(r.Context(), bearer(r))
	if err != nil {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		perMinute, burst := s.Tenants.Rate(p.Organization)
		if limited := s.limit(w, "address "+address, ratelimit.Limit{PerMinute: perMinute, Burst: burst}); limited != nil {
			return limited
		}
		return err
	}
	c.principal = p
	s.strangers.known(r.Context())
	perMinute, burst := s.Tenants.Rate(p.Organization)
	return s.limit(w, "key "+p.Key.ID, ratelimit.Limit{PerMinute: perMinute, Burst: burst})
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (s *Server) limit(w http.ResponseWriter, key string, l ratelimit.Limit) error {
	state := s.limiter.Take(key, l, s.Host.Elapsed())
	h := w.Header()
	h.Set("Ratelimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("Ratelimit-Remaining", strconv.Itoa(state.Remaining))
	h.Set("Ratelimit-Reset", strconv.Itoa(wholeSeconds(state.Reset)))
	if state.Allowed {
		return nil
	}
	p := problem.New(problem.Limited, "rate_limited", "more than %d requests a minute (and %d at once)", l.PerMinute, l.Burst)
	p.RetryAfter = state.RetryAfter
	return p
}

// watcher remembers the status that was answered, and gives the client its time to take each piece of the answer.
type watcher struct {
	http.ResponseWriter
	refuse   func() // is called before a refusal goes out
	room     func(n int) (give func(), there bool)
	instead  func() // writes that there is no room
	status   int
	waits    bool // the head has not gone out yet: it does with the first bytes
	full     bool // there was no room for the answer
	stall    time.Duration
	deadline func(time.Time) error // not every writer has one
}

func (w *watcher) WriteHeader(status int) {
	if w.status >= 200 {
		return // it has been answered, and the answer broke off
	}
	if status < 200 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status, w.waits = status, true
}

// begin sends the head of the answer, once.
func (w *watcher) begin() {
	if w.status < 200 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.waits {
		return
	}
	if w.waits = false; w.status >= 400 {
		w.refuse()
	}
	_ = w.deadline(time.Now().Add(w.stall))
	w.ResponseWriter.WriteHeader(w.status)
}

// roomFor takes room for a piece of an answer.
func (s *Server) roomFor(c *call, n int) (give func(), there bool) {
	organization, size := c.principal.Organization.ID, int64(n)
	return func() { s.answers.give(organization, size) }, s.answers.take(organization, size)
}

func (s *Server) tellFull(c *call, w http.ResponseWriter) {
	full := problem.New(problem.Unavailable, "unavailable", "%s; try again", errFull)
	full.RetryAfter = time.Second
	s.answerFor(c, full).write(w)
}

// FlushError sends what there is.
func (w *watcher) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// pieceSize is how much of an answer a client must take within its time.
const pieceSize = 256 << 10

var errFull = errors.New("too many large answers are under way at once")

func (w *watcher) Write(b []byte) (n int, err error) {
	if w.full {
		return 0, errFull
	}
	if len(b) >= pieceSize { // it is held until the client has taken it
		give, there := w.room(len(b))
		if !there {
			return 0, w.giveUp()
		}
		defer give()
	}
	w.begin()
	for first := true; err == nil && (first || len(b) > 0); first = false {
		piece := b[:min(len(b), pieceSize)]
		b = b[len(piece):]
		_ = w.deadline(time.Now().Add(w.stall))
		var taken int
		taken, err = w.ResponseWriter.Write(piece)
		n += taken
	}
	return n, err
}

// giveUp ends an answer for which there is no room; where nothing of it has gone out, the client is told so instead.
func (w *watcher) giveUp() error {
	if w.waits || w.status < 200 {
		w.status, w.waits = 0, false
		for _, name := range []string{"Content-Length", "Content-Disposition", "Etag"} {
			w.Header().Del(name)
		}
		w.instead()
	}
	w.full = true
	return errFull
}

// Unwrap lets http.ResponseController through.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// needs is an operation's level, checked before its body is read.
func (s *Server) needs(level tenant.Level) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		c := callOf(ctx.Context())
		if err := c.principal.May(level); err != nil {
			s.refuse(ctx, c, err)
			return
		}
		next(ctx)
	}}
}

// needsRun is needs for what a run token may do to its own run.
func (s *Server) needsRun(level tenant.Level) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		c := callOf(ctx.Context())
		c.run = ctx.Param("run_id")
		if err := c.principal.MayTouch(c.run, level); err != nil {
			s.refuse(ctx, c, err)
			return
		}
		if !host.ValidID(c.run) {
			s.refuse(ctx, c, problem.Missing("run "+c.run))
			return
		}
		nameRun(ctx, next)
	}}
}

// nameRun puts the run that a request concerns into its answer's header and into the log.
func nameRun(ctx huma.Context, next func(huma.Context)) {
	if run := ctx.Param("run_id"); host.ValidID(run) {
		callOf(ctx.Context()).run = run
		ctx.SetHeader("X-Agent-Run-Id", run)
	}
	next(ctx)
}

func (s *Server) refuse(ctx huma.Context, c *call, err error) {
	a := s.answerFor(c, err)
	for k, values := range a.GetHeaders() {
		for _, v := range values {
			ctx.SetHeader(k, v)
		}
	}
	ctx.SetHeader("Content-Type", "application/json")
	ctx.SetStatus(a.status)
	body, _ := a.MarshalJSON()
	_, _ = ctx.BodyWriter().Write(append(body, '\n'))
}

// held is [Server.hold] for the framework's operations.
func (s *Server) held(ctx huma.Context, next func(huma.Context)) {
	c := callOf(ctx.Context())
	r, w := humago.Unwrap(ctx)
	if err := s.hold(w, r, c); err != nil {
		s.refuse(ctx, c, err)
		return
	}
	next(ctx)
}

// operation describes a JSON endpoint; register adds it with its level and turns its errors into answers.
type operation struct {
	method, path string
	level        tenant.Level
	ofRun        bool // the path has {run_id}, and the run's token may use it
	status       int
	id, summary  string
	tag          string
	errors       []int
}

func register[I, O any](s *Server, o operation, handle func(context.Context, tenant.Principal, *I) (*O, error)) {
	level := s.needs(o.level)
	switch {
	case o.ofRun:
		level = s.needsRun(o.level)
	case strings.Contains(o.path, "{run_id}"):
		level = append(level, nameRun)
	}
	if o.method == http.MethodPost || o.method == http.MethodPatch || o.method == http.MethodPut {
		level = append(level, s.held)
	}
	if o.status == 0 {
		o.status = http.StatusOK
	}
	huma.Register(s.api, huma.Operation{
		Method: o.method, Path: Base + o.path, OperationID: o.id, Summary: o.summary, Tags: []string{o.tag},
		Description: "Needs level `" + string(o.level) + "`.", DefaultStatus: o.status, Middlewares: level,
		MaxBodyBytes: maxJSON + 1, BodyReadTimeout: -1, Errors: o.errors, // the door has read it
	}, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		out, err := handle(ctx, c.principal, in)
		if o.level.Covers(tenant.LevelManage) && o.method != http.MethodGet {
			if p, ok := problem.As(err); !ok || p.Kind == problem.Internal || p.Kind == problem.Unavailable {
				s.Tenants.Change(c.principal) // also after an error of ours: what was done then is not always known
			}
		}
		if err != nil {
			return nil, s.answerFor(c, err)
		}
		return out, nil
	})
}
