package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"agentplatform/internal/api/apidoc"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
)

// Operation is an endpoint that takes and answers JSON.
type Operation struct {
	huma.Operation

	Level tenant.Level
	OfRun bool // the path has {run_id}, and the run's token may use it
	Open  bool // it answers without a key; there is no principal then, and no level

	members Members // of its body
}

// Routes has the common settings of the operations on a kind of resource.
type Routes struct {
	*Server

	Tag         string
	What        string       // the kind in words, for a path whose id is not an identifier
	Read, Write tenant.Level // of GET, and of the other methods
}

// Route adds an operation like "GET /groups/{id}" to the routes and to the document, described by the types of its
// input and output. The path begins below [Base]. DELETE answers 204, unless more changes that. handle is called for
// callers with the level, with a body that has been held and checked; an error of handle becomes an answer. A path
// whose id is not an identifier answers 404, before handle is called. Route panics for an operation without a level.
func Route[I, O any](
	r Routes, at, id, summary string, handle func(context.Context, tenant.Principal, *I) (*O, error),
	more ...func(*Operation),
) {
	_, tagged := any(new(O)).(settled)
	o := r.operation(at, id, summary, tagged, more)
	o.members = o.membersOfBody(reflect.TypeFor[I](), reflect.TypeFor[O]())
	reads := o.Method == http.MethodGet
	huma.Register(entry{r.api, r.Server, o}, o.Operation, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		refused := false
		if o.Level.Covers(tenant.LevelManage) && !reads {
			defer func() {
				if !refused { // also after an error of ours, or a panic: the change may have been made
					r.Tenants.Change(c.Principal)
				}
			}()
		}
		var out *O
		var err error
		if named, is := any(in).(interface{ Check(what string) error }); is {
			err = named.Check(r.What)
		}
		if err == nil {
			out, err = handle(ctx, c.Principal, in)
		}
		if p, ok := problem.As(err); ok {
			refused = p.Kind != problem.Internal && p.Kind != problem.Unavailable
		}
		if a, is := any(out).(settled); is && out != nil && err == nil {
			err = a.settle(o.DefaultStatus, reads, c.ifNoneMatch)
		}
		if err != nil {
			return nil, answerFor(r.Log, c, err)
		}
		return out, nil
	})
	if ok := o.Responses["200"]; ok != nil && len(ok.Content) > 1 {
		ok.Headers["ETag"].Description = "of JSON"
	}
}

// operation is the operation as the document has it, without its types. tagged reports that its answers have an ETag.
func (r Routes) operation(at, id, summary string, tagged bool, more []func(*Operation)) *Operation {
	method, path, _ := strings.Cut(at, " ")
	o := &Operation{Level: r.Write, Operation: huma.Operation{
		Method: method, Path: Base + path, OperationID: id, Summary: summary, Tags: []string{r.Tag},
		DefaultStatus: http.StatusOK, MaxBodyBytes: maxJSON + 1, BodyReadTimeout: -1, // ReadBody has read it
	}}
	switch method {
	case http.MethodDelete:
		o.DefaultStatus = http.StatusNoContent
	case http.MethodGet:
		o.Level = r.Read
		if tagged {
			o.Operation = Conditional(o.Operation)
		}
	}
	for _, change := range more {
		change(o)
	}
	switch {
	case o.Open:
		r.open[o.Path], o.Security = true, []map[string][]string{}
	case o.Level == "":
		panic("httpapi: " + at + " has no level")
	default:
		o.Description = "Needs level `" + string(o.Level) + "`."
	}
	if o.Level == tenant.LevelRead && o.Metadata == nil {
		o.Metadata = ChangesNothing()
	}
	return o
}

// Created has an operation answer 201.
func Created(o *Operation) { o.DefaultStatus = http.StatusCreated }

// Accepted has an operation answer 202.
func Accepted(o *Operation) { o.DefaultStatus = http.StatusAccepted }

// OfRun admits the run's token to an operation whose path has {run_id}.
func OfRun(o *Operation) { o.OfRun = true }

// Open has an operation answer without a key.
func Open(o *Operation) { o.Open = true }

// Or adds to the document that a read may answer with a type other than JSON, which its handler writes to [Writer].
func Or(contentType string) func(*Operation) {
	return func(o *Operation) {
		text := &huma.Schema{Type: huma.TypeString}
		o.Responses["200"] = &huma.Response{
			Content: map[string]*huma.MediaType{"application/json": {}, contentType: {Schema: text}},
		}
	}
}

// Conflicts adds to the document that a reading operation may answer 409.
func Conflicts(o *Operation) { o.Metadata = map[string]any{apidoc.Conflicts: true} }

// Stores marks a reading operation in the document that also stores data, so it may answer 507.
func Stores(o *Operation) { o.Metadata = map[string]any{apidoc.Stores: true} }

// Needs adds to the document the members that the body must have, where its type does not require them.
func Needs(members ...string) func(*Operation) {
	return func(o *Operation) { o.Metadata = map[string]any{apidoc.Needs: members} }
}

// Writer returns the writer of the answer to the request of a context, for a handler that writes the answer itself.
// Such a handler has written it when it returns nil.
func Writer(ctx context.Context) http.ResponseWriter { return callOf(ctx).answer }

// entry is the library's API while one operation is added to it. The operation is called as in [Server.Handle], with a
// body that has been held.
type entry struct {
	huma.API

	server *Server
	of     *Operation
}

func (e entry) Adapter() huma.Adapter { return e }

func (e entry) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.server.mux.ServeHTTP(w, r) }

func (e entry) Handle(o *huma.Operation, answer func(huma.Context)) {
	if o.RequestBody != nil { // the library adds bytes to every input that asks for the body as it came
		delete(o.RequestBody.Content, "application/octet-stream")
	}
	handle := func(w http.ResponseWriter, r *http.Request, c *Call) (err error) {
		switch o.Method {
		case http.MethodPost, http.MethodPatch, http.MethodPut:
			var body []byte
			if body, err = e.server.ReadBody(w, r, c); err == nil {
				err = e.of.members.Check("body", body)
			}
		}
		if err == nil {
			answer(humago.NewContext(o, r, w))
		}
		return err
	}
	e.server.handle(o.Method, o.Path, e.of.Level, e.of.OfRun, handle)
}

// settled is an [Answer] of any type.
type settled interface {
	settle(status int, reads bool, ifNoneMatch []string) error
}

// Handler reads a request's body and writes its answer by itself.
type Handler func(http.ResponseWriter, *http.Request, *Call) error

// answered makes the error of a handler the answer.
func (s *Server) answered(handle Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if err := handle(w, r, c); err != nil {
			fail(s.Log, w, c, err)
		}
	})
}

// Handle adds a handler to the routes that reads its request's body and writes its answer by itself; [Server.Describe]
// puts it into the document. An empty method stands for every method. Callers need the level; where the path has
// {run_id}, the run's token is enough. An error of the handler becomes an answer.
func (s *Server) Handle(method, path string, level tenant.Level, handle Handler) {
	if level == "" {
		panic("httpapi: no level for " + path)
	}
	s.handle(method, Base+path, level, strings.Contains(path, "{run_id}"), handle)
}

// handle checks the level before a body is read. If the call concerns a run, it puts the run into the answer's header
// and into the log. An empty level is for operations that are open.
func (s *Server) handle(method, path string, level tenant.Level, ofRun bool, handle Handler) {
	checked := func(w http.ResponseWriter, r *http.Request, c *Call) error {
		run := r.PathValue("run_id")
		if err := c.may(level, ofRun, run); err != nil {
			return err
		}
		if host.ValidID(run) {
			c.Run = run
			w.Header().Set("X-Agent-Run-Id", run)
		}
		if sent := strings.Join(r.Header.Values("Content-Encoding"), ","); r.ContentLength != 0 && encodes(sent) {
			return problem.InvalidField("header.Content-Encoding",
				"%q is not supported: send the body without compression and without this header", sent)
		}
		return handle(w, r, c)
	}
	s.mux.Handle(strings.TrimSpace(method+" "+path), s.answered(checked))
}

// encodes reports whether a Content-Encoding names a coding that changes the bytes of a body. Some clients write the
// charset there, or nothing.
func encodes(header string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(header), ","), func(coding string) bool {
		switch strings.TrimSpace(coding) {
		case "gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd", "aws-chunked":
			return true
		}
		return false
	})
}

// HandleOpen adds a handler outside of the API, which answers without a key.
func (s *Server) HandleOpen(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// may is nil when the call's sender has the level, or, for an operation on one run, the run's token.
func (c *Call) may(level tenant.Level, ofRun bool, run string) error {
	if level == "" {
		return nil
	}
	if !ofRun {
		return c.Principal.Authorize(level)
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
