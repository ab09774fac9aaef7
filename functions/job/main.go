// Command job is the Lambda function that removes data after a deletion or at the end of its retention. It also
// rebuilds knowledge bases, and rolls up the ledger each day. The job queue triggers it.
package main

import (
	"agentplatform/events"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/cloud/search"
	"agentplatform/internal/wiring/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		k, err := search.Stored(p)
		if err != nil {
			return nil, err
		}
		ingester := &ingest.Ingester{Knowledge: k, Log: p.Log} // for its jobs, which call no model and fetch nothing
		remover := &removal.Remover{
			Executor: p.Executor, Store: p.Store, Host: p.Host, Index: k.Index, More: ingester.Jobs(),
			Rollups:      &analytics.Analytics{Store: p.Store, Host: p.Host, Log: p.Log},
			DeliveryDays: p.Settings.WebhookDays,
		}
		return trigger.Messages(p.Queues[events.WakeupJob], p.Log, p.TraceWakeups(remover.Handle)), nil
	})
}
