//go:build !race

package openapitool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
)

// A short document may expand to a thousand times its size. The size of the tools that are found is limited for every
// document, and so is the memory for finding them.
func TestTheSizeOfToolsIsLimitedForEveryDocument(t *testing.T) {
	long := strings.Repeat("x", 150_000)
	bodyOf := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	properties := bodyOf(
		`{"type":"object","properties":{` + repeated(1_900, `"p@":{"$ref":"#/components/schemas/B"}`) + `}}`,
	)
	home := `{"url":"https://example.com"}`
	with := func(schema string) []byte { return operated(10, properties, home, `"schemas":{"B":`+schema+`}`) }
	parameters := func(name, in string) string {
		return `{"parameters":[` + repeated(200, `{"name":"`+name+`","in":"`+in+`"}`) + `]}`
	}
	for name, raw := range map[string][]byte{
		"a type that is long":             with(`{"type":"` + long + `"}`),
		"one type of a list that is long": with(`{"type":["` + long + `"]}`),
		"a type that is a tree":           with(`{"type":["string",{"a":["` + long + `"]}]}`),
		"a type that is nullable": with(`{"type":["string"` + strings.Repeat(`,"x"`, 30_000) +
			`],"nullable":true}`),
		"a format that is long":       with(`{"format":"` + long + `"}`),
		"a minimum that is long":      with(`{"minimum":` + strings.Repeat("1", 150_000) + `}`),
		"what is required of nothing": with(`{"required":[` + repeated(1_000, `"p@"`) + `]}`),
		"what only the server says":   with(`{"properties":{` + repeated(1_000, `"p@":{"readOnly":true}`) + `}}`),
		"a property with a long name": with(`{"properties":{"` + long + `":{}}}`),
		"properties of a long kind": operated(10,
			strings.Replace(properties, "application/json", "multipart/form-data", 1), home,
			`"schemas":{"B":{"contentMediaType":"`+strings.ToUpper(long)+`/x"}}`),
		"a place that is long":       operated(400, parameters("body", long[:1_000]), home, `"schemas":{}`),
		"parameters with long names": operated(400, parameters(long[:1_500]+"@", "query"), home, `"schemas":{}`),
		"a body of a long kind": operated(400, `{"requestBody":{"content":{"a/`+long+`+json":{}}}}`, home,
			`"schemas":{}`),
		"an operation with a long name": operated(400, `{"operationId":"`+strings.Repeat("-.", 500_000)+`"}`, home,
			`"schemas":{}`),
		"a long description of all": operated(400, `{"summary":"`+long+`","description":"`+long+`y"}`, home,
			`"schemas":{}`),
		"schemas that are all large": operated(400,
			bodyOf(`{"properties":{`+repeated(200, `"p@":{"description":"`+long[:200]+`"}`)+`}}`), home,
			`"schemas":{}`),
		"a path that grows": []byte(`{"openapi":"3.1.0","info":{},"servers":[` + home + `],"paths":{"/` +
			strings.Repeat("{x}", 600) + `":{"get":{"parameters":[` +
			`{"name":"x","in":"query"},{"name":"x","in":"path"},` +
			repeated(190, `{"name":"`+"path_!"+`x","in":"path"}`) + `]}}}}`),
		"a server that grows": operated(1, `{}`,
			`{"url":"`+strings.Repeat("{a}", 600)+`","variables":{"a":{"default":"`+long+`"}}}`, `"schemas":{}`),
		"a server that doubles": operated(1, `{}`, `{"url":"{v100}","variables":{`+
			strings.Join(doubling(24), ",")+`}}`, `"schemas":{}`),
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(grown(string(raw)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw})
			runtime.ReadMemStats(&after)
			if err != nil {
				var refused *tool.Error
				assert.ErrorAs(t, err, &refused)
				assert.Less(t, len(err.Error()), 2*tool.EnoughText)
			}
			assert.LessOrEqual(t, sizeOf(found), openapitool.MaxFound)
			allocated := int(after.TotalAlloc - before.TotalAlloc)
			assert.Less(t, allocated, 10*openapitool.MaxFound, "bytes that reading %d bytes took", len(raw))
		})
	}
}

// doubling makes server variables each of which contains the next one twice.
func doubling(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(`"v%d":{"default":"{v%d}{v%d}"}`, 100+i, 101+i, 101+i))
	}
	return list
}

// grown gives each parameter of a path the name that the previous one was renamed to.
func grown(document string) string {
	for n := 1; strings.Contains(document, "path_!"); n++ {
		document = strings.Replace(document, "path_!", strings.Repeat("path_", n), 1)
	}
	return document
}

func TestTooLargeDocumentsAreRefused(t *testing.T) {
	k := &openapitool.Kind{Client: http.DefaultClient}
	discover := func(raw []byte) ([]tool.Definition, error) {
		return k.Discover(t.Context(), tool.Endpoint{Document: raw})
	}
	large := document(100, 500)
	require.Greater(t, len(large), 5<<20)
	found, err := discover(large)
	require.NoError(t, err, "5 MB are taken")
	assert.Len(t, found, 100)

	for name, c := range map[string]struct {
		raw     []byte
		wantErr string
	}{
		"too large": {make([]byte, 32<<20+1), "over 32 MiB"},
		"too many":  {document(501, 1), "over 500 operations"},
		"a path item of many paths": {[]byte(`{"openapi":"3.0.0","x":{"get":{},"put":{},"post":{},"delete":{},` +
			`"head":{},"patch":{}},"paths":{` + repeated(9_000, `"/@":{"$ref":"#/x"}`) + `}}`),
			"over 50000 operations: send a smaller one"},
		"no document": {[]byte(`{"hello":"world"}`), "not an OpenAPI 3 document"},
		"a page":      {[]byte("\ufeff \n<!DOCTYPE html>"), "an HTML or XML page"},
		"Swagger 1":   {[]byte(`{"swagger":"1.2","paths":{}}`), "version Swagger 1.2: only Swagger 2.0 and OpenAPI 3"},
		"no server": {[]byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},` +
			`"paths":{"/a":{"get":{"responses":{}}}}}`), "base_url is required"},
		"other scheme": {[]byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},` +
			`"servers":[{"url":"file:///etc"}],` +
			`"paths":{"/a":{"get":{"responses":{}}}}}`), "http or https"},
		"no operations": {[]byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},` +
			`"servers":[{"url":"https://x"}],"paths":{}}`), "no operations"},
		"reads a file": {[]byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},` +
			`"paths":{"/a":{"$ref":"/etc/passwd"}}}`), "bundle its files into one"},
		"reads the net": {[]byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},` +
			`"paths":{"/a":{"$ref":"http://127.0.0.1:1/x"}}}`), "bundle its files into one"},
		"a path without a slash":   {pathed("{h}/steal"), "begin with one slash"},
		"user information":         {pathed("@evil.example.com/x"), "begin with one slash"},
		"two slashes":              {pathed("//evil.example.com/x"), "begin with one slash"},
		"a backslash":              {pathed(`/\\evil.example.com/x`), "begin with one slash"},
		"a query that is filled":   {pathed("/x?{a}"), "only in its path"},
		"a server that is filled":  {served("https://{h}.example.com"), "is not a URL"},
		"a path that is filled":    {served("https://example.com/{a}"), "without open variables"},
		"a server with a user":     {served("https://a:b@example.com"), "without open variables"},
		"a server with a query":    {served("https://example.com/?x="), "without open variables"},
		"a server with a fragment": {served("https://example.com/#x"), "without open variables"},
		"a document of marks": {[]byte("openapi: 3.0.0\npaths: [" + strings.Repeat("[],", 700_000) + "]"),
			"too many parts"},
		"too many parameters": {shared(1, 500, `{"type":"string"}`), "over 200 parameters"},
		"a circle of references": {[]byte(`{"openapi":"3.0.0","info":{},"servers":[{"url":"https://x"}],` +
			`"paths":{"/a":{"$ref":"#/paths/~1b"},"/b":{"$ref":"#/paths/~1a"}}}`), "is circular"},
		"an alias of itself": {[]byte("openapi: 3.0.0\npaths: &p {/a: *p}\n"), "its own parent"},
		"a document that is deep": {[]byte("openapi: 3.0.0\npaths: " + strings.Repeat("[", 5000) + strings.Repeat("]",
			5000)), "nested more than"},
		"aliases galore": {[]byte(bomb()), "not an OpenAPI 3 document"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := discover(c.raw)
			var failure *tool.Error
			require.ErrorAs(t, err, &failure)
			assert.Contains(t, err.Error(), c.wantErr)
		})
	}
}

// To decide whether a property is read-only, its parts are read: each of them is a step.
func TestThePartsOfAPropertyAreCounted(t *testing.T) {
	const parts = 30_000
	raw := operated(1, `{"requestBody":{"content":{"application/json":{"schema":{"properties":{`+
		repeated(10, `"p@":{"$ref":"#/components/schemas/B"}`)+`}}}}}}`, `{"url":"https://x"}`,
		`"schemas":{"B":{"allOf":[`+repeated(parts, `{}`)+`]}}`)
	steps, _, err := openapitool.Work(t.Context(), raw)
	require.NoError(t, err)
	assert.Greater(t, steps, parts)
}

// The work of a document is limited in steps: a document of some kilobytes may need any number of them.
func TestTheWorkOfADocumentIsBounded(t *testing.T) {
	wide := `{"type":"object","properties":{` +
		strings.TrimSuffix(strings.Repeat(`"x":{"$ref":"#/components/schemas/L12"},`, 1), ",")
	for i := range 1500 {
		wide += fmt.Sprintf(`,"a%d":{"$ref":"#/components/schemas/L8"}`, i)
	}
	wide += `}}`
	for name, raw := range map[string][]byte{
		"schemas that double":     shared(100, 200, `{"$ref":"#/components/schemas/L12"}`),
		"many properties of each": shared(100, 200, wide),
		"a schema of itself": shared(100, 200,
			`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/S"},`+
				`"b":{"$ref":"#/components/schemas/S"}}}`),
		"a large enum":       shared(100, 200, `{"enum":[`+strings.Repeat(`"x",`, 20_000)+`"y"]}`),
		"a long description": shared(100, 200, `{"description":"`+strings.Repeat("x", 1_000_000)+`"}`),
		"a default that is a tree": shared(100, 200,
			`{"default":`+strings.Repeat(`[`, 1000)+strings.Repeat(`]`, 1000)+`}`),
	} {
		t.Run(name, func(t *testing.T) {
			steps, most, err := openapitool.Work(t.Context(), raw)
			require.NoError(t, err)
			assert.LessOrEqual(t, steps, most)
			assert.Positive(t, steps)
			found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw})
			require.NoError(t, err)
			for _, one := range found {
				assert.LessOrEqual(t, len(one.Parameters), tool.MaxSchema)
				assert.True(t, json.Valid(one.Parameters))
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = (&openapitool.Kind{}).Discover(ctx, tool.Endpoint{Document: raw})
			assert.ErrorContains(t, err, "in time")
		})
	}
}
