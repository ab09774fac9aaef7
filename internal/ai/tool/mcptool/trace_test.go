package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/platform/trace"
)

// A call of an MCP server carries its span, though a library makes the request.
func TestACallCarriesItsSpan(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "say"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return text("hello"), nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	var mu sync.Mutex
	var parents []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			mu.Lock()
			parents = append(parents, r.Header.Get("Traceparent"))
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	kind := &mcptool.Kind{Client: &http.Client{Transport: trace.Outgoing(http.DefaultTransport)}}
	tracer := trace.New(1, tracetest.NewNoopExporter())
	ctx, span := trace.StartOf(trace.With(t.Context(), tracer), "6925112233445566778899aa",
		oteltrace.SpanKindInternal, "x", "")
	defer span.End()
	endpoint := tool.Endpoint{URL: web.URL}
	found, err := kind.Discover(ctx, endpoint)
	require.NoError(t, err)
	require.Len(t, found, 1)
	result, err := kind.Call(ctx, endpoint, found[0], tool.Invocation{Name: "say", Arguments: json.RawMessage(`{}`)})
	require.NoError(t, err)
	assert.Equal(t, "hello", strings.TrimSpace(result.Text))
	mu.Lock()
	defer mu.Unlock()
	at := span.SpanContext()
	assert.Equal(t, []string{"00-" + at.TraceID().String() + "-" + at.SpanID().String() + "-01"}, parents)
}
