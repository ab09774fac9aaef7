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

// Config is what a server is made of.
type Config struct {
	Tenants *tenant.Tenants
	Host    host.Host
	Log     *slog.Logger
	Tracer  *trace.Tracer        // nil: requests leave no traces
	Metrics *prometheus.Registry // nil: requests are not counted for anybody
	Slow    func()               // is told of each slow answer (see slowAnswer); nil: nobody is
	Failed  func()               // is called for each answer that is a failure of the service; it may be nil
	// Wakeup is called with a job that a request has begun, or a delivery to be tried again, so that it need not wait
	// for the sweeper. It may be nil.
	Wakeup func(ctx context.Context, kind events.NudgeKind, id, organization string)

	MaxBody     int64
	Stall       time.Duration     // how long a client may neither send nor take anything; 0: half a minute
	Streams     int               // that are open, and waits; 0: no limit, as below
	Shares      Shares            // of these
	Shared      *ratelimit.Shared // what processes tell each other of keys; nil: there are no others
	KeyChats    int               // streams of one organization, of all processes; 0: no limit, or none that is shared
	Connections int               // that have shown a key, and that have shown none
	Strangers   int               // connections of one address that have shown no key
	MaxStream   time.Duration     // after this a bounded stream ends; 0: never
	PublicURL   string
}

// Shares are the limits of an organization, a user and a key on streams, and on waits; 0: the usual part.
type Shares struct{ Organization, User, Key int }

// Server answers requests by the operations that were added to it.
type Server struct {
	Config

	entered http.Handler // see entrance
	mux     *http.ServeMux
	api     huma.API
	// document is the OpenAPI document, which is made when it is asked for first.
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
			anonymous: byNumber(c.Connections, c.Strangers, c.Strangers, c.Strangers),
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
func (s *Server) Wake(ctx context.Context, kind events.NudgeKind, id, organization string) {
	if s.Wakeup != nil {
		s.Wakeup(context.WithoutCancel(ctx), kind, id, organization)
	}
}

// Began is the answer to what has begun a job, unless that failed.
func (s *Server) Began(ctx context.Context, job, organization string, err error) (*struct{}, error) {
	if err == nil {
		s.Wake(ctx, events.NudgeJob, job, organization)
	}
	return nil, err
}

// Stop ends waiting requests with what they have, and streams with their final event. It returns when all streams have
// ended. Their clients have finalTime together to take what is still written.
func (s *Server) Stop() {
	s.streams.stop(s.stop)
	s.streams.ended.Wait()
}

// Stopping is done when the server stops.
func (s *Server) Stopping() context.Context { return s.stopping }

// OpenStreams returns how many streams are open.
func (s *Server) OpenStreams() int64 { return s.streams.count() }
