package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"agentplatform/events"
	"agentplatform/internal/api/apidoc"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/ratelimit"
)

// Base is where the API lives.
const Base = "/api/v1"

// Config has the settings and dependencies of a server.
type Config struct {
	Tenants *tenant.Tenants
	Host    host.Host
	Log     *slog.Logger
	Tracer  *trace.Tracer        // nil: requests leave no traces
	Metrics *prometheus.Registry // nil: requests are not counted
	Slow    func()               // is called for each slow answer (see slowAnswer); may be nil
	Failed  func()               // is called for each answer that is a failure of the service; it may be nil
	// Wakeup is called with a job that a request has begun, or with a delivery that needs another attempt. These then
	// need not wait for the sweeper. It may be nil.
	Wakeup func(ctx context.Context, kind events.WakeupKind, id, organization string)

	MaxBody              int64
	Stall                time.Duration     // how long a client may neither send nor read; 0: half a minute
	Streams              int               // that are open, and waits; 0: no limit, as below
	Shares               Shares            // of these
	Shared               *ratelimit.Shared // the usage of keys in other processes; nil: there are none
	KeyChats             int               // streams of one organization, of all processes; 0: no limit, or none shared
	Connections          int               // with a key, and without
	AnonymousConnections int               // connections of one address without a key
	MaxStream            time.Duration     // after this a bounded stream ends; 0: never
	PublicURL            string
}

// Shares are the limits of an organization, a user and a key on streams, and on waits; 0: the default part.
type Shares struct{ Organization, User, Key int }

// Server answers requests by the operations that were added to it.
type Server struct {
	Config

	entered http.Handler // see entrance
	mux     *http.ServeMux
	api     huma.API
	// document is the OpenAPI document, which is made at the first request for it.
	document func() *huma.OpenAPI
	metrics  *metrics

	open          map[string]bool   // paths of the API that answer without a key
	names         map[string]string // of operations, by pattern
	keys          ratelimit.Limiter // of requests
	guests        ratelimit.Limiter // the same by the addresses of clients without a good key
	organizations ratelimit.Limiter // of requests, too
	connections   connections

	bodies, smallBodies, answers *share.Pool // bytes; see room.go
	slots, waitSlots             *share.Pool // of streams, and of requests that wait

	stopping context.Context
	stop     context.CancelFunc
	streams  openStreams
}

// New makes a server with the operations that routes adds.
func New(c Config, routes func(*Server)) *Server {
	setErrorShape()
	c.Stall = cmp.Or(c.Stall, stallTime)
	s := &Server{
		Config: c, mux: http.NewServeMux(), metrics: newMetrics(c.Metrics),
		open: map[string]bool{Base + "/openapi.json": true, Base + "/openapi.yaml": true},
		keys: ratelimit.Limiter{Shared: c.Shared}, organizations: ratelimit.Limiter{Shared: c.Shared},
		connections: connections{
			anonymous: byNumber(c.Connections, c.AnonymousConnections, c.AnonymousConnections, c.AnonymousConnections),
			keyed:     byNumber(c.Connections, 0, 0, 0),
		},
		slots:     byNumber(c.Streams, c.Shares.Organization, c.Shares.User, c.Shares.Key),
		waitSlots: byNumber(c.Streams, c.Shares.Organization, c.Shares.User, c.Shares.Key),
		bodies:    share.New(limitsOfBodies), smallBodies: share.New(limitsOfSmallBodies),
		answers: share.New(limitsOfAnswers),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.api = humago.New(s.mux, documented(c.PublicURL))
	routes(s)
	SchemaOf[errorBody](s) // now: once requests are served, the description that they are checked by must not change
	s.document = sync.OnceValue(func() *huma.OpenAPI { return apidoc.Make(s.api.OpenAPI()) })
	s.serveDocument()
	s.names = apidoc.Names(s.api.OpenAPI())
	s.entered = s.entrance()
	return s
}

// Wake calls the wakeup. It does not end with the request.
func (s *Server) Wake(ctx context.Context, kind events.WakeupKind, id, organization string) {
	if s.Wakeup != nil {
		s.Wakeup(context.WithoutCancel(ctx), kind, id, organization)
	}
}

// Began is the answer to a request that has begun a job, or the error of that request.
func (s *Server) Began(ctx context.Context, job, organization string, err error) (*struct{}, error) {
	if err == nil {
		s.Wake(ctx, events.WakeupJob, job, organization)
	}
	return nil, err
}

// Stop ends waiting requests with the results so far, and streams with their final event. It returns when all streams
// have ended. All their clients together have finalTime to read the rest.
func (s *Server) Stop() {
	s.streams.stop(s.stop)
	s.streams.ended.Wait()
}

// Stopping is done when the server stops.
func (s *Server) Stopping() context.Context { return s.stopping }

// OpenStreams returns how many streams are open.
func (s *Server) OpenStreams() int64 { return s.streams.count() }
