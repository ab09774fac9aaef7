package openapitool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
)

// swagger is a Swagger document with one operation, which its parts describe.
func swagger(parts string) []byte {
	return []byte(`{"swagger":"2.0","info":{"title":"t","version":"1"},"host":"example.com","parameters":{` +
		`"Limit":{"name":"limit","in":"query","type":"integer","maximum":9}},"definitions":{` +
		`"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":"string","x-nullable":true},` +
		`"id":{"type":"integer","readOnly":true},"kind":{"$ref":"#/definitions/Kind"}}},"Kind":{"enum":["cat"]}},` +
		`"responses":{"Gone":{"description":"gone"}},"paths":{"/p/{id}":{"parameters":[` +
		`{"name":"id","in":"path","required":true,"type":"string"}],"post":{"operationId":"act",` +
		`"responses":{"404":{"$ref":"#/responses/Gone"}}` + parts + `}}}}`)
}

func TestAnOperationOfSwaggerIsCalled(t *testing.T) {
	array := func(name, in, format string) string {
		return `{"name":"` + name + `","in":"` + in + `","type":"array","items":{"type":"string"}` + format + `}`
	}
	for _, c := range []struct{ parts, arguments, address, kind, body string }{
		{`,"parameters":[{"$ref":"#/parameters/Limit"},` + array("a", "query", "") + `,` +
			array("b", "query", `,"collectionFormat":"multi"`) + `,` +
			array("c", "query", `,"collectionFormat":"ssv"`) + `,` +
			array("d", "query", `,"collectionFormat":"pipes"`) + `,` +
			array("e", "query", `,"collectionFormat":"tsv"`) + `]`,
			`{"id":"1","limit":3,"a":["x","y"],"b":["x","y"],"c":["x","y"],"d":["x","y"],"e":["x","y"]}`,
			"/p/1?limit=3&a=x,y&b=x&b=y&c=x%20y&d=x%7Cy&e=x%09y", "", ""},
		{`,"parameters":[{"name":"pet","in":"body","required":true,"schema":{"$ref":"#/definitions/Pet"}}]`,
			`{"id":"1","body":{"name":"Rex","kind":"cat"}}`, "/p/1", "application/json", `{"name":"Rex","kind":"cat"}`},
		{`,"consumes":["application/xml","application/vnd.pet+json"],"parameters":[` +
			`{"name":"pet","in":"body","schema":{}}]`,
			`{"id":"1","body":{}}`, "/p/1", "application/vnd.pet+json", `{}`},
		{`,"parameters":[` + array("a", "formData", "") + `,` + array("b", "formData", `,"collectionFormat":"multi"`) +
			`,{"name":"c","in":"formData","type":"string"}]`, `{"id":"1","body":{"a":["x","y"],"b":["x","y"],"c":"z"}}`,
			"/p/1", "application/x-www-form-urlencoded", "a=x%2Cy&b=x&b=y&c=z"},
		{`,"consumes":["multipart/form-data","application/x-www-form-urlencoded"],"parameters":[` +
			`{"name":"c","in":"formData","type":"string"}]`, `{"id":"1","body":{"c":"z"}}`, "/p/1",
			"application/x-www-form-urlencoded", "c=z"},
		{`,"parameters":[` + array("id", "path", `,"required":true`) + `]`, `{"id":["a","b"]}`, "/p/a,b", "", ""},
	} {
		got := sent(t, swagger(c.parts), c.arguments)
		assert.Equal(t, request{Address: c.address, Type: c.kind, Body: c.body}, got, c.parts)
	}
	one := only(t, swagger(`,"parameters":[{"$ref":"#/parameters/Limit"},{"name":"pet","in":"body","required":true,`+
		`"schema":{"$ref":"#/definitions/Pet"}}]`), "")
	assert.JSONEq(t, `{"type":"object","required":["id","body"],"properties":{"id":{"type":"string"},
		"limit":{"type":"integer","maximum":9},"body":{"type":"object","required":["name"],"properties":{
		"name":{"type":["string","null"]},"kind":{"enum":["cat"]}}}}}`, string(one.Parameters))
	one = only(t, swagger(`,"parameters":[{"name":"f","in":"formData","type":"file","required":true}]`), "")
	assert.Contains(t, one.Problem, "it needs a file (f)")
	got := sent(t, swagger(`,"parameters":[{"name":"f","in":"formData","type":"file"},`+
		`{"name":"note","in":"formData","type":"string"}]`), `{"id":"1","body":{"note":"n"}}`)
	assert.Contains(t, got.Type, "multipart/form-data")
	assert.Contains(t, got.Body, `name="note"`)
}

func TestASwaggerDocumentNamesItsServer(t *testing.T) {
	for _, c := range [][3]string{
		{`"host":"a.com"`, "", "https://a.com/x"},
		{`"host":"a.com"`, "http://b.com/s.json", "http://a.com/x"},
		{`"host":"a.com:8443","basePath":"/v1/","schemes":["http","https","wss"]`, "", "https://a.com:8443/v1/x"},
		{`"host":"a.com","basePath":"v1","schemes":["http"]`, "", "http://a.com/v1/x"},
		{`"basePath":"/v1"`, "https://b.com/docs/s.json", "https://b.com/v1/x"},
		{`"info":{}`, "https://b.com/docs/s.json", "https://b.com/x"},
		{`"basePath":"/v1"`, "", "base_url is required"},
		{`"host":"a.com","schemes":["wss"]`, "", "must be an http or https URL"},
		{`"host":"u:p@a.com"`, "", "without open variables"},
		{`"host":"{h}.a.com"`, "", "is not a URL"},
	} {
		found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{URL: c[1],
			Document: []byte(`{"swagger":"2.0",` + c[0] + `,"paths":{"/x":{"get":{}}}}`)})
		if err != nil {
			assert.ErrorContains(t, err, c[2], c[0])
			continue
		}
		var binding struct{ URL string }
		require.NoError(t, json.Unmarshal(found[0].Binding, &binding))
		assert.Equal(t, c[2], binding.URL, c[0])
	}
	found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{
		Document: []byte("swagger: 2.0\nhost: a.com\npaths: {/x: {get: {}}}\n")})
	require.NoError(t, err, "YAML reads 2.0 as a number")
	assert.Len(t, found, 1)
}
