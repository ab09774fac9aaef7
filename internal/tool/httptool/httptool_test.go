package httptool_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/tool"
	"agentplatform/internal/tool/httptool"
	"agentplatform/internal/tool/tooltest"
)

func TestContract(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "open-sesame" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		var said string
		_ = json.NewDecoder(r.Body).Decode(&said)
		_, _ = io.WriteString(w, "You said: "+said)
	}))
	defer server.Close()
	tooltest.Run(t, tooltest.Harness{
		Kind: &httptool.Kind{Client: http.DefaultClient},
		Endpoint: tool.Endpoint{
			URL: server.URL + "/echo", Credentials: tool.Credentials{Type: "basic", Username: "u", Password: "open-sesame"},
			Request: json.RawMessage(`{"name":"say","method":"POST","body":"message","parameters":{"type":"object","properties":{"message":{"type":"string"}}}}`),
		},
		Echo: "say",
	})
}

func TestATemplateThatCannotBe(t *testing.T) {
	k := &httptool.Kind{Client: http.DefaultClient}
	for request, says := range map[string]string{
		`{"name":"x","method":"TRACE"}`: "the method must be",
		`{"method":"GET"}`:              "needs a name",
		`{"name":"x","colour":"red"}`:   "unknown field",
		`[]`:                            "cannot be read",
	} {
		_, err := k.Discover(t.Context(), tool.Endpoint{URL: "https://example.com/{a}", Request: json.RawMessage(request)})
		assert.ErrorContains(t, err, says, request)
	}
	for _, address := range []string{"https://{host}/x", "https://example.com/?q={a}", "/x", "{all}"} {
		_, err := k.Discover(t.Context(), tool.Endpoint{URL: address, Request: json.RawMessage(`{"name":"x"}`)})
		assert.ErrorContains(t, err, "the URL must be absolute", address)
	}
	found, err := k.Discover(t.Context(), tool.Endpoint{URL: "https://example.com/{a}", Request: json.RawMessage(`{"name":"x y"}`)})
	require.NoError(t, err)
	assert.Equal(t, "x_y", found[0].Name)
	assert.True(t, found[0].RetrySafe)
}
