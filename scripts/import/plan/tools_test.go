package plan_test

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/scripts/import/plan"
)

// called returns the plan of assistants of OpenAI. Each has a function search with these parameters, which a URL
// executes.
func called(t *testing.T, parameters ...string) *plan.Plan {
	t.Helper()
	files := fstest.MapFS{}
	for i, p := range parameters {
		id := string(rune('a' + i))
		files[id+".json"] = &fstest.MapFile{Data: []byte(`{"id":"` + id + `","object":"assistant","model":"gpt-4o",
			"tools":[{"type":"function","function":{"name":"shop.search","parameters":` + p + `}}]}`)}
	}
	p, err := plan.Read(files, "", plan.Options{Tools: map[string]string{"shop.search": "https://f.example/search"}})
	require.NoError(t, err)
	return p
}

// Two functions with one name and different parameters are two toolkits.
func TestFunctionsOfOneNameKeepTheirParameters(t *testing.T) {
	const q = `{"type":"object","properties":{"q":{"type":"string"}}}`
	const order = `{"type":"object","properties":{"order":{"type":"integer"}}}`
	p := called(t, q, order, q)
	require.Len(t, p.Toolkits, 2)
	assert.Contains(t, string(p.Toolkits[0].Request.Parameters), `"q"`)
	assert.Contains(t, string(p.Toolkits[1].Request.Parameters), `"order"`)
	assert.Equal(t, "shop_search", p.Toolkits[0].Request.Name, "a name that models take")
	assert.Equal(t, p.Agents[0].Toolkits, p.Agents[2].Toolkits)
	assert.NotEqual(t, p.Agents[0].Toolkits, p.Agents[1].Toolkits)
	assert.Contains(t, report(t, p), "another function of this name takes something else")
}

// References of a schema mean the same when it is the schema of a member.
func TestReferencesOfParametersKeepTheirMeaning(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"type":"object","properties":{"of":{"$ref":"#"},"say":{"const":"{\"$ref\":\"#\"}"}}}`: `{"type":"object",
			"properties":{"of":{"$ref":"#/properties/body"},"say":{"const":"{\"$ref\":\"#\"}"}}}`,
		`{"properties":{"a":{"type":"string"},"b":{"$ref" : "#/properties/a"}}}`: `{
			"properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/body/properties/a"}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"https://s.example/s#/x"}},
			"$defs":{"x":{"items":{"$ref":"#"}}}}`: `{
			"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"https://s.example/s#/x"}},
			"$defs":{"x":{"items":{"$ref":"#/properties/body"}}}}`,
		`{"$id":"https://s.example/own","items":{"$ref":"#"}}`: `{"$id":"https://s.example/own","items":{"$ref":"#"}}`,
	} {
		whole := called(t, parameters).Toolkits[0].Request.Parameters
		var schema struct {
			Properties struct{ Body any }
			Defs       any `json:"$defs"`
		}
		require.NoError(t, json.Unmarshal(whole, &schema))
		body, err := json.Marshal(schema.Properties.Body)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(body))
		if schema.Defs != nil {
			assert.Contains(t, string(whole), `"$defs":{"x":{"items":{"$ref":"#/properties/body"}}},"properties"`)
		}
	}
}

// The service lists tools under names that models accept.
func TestToolsOfServersHaveTheNamesOfTheService(t *testing.T) {
	p, _ := planned(t, configured(`{"mcp":{"url":"https://m.example",
		"tools":["linear.create","  a b ","ok-1","linear_create"]}}`))
	assert.Equal(t, []string{"a_b", "linear_create", "ok-1"}, p.Toolkits[0].Enabled)
}
