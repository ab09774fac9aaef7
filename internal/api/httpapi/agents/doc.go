// Package agents is the area of the API for agents, their versions and copies, their models, and the toolkits from
// which their tools come.
//
// It holds no rule about agents or tools; those are tenant's and toolkit's. It imports the framework above it and no
// other area.
package agents

import (
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/store/record"
)

// Config has the dependencies of the area's operations.
type Config struct {
	Store  *record.Store
	Models provider.Models
	// Embeddings are the models that knowledge bases may name.
	Embeddings []catalog.EmbeddingModel
	Toolkits   *toolkit.Toolkits
	Asker      toolkit.Asker
	Callbacks  egress.Policy // where pushes may go
}

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

// handlers are the operations of the area.
type handlers struct {
	Config
	*httpapi.Server
}

// routes has the common settings of the operations on a kind of resource.
func (h *handlers) routes(tag, what string) httpapi.Routes {
	return httpapi.Routes{
		Server: h.Server, Tag: tag, What: what, Read: tenant.LevelRead, Write: tenant.LevelManage,
	}
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, c Config) {
	h := &handlers{Config: c, Server: s}
	h.agentRoutes()
	h.toolkitRoutes()
}
