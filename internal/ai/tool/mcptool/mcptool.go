// Package mcptool implements the tool port with servers of the Model Context Protocol, over streamable HTTP or,
// where a deployment allows it, as a program on the same machine.
//
// A session lasts for one call: nothing of it outlives the worker, and servers expect clients that reconnect. A
// server is not trusted: the number of its tools and the size of their schemas and results are limited. The
// package must not know runs. It imports its port, httptool for the texts of HTTP failures, and the protocol's
// library.
package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/platform/egress"
)

// Kind is the kind "mcp".
type Kind struct{ Client *http.Client }

// sessionTransport is the HTTP transport of one session: it adds credentials and limits what comes back.
type sessionTransport struct {
	http.RoundTripper
	tool.Credentials

	over context.Context // done when nothing of the session may last any longer
	cut  context.CancelFunc

	asked      atomic.Int64 // requests so far
	came       atomic.Int64 // bytes of responses so far
	overflowed atomic.Bool  // the library does not pass on a body's read error
	endless    atomic.Bool  // nor why a request was not made
}

func (l *sessionTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if l.asked.Add(1) > maxRequests {
		l.endless.Store(true)
		return nil, errEndless
	}
	var cancel context.CancelFunc
	if r.Method == http.MethodDelete { // the end of the session; a server that hangs would not answer it
		ctx, cancel = context.WithTimeout(ctx, closeTime)
		defer cancel()
	} else {
		ctx, cancel = context.WithCancel(ctx)
		context.AfterFunc(l.over, cancel) // the session is cut at its end
	}
	r = r.Clone(ctx)
	if err := httptool.Authorize(r, l.Credentials); err != nil {
		return nil, err
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &bounded{answer.Body, l}
	}
	return answer, err
}

// hurry cuts the session after a while: at its end the library waits for all requests, also for those that bring a
// server the answers to what it asked and that it never reads.
func (l *sessionTransport) hurry() { time.AfterFunc(closeTime, l.cut) }

// closeTime limits the end of a session.
const closeTime = time.Second

// Limits of a session, over all its responses.
const (
	maxRequests = tool.MaxTools + 10
	maxBytes    = tool.MaxResult + 1<<20 // a result and the protocol around it
)

var errEndless = errors.New("mcptool: too many requests")

// bounded is a response body that fails once all bodies of the session together are too large.
type bounded struct {
	io.ReadCloser
	line *sessionTransport
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.line.came.Add(int64(n)) > maxBytes {
		b.line.overflowed.Store(true)
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// session is a connection to a server for one call.
type session struct {
	*mcp.ClientSession
	line *sessionTransport
}

func (k *Kind) connect(ctx context.Context, e tool.Endpoint) (*session, error) {
	if u, err := url.Parse(e.URL); err == nil && !e.Credentials.For(u) { // the library would not pass on why
		return nil, httptool.Authorize(&http.Request{URL: u}, e.Credentials)
	}
	client := httptool.Straight(k.Client)
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	s := &session{line: &sessionTransport{RoundTripper: client.Transport, Credentials: e.Credentials}}
	s.line.over, s.line.cut = context.WithCancel(context.WithoutCancel(ctx)) // a call that is given up says so
	stop := context.AfterFunc(ctx, s.line.hurry)
	context.AfterFunc(s.line.over, func() { stop() })
	client.Transport = s.line
	var err error
	var transport mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: e.URL, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: -1,
	}
	if len(e.Command) > 0 {
		program := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
		program.Env = environ()
		transport = &mcp.CommandTransport{Command: program, TerminateDuration: closeTime}
	}
	s.ClientSession, err = newClient().Connect(ctx, transport, nil)
	if err != nil {
		s.line.cut()
		return nil, s.failure(ctx, err)
	}
	return s, nil
}

// end ends a session within [closeTime], and the time that its DELETE may take.
func (s *session) end() {
	s.line.hurry()
	_ = s.Close()
	s.line.cut()
}

// newClient makes a client that claims no capability: a server that is told of one may wait until it is served. The
// library would claim roots, and would answer for them with an empty list.
func newClient() *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "agent-platform", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // see unserved
	})
	client.AddReceivingMiddleware(refusing)
	return client
}

// refusing refuses all that a server may ask of a client, but for a ping. What it only tells is dropped.
func refusing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch {
		case method == "ping":
			return next(ctx, method, r)
		case strings.HasPrefix(method, "notifications/"):
			return nil, nil //nolint:nilnil // a notification has no result
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not served"}
	}
}

// failure turns an error into a [tool.Error] that names no address.
func (s *session) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return tool.Fail("the server did not answer in time")
	case ctx.Err() != nil:
		return ctx.Err()
	case s.line.overflowed.Load():
		return tool.Fail("the server's answer is over %d MiB", tool.MaxResult>>20)
	case s.line.endless.Load():
		return tool.Fail("the server lists without an end")
	}
	if _, known := egress.Plain(err); known {
		return httptool.Unreachable(err)
	}
	text := err.Error() // the protocol's error: the server says what is wrong
	if place.MatchString(text) {
		text = "the server cannot be reached, or speaks no MCP over streamable HTTP"
	}
	return tool.Fail("%s", tool.Clip(text, tool.EnoughText))
}

// place matches network addresses: the library puts them into some of its messages.
var place = regexp.MustCompile(`://|\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.%]*\]:|\blookup\b`)

// environ is the environment of a server program: where to find programs and its home folder, and no secrets.
func environ() (list []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if v, there := os.LookupEnv(name); there {
			list = append(list, name+"="+v)
		}
	}
	return list
}

// Browse lists the server's resources and prompts. It returns a [tool.Error] where the server cannot be reached or
// fails.
func (k *Kind) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	var found tool.Offerings
	session, err := k.connect(ctx, e)
	if err != nil {
		return found, err
	}
	defer session.end()
	can := session.InitializeResult().Capabilities
	if can.Resources != nil {
		found.Resources, err = first(session.Resources(ctx, nil), func(r *mcp.Resource) tool.Resource {
			return tool.Resource{URI: r.URI, Name: r.Name, Description: tool.Clip(r.Description, tool.EnoughText),
				ContentType: r.MIMEType}
		})
	}
	if can.Prompts != nil && err == nil {
		found.Prompts, err = first(session.Prompts(ctx, nil), func(p *mcp.Prompt) tool.Prompt {
			arguments := []string{}
			for _, a := range p.Arguments {
				arguments = append(arguments, a.Name)
			}
			return tool.Prompt{Name: p.Name, Description: tool.Clip(p.Description, tool.EnoughText),
				Arguments: arguments}
		})
	}
	if err != nil {
		return found, session.failure(ctx, err)
	}
	return found, nil
}

// first are the first of a list that a server sends, up to [tool.MaxTools].
func first[T, U any](all iter.Seq2[T, error], as func(T) U) (list []U, err error) {
	for one, err := range all {
		if err != nil || len(list) == tool.MaxTools {
			return list, err
		}
		list = append(list, as(one))
	}
	return list, nil
}

// Discover lists the server's tools. It returns a [tool.Error] where the server cannot be reached, fails, or lists
// too much.
func (k *Kind) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	session, err := k.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	defer session.end()
	var list []tool.Definition
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, session.failure(ctx, err)
		}
		if len(list) == tool.MaxTools {
			return nil, tool.Fail("the server lists over %d tools", tool.MaxTools)
		}
		d, err := definition(t)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// bound is a definition's binding: the server's own name of the tool, which may have characters that models do not
// accept.
type bound struct {
	Name string `json:"name"`
}

func definition(t *mcp.Tool) (tool.Definition, error) {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return tool.Definition{}, tool.Fail("the tool %s takes what is no JSON: %s", t.Name, err)
	}
	if len(schema) > tool.MaxSchema {
		schema = json.RawMessage(`{"type":"object"}`) // a tool with an imprecise schema is better than none
	}
	binding, err := json.Marshal(bound{t.Name})
	safe := t.Annotations != nil && (t.Annotations.ReadOnlyHint || t.Annotations.IdempotentHint)
	return tool.Definition{
		Spec: tool.Spec{Name: tool.Name(t.Name), Description: tool.Clip(t.Description, tool.EnoughText),
			Parameters: schema, RetrySafe: safe},
		Binding: binding,
	}, err
}

// Call runs a tool. The idempotency key is sent as metadata for servers that use it. It returns a [tool.Error]
// where the server cannot be reached or the tool fails, and the context's error when that ends first.
func (k *Kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	var b bound
	if err := json.Unmarshal(d.Binding, &b); err != nil {
		return tool.Result{}, fmt.Errorf("mcptool: the binding: %w", err)
	}
	session, err := k.connect(ctx, e)
	if err != nil {
		return tool.Result{}, err
	}
	defer session.end()
	answer, err := session.call(ctx, &mcp.CallToolParams{
		Meta: mcp.Meta{"idempotencyKey": i.IdempotencyKey}, Name: b.Name, Arguments: i.Arguments,
	})
	if err != nil {
		return tool.Result{}, session.failure(ctx, err)
	}
	if answer.NeedsInput() {
		return tool.Result{}, unserved(answer.InputRequests)
	}
	result := resultOf(answer)
	if answer.IsError {
		return tool.Result{}, tool.Fail("%s", tool.Clip(result.String(), tool.EnoughText))
	}
	return result, nil
}

// call calls a tool. The library panics on some results that are not those of the protocol: that is an error here.
func (s *session) call(ctx context.Context, p *mcp.CallToolParams) (answer *mcp.CallToolResult, err error) {
	defer func() {
		if died := recover(); died != nil {
			answer, err = nil, errors.New("the server's answer to the call is not that of MCP")
		}
	}()
	return s.CallTool(ctx, p)
}

// unserved is the failure of a call that has no result until its client has answered these requests.
func unserved(requests mcp.InputRequestMap) error {
	if len(requests) == 0 { // how a server that has too much to do puts a call off
		return tool.Fail("the server is busy: try again later")
	}
	var asked map[string]struct {
		Method string `json:"method"`
	}
	raw, err := json.Marshal(requests) // only there they have their methods
	if err == nil {
		err = json.Unmarshal(raw, &asked)
	}
	if err != nil {
		return tool.Fail("the server asks for input, which is not served")
	}
	methods := map[string]bool{}
	for _, one := range asked {
		methods[one.Method] = true
	}
	return tool.Fail("the server asks for %s, which is not served",
		strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
}

// resultOf converts a result to text and files.
func resultOf(r *mcp.CallToolResult) (result tool.Result) {
	var parts []string
	file := func(name, contentType string, data []byte) {
		result.Files = append(result.Files, tool.File{Name: name, ContentType: contentType, Data: data})
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			file("", c.MIMEType, c.Data)
		case *mcp.AudioContent:
			file("", c.MIMEType, c.Data)
		case *mcp.ResourceLink:
			parts = append(parts, fmt.Sprintf("[%s: %s]", c.Name, c.URI))
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			} else if c.Resource != nil {
				file(path.Base(c.Resource.URI), c.Resource.MIMEType, c.Resource.Blob)
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(b))
		}
	}
	result.Text = strings.Join(parts, "\n")
	return result
}
