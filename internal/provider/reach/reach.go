// Package reach makes the models that the settings name. It is separate from provider so that programs that call
// no model do not link the clients.
//
// It is wiring: like boot and cloud it may import adapters.
package reach

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"agentplatform/internal/embedding"
	"agentplatform/internal/embedding/bedrockembedding"
	"agentplatform/internal/embedding/builtinembedding"
	"agentplatform/internal/embedding/openaiembedding"
	"agentplatform/internal/host"
	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/bedrockmodel"
	"agentplatform/internal/model/demomodel"
	"agentplatform/internal/model/openaimodel"
	"agentplatform/internal/setting"
)

// firstByte limits the wait for a response's headers; the caller limits the time of the whole answer.
const firstByte = 5 * time.Minute

// Models makes the models, by provider name, without calling any. It fails where the AWS configuration cannot be
// loaded.
func Models(ctx context.Context, s setting.Settings, h host.Host) (map[string]model.Model, error) {
	client := model.Bound(clientOf())
	models := map[string]model.Model{"demo": demomodel.New(h)}
	if s.OpenAIBaseURL != "" || s.OpenAIAPIKey != "" {
		models["openai"] = openaimodel.New(s.OpenAIBaseURL, s.OpenAIAPIKey, client)
	}
	if s.AnthropicBaseURL != "" || s.AnthropicAPIKey != "" {
		models["anthropic"] = anthropicmodel.New(s.AnthropicBaseURL, s.AnthropicAPIKey, client)
	}
	if len(s.BedrockModels) > 0 {
		account, err := accountOf(ctx, s, "BEDROCK_MODELS")
		if err != nil {
			return nil, err
		}
		id, version, _ := strings.Cut(s.BedrockGuardrail, ":")
		models["bedrock"] = bedrockmodel.New(account, bedrockmodel.Guardrail{ID: id, Version: version})
	}
	return models, nil
}

// clientOf makes the client of providers.
func clientOf() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 64, firstByte
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is sent only to the configured address
	}}
}

// accountOf loads the AWS configuration. The error names the setting that needs it.
func accountOf(ctx context.Context, s setting.Settings, needs string) (aws.Config, error) {
	account, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = firstByte
		})))
	if err != nil {
		return account, fmt.Errorf("%s: %w", needs, err)
	}
	if s.BedrockRegion != "" {
		account.Region = s.BedrockRegion
	}
	if s.BedrockBaseURL != "" {
		account.BaseEndpoint = aws.String(s.BedrockBaseURL)
	}
	return account, nil
}

// Embeddings makes the embedding models, by provider name, without calling any, and returns those that the settings
// offer. The error names EMBEDDING_MODELS.
func Embeddings(ctx context.Context, s setting.Settings) (map[string]embedding.Model, []embedding.Name, error) {
	offered, err := embedding.ParseNames(s.EmbeddingModels)
	if err != nil {
		return nil, nil, fmt.Errorf("EMBEDDING_MODELS: %w", err)
	}
	models := map[string]embedding.Model{embedding.Builtin: builtinembedding.New()}
	for _, n := range offered {
		switch {
		case models[n.Provider] != nil:
		case n.Provider == embedding.OpenAI && s.OpenAIBaseURL == "" && s.OpenAIAPIKey == "":
			return nil, nil, fmt.Errorf("EMBEDDING_MODELS: %s needs OPENAI_BASE_URL or OPENAI_API_KEY", n)
		case n.Provider == embedding.OpenAI:
			models[n.Provider] = openaiembedding.New(s.OpenAIBaseURL, s.OpenAIAPIKey, clientOf())
		case n.Provider == embedding.Bedrock:
			account, err := accountOf(ctx, s, "EMBEDDING_MODELS")
			if err != nil {
				return nil, nil, err
			}
			models[n.Provider] = bedrockembedding.New(account)
		}
	}
	return models, offered, nil
}
