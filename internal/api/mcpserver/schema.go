package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var gives = sync.OnceValue(func() *jsonschema.Schema {
	schema, err := jsonschema.For[result](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // anything
	}})
	if err != nil {
		panic(err) // by the type alone, as the library does
	}
	return schema
})

// legibly is [gives] in a form that all clients read. The library writes a schema that takes anything as true. That is
// valid JSON Schema, but the official client for TypeScript of versions 1.25 to 1.32 then refuses the list of tools.
var legibly = sync.OnceValue(func() json.RawMessage {
	raw, err := json.Marshal(gives())
	if err != nil {
		panic(err) // as above
	}
	return bytes.ReplaceAll(raw, []byte(":true"), []byte(":{}")) // it has no other true
})

// legible puts [legibly] into a list of tools, each of which gives a result.
func legible(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
			for i, t := range list.Tools {
				one := *t // the library keeps its own
				one.OutputSchema = legibly()
				list.Tools[i] = &one
			}
		}
		return result, err
	}
}
