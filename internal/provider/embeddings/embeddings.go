// Package embeddings makes the embedding models that the settings name.
//
// It is wiring: like boot and cloud it may import adapters.
package embeddings

import (
	"context"
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

// Models makes the embedding models, without calling any. The error names EMBEDDING_MODELS.
func Models(ctx context.Context, s setting.Settings) (*knowledge.Models, error) {
	offered, err := embedding.ParseNames(s.EmbeddingModels)
	if err != nil {
		return nil, fmt.Errorf("EMBEDDING_MODELS: %w", err)
	}
	models := &knowledge.Models{
		Providers: map[string]embedding.Model{embedding.Builtin: builtinembedding.New()},
	}
	for _, n := range offered {
		models.Offered = append(models.Offered, catalog.EmbeddingModel(n))
		if models.Providers[n.Provider] != nil {
			continue
		}
		if models.Providers[n.Provider], err = made(ctx, s, n); err != nil {
			return nil, err
		}
	}
	return models, nil
}

// made makes the models of a provider, which a name that is offered has.
func made(ctx context.Context, s setting.Settings, n embedding.Name) (embedding.Model, error) {
	switch {
	case n.Provider == embedding.Bedrock:
		account, err := client.AWS(ctx, s, "EMBEDDING_MODELS")
		if err != nil {
			return nil, err
		}
		return bedrockembedding.New(account), nil
	case s.OpenAIBaseURL == "" && s.OpenAIAPIKey == "":
		return nil, fmt.Errorf("EMBEDDING_MODELS: %s needs OPENAI_BASE_URL or OPENAI_API_KEY", n)
	default:
		return openaiembedding.New(s.OpenAIBaseURL, s.OpenAIAPIKey, client.HTTP()), nil
	}
}
