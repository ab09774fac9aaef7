// Package reach makes the models that the settings name. It is separate from provider so that programs that call
// no model do not link the clients.
//
// It is wiring: like boot and cloud it may import adapters.
package reach

import (
	"context"

	"agentplatform/internal/host"
	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/bedrockmodel"
	"agentplatform/internal/model/demomodel"
	"agentplatform/internal/model/openaimodel"
	"agentplatform/internal/provider/client"
	"agentplatform/internal/setting"
)

// Models makes the models, by provider name, without calling any. It fails where the AWS configuration cannot be
// loaded.
func Models(ctx context.Context, s setting.Settings, h host.Host) (map[string]model.Model, error) {
	bounded := model.Bound(client.HTTP())
	models := map[string]model.Model{"demo": demomodel.New(h)}
	if s.OpenAIBaseURL != "" || s.OpenAIAPIKey != "" {
		models["openai"] = openaimodel.New(s.OpenAIBaseURL, s.OpenAIAPIKey, bounded)
	}
	if s.AnthropicBaseURL != "" || s.AnthropicAPIKey != "" {
		models["anthropic"] = anthropicmodel.New(s.AnthropicBaseURL, s.AnthropicAPIKey, bounded)
	}
	if len(s.BedrockModels) > 0 {
		account, err := client.AWS(ctx, s, "BEDROCK_MODELS")
		if err != nil {
			return nil, err
		}
		id, version := setting.Guardrail(s.BedrockGuardrail)
		models["bedrock"] = bedrockmodel.New(account, bedrockmodel.Guardrail{ID: id, Version: version})
	}
	return models, nil
}
