// Package mcpedge adds the server of the Model Context Protocol to the HTTP layer of a function. It is separate from
// edge so that the other functions do not link the protocol's library.
//
// It is wiring and contains no rules.
package mcpedge

import (
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/api/mcpserver"
)

// Add adds the endpoint for clients of the protocol.
func Add(c *service.Config) {
	c.MCP = func(b bridge.Bridge) service.MCP { return &mcpserver.Server{Bridge: b} }
}
