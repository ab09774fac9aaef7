//go:build integration

package sfntimer_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/queue/sqsqueue"
	"agentplatform/internal/store/timer/sfntimer"
	"agentplatform/internal/store/timer/timertest"
)

func TestContract(t *testing.T) {
	c := awstest.Config(t)
	queues, machines := sqs.NewFromConfig(c), sfn.NewFromConfig(c)
	timertest.Run(t, func(t *testing.T) timertest.Bench {
		url := awstest.Queue(t, queues)
		return timertest.Bench{
			Timer: sfntimer.New(machines, awstest.StateMachine(t, machines, sfntimer.Definition(url))),
			Queue: sqsqueue.New(queues, url),
			Tick:  2 * time.Second,
		}
	})
}
