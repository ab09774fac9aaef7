// Command ingest is the Lambda function that takes documents through the stages of their ingestion. The ingest queue
// triggers it, one document per invocation.
package main

import (
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/cloud/search"
	"agentplatform/internal/wiring/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		ctx := context.Background()
		if err := p.ReadSecrets(ctx); err != nil {
			return nil, err
		}
		policy, err := search.Sources(p)
		if err != nil {
			return nil, err
		}
		k, err := search.New(ctx, p, nil)
		if err != nil {
			return nil, err
		}
		ingester := &ingest.Ingester{
			Knowledge: k, Fetch: ingest.Fetch{Policy: policy, Client: policy.Client(time.Minute)}, Log: p.Log,
			Deadline: p.Settings.IngestDeadline, Extract: extract.Document,
			OnMove: func(m ingest.Move) { search.Ingested(p.Metrics, m.Before, m.After, m.Failure) },
		}
		return trigger.Messages(p.Queues[events.WakeupDocument], p.Log,
			p.TraceWakeups(trigger.ReleaseAfter(ingester.Handle, p.Cloud.ReleaseAfter))), nil
	})
}
