package httpapi

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"agentplatform/internal/a2aface"
	"agentplatform/internal/egress"
	"agentplatform/internal/feed"
	"agentplatform/internal/files"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/provider"
	"agentplatform/internal/ratelimit"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/toolkit"
	"agentplatform/internal/webhook"
)

// Base is where the API lives.
const Base = "/api/v1"

// maxJSON bounds a JSON body, which is held whole; an OpenAPI document of 5 MiB fits. Files come as forms, which are not.
const maxJSON = 8 << 20

// Config is what the edge is made of.
type Config struct {
	Intake   *intake.Intake
	Tenants  *tenant.Tenants
	Store    *record.Store
	Files    *files.Files
	Feed     *feed.Feed
	Webhooks *webhook.Sender
	Models   *provider.Set
	Toolkits *toolkit.Toolkits
	Host     host.Host
	Log      *slog.Logger
	Metrics  *prometheus.Registry // nil: no /metrics

	ObserveWindow time.Duration
	Heartbeat     time.Duration
	MaxBody       int64
	Stall         time.Duration // how long a client may neither send nor take anything; 0: half a minute
	Streams       int           // open at once; 0: no limit, as below
	KeyStreams    int           // of one key
	Strangers     int           // connections of one address that have shown no key
	MaxStream     time.Duration // after this an NDJSON stream ends; 0: never
	PublicURL     string
	Callbacks     egress.Policy
	Pprof         bool
	// MCP makes the face for clients of the Model Context Protocol, for a principal. It may be nil: then there is none.
	MCP func(tenant.Principal) http.Handler
	// A2A is the face for clients of the Agent2Agent protocol. It may be nil: then there is none.
	A2A *a2aface.Face
	// Began is told of jobs that a request has begun, so that they need not wait for the sweeper. It may be nil.
	Began func(ctx context.Context, job, organization string)
	// Redelivered is told of deliveries to be tried again at once. It may be nil.
	Redelivered func(ctx context.Context, h record.Hook)
}

// Server is the edge.
type Server struct {
	Config

	mux     *http.ServeMux
	api     huma.API
	limiter ratelimit.Limiter
	metrics *metrics
	names   map[string]string // of operations, by pattern
	bodies  bodies
	answers bodies
	seats   seats

	strangers strangers

	stopping context.Context
	stop     context.CancelFunc
	streamMu sync.Mutex // orders the begin of a stream against Stop
	streams  sync.WaitGroup
	open     atomic.Int64
}

// New makes the edge.
func New(c Config) *Server {
	setErrorShape()
	if c.Stall == 0 {
		c.Stall = stallTime
	}
	s := &Server{Config: c, mux: http.NewServeMux(), metrics: newMetrics(c.Metrics), strangers: strangers{limit: c.Strangers},
		bodies: bodies{most: maxBodies}, answers: bodies{most: maxAnswers}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	config := huma.DefaultConfig("Agent Platform", "1")
	config.Info.Description = "Durable runs of agents: post a message, then wait, poll, stream or be called back."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = Base+"/openapi", "", ""
	config.CreateHooks = nil // no $schema members in answers
	exact := huma.DefaultJSONFormat
	exact.Unmarshal = func(data []byte, v any) error { return decode("body", data, v) }
	config.Formats = map[string]huma.Format{"application/json": exact, "json": exact}
	config.AllowAdditionalPropertiesByDefault = true
	config.FieldsOptionalByDefault = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "An API key"}}
	config.Security = []map[string][]string{{"key": {}}}
	config.Servers = []*huma.Server{{URL: c.PublicURL}}
	s.api = humago.New(s.mux, config)
	s.chatRoutes()
	s.runRoutes()
	s.streamRoutes()
	s.conversationRoutes()
	s.organizationRoutes()
	s.userRoutes()
	s.keyRoutes()
	s.usageRoutes()
	s.groupRoutes()
	s.auditRoutes()
	s.agentRoutes()
	s.toolkitRoutes()
	s.fileRoutes()
	s.webhookRoutes()
	s.mcpRoutes()
	s.a2aRoutes()
	s.metaRoutes()
	s.finishDocument()
	s.names = s.operationNames()
	return s
}

// Stop makes waiting requests answer with what they have and streams say goodbye; it returns when the streams have.
func (s *Server) Stop() {
	s.streamMu.Lock()
	s.stop()
	s.streamMu.Unlock()
	s.streams.Wait()
}

// beginStream counts a stream in, unless the server is stopping.
func (s *Server) beginStream() bool {
	s.streamMu.Lock()
	defer s.streamMu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	s.streams.Add(1)
	return true
}

// OpenStreams counts the streams that are being written.
func (s *Server) OpenStreams() int64 { return s.open.Load() }

// Document is the OpenAPI document as JSON.
func (s *Server) Document() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// Patterns lists the routes, as "METHOD path".
func (s *Server) Patterns() []string { return slices.Collect(maps.Keys(s.operationNames())) }

// operationNames are the operations' names in the document, by "METHOD path".
func (s *Server) operationNames() map[string]string {
	names := map[string]string{}
	for path, item := range s.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodPut: item.Put, http.MethodDelete: item.Delete,
		} {
			if op != nil {
				names[method+" "+path] = op.OperationID
			}
		}
	}
	return names
}
