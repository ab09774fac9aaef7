package registry

import (
	"context"
	"net/http"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/openaiembedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/openaimodel"
	"agentplatform/internal/platform/setting"
)

var openaiEntry = entry{
	About: About{
		Name: "openai", What: "OpenAI, and any endpoint with its API: Ollama, vLLM, llama.cpp's server, LiteLLM",
		Settings: []string{"OPENAI_BASE_URL", "OPENAI_API_KEY"}, Key: "OPENAI_API_KEY",
		URL:      openaimodel.URL,
		Prefixes: []string{"gpt-", "chatgpt-", "ft:gpt-", "o1", "o3", "o4"},
	},
	chat: openai{}, embeddings: openai{},
}

type openai struct{}

func (openai) configured(s setting.Settings) bool {
	return s.OpenAIBaseURL != "" || s.OpenAIAPIKey != ""
}

func (o openai) list(s setting.Settings) model.Catalogue {
	if !o.configured(s) {
		return nil
	}
	return openaimodel.Catalogue(s.OpenAIBaseURL, s.OpenAIAPIKey)
}

func (openai) model(_ context.Context, s setting.Settings, with tools) (model.Model, error) {
	return openaimodel.New(s.OpenAIBaseURL, s.OpenAIAPIKey, with.client), nil
}

func (o openai) embedding(_ context.Context, s setting.Settings, client *http.Client) (embedding.Model, error) {
	if !o.configured(s) {
		return nil, nil
	}
	return openaiembedding.New(s.OpenAIBaseURL, s.OpenAIAPIKey, client), nil
}
