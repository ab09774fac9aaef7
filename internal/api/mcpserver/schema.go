package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/platform/schema"
)

// legible gives the tools of a list schemas that all clients read: the library writes a schema that takes anything as
// true, which is JSON Schema, but the official client for TypeScript of versions 1.25 to 1.32 then refuses the list.
func legible(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		list, ok := result.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return result, err
		}
		written := map[any]json.RawMessage{} // agents have theirs in common
		for i, t := range list.Tools {
			one := *t // the library keeps its own
			for _, of := range []*any{&one.InputSchema, &one.OutputSchema} {
				if *of == nil {
					continue
				}
				raw, ok := written[*of]
				if !ok {
					if raw, err = json.Marshal(*of); err == nil {
						raw, err = schema.WithoutBooleans(raw)
					}
					if err != nil {
						return nil, err
					}
					written[*of] = raw
				}
				*of = raw
			}
			list.Tools[i] = &one
		}
		return list, nil
	}
}
