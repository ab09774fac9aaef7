package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/bedrockembedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/setting"
)

// The error names the model that lacks a setting. The other models are made.
func TestAModelThatLacksSomethingIsNamedAndTheOthersAreThere(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	for _, c := range []struct {
		models  []string
		baseURL string
		has     []string
		offered int
		wrong   string // in the error; empty: none
	}{
		{nil, "", []string{embedding.Builtin}, 0, ""},
		{[]string{"openai/a", "openai/b"}, "http://127.0.0.1/v1", []string{embedding.Builtin, "openai"}, 2, ""},
		{[]string{"openai/a", "bedrock/b"}, "", []string{embedding.Builtin, "bedrock"}, 2,
			"EMBEDDING_MODELS: openai/a needs OPENAI_BASE_URL or OPENAI_API_KEY"},
		{[]string{"openai/a", "openai/b"}, "", []string{embedding.Builtin}, 2,
			"EMBEDDING_MODELS: openai/a needs OPENAI_BASE_URL or OPENAI_API_KEY\n" +
				"EMBEDDING_MODELS: openai/b needs OPENAI_BASE_URL or OPENAI_API_KEY"},
	} {
		models, err := registry.OpenEmbeddings(t.Context(),
			setting.Settings{EmbeddingModels: c.models, OpenAIBaseURL: c.baseURL}, nil)
		require.NoError(t, err)
		if c.wrong == "" {
			require.NoError(t, models.Lacking)
		} else {
			require.ErrorContains(t, models.Lacking, c.wrong)
		}
		var has []string
		for name := range models.Models {
			has = append(has, name)
		}
		assert.ElementsMatch(t, c.has, has, "%v", c.models)
		assert.Len(t, models.Names, c.offered, "%v", c.models)
	}
}

// Options of a model that is not offered are an error: they would do nothing.
func TestOptionsAreOfModelsThatAreOffered(t *testing.T) {
	s := setting.Settings{
		EmbeddingModels: []string{"openai/a:64"}, OpenAIBaseURL: "http://127.0.0.1/v1",
		EmbeddingOptions: `{"openai/a": {"query_prefix": "q: "}}`,
	}
	models, err := registry.OpenEmbeddings(t.Context(), s, nil)
	require.NoError(t, err)
	assert.Equal(t, "q: ", *models.Options["openai/a"].QueryPrefix)
	s.EmbeddingOptions = `{"openai/b": {"query_prefix": "q: "}}`
	_, err = registry.OpenEmbeddings(t.Context(), s, nil)
	require.EqualError(t, err, `EMBEDDING_OPTIONS has "openai/b", which is not in EMBEDDING_MODELS`)
	_, err = registry.OpenEmbeddings(t.Context(), setting.Settings{EmbeddingModels: []string{"elsewhere/a"}}, nil)
	require.EqualError(t, err, `EMBEDDING_MODELS: "elsewhere/a" must begin with builtin/, openai/ or bedrock/`)
}

// A program without the keys sends requests to another program, only for the models that need a key.
func TestModelsThatNeedAKeyAreAskedElsewhere(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	keyed := map[string]embedding.Model{"openai": &struct{ embedding.Model }{}}
	models, err := registry.OpenEmbeddings(t.Context(),
		setting.Settings{EmbeddingModels: []string{"openai/a", "bedrock/b"}},
		func(provider string) embedding.Model { return keyed[provider] })
	require.NoError(t, err)
	assert.Same(t, keyed["openai"], models.Models["openai"])
	assert.IsType(t, builtinembedding.Model{}, models.Models[embedding.Builtin])
	assert.IsType(t, &bedrockembedding.Model{}, models.Models["bedrock"])
}
