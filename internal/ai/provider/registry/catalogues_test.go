package registry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/setting"
)

func TestEachProvidersListIsRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/openai/v1/models" && r.Header.Get("Authorization") == "Bearer o":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt","object":"model","owned_by":"us"}]}`)
		case r.URL.Path == "/v1/models" && r.Header.Get("X-Api-Key") == "a" && r.Header.Get("Anthropic-Version") != "":
			_, _ = io.WriteString(w,
				`{"data":[{"id":"claude","type":"model","display_name":"Claude"}],"has_more":false}`)
		default:
			http.Error(w, "secret details", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	s := setting.Settings{
		OpenAIBaseURL: server.URL + "/openai/v1/", OpenAIAPIKey: "o", AnthropicBaseURL: server.URL,
		AnthropicAPIKey: "a", BedrockModels: []string{"eu.nova"},
	}
	for provider, want := range map[string]model.Info{
		"openai": {Name: "gpt", Description: "us"}, "anthropic": {Name: "claude", Description: "Claude"},
		"bedrock": {Name: "eu.nova", Description: "Amazon Bedrock"},
	} {
		got, err := registry.Catalogues(s)[provider].List(t.Context())
		require.NoError(t, err, provider)
		assert.Equal(t, []model.Info{want}, got)
	}
	array := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id":"of Together","object":"model"}]`)
	}))
	defer array.Close()
	got, err := registry.Catalogues(setting.Settings{OpenAIBaseURL: array.URL})["openai"].List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []model.Info{{Name: "of Together"}}, got)
	s.OpenAIAPIKey = "wrong"
	_, err = registry.Catalogues(s)["openai"].List(t.Context())
	require.EqualError(t, err, "the model's provider refuses the API key: it answered 401: Unauthorized")
	s.OpenAIBaseURL = "http://127.0.0.1:1/v1"
	_, err = registry.Catalogues(s)["openai"].List(t.Context())
	require.ErrorContains(t, err, "cannot be reached")
	assert.NotContains(t, err.Error(), "127.0.0.1")
	assert.Len(t, registry.Catalogues(setting.Settings{}), 1, "demo is always there")
}

func TestAnInvalidListOfModelsIsNotReadAsAnEmptyOne(t *testing.T) {
	for _, body := range []string{`{"data":"none"}`, `{"data":[7]}`, `["gpt"]`, `7`, `no`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
		}))
		_, err := registry.Catalogues(setting.Settings{OpenAIBaseURL: server.URL})["openai"].List(t.Context())
		require.EqualError(t, err, "the model's provider did not return a list of models", body)
		server.Close()
	}
}

func TestAKeyFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a key was taken elsewhere")
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := registry.Catalogues(setting.Settings{AnthropicBaseURL: server.URL,
		AnthropicAPIKey: "a"})["anthropic"].List(t.Context())
	require.EqualError(t, err, "the model's provider answered 307: Temporary Redirect")
}
