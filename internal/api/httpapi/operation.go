package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"agentplatform/internal/api/apidoc"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
)

// Operation describes an endpoint that takes and answers JSON.
type Operation struct {
	Method, Path string // the path begins below Base
	Level        tenant.Level
	OfRun        bool     // the path has {run_id}, and the run's token may use it
	Open         bool     // it answers without a key; there is no principal then, and no level
	Conflicts    bool     // it may be refused with 409 though it reads
	Status       int      // of a success; 0: 200
	Needs        []string // the members that the body cannot do without, if its type does not say it
	ID, Summary  string
	Tag          string
	Or           string // the type of what the handler may write to [Writer] instead of JSON
}

// Register adds an operation to the routes and to the document, described by the types of what it takes and gives. It
// is called by who may, with a body that has been held and checked; an error of its becomes an answer.
func Register[I, O any](s *Server, o Operation, handle func(context.Context, tenant.Principal, *I) (*O, error)) {
	described := huma.Operation{
		Method: o.Method, Path: Base + o.Path, OperationID: o.ID, Summary: o.Summary, Tags: []string{o.Tag},
		DefaultStatus: o.Status, MaxBodyBytes: maxJSON + 1, BodyReadTimeout: -1, // Hold has read it
	}
	if described.DefaultStatus == 0 {
		described.DefaultStatus = http.StatusOK
	}
	reads := o.Method == http.MethodGet
	if o.Level == tenant.LevelRead {
		described.Metadata = ChangesNothing()
	}
	if o.Conflicts {
		described.Metadata = map[string]any{apidoc.Conflicts: true}
	}
	if o.Needs != nil {
		described.Metadata = map[string]any{apidoc.Needs: o.Needs}
	}
	if _, tagged := any(new(O)).(settled); tagged && reads {
		described.Parameters, described.Responses = conditional()
	}
	if o.Or != "" {
		text := &huma.Schema{Type: huma.TypeString}
		described.Responses["200"] = &huma.Response{
			Content: map[string]*huma.MediaType{"application/json": {}, o.Or: {Schema: text}},
		}
	}
	if o.Open {
		s.gate.open[described.Path], described.Security = true, []map[string][]string{}
	} else {
		described.Description, described.Middlewares = "Needs level `"+string(o.Level)+"`.", s.middlewares(o)
	}
	huma.Register(s.api, described, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		refused := false
		if o.Level.Covers(tenant.LevelManage) && !reads {
			defer func() {
				if !refused { // also after an error of ours, or a panic: what was done then is not always known
					s.Tenants.Change(c.Principal)
				}
			}()
		}
		out, err := handle(ctx, c.Principal, in)
		if p, ok := problem.As(err); ok {
			refused = p.Kind != problem.Internal && p.Kind != problem.Unavailable
		}
		if a, is := any(out).(settled); is && out != nil && err == nil {
			err = a.settle(described.DefaultStatus, reads, c.ifNoneMatch)
		}
		if err != nil {
			return nil, answerFor(s.Log, c, err)
		}
		return out, nil
	})
	if o.Or != "" {
		described.Responses["200"].Headers["ETag"].Description = "of JSON"
	}
}

// Writer is where the answer to the request of a context goes, for a handler that has written it when it returns nil.
func Writer(ctx context.Context) http.ResponseWriter { return callOf(ctx).answer }

// settled is an [Answer] of any type.
type settled interface {
	settle(status int, reads bool, ifNoneMatch []string) error
}

// conditional is what the document says of every read: it may be repeated at the price of a few bytes.
func conditional() ([]*huma.Param, map[string]*huma.Response) {
	text := &huma.Schema{Type: huma.TypeString}
	return []*huma.Param{{
			Name: "If-None-Match", In: "header", Schema: text,
			Description: "ETags of answers that the client has: one of them is answered with 304 and no body",
		}}, map[string]*huma.Response{"304": {
			Description: "The client has it already", Headers: map[string]*huma.Param{"ETag": {Schema: text}},
		}}
}

// Handle adds a handler to the routes that reads its request's body and writes its answer by itself; [Server.Describe]
// puts it into the document. The method may be empty: then it is called for each. It is called by who has the level; an
// error of its becomes an answer.
func (s *Server) Handle(method, path string, level tenant.Level, handle Handler) {
	s.handle(method, path, level, false, handle)
}

// HandleRun is Handle for what is done to one run, {run_id} in the path: the run's token may use it, too.
func (s *Server) HandleRun(method, path string, level tenant.Level, handle Handler) {
	s.handle(method, path, level, true, handle)
}

// Handler reads a request's body and writes its answer by itself.
type Handler func(http.ResponseWriter, *http.Request, *Call) error

func (s *Server) handle(method, path string, level tenant.Level, ofRun bool, handle Handler) {
	s.mux.HandleFunc(strings.TrimSpace(method+" "+Base+path), func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		err := c.may(level, ofRun, r.PathValue("run_id"))
		if err == nil {
			err = handle(w, r, c)
		}
		if err != nil {
			fail(s.Log, w, c, err)
		}
	})
}

// HandleOpen adds a handler outside of the API, which answers without a key.
func (s *Server) HandleOpen(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// middlewares are what stands before an operation of JSON: its level is checked before its body is read.
func (s *Server) middlewares(o Operation) huma.Middlewares {
	before := huma.Middlewares{s.needs(o)}
	if o.Method == http.MethodPost || o.Method == http.MethodPatch || o.Method == http.MethodPut {
		before = append(before, s.held)
	}
	return before
}

// needs lets those through who may call an operation, and puts the run that it concerns, if it does one, into the
// answer's header and into the log.
func (s *Server) needs(o Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c, run := callOf(ctx.Context()), ctx.Param("run_id")
		if err := c.may(o.Level, o.OfRun, run); err != nil {
			_, w := humago.Unwrap(ctx)
			fail(s.Log, w, c, err)
			return
		}
		if host.ValidID(run) {
			c.Run = run
			ctx.SetHeader("X-Agent-Run-Id", run)
		}
		next(ctx)
	}
}

// may is nil when the call's sender has the level, or, for what is done to one run, the run's token.
func (c *Call) may(level tenant.Level, ofRun bool, run string) error {
	if !ofRun {
		return c.Principal.May(level)
	}
	c.Run = run
	if err := c.Principal.MayTouch(run, level); err != nil {
		return err
	}
	if !host.ValidID(run) {
		return problem.Missing("run " + run)
	}
	return nil
}

// held is [Server.Hold] for the framework's operations.
func (s *Server) held(ctx huma.Context, next func(huma.Context)) {
	c := callOf(ctx.Context())
	r, w := humago.Unwrap(ctx)
	if err := s.Hold(w, r, c); err != nil {
		fail(s.Log, w, c, err)
		return
	}
	next(ctx)
}
