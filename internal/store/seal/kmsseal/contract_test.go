//go:build integration

package kmsseal_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/kmsseal"
	"agentplatform/internal/store/seal/sealtest"
)

func TestContract(t *testing.T) {
	client := kms.NewFromConfig(awstest.Config(t))
	key := awstest.Key(t, client)
	sealtest.Run(t, func(*testing.T) seal.Sealer { return kmsseal.New(client, key) })
}
