package httptool_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/ai/tool/tooltest"
)

func TestContract(t *testing.T) {
	var broken atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "open-sesame" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		var message string
		_ = json.NewDecoder(r.Body).Decode(&message)
		if message == "break" || message == "" {
			broken.Add(1)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "You said: "+message)
	}))
	defer server.Close()
	tooltest.Run(t, tooltest.Harness{
		Kind: &httptool.Kind{Client: http.DefaultClient},
		Endpoint: tool.Endpoint{
			URL:         server.URL + "/echo",
			Credentials: tool.Credentials{Type: "basic", Username: "u", Password: "open-sesame"},
			Request: &tool.HTTPRequest{Name: "say", Method: "POST", Body: "message", Parameters: json.RawMessage(
				`{"type":"object","properties":{"message":{"type":"string"}}}`)},
		},
		Echo: "say", Breaks: "say", Broken: func() int { return int(broken.Load()) },
	})
}

func described(t *testing.T, text string) (r *tool.HTTPRequest) {
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	return r
}

func TestAnInvalidURLTemplateIsRefused(t *testing.T) {
	k := &httptool.Kind{Client: http.DefaultClient}
	for request, wantErr := range map[string]string{
		`{"name":"x","method":"TRACE"}`:  "the method must be",
		`{"method":"GET"}`:               "needs a name",
		`{"name":"x","parameters":true}`: "must be an object",
		`null`:                           "the request is missing",
	} {
		_, err := k.Discover(t.Context(),
			tool.Endpoint{URL: "https://example.com/{a}", Request: described(t, request)})
		assert.ErrorContains(t, err, wantErr, request)
	}
	for request, wantErr := range map[string]string{
		`{"name":"x","headers":{"Authorization":"Bearer a"}}`: "is a credential",
		`{"name":"x","headers":{"x-api-key":"a"}}`:            "is a credential",
		`{"name":"x","headers":{"X-Word":"Bearer a"}}`:        "is a credential",
		`{"name":"x","headers":{"a b":"c"}}`:                  "is not a header name",
		`{"name":"x","headers":{"X-Line":"a\r\nb"}}`:          "must be a single line",
		`{"name":"x","headers":{"Cookie":"a=b"}}`:             "is a credential",
	} {
		_, err := k.Discover(t.Context(),
			tool.Endpoint{URL: "https://example.com/{a}", Request: described(t, request)})
		assert.ErrorContains(t, err, wantErr, request)
	}
	_, err := k.Discover(t.Context(),
		tool.Endpoint{URL: "https://example.com/",
			Request: described(t, `{"name":"x","headers":{"Accept":"text/csv","X-Author":"me"}}`)})
	require.NoError(t, err)
	for _, address := range []string{
		"https://{host}/x", "https://example.com{h}/x", "https://{u}@example.com/x", "https://a:b@example.com/x",
		"https://example.com:{p}/x", "{s}://example.com/x",
		"https://example.com/?q={a}", "https://example.com/#{a}", "/x", "{all}", "ftp://example.com/{a}",
	} {
		_, err := k.Discover(t.Context(), tool.Endpoint{URL: address, Request: described(t, `{"name":"x"}`)})
		assert.ErrorContains(t, err, "the URL must be absolute", address)
	}
	found, err := k.Discover(t.Context(),
		tool.Endpoint{URL: "https://example.com/{a}", Request: described(t, `{"name":"x y"}`)})
	require.NoError(t, err)
	assert.Equal(t, "x_y", found[0].Name)
	assert.True(t, found[0].RetrySafe)
}

// Arguments with characters that are special in an address fill a single path segment.
func TestAnArgumentFillsOnlyItsPathSegment(t *testing.T) {
	var reached []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.RequestURI)
	}))
	defer server.Close()
	call := func(template string, arguments map[string]any) error {
		binding, err := json.Marshal(httptool.Request{Method: "GET", URL: template})
		require.NoError(t, err)
		raw, err := json.Marshal(arguments)
		require.NoError(t, err)
		_, err = httptool.Do(t.Context(), http.DefaultClient, tool.Credentials{}, binding,
			tool.Invocation{Arguments: raw})
		return err
	}
	for _, hostile := range []string{
		"/", "a/b", "//evil", "..", "../..", ".", "%2e%2e", "..%2f", "\\", "..\\", "?a=b", "#a", "@evil", ":80",
		"user:word@evil", "%", "%2f", "%00", "\x00", "\r\n", " ",
		";a=b", "a&b", "ü", "{x}", "http://evil/",
	} {
		for _, template := range []string{"/a/{x}/b", "/a/{x}", "/{x}", "/a b/{x}/b", "/a|b/v{x}.json", "/{x}{y}/b"} {
			reached = nil
			if call(server.URL+template, map[string]any{"x": hostile, "y": hostile}) != nil {
				assert.Empty(t, reached, "%q in %s", hostile, template)
				continue
			}
			require.Len(t, reached, 1)
			there := strings.Split(reached[0], "/")
			assert.Len(t, there, len(strings.Split(template, "/")), "%q in %s leads to %s", hostile, template,
				reached[0])
			assert.NotContains(t, reached[0], "?")
			assert.NotContains(t, there, "..")
			assert.NotContains(t, there, ".")
		}
	}
	for _, template := range []string{"http://127.0.0.1{x}/steal",
		strings.Replace(server.URL, "http://", "http://{x}", 1), server.URL + "/?q={x}"} {
		reached = nil
		require.Error(t, call(template, map[string]any{"x": "@" + strings.TrimPrefix(server.URL, "http://")}), template)
		assert.Empty(t, reached)
	}
}
