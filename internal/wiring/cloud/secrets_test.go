package cloud

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/setting"
)

func TestKeysOfProvidersAreReadFromTheSecret(t *testing.T) {
	kept := map[string]string{"WEBHOOK_SECRET": "of webhooks", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
	for _, p := range registry.All() {
		if p.Key != "" {
			kept[p.Key] = "kept " + p.Key
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, _ := json.Marshal(kept)
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": string(text)})
	}))
	defer server.Close()
	p := &Platform{
		Cloud: setting.Cloud{Secrets: "arn"}, Settings: setting.Settings{OpenAIAPIKey: "set"},
		secrets: secretsmanager.NewFromConfig(aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL,
			Credentials: credentials.NewStaticCredentialsProvider("id", "key", "")}),
	}
	require.NoError(t, p.ReadSecrets(t.Context()))
	assert.Equal(t, setting.Settings{
		WebhookSecret: "of webhooks", OpenAIAPIKey: "set", AnthropicAPIKey: "kept ANTHROPIC_API_KEY",
	}, p.Settings)
	assert.Contains(t, p.Models.(*provider.Set).Catalogues, "anthropic")
}
