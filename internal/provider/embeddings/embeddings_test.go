package embeddings_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/embedding"
	"agentplatform/internal/embedding/bedrockembedding"
	"agentplatform/internal/embedding/builtinembedding"
	"agentplatform/internal/provider/embeddings"
	"agentplatform/internal/setting"
)

// What is wrong with one model is said, and keeps nobody from the others.
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
		{[]string{"openai/a", "openai/b"}, "http://127.0.0.1/v1", []string{embedding.Builtin, embedding.OpenAI}, 2, ""},
		{[]string{"openai/a", "bedrock/b"}, "", []string{embedding.Builtin, embedding.Bedrock}, 2,
			"EMBEDDING_MODELS: openai/a needs OPENAI_BASE_URL or OPENAI_API_KEY"},
		{[]string{"elsewhere/a"}, "", []string{embedding.Builtin}, 0, "EMBEDDING_MODELS: "},
	} {
		models, err := embeddings.Models(t.Context(),
			setting.Settings{EmbeddingModels: c.models, OpenAIBaseURL: c.baseURL}, nil)
		if c.wrong == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.wrong)
		}
		var has []string
		for name := range models.Providers {
			has = append(has, name)
		}
		assert.ElementsMatch(t, c.has, has, "%v", c.models)
		assert.Len(t, models.Offered, c.offered, "%v", c.models)
	}
}

// Who is not given the keys has another program asked for those models alone that need one.
func TestModelsThatNeedAKeyAreAskedElsewhere(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	keyed := &struct{ embedding.Model }{}
	models, err := embeddings.Models(t.Context(),
		setting.Settings{EmbeddingModels: []string{"openai/a", "bedrock/b"}}, keyed)
	require.NoError(t, err)
	assert.Same(t, keyed, models.Providers[embedding.OpenAI])
	assert.IsType(t, builtinembedding.Model{}, models.Providers[embedding.Builtin])
	assert.IsType(t, &bedrockembedding.Model{}, models.Providers[embedding.Bedrock])
}
