package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
)

// Operation describes an endpoint that takes and answers JSON.
type Operation struct {
	Method, Path string // the path begins below Base
	Level        tenant.Level
	OfRun        bool // the path has {run_id}, and the run's token may use it
	Open         bool // it answers without a key; there is no principal then, and no level
	Status       int  // of a success; 0: 200
	ID, Summary  string
	Tag          string
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
	if o.Open {
		s.open[described.Path], described.Security = true, []map[string][]string{}
	} else {
		described.Description, described.Middlewares = "Needs level `"+string(o.Level)+"`.", s.middlewares(o)
	}
	huma.Register(s.api, described, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		out, err := handle(ctx, c.Principal, in)
		if o.Level.Covers(tenant.LevelManage) && o.Method != http.MethodGet {
			if p, ok := problem.As(err); !ok || p.Kind == problem.Internal || p.Kind == problem.Unavailable {
				s.Tenants.Change(c.Principal) // also after an error of ours: what was done then is not always known
			}
		}
		if err != nil {
			return nil, s.answerFor(c, err)
		}
		return out, nil
	})
}

// Handle adds a handler to the routes that reads its request's body and writes its answer by itself; [Server.Describe]
// puts it into the document. The method may be empty: then it is called for each. It is called by who has the level, or
// by the run's token where the path has {run_id}; an error of its becomes an answer.
func (s *Server) Handle(
	method, path string, level tenant.Level, handle func(http.ResponseWriter, *http.Request, *Call) error,
) {
	ofRun := strings.Contains(path, "{run_id}")
	s.mux.HandleFunc(strings.TrimSpace(method+" "+Base+path), func(w http.ResponseWriter, r *http.Request) {
		c, err := callOf(r.Context()), error(nil)
		if ofRun {
			err = c.touch(r.PathValue("run_id"), level)
		} else {
			err = c.Principal.May(level)
		}
		if err == nil {
			err = handle(w, r, c)
		}
		if err != nil {
			s.answerFor(c, err).write(w)
		}
	})
}

// HandleOpen adds a handler outside of the API, which answers without a key.
func (s *Server) HandleOpen(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// middlewares are what stands before an operation of JSON: its level is checked before its body is read.
func (s *Server) middlewares(o Operation) huma.Middlewares {
	var before huma.Middlewares
	switch {
	case o.OfRun:
		before = s.needsRun(o.Level)
	case strings.Contains(o.Path, "{run_id}"):
		before = append(s.needs(o.Level), nameRun)
	default:
		before = s.needs(o.Level)
	}
	if o.Method == http.MethodPost || o.Method == http.MethodPatch || o.Method == http.MethodPut {
		before = append(before, s.held)
	}
	return before
}

// needs is an operation's level, checked before its body is read.
func (s *Server) needs(level tenant.Level) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		c := callOf(ctx.Context())
		if err := c.Principal.May(level); err != nil {
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
		if err := c.touch(ctx.Param("run_id"), level); err != nil {
			s.refuse(ctx, c, err)
			return
		}
		nameRun(ctx, next)
	}}
}

// touch notes the run that a request concerns, if its sender may do to that run what needs the level.
func (c *Call) touch(run string, level tenant.Level) error {
	c.Run = run
	if err := c.Principal.MayTouch(run, level); err != nil {
		return err
	}
	if !host.ValidID(run) {
		return problem.Missing("run " + run)
	}
	return nil
}

// nameRun puts the run that a request concerns into its answer's header and into the log.
func nameRun(ctx huma.Context, next func(huma.Context)) {
	if run := ctx.Param("run_id"); host.ValidID(run) {
		callOf(ctx.Context()).Run = run
		ctx.SetHeader("X-Agent-Run-Id", run)
	}
	next(ctx)
}

func (s *Server) refuse(ctx huma.Context, c *Call, err error) {
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

// held is [Server.Hold] for the framework's operations.
func (s *Server) held(ctx huma.Context, next func(huma.Context)) {
	c := callOf(ctx.Context())
	r, w := humago.Unwrap(ctx)
	if err := s.Hold(w, r, c); err != nil {
		s.refuse(ctx, c, err)
		return
	}
	next(ctx)
}
