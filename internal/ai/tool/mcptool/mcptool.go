// Package mcptool implements the tool port with servers of the Model Context Protocol. It reaches them over streamable
// HTTP or, where a deployment allows it, as a program on the same machine.
//
// A [tool.Session] shares a session of the protocol among its calls, and opens another one where that broke. A server
// is not trusted: the number of its tools, the size of their schemas and results, and its requests are limited. The
// package must not know runs. It imports its port, httptool for the texts of HTTP failures, and the protocol's library.
package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/schema"
)

// Kind is the kind "mcp".
type Kind struct {
	Client *http.Client

	programs, connections pool
}

// newClient makes a client that declares only elicitation: a server may wait for a capability that its client declares.
// The library would declare roots, and would answer requests for them with an empty list.
func (l *line) newClient() *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "agent-platform", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}},
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // see rounds
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: cancels}, nil // the library judges the form alone, see receive
		},
	})
	client.AddReceivingMiddleware(l.receive)
	return client
}

// receive refuses all requests of a server that are not served. Its notifications are dropped. It runs in goroutines of
// the library: a panic there would end the process.
func (l *line) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if died := recover(); died != nil {
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
					Message: "the params of " + method + " do not follow MCP"}
			}
		}()
		switch {
		case method == "ping":
			return next(ctx, method, r)
		case method == "elicitation/create":
			return l.elicitation(ctx, next, method, r)
		case strings.HasPrefix(method, "notifications/"):
			return nil, nil //nolint:nilnil // a notification has no result
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not supported"}
	}
}

// elicitation answers a question of a server. next checks its form. It must not check the answer: a schema that refers
// to itself would overflow the stack there.
func (l *line) elicitation(
	ctx context.Context, next mcp.MethodHandler, method string, r mcp.Request,
) (mcp.Result, error) {
	p := r.GetParams().(*mcp.ElicitParams) //nolint:errcheck,forcetypeassert // else it panics, as for nil
	raw, err := json.Marshal(p.RequestedSchema)
	if err == nil && len(raw) <= schema.MaxSize { // a larger one costs too much time
		_, err = next(ctx, method, r)
	}
	if err != nil {
		return nil, err
	}
	return l.asks.elicit(ctx, p)
}

var errNotMCP = tool.Fail("the server's response does not follow MCP")

// guarded reads an answer of a server. The library panics on some answers that violate the protocol: guarded returns an
// error for them.
func guarded[T any](read func() (T, error)) (answer T, err error) {
	defer func() {
		if died := recover(); died != nil {
			var none T
			answer, err = none, errNotMCP
		}
	}()
	return read()
}

// addresses matches the addresses in a text.
var addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|` +
	`\[[0-9a-f:.%]*:[0-9a-f:.%]*\](:\d+)?`)

func withoutAddresses(text string) string { return addresses.ReplaceAllString(text, "[address]") }

// Browse lists the server's resources and prompts. It returns a [tool.Error] where the server cannot be reached or
// fails.
func (k *Kind) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	var found tool.Offerings
	l, err := k.dial(ctx, e)
	if err != nil {
		return found, err
	}
	defer l.end()
	found, err = guarded(func() (tool.Offerings, error) { return l.offerings(ctx) })
	if err != nil {
		return tool.Offerings{}, l.failure(ctx, err, &exchange{})
	}
	return found, nil
}

func (l *line) offerings(ctx context.Context) (found tool.Offerings, err error) {
	can := l.InitializeResult().Capabilities
	if can == nil {
		return found, tool.Fail("the server does not report its capabilities")
	}
	if can.Resources != nil {
		found.Resources, err = first(l.Resources(ctx, nil), func(r *mcp.Resource) tool.Resource {
			return tool.Resource{URI: r.URI, Name: r.Name, Description: tool.Clip(r.Description, tool.EnoughText),
				ContentType: r.MIMEType}
		})
	}
	if can.Prompts != nil && err == nil {
		found.Prompts, err = first(l.Prompts(ctx, nil), func(p *mcp.Prompt) tool.Prompt {
			arguments := []string{}
			for _, a := range p.Arguments {
				arguments = append(arguments, a.Name)
			}
			return tool.Prompt{Name: p.Name, Description: tool.Clip(p.Description, tool.EnoughText),
				Arguments: arguments}
		})
	}
	return found, err
}

// first returns the first items of a server's list, up to [tool.MaxTools].
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
	l, err := k.dial(ctx, e)
	if err != nil {
		return nil, err
	}
	defer l.end()
	var h exchange
	list, err := guarded(func() ([]tool.Definition, error) {
		return l.tools(context.WithValue(ctx, exchangeKey{}, &h))
	})
	if err != nil {
		return nil, l.failure(ctx, err, &h)
	}
	return list, nil
}

// maxListed bounds the tools that a server lists. The toolkit chooses at most [tool.MaxTools] of them.
const maxListed = 5000

func (l *line) tools(ctx context.Context) (list []tool.Definition, err error) {
	for t, err := range l.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if len(list) == maxListed {
			return nil, tool.Fail("the server lists over %d tools", maxListed)
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
		return tool.Definition{}, tool.Fail("the parameters of the tool %s are not JSON: %s", t.Name, err)
	}
	if len(schema) > tool.MaxSchema {
		schema = json.RawMessage(`{"type":"object"}`) // a tool with an imprecise schema is better than none
	}
	binding, err := json.Marshal(bound{t.Name})
	reads := t.Annotations != nil && t.Annotations.ReadOnlyHint
	safe := reads || t.Annotations != nil && t.Annotations.IdempotentHint
	return tool.Definition{
		Spec: tool.Spec{Name: tool.Name(t.Name), Description: tool.Clip(t.Description, tool.MaxDescription),
			Parameters: schema, RetrySafe: safe},
		Binding: binding, ReadOnly: reads,
	}, err
}

// unfulfilled is the failure of a call that has no result until its client answers these requests.
func unfulfilled(requests mcp.InputRequestMap) error {
	if len(requests) == 0 { // how a server that has too much to do puts a call off
		return tool.Fail("the server is busy; try again later")
	}
	var decoded map[string]struct {
		Method string `json:"method"`
	}
	raw, _ := json.Marshal(requests) // only there they have their methods
	_ = json.Unmarshal(raw, &decoded)
	methods := []string{}
	for _, one := range decoded {
		methods = append(methods, one.Method)
	}
	slices.Sort(methods)
	return tool.Fail("the server requests %s, which is not supported", strings.Join(slices.Compact(methods), ", "))
}

// resultOf converts a result to text and files. A [tool.Error] is that of the tool.
func resultOf(r *mcp.CallToolResult) (result tool.Result, err error) {
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
	size := len(result.Text)
	for _, f := range result.Files {
		size += len(f.Data)
	}
	switch {
	case r.IsError:
		return tool.Result{}, failed(result.String())
	case size > tool.MaxResult:
		return tool.Result{}, tool.Fail("the server's answer is over %d MiB", tool.MaxResult>>20)
	}
	return result, nil
}
