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

// answerTime is the longest time of an answer of SQS, beyond the time that it waits for a message.
const answerTime = 10 * time.Second

// Serve executes runs until ctx ends, up to the setting WORKERS in parallel in this process. A function executes one.
// When ctx ends, it takes no more, releases the runs that do not end within the drain time, and returns. It fails if
// the worker cannot be made; see [New].
func Serve(ctx context.Context, p *cloud.Platform) error {
	w, err := New(ctx, p)
	if err != nil {
		return err
	}
	w.ReleaseAfter = 0 // only a stop ends this process
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

// source is the run queue, read by a client with a timeout longer than the long poll of SQS.
func source(p *cloud.Platform) *sqsqueue.Queue {
	client := sqs.NewFromConfig(p.Account, func(o *sqs.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(sqsqueue.LongPoll + answerTime)
	})
	return sqsqueue.New(client, p.Cloud.RunQueue)
}
