// Package embeddings makes the embedding models that the settings name.
//
// It is wiring: like boot and cloud it may import adapters.
package embeddings

import (
	"context"
	"errors"
	"fmt"

	"agentplatform/internal/catalog"
	"agentplatform/internal/embedding"
	"agentplatform/internal/embedding/bedrockembedding"
	"agentplatform/internal/embedding/builtinembedding"
	"agentplatform/internal/embedding/openaiembedding"
	"agentplatform/internal/knowledge"
	"agentplatform/internal/provider/client"
	"agentplatform/internal/setting"
)

// Models makes the embedding models, without calling any. Those of a provider that needs a key are keyed; nil: they are
// made here, with the key of the settings. The error names EMBEDDING_MODELS and joins what is wrong with
// some of them: the others are there, and so is the built-in one.
func Models(ctx context.Context, s setting.Settings, keyed embedding.Model) (*knowledge.Models, error) {
	models := &knowledge.Models{
		Providers: map[string]embedding.Model{embedding.Builtin: builtinembedding.New()},
	}
	offered, err := embedding.ParseNames(s.EmbeddingModels)
	if err != nil {
		return models, fmt.Errorf("EMBEDDING_MODELS: %w", err)
	}
	var wrong []error
	for _, n := range offered {
		models.Offered = append(models.Offered, catalog.EmbeddingModel(n))
		if models.Providers[n.Provider] != nil {
			continue
		}
		model, err := made(ctx, s, n, keyed)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		models.Providers[n.Provider] = model
	}
	return models, errors.Join(wrong...)
}

// made makes the models of a provider, which a name that is offered has.
func made(
	ctx context.Context, s setting.Settings, n embedding.Name, keyed embedding.Model,
) (embedding.Model, error) {
	switch {
	case n.Provider == embedding.Bedrock:
		account, err := client.AWS(ctx, s, "EMBEDDING_MODELS")
		if err != nil {
			return nil, err
		}
		return bedrockembedding.New(account), nil
	case keyed != nil:
		return keyed, nil
	case s.OpenAIBaseURL == "" && s.OpenAIAPIKey == "":
		return nil, fmt.Errorf("EMBEDDING_MODELS: %s needs OPENAI_BASE_URL or OPENAI_API_KEY", n)
	default:
		return openaiembedding.New(s.OpenAIBaseURL, s.OpenAIAPIKey, client.HTTP()), nil
	}
}
