// Command worker is the Lambda function that executes runs; the run queue triggers it, one run per invocation.
package main

import (
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/function"
	"agentplatform/internal/cloud/work"
	"agentplatform/internal/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		w, err := work.New(context.Background(), p)
		if err != nil {
			return nil, err
		}
		return trigger.Messages(p.Queues[events.NudgeRun], p.Log,
			p.Nudges(func(ctx context.Context, id string) (time.Duration, error) {
				return 0, w.Handle(ctx, id)
			})), nil
	})
}
