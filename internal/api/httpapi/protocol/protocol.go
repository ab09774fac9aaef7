// Package protocol is the area of the API for clients of protocols that others wrote: the Model Context Protocol, the
// Agent2Agent protocol, Open Responses and AG-UI.
//
// What such a client says is understood by mcpserver, a2aserver, responses and aguiserver; here is who may say it, and
// how answers travel. It imports the framework above it and no other area.
package protocol

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/aguiserver"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/responses"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

// Config is what the area's operations use.
type Config struct {
	// MCP is the server for clients of the Model Context Protocol. It may be nil: then there is none.
	MCP MCP
	// A2A is the server for clients of the Agent2Agent protocol. It may be nil: then there is none.
	A2A *a2aserver.Server

	// Responses is the server for clients of Open Responses.
	Responses *responses.Server
	// AGUI is the server for front ends that speak AG-UI.
	AGUI *aguiserver.Server

	Intake    *intake.Intake
	Store     *record.Store
	Hub       *stream.Hub
	Heartbeat time.Duration // of streams
}

// MCP is the server of the Model Context Protocol. What it serves it with is linked by those alone that have one.
type MCP interface {
	// For makes the handler of a principal's request; left says whether its client has gone. Its error is that of the
	// store, as Telling's.
	For(ctx context.Context, p tenant.Principal, left func() bool) (http.Handler, error)
	// WantsProgress returns the token of a call whose client is to be told how it goes on; nil for other requests, and
	// for a client that takes no stream, or of a version that is not served.
	WantsProgress(header http.Header, body []byte) json.RawMessage
	// Telling makes the handler of such a call, which is answered with Server-Sent Events until streaming ends, also
	// with one when nothing happens for idle.
	Telling(ctx context.Context, p tenant.Principal, token json.RawMessage, idle time.Duration, left func() bool) (
		func(streaming context.Context) http.Handler, error)
	// Refusal is the answer to a request that cannot be served, for the reason that text gives.
	Refusal(body []byte, text string) any
	// NoJSON is the answer to a body that is no JSON, for the reason that text gives.
	NoJSON(text string) any
	// Malformed is the answer to a body that the library would misread; nil for others.
	Malformed(body []byte) any
	// Fault is the answer to what the library has refused with a text, and its status; 0 where HTTP has its own.
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
