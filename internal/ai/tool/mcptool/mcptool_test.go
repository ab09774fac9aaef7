package mcptool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/ai/tool/tooltest"
)

type echoInput struct {
	Message string `json:"message"`
}

// server is an MCP server that accepts requests with the right header. It breaks the connections of calls of the tool
// "break", and counts them.
func server(t *testing.T, broken *atomic.Int64, tools func(*mcp.Server)) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	tools(s)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Word") != "open-sesame" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"name":"break"`)) {
			broken.Add(1)
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestContract(t *testing.T) {
	stop := make(chan struct{})
	var broken atomic.Int64
	address := server(t, &broken, func(s *mcp.Server) {
		mcp.AddTool(s, &mcp.Tool{Name: "say it", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
				return text("You said: " + in.Message), nil, nil
			})
		mcp.AddTool(s, &mcp.Tool{Name: "fail"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				r := text("the moon is in the wrong phase")
				r.IsError = true
				return r, nil, nil
			})
		mcp.AddTool(s, &mcp.Tool{Name: "hang"},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				select {
				case <-ctx.Done():
				case <-stop:
				}
				return nil, nil, errors.New("hung")
			})
		mcp.AddTool(s, &mcp.Tool{Name: "break"},
			func(context.Context, *mcp.CallToolRequest, echoInput) (*mcp.CallToolResult, any, error) {
				return text("never arrives"), nil, nil
			})
		mcp.AddTool(s, &mcp.Tool{Name: "huge"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return text(strings.Repeat("x", 25<<20)), nil, nil
			})
	})
	t.Cleanup(func() { close(stop) }) // runs before the server's own cleanup
	tooltest.Run(t, tooltest.Harness{
		Kind: &mcptool.Kind{Client: http.DefaultClient},
		Endpoint: tool.Endpoint{URL: address,
			Credentials: tool.Credentials{Type: "header", Name: "X-Word", Value: "open-sesame"}},
		Echo: "say_it", Fails: "fail", Hangs: "hang", Huge: "huge", Safe: []string{"say_it"},
		Breaks: "break", Broken: func() int { return int(broken.Load()) },
	})
}

func TestAServerWithoutMCPIsReported(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	k := &mcptool.Kind{Client: http.DefaultClient}
	for _, address := range []string{web.URL, "http://127.0.0.1:1/mcp"} {
		_, err := k.Discover(t.Context(), tool.Endpoint{URL: address})
		var failure *tool.Error
		require.ErrorAs(t, err, &failure)
		assert.NotContains(t, err.Error(), "127.0.0.1")
	}
}
