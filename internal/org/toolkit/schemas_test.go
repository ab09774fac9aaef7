package toolkit_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// listing is a kind whose tools have these parameters, by name.
type listing map[string]string

func (l listing) Discover(context.Context, tool.Endpoint) (list []tool.Definition, err error) {
	for name, parameters := range l {
		list = append(list, tool.Definition{Spec: tool.Spec{Name: name, Parameters: json.RawMessage(parameters)}})
	}
	return list, nil
}

func (l listing) Call(context.Context, tool.Endpoint, tool.Definition, tool.Invocation) (tool.Result, error) {
	return tool.TextResult(""), nil
}

// A tool keeps a valid schema. An invalid one is mended as far as possible. A tool that no object can call is off, with
// the reason.
func TestAToolIsOffOnlyWhereNothingCanCallIt(t *testing.T) {
	k := listing{
		"as_it_is": `{"type":"object"}`, "nothing": `null`, "anything": `true`, "php": `{"type":"object",` +
			`"properties":[]}`,
		"handmade":     `{"type":"object","properties":{"a":{"type":"string","required":true}}}`,
		"alternatives": `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
		"drafted":      `{"$schema":"https://json-schema.org/schema#","type":"object","properties":{}}`,
		"a_text":       `{"type":"string"}`, "never": `false`, "a_list": `[]`,
	}
	s := newToolkits(t, nil)
	s.Kinds["mcp"] = k
	made := made(t, s, toolkit.Draft{Name: text("all"), URL: text("https://a.example.com")})
	_, tools, err := s.Offered(t.Context(), record.Of("o"), made.ID)
	require.NoError(t, err)
	require.Len(t, tools, len(k))
	for _, one := range tools {
		want, usable := map[string]string{
			"as_it_is": k["as_it_is"], "alternatives": k["alternatives"],
			"drafted": k["drafted"],
			"nothing": `{"type":"object","properties":{}}`, "anything": `{"type":"object","properties":{}}`,
			"php":      `{"type":"object","properties":{}}`,
			"handmade": `{"type":"object","properties":{"a":{"type":"string"}}}`,
		}[one.Name]
		assert.Equal(t, usable, one.Enabled, "%s: %s", one.Name, one.Problem)
		if usable {
			assert.JSONEq(t, want, string(one.Parameters), one.Name)
		} else {
			assert.Contains(t, one.Problem, "its parameters are not a JSON schema of an object: ", one.Name)
		}
	}
}
