package openapitool_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/platform/schema"
)

// A published OpenAPI document is read, and its operations are called on a loopback server.
func TestAPublishedDocumentIsReadAndItsOperationsCalled(t *testing.T) {
	document, err := os.ReadFile("testdata/figma.yaml")
	require.NoError(t, err)
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			_, _ = w.Write(document)
			return
		}
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Figma-Token")+" "+string(body))
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer server.Close()
	k := &openapitool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{URL: server.URL + "/openapi.yaml", BaseURL: server.URL,
		Credentials: tool.Credentials{Type: "header", Name: "X-Figma-Token", Value: "word",
			Origins: []string{server.URL}}}
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	byName := map[string]tool.Definition{}
	for _, d := range found {
		_, err := schema.Compile(d.Parameters)
		require.NoError(t, err, d.Name)
		assert.LessOrEqual(t, len(d.Parameters), tool.MaxSchema, d.Name)
		assert.NotEmpty(t, d.Description, d.Name)
		byName[d.Name] = d
	}
	// nolint:testifylint // Len would print all of them
	assert.Equal(t, 54, len(byName), "every operation has a name of its own")
	assert.True(t, byName["getFile"].RetrySafe)
	assert.False(t, byName["postComment"].RetrySafe)
	for name, arguments := range map[string]string{
		"getFile":     `{"file_key":"a/b","ids":"1:2,3:4","depth":2}`,
		"postComment": `{"file_key":"k","body":{"message":"nice"}}`,
	} {
		takes, err := schema.Compile(byName[name].Parameters)
		require.NoError(t, err)
		require.NoError(t, takes.Check(t.Context(), json.RawMessage(arguments)))
		require.Error(t, takes.Check(t.Context(), json.RawMessage(`{}`)), "what is required is required")
		_, err = k.Call(t.Context(), e, byName[name], tool.Invocation{Arguments: json.RawMessage(arguments)})
		require.NoError(t, err)
	}
	assert.ElementsMatch(t, []string{
		"GET /v1/files/a%2Fb?ids=1%3A2%2C3%3A4&depth=2 word ", `POST /v1/files/k/comments word {"message":"nice"}`,
	}, sent)
}
