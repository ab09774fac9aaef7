package registry

import (
	"context"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/platform/setting"
)

var anthropicEntry = entry{
	About: About{
		Name: "anthropic", What: "Anthropic, and any endpoint with its Messages API",
		Settings: []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}, Key: "ANTHROPIC_API_KEY",
		URL:      anthropicmodel.URL,
		Prefixes: []string{"claude"},
	},
	chat: anthropic{},
}

type anthropic struct{}

func (anthropic) list(s setting.Settings) model.Catalogue {
	if s.AnthropicBaseURL == "" && s.AnthropicAPIKey == "" {
		return nil
	}
	return anthropicmodel.Catalogue(s.AnthropicBaseURL, s.AnthropicAPIKey)
}

func (anthropic) model(_ context.Context, s setting.Settings, with tools) (model.Model, error) {
	return anthropicmodel.New(s.AnthropicBaseURL, s.AnthropicAPIKey, with.client), nil
}
