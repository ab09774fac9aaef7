package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/agent"
	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/dispatch"
	"agentplatform/internal/feed"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/model"
	"agentplatform/internal/move"
	"agentplatform/internal/queue"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/tenant"
	"agentplatform/internal/tool"
	"agentplatform/internal/worker"
)

const (
	lease = 30 * time.Second
	drain = 5 * time.Second
)

// stage is a worker over a store in memory, with a model and tools that do as a test says. It stands in a bubble of
// virtual time.
type stage struct {
	*testing.T

	host   host.Host
	store  *record.Store
	table  *hooked // of runs
	frames *hooked // of the feed
	feed   *feed.Feed
	intake *intake.Intake
	worker *worker.Worker
	who    tenant.Principal
	agent  string
	said   func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error)
	tools  []tool.Offer
	log    lockedBuffer
	nudges *nudges

	beating atomic.Bool     // the model is at work
	context context.Context // of the process
}

// hooked is a table that tells of each call before it is made: to count it, to hang, to panic.
type hooked struct {
	table.Table

	before func(ctx context.Context, commit bool, ops []table.Op)
}

func (h *hooked) call(ctx context.Context, commit bool, ops ...table.Op) {
	if h.before != nil {
		h.before(ctx, commit, ops)
	}
}

func (h *hooked) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if h.call(ctx, false); ctx.Err() != nil {
		return nil, &table.Error{Kind: table.Down, Err: ctx.Err()}
	}
	return h.Table.Get(ctx, keys...)
}

func (h *hooked) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if h.call(ctx, true, ops...); ctx.Err() != nil {
		return &table.Error{Kind: table.Down, Err: ctx.Err()}
	}
	return h.Table.Commit(ctx, token, ops...)
}

// hang waits until the caller gives up.
func hang(ctx context.Context) { <-ctx.Done() }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// nudges is a queue that keeps what is sent.
type nudges struct{ sent chan string }

func (n *nudges) Send(_ context.Context, m queue.Message) error {
	if m.Nudge.Kind == events.NudgeRun {
		n.sent <- m.Nudge.ID
	}
	return nil
}

type noTimer struct{}

func (noTimer) At(context.Context, string, time.Time, queue.Message) error { return nil }
func (noTimer) Stop(context.Context, string) error                         { return nil }

func (s *stage) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	return s.said(ctx, r, emit)
}

func (s *stage) Open(context.Context, string, []string) ([]tool.Offer, error) { return s.tools, nil }

func newStage(t *testing.T, bell func(host.Host) feed.Bell) *stage {
	h := host.System()
	s := &stage{T: t, host: h, nudges: &nudges{make(chan string, 1000)}}
	s.table, s.frames = &hooked{Table: memtable.New(h.Now)}, &hooked{Table: memtable.New(h.Now)}
	s.store = record.New(s.table, &memblob.Store{}, h)
	tenants := tenant.New(s.store, s.store, h, tenant.Defaults{
		UserCap: 100, OrganizationCap: 100, RateLimit: 1, RateBurst: 1, ActiveLimit: 10 * time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	s.who, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	spec := tenants.DefaultSpec(s.who.Organization.ID)
	spec.Name = "a"
	a, err := tenants.CreateAgent(t.Context(), s.who.Organization.ID, spec, true)
	require.NoError(t, err)
	s.agent = a.Value.ID
	b := bell(h)
	s.feed = feed.New(s.frames, b, h)
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	shell := &move.Shell{Store: s.store, Queue: s.nudges, Timer: noTimer{}, Bell: b, Host: h, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour}
	s.intake = &intake.Intake{Shell: shell, Store: s.store, Tenants: tenants, Host: h}
	s.worker = &worker.Worker{
		Shell: shell, Store: s.store, Known: s.store, Feed: s.feed, Host: h, Log: log, Lease: lease, PauseExpiry: time.Hour, Tick: time.Second,
		Loop: &agent.Loop{Models: map[string]model.Model{spec.Model.Provider: s}, Host: h}, Tools: s,
	}
	return s
}

func local(host.Host) feed.Bell { return feed.NewLocalBell() }

func polling(h host.Host) feed.Bell { return feed.Polling{Host: h, Every: 250 * time.Millisecond} }

// post sends a message, and returns its run.
func (s *stage) post() string {
	s.Helper()
	posted, err := s.intake.Post(s.Context(), s.who, intake.Message{AgentID: s.agent, Text: "hello"})
	require.NoError(s, err)
	return posted.Run.RunID
}

func (s *stage) run(id string) record.Run {
	s.Helper()
	e, err := s.store.Run(s.Context(), record.System(), id)
	require.NoError(s, err)
	return e.Value
}

// handle has one nudge handled as in production.
func (s *stage) handle(ctx context.Context, id string) {
	d := queue.Delivery{Message: queue.Message{Nudge: events.Nudge{Kind: events.NudgeRun, ID: id}}}
	_, _ = dispatch.Guarded(ctx, d, slog.New(slog.NewTextHandler(&s.log, nil)), func(ctx context.Context, id string) (time.Duration, error) {
		return 0, s.worker.Handle(ctx, id)
	})
}

// drive handles nudges until there are none.
func (s *stage) drive() {
	for {
		select {
		case id := <-s.nudges.sent:
			s.handle(s.Context(), id)
		default:
			return
		}
	}
}

// begin handles a run beside the test; done is closed when that has ended.
func (s *stage) begin(ctx context.Context, id string) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		s.handle(ctx, id)
	}()
	return done
}

// calls is a reply that asks for these tools, each by its name.
func calls(names ...string) model.Reply {
	r := model.Reply{Finish: "tool_calls"}
	for _, name := range names {
		r.Calls = append(r.Calls, model.Call{ID: name, Name: name, Arguments: []byte("{}")})
	}
	return r
}

// talks is a model that asks for tools once, and then answers.
func talks(names ...string) func(context.Context, model.Request, func(string)) (model.Reply, error) {
	return func(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
		if len(names) > 0 && r.Messages[len(r.Messages)-1].Role == model.User {
			return calls(names...), nil
		}
		emit("done")
		return model.Reply{Text: "done", Finish: "stop"}, nil
	}
}

func offer(name string, call func(ctx context.Context) (tool.Result, error)) tool.Offer {
	return tool.Offer{
		Spec: tool.Spec{Name: name, RetrySafe: true},
		Call: func(ctx context.Context, _ tool.Invocation) (tool.Result, error) { return call(ctx) },
	}
}
