package protocol

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/httpapi"
	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
)

// mcpRoutes let clients of the Model Context Protocol in. The protocol is its library's; here is who may.
func (h *handlers) mcpRoutes() {
	h.Describe(answersCalls(h.Server, huma.Operation{
		Path: "/mcp", OperationID: "mcp",
		Summary:     "The agents as tools of an MCP server (streamable HTTP)",
		Description: "Speaks the Model Context Protocol, without sessions. Needs level `run`.",
		Responses: map[string]*huma.Response{
			"200": {Description: "A JSON-RPC answer"}, "202": {Description: "A notification, which has no answer"},
			"400": {
				Description: "The request is malformed, or several in one",
				Content: map[string]*huma.MediaType{
					"application/json": {Schema: httpapi.SchemaOf[rpcResponse](h.Server)},
				},
			},
		},
	}))
	h.Handle("", "/mcp", tenant.LevelRun, func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
		if h.MCP == nil {
			return problem.Missing(r.URL.Path)
		}
		if err := h.Hold(w, r, c); err != nil {
			return err
		}
		own := &ownErrors{ResponseWriter: w}
		h.MCP(c.Principal).ServeHTTP(own, r)
		if own.status == 0 {
			return nil
		}
		w.Header().Del("Content-Type")
		return httpapi.ErrorOf(own.status, strings.TrimSpace(own.text.String()))
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
