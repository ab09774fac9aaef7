// Package gateway adds the parts of the HTTP layer that only the functions behind API Gateway have: the servers for
// clients of MCP and A2A, and a count of failures. It is separate from httpedge so that the stream service does not
// link MCP's library.
//
// It is wiring and contains no rules.
package gateway

import (
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/wiring/cloud"
)

// Add adds these parts. It counts answers that are failures of the service. The alarm GatewayErrors adds the requests
// that the gateway itself could not answer.
func Add(p *cloud.Platform) func(*service.Config) {
	return func(c *service.Config) {
		c.MCP = func(b bridge.Bridge) service.MCP { return &mcpserver.Server{Bridge: b} }
		c.Sealer = p.Sealer
		c.Failed = func() { p.Metrics.Count(cloud.FailedAnswers) }
	}
}
