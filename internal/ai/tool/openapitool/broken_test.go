package openapitool_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
)

func discover(t *testing.T, text string) ([]tool.Definition, error) {
	return (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: []byte(text)})
}

// Published documents have broken operations. Each of these is off, with its reason, and no other one.
func TestABrokenOperationIsOffAlone(t *testing.T) {
	for paths, reason := range map[string]string{
		`/b: {get: {parameters: [{$ref: "#/components/parameters/none"}]}}`: `none", which is not in it`,
		`/b: {get: {requestBody: {$ref: "bodies.yaml#/B"}}}`:                "bundle its files into one",
		`/b: {$ref: ./b.yaml}`:                   "bundle its files into one",
		`/b: {$ref: "#/paths/~1b"}`:              "is circular",
		`/b: {get: {$ref: "#/components/none"}}`: "which is not in it",
		`/b: {get: {parameters: [` + repeated(201, `{name: p@, in: query}`) + `]}}`: "over 200 parameters",
		`//b: {get: {}}`: "begin with one slash",
		`b: {get: {}}`:   "begin with one slash",
		`? /` + strings.Repeat("b", 2_048) + "\n  : {get: {}}": "begin with one slash",
		`"/#{b}": {get: {}}`: "only in its path",
		`/b: {servers: [{url: "https://y/{b}"}], get: {}}`:                        "without open variables",
		`/b: {get: {parameters: [{name: b, in: query, schema: {$ref: b.json}}]}}`: "bundle its files into one",
		`/b: {get: {parameters: [{name: b, in: query, schema: {properties: {c: {items: {$ref: "#/x-other"}}}}}]}}`: "" +
			"bundle its files into one",
	} {
		document := "openapi: 3.0.0\nservers: [{url: 'https://x'}]\nx-other: {$ref: b.json}\npaths:\n  " + paths + "\n"
		found, err := discover(t, document+"  /sound: {get: {}}\n")
		require.NoError(t, err, paths)
		require.Len(t, found, 2, paths)
		for _, one := range found {
			if one.Name == "get_sound" {
				assert.Empty(t, one.Problem, paths)
				continue
			}
			assert.Contains(t, one.Problem, reason, paths)
			assert.Equal(t, "https://x", one.Origin(), paths)
		}
		_, err = discover(t, document)
		require.ErrorContains(t, err, reason, "without any other the document is refused")
	}
}

// Operations may name servers of their own where the document names none.
func TestADocumentNeedsNoServerWhereItsOperationsHaveTheirs(t *testing.T) {
	found, err := discover(t, "openapi: 3.1.0\npaths: {/a: {servers: [{url: 'https://a'}], get: {}}, /b: {get: {}}}\n")
	require.NoError(t, err)
	require.Len(t, found, 2)
	assert.Empty(t, found[0].Problem)
	assert.True(t, found[0].Beside())
	assert.Contains(t, found[1].Problem, "base_url is required")
}

// A fault of the document is not reported as one of its first operation.
func TestAFaultOfTheDocumentIsItsOwn(t *testing.T) {
	found, err := discover(t, "openapi: 3.1.0\nservers: [{$ref: servers.yaml}]\n"+
		"paths: {/a: {servers: [{url: 'https://a'}], get: {}}, /b: {get: {}}}\n")
	require.NoError(t, err)
	require.Len(t, found, 2)
	assert.Empty(t, found[0].Problem)
	assert.Contains(t, found[1].Problem, `"servers.yaml", which is not in it: first bundle its files into one`)
	_, err = discover(t, "openapi: 3.1.0\npaths: {$ref: paths.yaml}\n")
	require.ErrorContains(t, err, `"paths.yaml", which is not in it: first bundle its files into one`)
}

// A document may have any number of paths of which a part is chosen; the whole is not read.
func TestAPartOfThousandsOfPathsIsImported(t *testing.T) {
	raw := []byte(`{"openapi":"3.0.0","servers":[{"url":"https://x"}],"paths":{` + repeated(25_000,
		`"/p@":{"get":{"operationId":"o@","tags":[`+strings.Repeat(`"t",`, 19)+`"u"],`+
			`"parameters":[{"name":"q","in":"query","schema":{"type":"integer"}}]}}`) + `}}`)
	found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw,
		Selection: tool.Selection{Include: []string{"o1999*"}}})
	require.NoError(t, err)
	assert.Len(t, found, 11)
	for _, one := range found {
		assert.JSONEq(t, `{"type":"object","properties":{"q":{"type":"integer"}}}`, string(one.Parameters))
	}
}

// A path may have placeholders that no parameter fills, and parameters in a query of its own.
func TestEachPlaceOfAPathIsAnArgument(t *testing.T) {
	for path, want := range map[string]string{
		"/a/{b}/{c d}":                       "/a/1/2",
		"/a?b={b}&to=x&c%20d={c d}&e={b}{b}": "",
		"/a?b={b}&to=x&c%20d={c d}":          "/a?to=x&b=1&c%20d=2",
		"/{b}?{c d}":                         "",
		"/{b}?x&c={c d}":                     "/1?x&c=2",
		"/a?{b}={b}":                         "/a?%7Bb%7D=1",
		"/a/{b}?b={b}":                       "/a/1?b=1",
	} {
		document := operation("get", path, `,"parameters":[{"name":"b","in":"path","schema":{"type":"integer"}}]`)
		if want == "" {
			_, err := discover(t, string(document))
			require.ErrorContains(t, err, "only in its path", path)
			continue
		}
		assert.Equal(t, want, sent(t, document, `{"b":1,"c d":"2"}`).Address, path)
	}
	one := only(t, operation("get", "/{a}/{b}", `,"parameters":[{"name":"b","in":"path","schema":{}}]`), "")
	assert.JSONEq(t, `{"type":"object","required":["b","a"],"properties":{"a":{"type":"string"},"b":{}}}`,
		string(one.Parameters))
	for value, want := range map[string]string{`"x/?#"`: "%22x%2F%3F%23%22", `{"b":[1]}`: "%7B%22b%22%3A%5B1%5D%7D"} {
		got := sent(t, operation("get", "/p/{a}",
			`,"parameters":[{"name":"a","in":"path","content":{"application/json":{}}}]`), `{"a":`+value+`}`)
		assert.Equal(t, "/p/"+want, got.Address)
	}
}

// Annotations beside a reference count, and values fit their type. Constants are values. Alternatives differ by their
// discriminator. Members are required wherever the schema states it.
func TestASchemaHasTheValuesThatServersTake(t *testing.T) {
	const schemas = `
components: {schemas: {
  Id: {type: string, description: any}, Loop: {$ref: "#/components/schemas/Loop"},
  Cat: {type: object, properties: {kind: {type: string}}}, Dog: {allOf: [{$ref: "#/components/schemas/Cat"}]},
  Cow: {properties: {kind: {const: moo}}}, a/b: {}}}
paths: {/a: {get: {parameters: [{name: q, in: query, schema: `
	const ref = `$ref: "#/components/schemas/`
	for schema, want := range map[string]string{
		`{` + ref + `Id", description: of the owner, nullable: true, type: object, default: x}`: `
			{"type":["string","null"],"description":"of the owner","default":"x"}`,
		`{properties: {a: {` + ref + `Id", readOnly: true}, b: {` + ref + `Id"}}}`: `
			{"properties":{"b":{"type":"string","description":"any"}}}`,
		`{properties: {a: {allOf: [{` + ref + `Id"}, {readOnly: true}]}, b: {type: string, pattern: "(?=.)a"}}}`: `
			{"properties":{"b":{"type":"string","description":"Pattern: (?=.)a"}}}`,
		`{required: [a, b, c], properties: {a: {` + ref + `None"}, b: {items: {` + ref + `Loop"}},` +
			`c: {$ref: "#/%zz"}}}`: `
			{"required":["a","b","c"],"properties":{"a":{},"b":{"items":{}},"c":{}}}`,
		`{allOf: [{properties: {id: {readOnly: true}, a: {}}}, {required: [a, id, b]}]}`: `
			{"allOf":[{"properties":{"a":{}}},{"required":["a","b"]}]}`,
		`{additionalProperties: false, required: [a]}`: `{"additionalProperties":false}`,
		`{const: null}`:             `{"enum":[null]}`,
		`{const: 7, type: integer}`: `{"enum":[7],"type":"integer"}`,
		`{enum: [1, a], const: 7}`:  `{"enum":[7]}`,
		`{oneOf: [{` + ref + `Cat"}, {` + ref + `Dog"}, {` + ref + `Cow"}, {}], discriminator: {propertyName: kind,` +
			`mapping: {tom: "#/components/schemas/Cat", kitty: Cat, x: Other}}}`: `{"oneOf":[
			{"type":"object","properties":{"kind":{"type":"string","enum":["kitty","tom","Cat"]}}},
			{"allOf":[{"type":"object","properties":{"kind":{"type":"string"}}}],
				"properties":{"kind":{"type":"string","enum":["Dog"]}}},
			{"properties":{"kind":{"enum":["moo"]}}},{}]}`,
		`{oneOf: [{` + ref + `a~1b"}], discriminator: {propertyName: kind}}`: `{"oneOf":[
			{"properties":{"kind":{"type":"string","enum":["a/b"]}}}]}`,
		`{allOf: [{` + ref + `Cat"}], discriminator: {propertyName: kind}}`: `
			{"allOf":[{"type":"object","properties":{"kind":{"type":"string"}}}]}`,
		`{type: string, enum: [1, 1.10, true, a, null], default: 2}`: `
			{"type":"string","enum":["1","1.10","true","a"],"default":"2"}`,
		`{type: integer, enum: ["1", "2"], default: ""}`:          `{"type":"integer","enum":[1,2]}`,
		`{type: number, enum: [1, x], default: "1.5"}`:            `{"type":"number","enum":[1],"default":1.5}`,
		`{type: boolean, enum: ["true", false, "0"], default: 1}`: `{"type":"boolean","enum":[true,false]}`,
		`{type: integer, enum: [created, changed], default: [1]}`: `{"enum":["created","changed"],"default":[1]}`,
		`{type: [string, "null"], enum: [1, null]}`:               `{"type":["string","null"],"enum":["1",null]}`,
		`{type: integer, default: unlimited}`:                     `{"type":"integer"}`,
		`{type: integer, default: 1.5}`:                           `{"type":"integer"}`,
		`{type: [string, integer], default: 5}`:                   `{"type":["string","integer"],"default":5}`,
		`{type: integer, default: 2.0}`:                           `{"type":"integer","default":2}`,
		`{type: number, enum: ["null", "5"]}`:                     `{"type":"number","enum":[5]}`,
		`{type: number, const: "null"}`:                           `{"enum":["null"]}`,
		`{type: integer, const: "1.5"}`:                           `{"enum":["1.5"]}`,
		`{type: integer, const: 1.5}`:                             `{"enum":[1.5]}`,
		`{type: array, default: a}`:                               `{"type":"array"}`,
		`{type: integer, maximum: 9223372036854775808}`:           `{"type":"integer","maximum":9223372036854775808}`,
	} {
		one := only(t, []byte("openapi: 3.1.0\nservers: [{url: 'https://x'}]"+schemas+schema+`}]}}}`), "")
		assert.Empty(t, one.Problem)
		assert.JSONEq(t, `{"type":"object","properties":{"q":`+want+`}}`, string(one.Parameters), schema)
	}
	one := only(t, operation("get", "/a", `,"parameters":[{"name":"q","in":"query","description":"of the owner",`+
		`"schema":{"description":"an id","pattern":"^a$"}}]`), "")
	assert.JSONEq(t, `{"type":"object","properties":{"q":{"description":"of the owner\nPattern: ^a$"}}}`,
		string(one.Parameters), "the description of a parameter comes before that of its type")
}

// A body that is too large is described less deeply, so that its members and the other parameters are known.
func TestALargeBodyIsDescribedLessDeeply(t *testing.T) {
	deep := `{"type":"object","description":"` + strings.Repeat("d", 300) + `","properties":{` +
		repeated(30, `"p@":{"$ref":"#/components/schemas/L_"}`) + `}}`
	one := only(t, []byte(`{"openapi":"3.0.0","servers":[{"url":"https://x"}],"paths":{"/a":{"post":{"parameters":[`+
		`{"name":"q","in":"query","schema":{"enum":["a"]}}],"requestBody":{"content":{"application/json":{"schema":`+
		`{"$ref":"#/components/schemas/L0"}}}}}}},"components":{"schemas":{"L0":`+strings.ReplaceAll(deep, "L_", "L1")+
		`,"L1":`+strings.ReplaceAll(deep, "L_", "L2")+`,"L2":`+strings.ReplaceAll(deep, "L_", "L3")+`,"L3":{}}}}`), "")
	var got struct {
		Properties struct {
			Q    struct{ Enum []string }
			Body struct {
				Properties map[string]struct{ Type string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(one.Parameters, &got))
	assert.Equal(t, []string{"a"}, got.Properties.Q.Enum)
	assert.Len(t, got.Properties.Body.Properties, 30)
	assert.Equal(t, "object", got.Properties.Body.Properties["p7"].Type)
	assert.LessOrEqual(t, len(one.Parameters), tool.MaxSchema)
}

// A large body does not remove the schemas of other operations, or of the parameters of its own operation.
func TestALargeBodyLeavesOtherOperationsTheirSchemas(t *testing.T) {
	for _, operations := range []int{60, 500} {
		levels := `"L8":{"type":"string"}`
		for i := range 8 {
			levels += fmt.Sprintf(`,"L%d":{"type":"object","properties":{%s}}`, i,
				repeated(8, fmt.Sprintf(`"p@":{"$ref":"#/components/schemas/L%d"}`, i+1)))
		}
		const body = `,"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/L0"}}}}`
		const query = `"parameters":[{"name":"q","in":"query","schema":{"type":"string","enum":["a"]}}]`
		found, err := discover(t, `{"openapi":"3.0.0","servers":[{"url":"https://x"}],"paths":{`+
			repeated(operations/2, `"/a@":{"post":{`+query+body+`}},"/b@/{id}":{"post":{`+query+`}}`)+
			`},"components":{"schemas":{`+levels+`}}}`)
		require.NoError(t, err)
		require.Len(t, found, operations)
		for _, one := range found {
			var got struct {
				Properties map[string]struct {
					Type       string
					Enum       []string
					Properties map[string]struct{ Type string }
				}
			}
			require.NoError(t, json.Unmarshal(one.Parameters, &got))
			assert.Equal(t, []string{"a"}, got.Properties["q"].Enum, one.Name)
			if strings.HasPrefix(one.Name, "post_a") {
				assert.Equal(t, "object", got.Properties["body"].Properties["p7"].Type, one.Name)
			} else {
				assert.Equal(t, "string", got.Properties["id"].Type, one.Name)
			}
		}
	}
}

func TestADocumentIsReadInItsEncoding(t *testing.T) {
	const plain = "{\n\t\"openapi\":\"3.0.0\",\"servers\":[{\"url\":\"https:\\/\\/x\"}]," +
		"\"paths\":{\"\\/a\":{\"get\":{\"summary\":\"café\"}}}}"
	const latin = "openapi: 3.0.0\nservers: [{url: 'https://x'}]\npaths:\n  /a:\n    get: {summary: caf\xe9}\n"
	wide := func(text string, order binary.AppendByteOrder) (raw []byte) {
		for _, c := range utf16.Encode([]rune(text)) {
			raw = order.AppendUint16(raw, c)
		}
		return raw
	}
	for name, raw := range map[string][]byte{
		"UTF-8 with a mark": []byte("\ufeff" + plain), "UTF-16 without one": wide(plain, binary.LittleEndian),
		"UTF-16": wide("\ufeff"+plain, binary.LittleEndian), "UTF-16BE": wide("\ufeff"+plain, binary.BigEndian),
		"Latin-1": []byte(strings.ReplaceAll(plain, "é", "\xe9")), "YAML in Latin-1": []byte(latin),
	} {
		assert.Equal(t, "café", only(t, raw, "").Description, name)
	}
	latin1 := func(bytes int) []byte {
		return []byte(strings.ReplaceAll(strings.Replace(plain, "{", `{"x":"`+strings.Repeat("x", bytes)+`",`, 1),
			"é", "\xe9"))
	}
	assert.Equal(t, "café", only(t, latin1(22<<20), "").Description, "a document may be larger than an answer")
	_, err := discover(t, strings.ReplaceAll(string(latin1(17<<20)), "x", "\xe9"))
	require.EqualError(t, err, "the document is over 32 MiB", "a character may have more bytes than in the document")
}
