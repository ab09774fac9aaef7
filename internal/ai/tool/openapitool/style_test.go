package openapitool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
)

// request is what a server has received.
type request struct {
	Address, Header, Cookie, Type, Body string
}

// operation is a document with one operation, which its parts describe.
func operation(method, path, parts string) []byte {
	return []byte(`{"openapi":"3.0.4","info":{"title":"t","version":"1"},"servers":[{"url":"https://example.com"}],` +
		`"paths":{"` + path + `":{"` + method + `":{"operationId":"act","responses":{}` + parts + `}}}}`)
}

// sent reads a document, checks the arguments against the schema of its one tool, calls it, and returns the request.
func sent(t *testing.T, document []byte, arguments string) (got request) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.RequestURI, r.Header.Get("Color"), r.Header.Get("Cookie"), r.Header.Get("Content-Type"),
			string(body)}
	}))
	defer server.Close()
	k := &openapitool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{Document: document, BaseURL: server.URL}
	one := only(t, document, server.URL)
	require.Empty(t, one.Problem)
	_, err := k.Call(t.Context(), e, one, tool.Invocation{Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	return got
}

// only is the one tool of a document.
func only(t *testing.T, document []byte, base string) tool.Definition {
	t.Helper()
	found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: document, BaseURL: base})
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// The rows are those of the table of style examples in the OpenAPI Specification 3.0.4.
func TestAParameterIsWrittenInItsStyle(t *testing.T) {
	values := []string{`""`, `"blue"`, `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`}
	for _, row := range []struct {
		in, style string
		explode   bool
		want      [4]string // an empty string, a string, an array, an object; "-" has no example
	}{
		{"path", "matrix", false, [4]string{";color", ";color=blue", ";color=blue,black,brown",
			";color=R,100,G,200,B,150"}},
		{"path", "matrix", true, [4]string{";color", ";color=blue", ";color=blue;color=black;color=brown",
			";R=100;G=200;B=150"}},
		{"path", "label", false, [4]string{"-", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"}},
		{"path", "label", true, [4]string{"-", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"}},
		{"path", "simple", false, [4]string{"-", "blue", "blue,black,brown", "R,100,G,200,B,150"}},
		{"path", "simple", true, [4]string{"-", "blue", "blue,black,brown", "R=100,G=200,B=150"}},
		{"query", "form", false, [4]string{"color=", "color=blue", "color=blue,black,brown",
			"color=R,100,G,200,B,150"}},
		{"query", "form", true, [4]string{"color=", "color=blue", "color=blue&color=black&color=brown",
			"R=100&G=200&B=150"}},
		{"query", "spaceDelimited", false, [4]string{"-", "-", "color=blue%20black%20brown",
			"color=R%20100%20G%20200%20B%20150"}},
		{"query", "pipeDelimited", false, [4]string{"-", "-", "color=blue%7Cblack%7Cbrown",
			"color=R%7C100%7CG%7C200%7CB%7C150"}},
		{"query", "deepObject", true, [4]string{"-", "-", "-",
			"color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"}},
		{"header", "simple", false, [4]string{"-", "blue", "blue,black,brown", "R,100,G,200,B,150"}},
		{"header", "simple", true, [4]string{"-", "blue", "blue,black,brown", "R=100,G=200,B=150"}},
		{"cookie", "form", false, [4]string{"color=", "color=blue", "color=blue,black,brown",
			"color=R,100,G,200,B,150"}},
		{"cookie", "form", true, [4]string{"color=", "color=blue", "color=blue; color=black; color=brown",
			"R=100; G=200; B=150"}},
	} {
		path := map[bool]string{true: "/p/{color}/q", false: "/p"}[row.in == "path"]
		for i, value := range values {
			document := operation("get", path, fmt.Sprintf(`,"parameters":[{"name":"color","in":%q,"style":%q,`+
				`"explode":%t,"required":true,"schema":{}}]`, row.in, row.style, row.explode))
			if row.want[i] == "-" {
				continue
			}
			got := sent(t, document, `{"color":`+value+`}`)
			is := map[string]string{"path": strings.TrimSuffix(strings.TrimPrefix(got.Address, "/p/"), "/q"),
				"query": strings.TrimPrefix(got.Address, "/p?"), "header": got.Header, "cookie": got.Cookie}[row.in]
			assert.Equal(t, row.want[i], is, "%s %s %t %s", row.in, row.style, row.explode, value)
		}
	}
}

func TestTheDefaultStylesAreThoseOfTheSpecification(t *testing.T) {
	for in, want := range map[string]string{
		"path": "/p/a,b", "query": "/p?color=a&color=b", "header": "a,b", "cookie": "color=a; color=b",
	} {
		path := map[bool]string{true: "/p/{color}", false: "/p"}[in == "path"]
		got := sent(t, operation("get", path, `,"parameters":[{"name":"color","in":"`+in+`","schema":{}}]`),
			`{"color":["a","b"]}`)
		assert.Contains(t, []string{got.Address, got.Header, got.Cookie}, want)
	}
}

func TestAQueryHasOnlyItsArgument(t *testing.T) {
	for _, c := range []struct{ parameter, value, want string }{
		{`{}`, `"a&b=c#d+e f/ü"`, "q=a%26b%3Dc%23d%2Be%20f%2F%C3%BC"},
		{`{"allowReserved":true}`, `"/a?b:c@d,e;f(g)'h*!$&i=j#k+l[m] n%2Fo%p"`,
			"q=/a?b:c@d,e;f(g)'h*!$%26i%3Dj%23k%2Bl%5Bm%5D%20n%2Fo%25p"},
		{`{"explode":false}`, `["a,b","c"]`, "q=a%2Cb,c"},
		{`{"style":"pipeDelimited"}`, `["a|b","c"]`, "q=a%7Cb%7Cc"},
		{`{"style":"spaceDelimited","explode":true}`, `["a","c"]`, "q=a&q=c"},
		{`{}`, `[]`, ""}, {`{}`, `{}`, ""}, {`{}`, `null`, ""}, {`{"explode":false}`, `[]`, ""},
		{`{}`, `["a",null,"b"]`, "q=a&q=b"}, {`{}`, `{"a":null,"b c":1}`, "b%20c=1"},
		{`{}`, `{"page":0,"sort":["a,b","c"],"x":{"y":[1]}}`, "page=0&sort=a%2Cb&sort=c&x=%7B%22y%22%3A%5B1%5D%7D"},
		{`{}`, `[true,1.5,{"a":1}]`, "q=true&q=1.5&q=%7B%22a%22%3A1%7D"},
		{`{"style":"deepObject"}`, `{"a":{"b":[1,2],"c":{"d":"e f"}},"g":[{"h":1},{"h":2}]}`,
			"q%5Ba%5D%5Bb%5D%5B%5D=1&q%5Ba%5D%5Bb%5D%5B%5D=2&q%5Ba%5D%5Bc%5D%5Bd%5D=e%20f&" +
				"q%5Bg%5D%5B0%5D%5Bh%5D=1&q%5Bg%5D%5B1%5D%5Bh%5D=2"},
		{`{"style":"deepObject"}`, `7`, "q=7"}, {`{"style":"deepObject"}`, `["a"]`, "q%5B%5D=a"},
		{`{"style":"deepObject"}`, `{"a&b]":null,"[c":"&"}`, "q%5B%5Bc%5D=%26"},
		{`{"schema":null,"content":{"application/json":{"schema":{}}}}`, `{"a":[1]}`, "q=%7B%22a%22%3A%5B1%5D%7D"},
		{`{"schema":null,"content":{"application/json":{"schema":{}}}}`, `"a"`, "q=%22a%22"},
		{`{"schema":null,"content":{"text/plain":{"schema":{}}}}`, `"a b"`, "q=a%20b"},
	} {
		var parameter map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"name":"q","in":"query","schema":{}}`), &parameter))
		require.NoError(t, json.Unmarshal([]byte(c.parameter), &parameter))
		one, err := json.Marshal(parameter)
		require.NoError(t, err)
		got := sent(t, operation("get", "/p", `,"parameters":[`+string(one)+`]`), `{"q":`+c.value+`}`)
		assert.Equal(t, strings.TrimSuffix("/p?"+c.want, "?"), got.Address, "%s %s", c.parameter, c.value)
	}
}

func TestAHeaderThatTheRequestDecidesIsNotAnArgument(t *testing.T) {
	one := only(t, operation("get", "/p", `,"parameters":[{"name":"Accept","in":"header","required":true},`+
		`{"name":"content-type","in":"header"},{"name":"Authorization","in":"header","required":true},`+
		`{"name":"Color","in":"header"}]`), "")
	assert.JSONEq(t, `{"type":"object","properties":{"Color":{}}}`, string(one.Parameters))
}

// A parameter that carries rights is not an argument of a model, in any case of its letters. A stored binding that has
// it as a header does not send it.
func TestAParameterThatCarriesRightsIsNotAnArgument(t *testing.T) {
	var parameters []string
	for in, names := range map[string][]string{
		"header": {"AUTHORIZATION", "Proxy-Authorization", "Cookie", "Host", "X-Api-Key", "x-auth-token",
			"X-Forwarded-For", "X-HTTP-Method-Override", "Content-Length", "transfer-encoding", "x-tenant"},
		"cookie": {"sid"},
		"query":  {"account"},
	} {
		for _, name := range names {
			parameters = append(parameters, fmt.Sprintf(`{"name":%q,"in":%q,"required":true}`, name, in))
		}
	}
	parameters = append(parameters, `{"name":"author","in":"header"}`, `{"name":"color","in":"cookie"}`,
		`{"name":"X-Partition-Key","in":"header"}`, `{"name":"X-Page-Token","in":"header"}`,
		`{"name":"token","in":"query"}`, `{"name":"Account","in":"query"}`)
	list := strings.Join(parameters, ",")
	const wanted = `{"type":"object","properties":{"author":{},"color":{},"X-Partition-Key":{},
		"X-Page-Token":{},"token":{},"Account":{}}}`
	schemes := `{"a":{"type":"apiKey","in":"header","name":"X-Tenant"},"d":{"$ref":"elsewhere.json"},
		"b":{"type":"apiKey","in":"query","name":"account"},"c":{"type":"http","scheme":"basic"},
		"e":{"type":"apiKey","in":"cookie","name":"sid"}}`
	for _, begin := range []string{
		`{"openapi":"3.0.0","servers":[{"url":"https://a.example.com"}],"components":{"securitySchemes":` +
			schemes + `}`,
		`{"swagger":"2.0","host":"a.example.com","securityDefinitions":` + schemes,
	} {
		document := begin + `,"paths":{"/p":{"get":{"parameters":[` + list + `]}}}}`
		found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: []byte(document)})
		require.NoError(t, err)
		require.Empty(t, found[0].Problem)
		assert.JSONEq(t, wanted, string(found[0].Parameters))
	}

	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer server.Close()
	stored := fmt.Sprintf(`{"method":"GET","url":%q,"header":[{"name":"authorization","argument":"a"},
		{"name":"Cookie","argument":"a"},{"name":"X-Color","argument":"a"}],
		"cookie":[{"name":"color","argument":"a"}]}`, server.URL)
	_, err := (&openapitool.Kind{Client: http.DefaultClient}).Call(t.Context(), tool.Endpoint{},
		tool.Definition{Binding: json.RawMessage(stored)}, tool.Invocation{Arguments: json.RawMessage(`{"a":"mine"}`)})
	require.NoError(t, err)
	assert.Equal(t, []string{"", "color=mine", "mine"},
		[]string{got.Header.Get("Authorization"), got.Header.Get("Cookie"), got.Header.Get("X-Color")})
}

// A parameter replaces a header that requests have, except the key of a call, which no model chooses. No header has two
// values.
func TestAHeaderOfTheRequestHasOneValue(t *testing.T) {
	const parameters = `,"parameters":[{"name":"idempotency-key","in":"header","required":true},` +
		`{"name":"user-agent","in":"header"}]`
	got := map[string]http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got[r.Method] = r.Header
	}))
	defer server.Close()
	call := func(method, arguments string) http.Header {
		k := &openapitool.Kind{Client: http.DefaultClient}
		one := only(t, operation(strings.ToLower(method), "/p", parameters), server.URL)
		assert.Equal(t, method == "GET", strings.Contains(string(one.Parameters), "idempotency-key"))
		_, err := k.Call(t.Context(), tool.Endpoint{}, one,
			tool.Invocation{Arguments: json.RawMessage(arguments), IdempotencyKey: "of-the-call"})
		require.NoError(t, err)
		return got[method]
	}
	for method, key := range map[string]string{"GET": "any", "POST": "of-the-call", "DELETE": "of-the-call"} {
		is := call(method, `{"idempotency-key":"any","user-agent":"own/2"}`)
		assert.Equal(t, []string{key}, is.Values("Idempotency-Key"), method)
		assert.Equal(t, []string{"own/2"}, is.Values("User-Agent"), method)
	}
	is := call("PUT", `{}`)
	assert.Equal(t, []string{"of-the-call"}, is.Values("Idempotency-Key"))
	assert.Equal(t, []string{"agent-platform/1"}, is.Values("User-Agent"))
}

// A binding of an earlier version may still have the key as an argument.
func TestAStoredParameterDoesNotReplaceTheKeyOfACall(t *testing.T) {
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys = r.Header.Values("Idempotency-Key")
	}))
	defer server.Close()
	binding := fmt.Sprintf(`{"method":"POST","url":%q,"header":[{"name":"Idempotency-Key","argument":"k"}]}`,
		server.URL)
	_, err := (&openapitool.Kind{Client: http.DefaultClient}).Call(t.Context(), tool.Endpoint{},
		tool.Definition{Binding: json.RawMessage(binding)},
		tool.Invocation{Arguments: json.RawMessage(`{"k":"any"}`), IdempotencyKey: "of-the-call"})
	require.NoError(t, err)
	assert.Equal(t, []string{"of-the-call"}, keys)
}

func TestABodyIsWrittenInItsMediaType(t *testing.T) {
	const object = `{"schema":{"type":"object","properties":{"a":{},"b":{}}}}`
	for _, c := range []struct{ content, body, kind, want string }{
		{`"application/json":` + object, `{"b":"<1>","a":[null]}`, "application/json", `{"b":"<1>","a":[null]}`},
		{`"application/json; charset=utf-8":` + object, `{"a":1}`, "application/json; charset=utf-8", `{"a":1}`},
		{`"application/vnd.api+json":` + object + `,"application/xml":{}`, `{"a":1}`, "application/vnd.api+json",
			`{"a":1}`},
		{`"*/*":` + object, `{"a":1}`, "application/json", `{"a":1}`},
		{`"application/json-patch+json":{},"application/merge-patch+json":` + object, `{"a":1}`,
			"application/merge-patch+json", `{"a":1}`},
		{`"application/x-www-form-urlencoded":` + object, `{"a":["1 2","&"],"b":{"c":1}}`,
			"application/x-www-form-urlencoded", "a=1+2&a=%26&b=%7B%22c%22%3A1%7D"},
		{`"application/x-www-form-urlencoded":{"schema":{},"encoding":{"a":{"explode":false},` +
			`"b":{"style":"deepObject"},"c":{"contentType":"application/json"},"d":{"allowReserved":true}}}`,
			`{"a":["1","2"],"b":{"x":{"y":1}},"c":"q","d":"/x"}`, "application/x-www-form-urlencoded",
			"a=1%2C2&b%5Bx%5D%5By%5D=1&c=%22q%22&d=/x"},
		{`"text/plain":{"schema":{"type":"string"}}`, `"hello ü"`, "text/plain", "hello ü"},
		{`"application/xml":` + object, `"<a>1</a>"`, "application/xml", "<a>1</a>"},
		{`"text/csv":{"schema":{"type":"string"}}`, `"a,b"`, "text/csv", "a,b"},
	} {
		got := sent(t, operation("post", "/p", `,"requestBody":{"content":{`+c.content+`}}`), `{"body":`+c.body+`}`)
		assert.Equal(t, c.kind, got.Type, c.content)
		assert.Equal(t, c.want, got.Body, c.content)
	}
}

func TestAMultipartBodyHasItsPartsAndNoFiles(t *testing.T) {
	document := operation("post", "/p", `,"requestBody":{"content":{"multipart/form-data":{"schema":{`+
		`"required":["note"],"properties":{"note":{"type":"string"},"tags":{"type":"array","items":{}},`+
		`"more":{"type":"object"},"file":{"type":"string","format":"binary"}}},`+
		`"encoding":{"note":{"contentType":"text/markdown"}}}}}`)
	assert.NotContains(t, string(only(t, document, "").Parameters), `"file"`)
	got := sent(t, document, `{"body":{"note":"# \"hi\"","tags":["a","b"],"more":{"x":1}}}`)
	kind, parameters, err := mime.ParseMediaType(got.Type)
	require.NoError(t, err)
	assert.Equal(t, "multipart/form-data", kind)
	var parts []string
	for r := multipart.NewReader(strings.NewReader(got.Body), parameters["boundary"]); ; {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(part)
		require.NoError(t, err)
		parts = append(parts, part.FormName()+" "+part.Header.Get("Content-Type")+" "+string(text))
	}
	assert.Equal(t, []string{`note text/markdown # "hi"`, "tags  a", "tags  b", `more application/json {"x":1}`}, parts)
}

// An operation whose request a model cannot write is off, with a reason.
func TestAnOperationThatCannotBeCalledHasAReason(t *testing.T) {
	body := func(content string) string { return `,"requestBody":{"content":{` + content + `}}` }
	parameter := func(in, style string) string {
		return `,"parameters":[{"name":"c","in":"` + in + `","style":"` + style + `","schema":{}}]`
	}
	parted := func(schema string) string { return body(`"multipart/form-data":{"schema":` + schema + `}`) }
	const needs = "it needs a file (f)"
	for _, c := range [][2]string{
		{parameter("header", "deepObject"), `the style "deepObject" of its parameter c in the header`},
		{parameter("query", "matrix"), "in the query"},
		{parameter("path", "form"), "in the path"},
		{parameter("cookie", "pipeDelimited"), "in the cookie"},
		{parameter("query", "commas"), `the style "commas"`},
		{body(`"application/octet-stream":{"schema":{}}`), "its body is application/octet-stream, which"},
		{body(`"image/png":{}`), "its body is image/png"},
		{body(`"multipart/related":{"schema":{}}`), "its body is multipart/related"},
		{parted(`{"required":["f"],"properties":{"a":{},"f":{"format":"binary"}}}`), needs},
		{parted(`{"properties":{"f":{"type":"array","items":{"format":"binary"}}}}`), needs},
		{parted(`{"required":["f"],"properties":{"a":{},"f":{"contentMediaType":"image/png"}}}`), needs},
	} {
		one := only(t, operation("post", "/p/{c}", c[0]), "")
		assert.Contains(t, one.Problem, c[1], c[0])
	}
}
