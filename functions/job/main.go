// Command job is the Lambda function that removes data after a deletion or at the end of its retention; the job
// queue triggers it.
package main

import (
	"agentplatform/events"
	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/function"
	"agentplatform/internal/removal"
	"agentplatform/internal/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		remover := &removal.Remover{Executor: p.Executor, Store: p.Store, Host: p.Host}
		return trigger.Messages(p.Queues[events.NudgeJob], p.Log, remover.Handle), nil
	})
}
