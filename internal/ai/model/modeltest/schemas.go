package modeltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/schema/schematest"
)

// schemas are parameters of tools as servers list them.
var schemas = []string{
	``, `null`, `true`, `false`, `{}`, `{"type":"object"}`, `{"type":"string"}`, `{"type":["object","null"]}`, `[` +
		`]`, `{`,
	`{"type":"object","properties":null,"required":null}`, `{"type":"object","properties":[]}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"type":"object","additionalProperties":false}`,
	`{"properties":{"a":{"type":"array"},"b":{"type":"array","items":{"type":["array","null"]}}}}`,
	`{"type":"object","properties":{"a":true,"b":{},"c":{"type":"object"},"d":{"type":"any","required":true}}}`,
	`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`,
	`{"oneOf":[{"properties":{"a":{"type":"array"}},"required":["a"]},{"type":"null"}]}`,
	`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}}}`,
	`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object","properties":{"a":{"type":"array"}}}}}`,
	`{"type":"object","not":{"required":["a"]},"enum":[{}]}`,
	`{"properties":{"a":{"type":"string","pattern":"^\\p{L}+$"},"b":{"anyOf":[{"type":"array"},` +
		`{"pattern":"(?<n>x)"}]},"c":{"allOf":[{"type":"object"}],"additionalProperties":{"type":"array"}},` +
		`"d":{"patternProperties":{"\\z":{}}}}}`,
	`{"properties":{"a":{"$ref":"#/components/schemas/X"}},"components":{"schemas":{"X":{"type":"array"}}}}`,
	`{"properties":{"a":{"$ref":"#/definitions/X"}},"definitions":{"X":{"oneOf":[{"type":"array","items":[]}]}}}`,
	`{"properties":{"$filter":{"type":"string","description":"of OData"},"user[name]":{},"都市":{},"a b":` +
		`{"properties":{"$x":{}}},"":{},"c.d_e-f":{"$ref":"#/properties/$filter"}},"required":["都市","c.d_e-f"],` +
		`"additionalProperties":false}`,
	`{"properties":{"` + strings.Repeat("long", 17) + `":{"description":"` + strings.Repeat("x", 9000) + `"}}}`,
}

// RunSchemas checks that an adapter sends each tool with a schema that every provider accepts, for any schema of the
// tool. taken takes the schemas of the tools out of a body. names matches the names of members that the provider
// accepts; nil: it accepts any.
func RunSchemas(
	t *testing.T, open func(address string) model.Model, names *regexp.Regexp,
	taken func(t *testing.T, body []byte) []json.RawMessage,
) {
	t.Helper()
	r := model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}
	for i, is := range schemas {
		r.Tools = append(r.Tools, model.ToolSpec{Name: fmt.Sprint("t", i), Parameters: json.RawMessage(is)})
	}
	sent := taken(t, sentBody(t, open, r))
	require.Len(t, sent, len(schemas), "no tool takes the others with it")
	for i, raw := range sent {
		var top map[string]any
		require.NoError(t, json.Unmarshal(raw, &top), "%s", raw)
		assert.Empty(t, schematest.Refused(schematest.All, raw), "%s: %s", schemas[i], raw)
		if names != nil {
			named(t, names, json.RawMessage(schemas[i]), top)
		}
	}
}

// named checks that a provider accepts the names of a schema's members, and that the others are described in words.
func named(t *testing.T, names *regexp.Regexp, whole json.RawMessage, sent map[string]any) {
	t.Helper()
	properties, _ := sent["properties"].(map[string]any)
	for name := range properties {
		assert.Regexp(t, names, name)
	}
	required, _ := sent["required"].([]any)
	for _, name := range required {
		assert.Contains(t, properties, name)
	}
	var own struct{ Properties map[string]any }
	_ = json.Unmarshal(whole, &own) // some are not schemas
	for name := range own.Properties {
		if _, there := properties[name]; !there {
			assert.Contains(t, sent["description"], strconv.Quote(name), "%s", whole)
			assert.NotEqual(t, false, sent["additionalProperties"], "the model may use them")
		}
	}
}
