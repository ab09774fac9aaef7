// Command api is the Lambda function behind API Gateway for all requests whose responses are sent whole. It may encrypt
// secrets but opens none: the broker does all work that needs them.
package main

import (
	"context"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/toolkit/adapters"
	"agentplatform/internal/wiring/broker"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/brokerclient"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/cloud/httpedge"
	"agentplatform/internal/wiring/cloud/httpedge/gateway"
	"agentplatform/internal/wiring/cloud/search"
	"agentplatform/internal/wiring/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		asker, err := brokerclient.New(p)
		if err != nil {
			return nil, err
		}
		if err := adapters.Make(p.Toolkits, p.Settings); err != nil {
			return nil, err
		}
		k, err := search.New(context.Background(), p, func(provider string) embedding.Model {
			return &broker.Embedding{Client: asker, Provider: provider}
		})
		if err != nil {
			return nil, err
		}
		use := func(c *service.Config) {
			c.Knowledge, c.Asker, c.Prober = k, asker, asker
			c.Slow = func() { p.Metrics.Count(cloud.SlowAnswers) }
		}
		server, err := httpedge.New(p, 0, gateway.Add(p), use)
		if err != nil {
			return nil, err
		}
		return trigger.Buffered(p.Requests(server)), nil
	})
}
