// Package runs is the area of the API for messages to agents, the runs that they begin, chats of runs, and streams of
// runs.
//
// It holds no rule about runs; those are intake's and lifecycle's. It imports the framework above it and no other area.
package runs

import (
	"time"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

// Config has the dependencies of the area's operations.
type Config struct {
	Intake        *intake.Intake
	Store         *record.Store
	Files         *files.Files
	Hub           *stream.Hub
	Callbacks     egress.Policy // where pushes may go
	ObserveWindow time.Duration // how long an answer waits for the run to end
	Heartbeat     time.Duration // of streams
}

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

// handlers are the operations of the area.
type handlers struct {
	Config
	*httpapi.Server
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, c Config) {
	h := &handlers{Config: c, Server: s}
	h.chatRoutes()
	h.runRoutes()
	h.streamRoutes()
	h.conversationRoutes()
}

// routes has the common settings of the operations under a tag.
func (h *handlers) routes(tag string) httpapi.Routes {
	return httpapi.Routes{Server: h.Server, Tag: tag, Read: tenant.LevelRead, Write: tenant.LevelRun}
}
