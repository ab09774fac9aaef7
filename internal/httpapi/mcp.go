package httpapi

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/tenant"
)

// mcpRoutes let clients of the Model Context Protocol in. The protocol is its library's; here is who may.
func (s *Server) mcpRoutes() {
	s.api.OpenAPI().AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: Base + "/mcp", OperationID: "mcp", Summary: "The agents as tools of an MCP server (streamable HTTP)", Tags: []string{"faces"},
		Description: "Speaks the Model Context Protocol, without sessions. Needs level `run`.",
		Responses:   map[string]*huma.Response{"200": {Description: "A JSON-RPC answer"}},
	})
	s.mux.HandleFunc(Base+"/mcp", func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if err := c.principal.May(tenant.LevelRun); err != nil {
			s.answerFor(c, err).write(w)
			return
		}
		if s.MCP == nil {
			http.NotFound(w, r)
			return
		}
		if err := s.hold(w, r, c); err != nil {
			s.answerFor(c, err).write(w)
			return
		}
		own := &ownErrors{ResponseWriter: w}
		s.MCP(c.principal).ServeHTTP(own, r)
		if own.status != 0 {
			w.Header().Del("Content-Type")
			a := frameworkError(own.status, strings.TrimSpace(own.text.String()), nil)
			a.status, a.requestID = own.status, c.id // clients of the protocol go by the status
			if own.status == http.StatusMethodNotAllowed {
				a.code, a.fields = "method_not_allowed", nil
			}
			a.write(w)
		}
	})
}

// ownErrors holds the library's plain text back when it refuses a request: errors have one shape here.
type ownErrors struct {
	http.ResponseWriter
	status int // of the refusal
	text   bytes.Buffer
}

func (w *ownErrors) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *ownErrors) Write(b []byte) (int, error) {
	if w.status != 0 {
		return w.text.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *ownErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }
