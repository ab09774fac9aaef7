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
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 64, firstByte
	client := model.Bound(&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is sent only to the configured address
	}})
	models := map[string]model.Model{"demo": demomodel.New(h)}
	if s.OpenAIBaseURL != "" || s.OpenAIAPIKey != "" {
		models["openai"] = openaimodel.New(s.OpenAIBaseURL, s.OpenAIAPIKey, client)
	}
	if s.AnthropicBaseURL != "" || s.AnthropicAPIKey != "" {
		models["anthropic"] = anthropicmodel.New(s.AnthropicBaseURL, s.AnthropicAPIKey, client)
	}
	if len(s.BedrockModels) > 0 {
		account, err := config.LoadDefaultConfig(ctx,
			config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
				t.ResponseHeaderTimeout = firstByte
			})))
		if err != nil {
			return nil, fmt.Errorf("BEDROCK_MODELS: %w", err)
		}
		if s.BedrockRegion != "" {
			account.Region = s.BedrockRegion
		}
		if s.BedrockBaseURL != "" {
			account.BaseEndpoint = aws.String(s.BedrockBaseURL)
		}
		id, version, _ := strings.Cut(s.BedrockGuardrail, ":")
		models["bedrock"] = bedrockmodel.New(account, bedrockmodel.Guardrail{ID: id, Version: version})
	}
	return models, nil
}
