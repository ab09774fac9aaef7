//go:build integration

package sqsqueue_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/queue/queuetest"
	"agentplatform/internal/store/queue/sqsqueue"
)

func TestContract(t *testing.T) {
	client := sqs.NewFromConfig(awstest.Config(t))
	queuetest.Run(t, func(t *testing.T) queuetest.Pair { return sqsqueue.New(client, awstest.Queue(t, client)) })
}
