package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// mcpRoutes let clients of the Model Context Protocol in. The protocol is its library's; here is who may, and how
// answers travel.
func (h *handlers) mcpRoutes() {
	h.Describe(answersCalls(h.Server, huma.Operation{
		Path: "/mcp", OperationID: "mcp",
		Summary: "The agents as tools of an MCP server (streamable HTTP)",
		Description: "Speaks the Model Context Protocol, without sessions. A call with a progress token is answered " +
			"with Server-Sent Events: what happens in its run, then the result. Needs level `run`.",
		Responses: map[string]*huma.Response{
			"200": {Description: "A JSON-RPC answer, or a stream of messages"},
			"202": {Description: "A notification, which has no answer"},
			"400": {
				Description: "The request is malformed, or several in one",
				Content: map[string]*huma.MediaType{
					"application/json": {Schema: httpapi.SchemaOf[rpcResponse](h.Server)},
				},
			},
		},
	}, "text/event-stream"))
	h.Handle("", "/mcp", tenant.LevelRun, func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
		if h.MCP == nil {
			return problem.Missing(r.URL.Path)
		}
		err := h.Hold(w, r, c)
		if p, ok := problem.As(err); ok && p.Kind == problem.Invalid {
			return httpapi.WriteJSON(w, http.StatusBadRequest, h.MCP.NoJSON(p.Message)) // as the protocol has it
		}
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if refusal := h.MCP.Malformed(body); r.Method == http.MethodPost && refusal != nil {
			return httpapi.WriteJSON(w, http.StatusBadRequest, refusal)
		}
		if token := h.MCP.WantsProgress(r.Header, body); r.Method == http.MethodPost && token != nil {
			return h.mcpTelling(w, r, c, body, token)
		}
		handler, err := h.MCP.For(r.Context(), c.Principal, h.left(r))
		if err != nil {
			return err
		}
		own := &ownErrors{ResponseWriter: w}
		handler.ServeHTTP(own, r)
		if own.status == 0 {
			return nil
		}
		text := strings.TrimSpace(own.text.String())
		w.Header().Del("Content-Type")
		switch status, answer := h.MCP.Fault(body, text); {
		case answer != nil:
			return httpapi.WriteJSON(w, status, answer)
		case status != 0:
			w.WriteHeader(status)
			return nil
		}
		return httpapi.ErrorOf(own.status, text)
	})
}

// left returns what says that the client of a request has gone. Neither a stop is that nor the end of a function's
// time; functions are not told that a client has gone.
func (h *handlers) left(r *http.Request) func() bool {
	ctx := r.Context()
	return func() bool {
		return h.MaxStream == 0 && errors.Is(ctx.Err(), context.Canceled) && h.Stopping().Err() == nil
	}
}

// mcpTelling answers a call with what happens in its run. The handler has the request's own context: when the stream is
// to end, it still has a last word.
func (h *handlers) mcpTelling(
	w http.ResponseWriter, r *http.Request, c *httpapi.Call, body []byte, token json.RawMessage,
) error {
	handler, err := h.MCP.Telling(r.Context(), c.Principal, token, h.Heartbeat, h.left(r))
	if err != nil {
		return err
	}
	return h.Stream(r.Context(), w, c, httpapi.Stream{
		ContentType: "text/event-stream", Bounded: true,
		Follow: func(ctx context.Context, out *httpapi.Sink) error {
			c.Release() // it is small
			told := &telling{out: out, header: http.Header{}}
			handler(ctx).ServeHTTP(told, r)
			kind, text, refused := told.refusal()
			switch { // the stream has begun: what the library refuses is the answer to the call
			case refused && strings.HasPrefix(kind, "application/json"):
				return out.Data(json.RawMessage(text))
			case refused:
				return out.Data(h.MCP.Refusal(body, strings.TrimSpace(text)))
			}
			return nil
		},
		Final: func(out *httpapi.Sink) { // before anything was done
			_ = out.Data(h.MCP.Refusal(body, "the service is stopping; try again"))
		},
		Short: func(out *httpapi.Sink) {
			_ = out.Data(h.MCP.Refusal(body, "the answer ends here: the run cannot be told any more"))
		},
	})
}

// telling writes a stream that the library puts together.
type telling struct {
	header http.Header

	mu      sync.Mutex
	out     *httpapi.Sink
	refused bool
	text    bytes.Buffer // of the refusal
}

func (t *telling) Header() http.Header { return t.header }

func (t *telling) WriteHeader(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = t.refused || status >= http.StatusBadRequest
}

func (t *telling) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused {
		return t.text.Write(p)
	}
	return t.out.Write(p)
}

// refusal is what the library has refused, if it has.
func (t *telling) refusal() (kind, text string, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header.Get("Content-Type"), t.text.String(), t.refused
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
