package protocol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
)

// mcpRoutes admit clients of the Model Context Protocol. The library reads the protocol. This package decides who may
// send messages, and how answers travel.
func (h *handlers) mcpRoutes() {
	responses := answers("A JSON-RPC response, or a stream of messages", nil)
	responses["202"] = &huma.Response{Description: "A notification, which has no response"}
	responses["400"] = &huma.Response{
		Description: "The request is invalid",
		Content:     content(httpapi.SchemaOf[rpcResponse](h.Server), asJSON),
	}
	h.Handle("", "/mcp", tenant.LevelRun, h.mcpCall)
	o := h.rpc(huma.Operation{
		Method: http.MethodPost, Path: "/mcp", Tags: []string{"protocols"}, OperationID: "mcp",
		Summary: "The agents as tools of an MCP server (streamable HTTP)",
		Description: "Speaks the Model Context Protocol. A call with a progress token is answered " +
			"with Server-Sent Events: the progress of its run, then the result. A batch (up to protocol 2025-03-26) " +
			"is answered with a list. Needs level `run`.",
		Responses: responses,
	})
	one := httpapi.SchemaOf[rpcResponse](h.Server)
	o.Responses["200"].Content[asJSON].Schema = &huma.Schema{
		OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}},
	}
	h.Describe(o)
}

func (h *handlers) mcpCall(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if h.MCP == nil {
		return problem.Missing(r.URL.Path)
	}
	if h.foreign(r) {
		p := problem.InvalidField("header.Origin",
			"web pages may use this only at the address of PUBLIC_URL; "+
				"a proxy that allows other pages must remove this header")
		p.Kind = problem.Forbidden
		return p
	}
	body, err := h.body(w, r, c)
	if p, ok := problem.As(err); ok && p.Kind == problem.Invalid { // as the protocol has it
		return httpapi.WriteJSON(w, http.StatusBadRequest, bridge.Refusal(nil, bridge.ParseError, p.Message))
	}
	if err != nil {
		return err
	}
	if list, is := bridge.Batch(body); is {
		return h.mcpBatch(w, r, c, list)
	}
	return h.mcpMessage(w, r, c, body)
}

// mcpBatch serves each message of a batch like a single one, all at the same time, and answers with the list of their
// answers. Each message counts against the rate limit. A batch has no notifications of progress.
func (h *handlers) mcpBatch(w http.ResponseWriter, r *http.Request, c *httpapi.Call, list []json.RawMessage) error {
	wrong, ids := "", map[string]bool{}
	if len(list) == 0 || len(list) > maxBatch || r.Header.Get("Mcp-Protocol-Version") > batched {
		wrong = fmt.Sprintf(
			"a batch must have 1 to %d requests and protocol version %s or earlier", maxBatch, batched)
	}
	for _, message := range list {
		id, _ := bridge.RequestID(message)
		if !bridge.IsNull(id) && ids[string(id)] {
			wrong = "id: must be different for each request of a batch"
		}
		ids[string(id)] = true
	}
	if wrong != "" {
		return httpapi.WriteJSON(w, http.StatusBadRequest, bridge.Refusal(nil, bridge.InvalidRequest, wrong))
	}
	parts := make([]part, len(list))
	var serve []func()
	for i, message := range list {
		if i > 0 { // the first is counted
			parts[i].err = h.CountAgain(w, r, c)
		}
		if parts[i].err != nil {
			continue
		}
		serve = append(serve, func() {
			alone := r.Clone(r.Context())
			alone.Header.Set("Accept", asJSON) // no streams
			parts[i].header = http.Header{}
			parts[i].err = h.mcpMessage(&parts[i], alone, c, message)
		})
	}
	host.All(h.Intake.Host, serve...)
	return h.joined(w, list, parts)
}

// joined answers a batch with the answers to its messages. Where none could be served, the batch could not.
func (h *handlers) joined(w http.ResponseWriter, list []json.RawMessage, parts []part) error {
	var answers []any
	var failed error
	done := false
	for i := range parts {
		id, _ := bridge.RequestID(list[i])
		switch p := &parts[i]; {
		case p.err == nil:
			done = true
			if p.Len() > 0 {
				answers = append(answers, json.RawMessage(p.Bytes()))
			}
		case id != nil:
			answers = append(answers, bridge.Refusal(list[i], bridge.InternalError, h.why(p.err)))
			fallthrough
		default:
			failed = cmp.Or(failed, p.err)
		}
	}
	switch {
	case !done:
		return failed
	case answers == nil:
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	return httpapi.WriteJSON(w, http.StatusOK, answers)
}

// why explains why a message of a batch was not served.
func (h *handlers) why(err error) string {
	if p, is := problem.As(err); is && p.Kind == problem.Limited {
		return p.Message + "; the service did nothing"
	}
	h.Bridge.Log.Error("a request of a batch could not be served", "error", err)
	return "the service is unavailable and did nothing; try again"
}

// part takes the answer to a message of a batch.
type part struct {
	bytes.Buffer

	header http.Header
	err    error
}

func (p *part) Header() http.Header { return p.header }

func (p *part) WriteHeader(int) {}

// mcpMessage answers one message.
func (h *handlers) mcpMessage(w http.ResponseWriter, r *http.Request, c *httpapi.Call, body []byte) error {
	id := exactID{by: h.Intake.Host.NewID()} // the answer contains it nowhere else
	sent, was := bridge.WithID(body, id.by)
	id.was = was
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
	switch code, refusal := bridge.Malformed(body); code {
	case 0:
	case bridge.InvalidParams:
		return httpapi.WriteJSON(w, http.StatusOK, refusal)
	default:
		return httpapi.WriteJSON(w, http.StatusBadRequest, refusal)
	}
	handler, streamed, err := h.MCP.For(r.Context(), c.Principal, r.Header, body, h.Heartbeat, h.left(r))
	if err != nil {
		return err
	}
	if streamed {
		return h.streamMCP(w, r, c, body, id, handler)
	}
	own := &library{id: id, header: w.Header(), out: w, begin: w.WriteHeader}
	handler(r.Context()).ServeHTTP(own, r)
	refused, kind, text := own.refusal()
	switch {
	case refused == 0:
		return nil
	case !strings.HasPrefix(kind, "text/plain"):
		w.WriteHeader(refused)
		_, _ = io.WriteString(w, text)
		return nil
	}
	text = strings.TrimSpace(text)
	w.Header().Del("Content-Type")
	switch status, answer := h.MCP.Fault(body, text); {
	case answer != nil:
		return httpapi.WriteJSON(w, status, answer)
	case status != 0:
		w.WriteHeader(status)
		return nil
	}
	return httpapi.ErrorOf(refused, text)
}

// batched is the last version of the protocol whose servers must accept batches. It is also the first.
const batched = "2025-03-26"

// maxBatch is the largest number of messages in a batch.
const maxBatch = 20

// foreign reports whether a request comes from a page of another origin. The protocol requires a server to refuse it:
// the page's host name may resolve to this server. Pages of this machine may call a server of this machine.
func (h *handlers) foreign(r *http.Request) bool {
	name := r.Header.Get("Origin")
	origin, err := url.Parse(name)
	own, wrong := url.Parse(h.URL)
	switch {
	case name == "":
		return false
	case cmp.Or(err, wrong) != nil || origin.Scheme == "":
		return true
	case origin.Scheme != "http" && origin.Scheme != "https": // of a program, not a page
		return false
	}
	return originOf(origin) != originOf(own) && (!ofThisMachine(origin) || !ofThisMachine(own))
}

// originOf is the scheme, host and port of an address, in one normal form.
func originOf(u *url.URL) [3]string {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return [3]string{u.Scheme, strings.ToLower(u.Hostname()), cmp.Or(u.Port(), port)}
}

// ofThisMachine reports whether an address leads a browser to its own machine. A server without a host in ADDR has the
// unspecified address.
func ofThisMachine(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// left returns a function that reports whether the client of a request has gone. A stop of the server is not that, and
// neither is the end of a function's time. Functions receive no signal when a client goes away.
func (h *handlers) left(r *http.Request) func() bool {
	ctx := r.Context()
	return func() bool {
		return h.MaxStream == 0 && errors.Is(ctx.Err(), context.Canceled) && h.Stopping().Err() == nil
	}
}

// streamMCP answers a call with the events of its run. The handler has the request's own context, so it can still
// write the result when the stream ends.
func (h *handlers) streamMCP(
	w http.ResponseWriter, r *http.Request, c *httpapi.Call, body []byte, id exactID,
	handler func(context.Context) http.Handler,
) error {
	refuse := func(text string) func(*httpapi.Sink) {
		return func(out *httpapi.Sink) { _ = out.Data(bridge.Refusal(body, bridge.InvalidRequest, text)) }
	}
	return h.Stream(r.Context(), w, c, httpapi.Stream{
		ContentType: asEvents, Bounded: true,
		Follow: func(ctx context.Context, out *httpapi.Sink) error {
			c.Release() // it is small
			response := &library{id: id, header: http.Header{}, out: out, begin: func(int) {}}
			handler(ctx).ServeHTTP(response, r)
			refused, kind, text := response.refusal()
			switch { // the stream has begun: a refusal of the library is the answer to the call
			case refused == 0:
			case strings.HasPrefix(kind, asJSON):
				return out.Data(json.RawMessage(text))
			default:
				return out.Data(bridge.Refusal(body, bridge.InvalidRequest, strings.TrimSpace(text)))
			}
			return nil
		},
		Final: refuse("the service is stopping; try again"), // before anything was done
		Short: refuse("the stream ended early: call get_run to follow the run"),
	})
}

// library receives the library's writes. It passes an answer on, and holds a refusal back: errors have one shape here.
type library struct {
	id     exactID
	header http.Header
	begin  func(status int)

	mu     sync.Mutex
	out    io.Writer
	status int          // of the refusal; 0: there is none
	text   bytes.Buffer // of the refusal
}

func (l *library) Header() http.Header { return l.header }

func (l *library) WriteHeader(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case status < http.StatusBadRequest:
		l.begin(status)
	case l.status == 0:
		l.status = status
	}
}

func (l *library) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status != 0 {
		return l.text.Write(l.id.restored(p))
	}
	if _, err := l.out.Write(l.id.restored(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// exactID is a number as an id, in the form in which it was sent, and the text in its place while the library serves
// it.
type exactID struct {
	was json.RawMessage // nil: the request had another id, or none
	by  string
}

// restored is an answer of the library, or an event with one, with the number. Each is one write of the library.
func (e exactID) restored(p []byte) []byte {
	if e.was == nil {
		return p
	}
	return bytes.Replace(p, []byte(`"`+e.by+`"`), e.was, 1)
}

// refusal is the status, the media type and the text of the library's refusal; 0 where it has not refused.
func (l *library) refusal() (status int, kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status, l.header.Get("Content-Type"), l.text.String()
}
