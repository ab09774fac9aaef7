// Package protocol is the area of the API for clients of protocols that others wrote: the Model Context Protocol, the
// Agent2Agent protocol, Open Responses and AG-UI.
//
// The packages mcpserver, a2aserver, responses and aguiserver read the messages of such clients. This package decides
// who may send them, and how answers travel. It imports the framework above it and no other area.
package protocol

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/aguiserver"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/responses"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// Config has the dependencies of the area's operations.
type Config struct {
	// MCP is the server for clients of the Model Context Protocol. It may be nil: then there is none.
	MCP MCP
	// A2A is the server for clients of the Agent2Agent protocol. It may be nil: then there is none.
	A2A *a2aserver.Server

	// Responses is the server for clients of Open Responses.
	Responses *responses.Server
	// AGUI is the server for front ends that speak AG-UI.
	AGUI *aguiserver.Server

	bridge.Bridge
	Heartbeat time.Duration // of streams
}

// MCP is the server of the Model Context Protocol. A program links the protocol's library only if it has one.
type MCP interface {
	// For returns a function that makes the handler of a principal's request with a header and a body. It also reports
	// whether that handler answers with Server-Sent Events. left reports whether its client has gone. Such an answer
	// goes on until streaming ends. It has an event after each idle without one. The error is that of the store.
	For(
		ctx context.Context, p tenant.Principal, header http.Header, body []byte, idle time.Duration, left func() bool,
	) (handler func(streaming context.Context) http.Handler, streamed bool, err error)
	// Fault is the answer to a request that the library has refused with a text, and its status; 0 where HTTP has its
	// own.
	Fault(body []byte, text string) (status int, answer any)
}

// handlers are the operations of the area.
type handlers struct {
	Config
	*httpapi.Server
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, c Config) {
	h := &handlers{Config: c, Server: s}
	h.mcpRoutes()
	h.a2aRoutes()
	h.responsesRoutes()
	h.aguiRoutes()
}

// body reads a body of JSON, which counts against the room of bodies until c.Release is called.
func (h *handlers) body(w http.ResponseWriter, r *http.Request, c *httpapi.Call) ([]byte, error) {
	body, err := h.ReadBody(w, r, c)
	r.Body = http.NoBody // which a stream would keep
	return body, err
}

// read reads a body of JSON that must be there.
func (h *handlers) read(w http.ResponseWriter, r *http.Request, c *httpapi.Call, into any) error {
	body, err := h.body(w, r, c)
	if err == nil && len(body) == 0 {
		err = problem.InvalidField("body", "is required")
	}
	if err != nil {
		return err
	}
	return httpapi.Decode("body", body, into)
}

// add adds an operation to the routes and to the document.
func (h *handlers) add(level tenant.Level, handle httpapi.Handler, o huma.Operation) {
	h.Handle(o.Method, o.Path, level, handle)
	o.Tags = []string{"protocols"}
	h.Describe(o)
}

// content describes a body of these media types.
func content(schema *huma.Schema, types ...string) map[string]*huma.MediaType {
	all := map[string]*huma.MediaType{}
	for _, one := range types {
		all[one] = &huma.MediaType{Schema: schema}
	}
	return all
}

// answers describes the success of an operation, and lists its headers.
func answers(description string, of map[string]*huma.MediaType, headers ...string) map[string]*huma.Response {
	r := &huma.Response{Description: description, Content: of}
	for _, name := range headers {
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		r.Headers[name] = &huma.Param{}
	}
	return map[string]*huma.Response{"200": r}
}

// inPath is a parameter of a path.
func inPath(name string) []*huma.Param {
	return []*huma.Param{{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
}

// The types of bodies, and the header that names the run of an answer.
const (
	asJSON    = "application/json"
	asEvents  = "text/event-stream"
	runHeader = "X-Agent-Run-Id"
)
