package brokerclient_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/brokerclient"
)

// The broker checks models that need a key, and no others: the address here has no listener.
func TestModelsThatNeedAKeyAreTheBrokersAffair(t *testing.T) {
	nowhere := "http://127.0.0.1:1"
	p := &cloud.Platform{
		Host: host.System(), Cloud: setting.Cloud{Broker: "broker"},
		Settings: setting.Settings{BedrockModels: []string{"eu.nova"}, OpenAIBaseURL: nowhere, OpenAIAPIKey: "key"},
		Account: aws.Config{Region: "eu-central-1", BaseEndpoint: &nowhere,
			Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")},
	}
	_, err := brokerclient.New(p)
	require.NoError(t, err)
	require.NoError(t, p.Models.Check(t.Context(), "demo", "any", false))
	require.NoError(t, p.Models.Check(t.Context(), "bedrock", "eu.nova", false))
	require.ErrorContains(t, p.Models.Check(t.Context(), "bedrock", "another", false), "has no model")
	for _, name := range []string{"openai", "anthropic", "else"} {
		assert.True(t, problem.Is(p.Models.Check(t.Context(), name, "any", false), "unavailable"), name)
	}
	_, err = p.Models.List(t.Context())
	assert.True(t, problem.Is(err, "unavailable"), "%v", err)
}

func TestABrokerMustBeNamed(t *testing.T) {
	_, err := brokerclient.New(&cloud.Platform{})
	require.ErrorContains(t, err, "BROKER_FUNCTION")
}
