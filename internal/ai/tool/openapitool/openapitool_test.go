package openapitool_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/ai/tool/tooltest"
)

const small = `
openapi: 3.0.3
info: {title: Small, version: "1"}
servers: [{url: /v1}]
paths:
  /echo:
    get:
      operationId: echo
      parameters: [{name: message, in: query, required: true, schema: {type: string}}]
      responses: {"200": {description: ok}}
  /break:
    post:
      operationId: break
      requestBody: {content: {application/json: {schema: {type: object, properties: {message: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /fail: {get: {operationId: fail, responses: {"200": {description: ok}}}}
  /hang: {get: {operationId: hang, responses: {"200": {description: ok}}}}
  /huge: {get: {operationId: huge, responses: {"200": {description: ok}}}}
  /pets/{pet id}:
    parameters: [{name: pet id, in: path, required: true, schema: {type: integer}}]
    patch:
      parameters:
        - {name: tags, in: query, schema: {type: array, items: {type: string}}}
        - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
      responses: {"200": {description: ok}}
  /form:
    post:
      operationId: send form!
      requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}}}}}}
      responses: {"200": {description: ok}}
components:
  schemas:
    Pet:
      type: object
      required: [name, id]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, minLength: 1}
        born: {type: string, format: some-new-format}
        parent: {$ref: "#/components/schemas/Pet"}
`

// server is the API that the document describes; it answers with what it received.
// The number is of the calls whose connection it broke.
func server(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var broken atomic.Int64
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open-sesame" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/openapi.yaml":
			_, _ = io.WriteString(w, small)
		case "/v1/echo":
			_, _ = io.WriteString(w, "You said: "+r.URL.Query().Get("message"))
		case "/v1/break":
			_, _ = io.Copy(io.Discard, r.Body)
			broken.Add(1)
			panic(http.ErrAbortHandler)
		case "/v1/fail":
			http.Error(w, `{"error":"the moon is in the wrong phase"}`, http.StatusConflict)
		case "/v1/hang":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/v1/huge":
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		default:
			body, _ := io.ReadAll(r.Body)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"method": r.Method, "path": r.URL.EscapedPath(), "query": r.URL.Query(),
				"trace": r.Header.Get("X-Trace"), "cookie": r.Header.Get("Cookie"),
				"type": r.Header.Get("Content-Type"), "body": string(body), "key": r.Header.Get("Idempotency-Key"),
			})
		}
	}))
	t.Cleanup(func() {
		close(stop)
		s.Close()
	})
	return s, &broken
}

func TestContract(t *testing.T) {
	s, broken := server(t)
	tooltest.Run(t, tooltest.Harness{
		Kind: &openapitool.Kind{Client: http.DefaultClient},
		Endpoint: tool.Endpoint{URL: s.URL + "/openapi.yaml",
			Credentials: tool.Credentials{Type: "bearer", Token: "open-sesame"}},
		Echo: "echo", Fails: "fail", Hangs: "hang", Huge: "huge", Safe: []string{"echo"},
		Breaks: "break", Broken: func() int { return int(broken.Load()) },
	})
}

func TestArgumentsGoWhereTheDocumentPutsThem(t *testing.T) {
	s, _ := server(t)
	k := &openapitool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{Document: []byte(small), BaseURL: s.URL + "/v1",
		Credentials: tool.Credentials{Type: "bearer", Token: "open-sesame", Origins: []string{s.URL}}}
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	byName := map[string]tool.Definition{}
	for _, d := range found {
		byName[d.Name] = d
	}
	sent := func(name, arguments string) (got struct {
		Method, Path, Trace, Cookie, Type, Body, Key string
		Query                                        map[string][]string
	}) {
		answer, err := k.Call(t.Context(), e, byName[name],
			tool.Invocation{Arguments: json.RawMessage(arguments), IdempotencyKey: "k"})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &got))
		return got
	}
	got := sent("patch_pets_pet_id",
		`{"pet id": 7, "tags": ["a","b"], "fields": ["x","y"], "X-Trace": "t", `+
			`"session": "s", "body": {"name": "Rex", "born": null}}`)
	assert.Equal(t, "PATCH", got.Method)
	assert.Equal(t, "/v1/pets/7", got.Path)
	assert.Equal(t, map[string][]string{"tags": {"a", "b"}, "fields": {"x,y"}}, got.Query)
	assert.Equal(t, "t", got.Trace)
	assert.Equal(t, "session=s", got.Cookie)
	assert.Equal(t, "application/json", got.Type)
	assert.JSONEq(t, `{"name":"Rex","born":null}`, got.Body)
	assert.Equal(t, "k", got.Key)
	got = sent("patch_pets_pet_id", `{"pet id": "../../admin?x=1", "body": {}}`)
	assert.Equal(t, "/v1/pets/..%2F..%2Fadmin%3Fx=1", got.Path, "an argument leads to no other path")
	got = sent("send_form", `{"body": {"a": "1 2", "b": ["x","y"]}}`)
	assert.Equal(t, "a=1+2&b=x&b=y", got.Body)

	for _, bad := range []string{`{"body":{}}`, `{"pet id":"..","body":{}}`,
		`{"pet id":1,"X-Trace":"a\r\nHost: evil","body":{}}`} {
		_, err = k.Call(t.Context(), e, byName["patch_pets_pet_id"], tool.Invocation{Arguments: json.RawMessage(bad)})
		var failure *tool.Error
		require.ErrorAs(t, err, &failure, bad)
	}
	assert.JSONEq(t, `{"type":"object","required":["pet id","body"],"properties":{
		"pet id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"fields":{"type":"array","items":{"type":"string"}},
		"X-Trace":{"type":"string"},"session":{"type":"string"},
		"body":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1},"born":{"type":"string","format":"some-new-format"},"parent":{"type":"object"}}}}}`,
		string(byName["patch_pets_pet_id"].Parameters), "circles end, and what only the server says is left out")
}

// document makes a document with the given numbers of operations and of properties in each.
func document(operations, properties int) []byte {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},` +
		`"servers":[{"url":"https://api.example.com"}],"paths":{`)
	for i := range operations {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"/p%d":{"post":{"requestBody":{"content":`+
			`{"application/json":{"schema":{"type":"object","properties":{`, i)
		for j := range properties {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `"property_%d":{"type":"string",`+
				`"description":"what the property %d of the operation is for, at some length"}`, j, j)
		}
		b.WriteString(`}}}}},"responses":{"200":{"description":"ok"}}}}`)
	}
	b.WriteString(`}}`)
	return []byte(b.String())
}

// pathed is a document with one operation at a path.
func pathed(path string) []byte {
	return []byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},"servers":[` +
		`{"url":"https://example.com"}],"paths":{"` + path + `":{"get":{"responses":{}}}}}`)
}

// served is a document with one operation at a server.
func served(server string) []byte {
	return []byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},"servers":[{"url":"` + server +
		`"}],"paths":{"/x":{"get":{"responses":{}}}}}`)
}

// bomb is a YAML document whose aliases expand to thousands of millions of strings.
func bomb() string {
	var b strings.Builder
	b.WriteString("openapi: 3.0.0\nx-0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "x-%d: &x%d [*x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d]\n", i+1, i+1, i, i, i, i, i,
			i, i, i, i)
	}
	return b.String()
}

// shared is a document whose operations share their parameters, all with the same schema.
func shared(operations, parameters int, schema string) []byte {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","info":{},"servers":[{"url":"https://x"}],"components":{"schemas":{"S":` +
		schema + `,"L0":{"type":"string"}`)
	for i := range 12 { // each contains the one below twice
		fmt.Fprintf(&b, `,"L%d":{"anyOf":[{"$ref":"#/components/schemas/L%d"},{"$ref":"#/components/schemas/L%d"}]}`,
			i+1, i, i)
	}
	b.WriteString(`},"pathItems":{"P":{"parameters":[`)
	for i := range parameters {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"p%d","in":"query","schema":{"$ref":"#/components/schemas/S"}}`, i)
	}
	b.WriteString(`],"get":{},"put":{},"post":{},"delete":{},"patch":{}}}},"paths":{`)
	for i := range operations {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"/p%d":{"$ref":"#/components/pathItems/P"}`, i)
	}
	return []byte(b.String() + `}}`)
}

// FuzzDocument reads arbitrary documents: the work is limited, and every tool found can be offered to models.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(small))
	f.Add(shared(2, 3, `{"type":["string","null"],"enum":["a"],"default":1e2}`))
	f.Add(pathed("/x/{a}"))
	f.Add(swagger(`,"parameters":[{"$ref":"#/parameters/Limit"},{"name":"a","in":"formData","type":"file"}]`))
	f.Add(operated(3, `{"parameters":[{"name":"a","in":"query","schema":{"type":["string",{"a":1}],"nullable":true}}]}`,
		`{"url":"{v}","variables":{"v":{"default":"https://x"}}}`, `"schemas":{}`))
	f.Add([]byte("openapi: 3.1\nservers: [{url: 'https://{v}.example.com', variables: {v: {default: a}}}]\npaths: " +
		"{/a: {get: &g {summary: s}, put: {<<: *g, parameters: [{name: q, in: query}]}}}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > 64<<10 { // an empty document would be fetched
			return
		}
		steps, most, err := openapitool.Work(t.Context(), raw)
		if err == nil && steps > most {
			t.Fatalf("%d steps", steps)
		}
		found, err := (&openapitool.Kind{}).Discover(t.Context(),
			tool.Endpoint{Document: raw, BaseURL: "https://example.com"})
		if sizeOf(found) > openapitool.MaxFound {
			t.Fatalf("%d bytes are found in %d", sizeOf(found), len(raw))
		}
		for _, one := range found {
			if err != nil || !json.Valid(one.Parameters) || len(one.Parameters) > tool.MaxSchema ||
				tool.Name(one.Name) != one.Name ||
				one.Origin() != "https://example.com" {
				t.Fatalf("%v: %+v", err, one)
			}
		}
	})
}

// sizeOf is the size of the tools found, in bytes.
func sizeOf(found []tool.Definition) (bytes int) {
	for _, one := range found {
		bytes += len(one.Name) + len(one.Description) + len(one.Parameters) + len(one.Binding)
	}
	return bytes
}

// repeated formats each number below n, separated by commas.
func repeated(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(format, "@", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// operated is a document with the given number of paths, all with the same operation, and the given servers and
// components.
func operated(paths int, operation, server, components string) []byte {
	return []byte(
		`{"openapi":"3.1.0","info":{},"servers":[` + server + `],` +
			`"components":{` + components + `,"pathItems":{"P":{"post":` + operation + `}}},
		"paths":{` + repeated(
			paths,
			`"/p@":{"$ref":"#/components/pathItems/P"}`,
		) + `}}`,
	)
}
