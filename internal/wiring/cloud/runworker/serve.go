package runworker

import (
	"context"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/store/queue/sqsqueue"
	"agentplatform/internal/wiring/cloud"
)

// answerTime is how long an answer of SQS may take beyond the time that it waits for a message.
const answerTime = 10 * time.Second

// Serve executes runs until ctx ends: as many at once in this process as the setting WORKERS says, where a function
// executes one. When ctx ends, it takes no more, hands over those that do not end within the drain time, and returns.
// It fails where the worker cannot be made; see [New].
func Serve(ctx context.Context, p *cloud.Platform) error {
	w, err := New(ctx, p)
	if err != nil {
		return err
	}
	w.ReleaseAfter = 0 // nothing but a stop ends this process
	var atWork atomic.Int64
	defer p.Report(ctx, cloud.RunsAtWork, atWork.Load)()
	p.Log.Info("executing runs", "at_once", p.Settings.Workers)
	execute := func(ctx context.Context, id string) (time.Duration, error) {
		atWork.Add(1)
		defer atWork.Add(-1)
		return 0, w.Handle(p.Traced(ctx), id)
	}
	dispatch.Run(ctx, source(p), p.Settings.Workers, p.Log, execute)
	return nil
}

// source is the run queue, read by a client that waits for as long as SQS does.
func source(p *cloud.Platform) *sqsqueue.Queue {
	client := sqs.NewFromConfig(p.Account, func(o *sqs.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(sqsqueue.LongPoll + answerTime)
	})
	return sqsqueue.New(client, p.Cloud.RunQueue)
}
