// Command api is the Lambda function behind API Gateway for all requests whose responses are sent whole. It may encrypt
// secrets and open none: what needs them is done by the broker.
package main

import (
	"context"

	"agentplatform/internal/broker"
	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/asking"
	"agentplatform/internal/cloud/edge"
	"agentplatform/internal/cloud/edge/mcpedge"
	"agentplatform/internal/cloud/function"
	"agentplatform/internal/cloud/search"
	"agentplatform/internal/embedding"
	"agentplatform/internal/httpapi/service"
	"agentplatform/internal/toolkit/kinds"
	"agentplatform/internal/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		asker, err := asking.New(p)
		if err != nil {
			return nil, err
		}
		if err := kinds.Make(p.Toolkits, p.Settings); err != nil {
			return nil, err
		}
		k, err := search.New(context.Background(), p, func(provider string) embedding.Model {
			return &broker.Embedding{Client: asker, Provider: provider}
		})
		if err != nil {
			return nil, err
		}
		server, err := edge.New(p, 0, edge.A2A(p.Sealer), mcpedge.Add, edge.CountFailures(p), func(c *service.Config) {
			c.Knowledge, c.Asker, c.Prober = k, asker, asker
			c.Slow = func() { p.Metrics.Count(cloud.SlowAnswers) }
		})
		if err != nil {
			return nil, err
		}
		return trigger.Buffered(p.Requests(server)), nil
	})
}
