package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shown is the schema of a result as all clients read it. The library writes a schema that takes anything as true. That
// is JSON Schema, but the official client for TypeScript of versions 1.25 to 1.32 then refuses the list of tools.
var shown = sync.OnceValue(func() json.RawMessage {
	raw, err := json.Marshal(gives())
	if err != nil {
		panic(err) // it is made of a type alone
	}
	return bytes.ReplaceAll(raw, []byte(":true"), []byte(":{}"))
})

// legible gives the tools of a list the schema that all clients read.
func legible(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
			for i, t := range list.Tools {
				one := *t // the library keeps its own
				one.OutputSchema = shown()
				list.Tools[i] = &one
			}
		}
		return result, err
	}
}
