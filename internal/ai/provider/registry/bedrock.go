package registry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/bedrockembedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/bedrockmodel"
	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/platform/setting"
)

var bedrockEntry = entry{
	About: About{
		Name: "bedrock", What: "Amazon Bedrock, with AWS credentials", Settings: []string{"BEDROCK_MODELS"},
		Aliases: []string{"bedrock_converse", "amazon_bedrock"},
	},
	chat: bedrock{}, embeddings: bedrock{},
}

type bedrock struct{}

func (bedrock) list(s setting.Settings) model.Catalogue {
	if len(s.BedrockModels) == 0 {
		return nil
	}
	var listed model.FixedList
	for _, name := range s.BedrockModels {
		listed = append(listed, model.Info{Name: name, Description: "Amazon Bedrock"})
	}
	return listed
}

func (bedrock) model(ctx context.Context, s setting.Settings, _ tools) (model.Model, error) {
	account, err := bedrockAccount(ctx, s, "BEDROCK_MODELS")
	if err != nil {
		return nil, err
	}
	id, version := setting.Guardrail(s.BedrockGuardrail)
	return bedrockmodel.New(account, bedrockmodel.Guardrail{ID: id, Version: version}), nil
}

// embedding makes the embedding models. It does not depend on the models that agents may name.
func (bedrock) embedding(ctx context.Context, s setting.Settings, _ *http.Client) (embedding.Model, error) {
	account, err := bedrockAccount(ctx, s, "EMBEDDING_MODELS")
	if err != nil {
		return nil, err
	}
	return bedrockembedding.New(account), nil
}

// bedrockAccount loads the AWS configuration, with the Region and the address that the settings name for Bedrock. The
// error names the setting that needs it.
func bedrockAccount(ctx context.Context, s setting.Settings, needs string) (aws.Config, error) {
	account, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = providerhttp.FirstByte
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
