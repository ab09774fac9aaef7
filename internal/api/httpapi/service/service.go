// Package service puts the areas of the HTTP layer together: the whole API, over the use cases.
//
// It holds no rule of its own. It imports the framework, each area and the use cases that they need. Only boot, cloud,
// the functions and tests import it.
package service

import (
	"strings"
	"time"

	"agentplatform/internal/ai/provider"
	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/aguiserver"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/accounts"
	"agentplatform/internal/api/httpapi/agents"
	fileroutes "agentplatform/internal/api/httpapi/files"
	knowledgeroutes "agentplatform/internal/api/httpapi/knowledge"
	"agentplatform/internal/api/httpapi/meta"
	"agentplatform/internal/api/httpapi/protocol"
	"agentplatform/internal/api/httpapi/reports"
	"agentplatform/internal/api/httpapi/runs"
	"agentplatform/internal/api/httpapi/webhooks"
	"agentplatform/internal/api/panel"
	"agentplatform/internal/api/responses"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// MCP is the server of the Model Context Protocol, with the interface of its area.
type MCP = protocol.MCP

// Config has the parts of the API: the server's own settings, and the dependencies of its operations.
type Config struct {
	httpapi.Config

	Intake   *intake.Intake
	Store    *record.Store
	Files    *files.Files
	Hub      *stream.Hub
	Webhooks *webhook.Sender
	Models   provider.Models
	Toolkits *toolkit.Toolkits
	// Asker and Prober do the requests that need secrets opened. Nil: this program opens them, by Toolkits and
	// Webhooks.
	Asker  toolkit.Asker
	Prober webhook.Prober
	// Knowledge may be nil: then there are no knowledge bases and no search.
	Knowledge *knowledge.Knowledge

	ObserveWindow time.Duration // how long an answer waits for a run to end
	// ResponseWindow is how long an answer of POST /responses waits, where that is longer: its clients take any answer
	// for the whole one.
	ResponseWindow time.Duration
	Heartbeat      time.Duration // of streams
	Callbacks      egress.Policy // where pushes may go
	Pprof          bool
	PanelReaches   []string // further origins that the admin panel's page may reach: where uploads go
	// MCP makes the server for clients of the Model Context Protocol. It may be nil: then there is none.
	MCP func(bridge.Bridge) MCP
	// Sealer seals the secrets of A2A's push notifications. It may be nil: then there is no server for clients of A2A.
	Sealer seal.Sealer
}

// New makes the server of the API.
func New(c Config) *httpapi.Server {
	if c.Asker == nil {
		c.Asker = c.Toolkits
	}
	if c.Prober == nil {
		c.Prober = c.Webhooks
	}
	return httpapi.New(c.Config, func(s *httpapi.Server) {
		runs.Routes(s, runs.Config{
			Intake: c.Intake, Store: c.Store, Files: c.Files, Hub: c.Hub, Callbacks: c.Callbacks,
			ObserveWindow: c.ObserveWindow, Heartbeat: c.Heartbeat,
		})
		accounts.Routes(s, c.Store)
		agents.Routes(s, agents.Config{
			Store: c.Store, Models: c.Models, Embeddings: embeddings(c.Knowledge), Toolkits: c.Toolkits,
			Asker: c.Asker, Callbacks: c.Callbacks,
		})
		fileroutes.Routes(s, c.Files)
		if c.Knowledge != nil {
			knowledgeroutes.Routes(s, knowledgeroutes.Config{
				Knowledge: c.Knowledge, Files: c.Files, Store: c.Store,
			})
		}
		webhooks.Routes(s, webhooks.Config{
			Intake: c.Intake, Store: c.Store, Sender: c.Webhooks, Prober: c.Prober, Callbacks: c.Callbacks,
		})
		reports.Routes(s, &analytics.Analytics{Store: c.Store, Host: c.Host, Log: c.Log})
		protocol.Routes(s, protocols(c, s))
		meta.Routes(s, c.Pprof)
		panel.New(c.PanelReaches...).Routes(s.HandleOpen)
	})
}

// protocols are the servers of other protocols.
func protocols(c Config, s *httpapi.Server) protocol.Config {
	common := bridge.Bridge{
		Intake: c.Intake, Store: c.Store, Files: c.Files, Hub: c.Hub, Log: c.Log, Window: c.ObserveWindow,
		URL:          strings.TrimSuffix(c.PublicURL, "/") + httpapi.Base,
		WhileAllowed: s.WhileAllowed,
	}
	made := protocol.Config{
		Bridge: common, Heartbeat: c.Heartbeat,
		Responses: &responses.Server{Bridge: common, Longer: c.ResponseWindow},
		AGUI:      &aguiserver.Server{Bridge: common},
	}
	if c.MCP != nil {
		made.MCP = c.MCP(common)
	}
	if c.Sealer != nil {
		made.A2A = &a2aserver.Server{
			Bridge: common, Sealer: c.Sealer,
			CheckURL: func(url string) error { return webhook.CheckURL(c.Callbacks, url) },
		}
	}
	return made
}

// embeddings are the embedding models that there are.
func embeddings(k *knowledge.Knowledge) []catalog.EmbeddingModel {
	if k == nil {
		return nil
	}
	return k.Models.All()
}
