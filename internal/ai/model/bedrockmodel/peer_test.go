//go:build peers

package bedrockmodel_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/bedrockmodel"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/proof/peertest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		account := aws.Config{Region: "eu-central-1", BaseEndpoint: &address,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret-key", "")}
		return bedrockmodel.New(account, bedrockmodel.Guardrail{})
	})
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "`@copilotkit/aimock`", Variant: "Converse",
		Version: peertest.NPM(t, "@copilotkit/aimock"),
		Works:   "texts, tool calls, pictures, usage, refusals, broken streams",
	})
}
