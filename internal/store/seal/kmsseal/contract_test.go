//go:build integration

package kmsseal_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"agentplatform/internal/awstest"
	"agentplatform/internal/seal"
	"agentplatform/internal/seal/kmsseal"
	"agentplatform/internal/seal/sealtest"
)

func TestContract(t *testing.T) {
	client := kms.NewFromConfig(awstest.Config(t))
	key := awstest.Key(t, client)
	sealtest.Run(t, func(*testing.T) seal.Sealer { return kmsseal.New(client, key) })
}
