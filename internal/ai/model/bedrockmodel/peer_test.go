//go:build peers

package bedrockmodel_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/bedrockmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		account := aws.Config{Region: "eu-central-1", BaseEndpoint: &address,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret-key", "")}
		return bedrockmodel.New(account, bedrockmodel.Guardrail{})
	})
}
