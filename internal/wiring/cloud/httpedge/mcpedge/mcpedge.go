// Package mcpedge adds the server of the Model Context Protocol to the HTTP layer of a function. It is separate from
// edge so that the other functions do not link the protocol's library.
//
// It is wiring and contains no rules.
package mcpedge

import (
	"strings"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/api/mcpserver"
)

// Add adds the endpoint for clients of the protocol.
func Add(c *service.Config) {
	c.MCP = &mcpserver.Server{
		Intake: c.Intake, Store: c.Store, Files: c.Files, Hub: c.Hub, Log: c.Log, Window: c.ObserveWindow,
		URL: strings.TrimSuffix(c.PublicURL, "/") + httpapi.Base,
	}
}
