package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
		for i, of := range list.Tools {
			one := *of // the library keeps its own
			for _, schema := range []*any{&one.InputSchema, &one.OutputSchema} {
				if *schema == nil {
					continue
				}
				raw, ok := written[*schema]
				if !ok {
					if raw, err = json.Marshal(*schema); err == nil {
						raw, err = withoutBooleans(raw)
					}
					if err != nil {
						return nil, err
					}
					written[*schema] = raw
				}
				*schema = raw
			}
			list.Tools[i] = &one
		}
		return list, nil
	}
}

// subschemas are the keywords of JSON Schema, of all drafts, whose value is a schema or a list of schemas. Those that
// took a boolean before schemas could be booleans (additionalProperties, additionalItems) keep it: clients look for it.
var subschemas = map[string]bool{
	"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true,
	"items": true, "prefixItems": true, "contains": true, "propertyNames": true, "contentSchema": true,
	"unevaluatedItems": true, "unevaluatedProperties": true,
	"additionalItems": false, "additionalProperties": false,
}

// named are the keywords whose value has a schema by each name.
var named = map[string]bool{
	"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true,
	"dependencies": true,
}

// withoutBooleans is a schema that means the same and has objects where a schema may be an object or a boolean: {} for
// true, {"not":{}} for false. The order of members stays, and so does all that is no schema.
func withoutBooleans(schema json.RawMessage) (json.RawMessage, error) {
	switch string(schema) {
	case "true":
		return json.RawMessage(`{}`), nil
	case "false":
		return json.RawMessage(`{"not":{}}`), nil
	}
	return each(schema, '{', func(keyword string, value json.RawMessage) (json.RawMessage, error) {
		plain, known := subschemas[keyword]
		switch {
		case named[keyword]:
			return each(value, '{', func(_ string, one json.RawMessage) (json.RawMessage, error) {
				return withoutBooleans(one)
			})
		case !known, !plain && (string(value) == "true" || string(value) == "false"):
			return value, nil
		case value[0] == '[':
			return each(value, '[', func(_ string, one json.RawMessage) (json.RawMessage, error) {
				return withoutBooleans(one)
			})
		}
		return withoutBooleans(value)
	})
}

// each changes the members of an object, or the elements of an array, as open says; any other value stays.
func each(
	value json.RawMessage, open byte, change func(name string, value json.RawMessage) (json.RawMessage, error),
) (json.RawMessage, error) {
	if value[0] != open {
		return value, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	changed := []byte{open}
	for d.More() {
		if len(changed) > 1 {
			changed = append(changed, ',')
		}
		var name string
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ = token.(string)
			key, err := json.Marshal(name)
			if err != nil {
				return nil, err
			}
			changed = append(append(changed, key...), ':')
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		one, err := change(name, one)
		if err != nil {
			return nil, err
		}
		changed = append(changed, one...)
	}
	return append(changed, open+2), nil // } and ] stand two behind { and [
}
