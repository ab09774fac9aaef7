package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/reader"
)

const (
	lease = 30 * time.Second
	drain = 5 * time.Second
)

// stage is a worker over a store in memory, with a model and tools that a test defines, in virtual time.
type stage struct {
	*testing.T

	host     *clocks
	store    *record.Store
	table    *hooked // of runs
	frames   *hooked // the table of the streams
	hub      *stream.Hub
	intake   *intake.Intake
	worker   *worker.Worker
	who      tenant.Principal
	agent    string
	converse func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error)
	tools    []tool.Offer
	listed   []tool.Offer // of the toolkits of another version
	log      lockedBuffer
	wakeups  *wakeups
	room     atomic.Int64 // on the disk for each blob, in bytes
	rows     atomic.Int64 // on the disk for growing rows, in bytes
	blobs    *limited

	requests []model.Request // of the model, in order
	beating  atomic.Bool     // the model is working
	context  context.Context // the process's
}

// hooked is a table that calls functions before each call: to count, to hang, to panic or to fail.
type hooked struct {
	table.Table

	before func(ctx context.Context, commit bool, ops []table.Op)
	fails  func(commit bool, ops []table.Op) error // called before each call
	after  func(ops []table.Op) error              // called after each commit
	ranges atomic.Int64                            // number of ranges read
}

func (h *hooked) call(ctx context.Context, commit bool, ops ...table.Op) error {
	if h.before != nil {
		h.before(ctx, commit, ops)
	}
	if ctx.Err() != nil {
		return &table.Error{Kind: table.Down, Err: ctx.Err()}
	}
	if h.fails != nil {
		return h.fails(commit, ops)
	}
	return nil
}

func (h *hooked) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if err := h.call(ctx, false); err != nil {
		return nil, err
	}
	return h.Table.Get(ctx, keys...)
}

func (h *hooked) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := h.call(ctx, false); err != nil {
		return nil, err
	}
	h.ranges.Add(1)
	return h.Table.Query(ctx, r)
}

func (h *hooked) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if err := h.call(ctx, true, ops...); err != nil {
		return err
	}
	err := h.Table.Commit(ctx, token, ops...)
	if err == nil && h.after != nil {
		return h.after(ops)
	}
	return err
}

// limited is a blob store in which each blob has at most some number of bytes.
type limited struct {
	memblob.Store

	room *atomic.Int64
}

func (l *limited) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	n, err := l.Store.Put(ctx, key, r, min(limit, l.room.Load()))
	if errors.Is(err, blob.ErrTooLarge) {
		err = blob.ErrFull
	}
	return n, err
}

// clocks is a host whose two clocks a test can stop, separately, for a while.
type clocks struct {
	host.Host

	wall, mono atomic.Int64
}

func (c *clocks) Now() time.Time         { return c.Host.Now().Add(time.Duration(c.wall.Load())) }
func (c *clocks) Elapsed() time.Duration { return c.Host.Elapsed() + time.Duration(c.mono.Load()) }

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

// wakeups is a queue that keeps the messages in memory.
type wakeups struct{ sent chan string }

func (n *wakeups) Send(_ context.Context, m queue.Message) error {
	if m.Wakeup.Kind == events.WakeupRun {
		n.sent <- m.Wakeup.ID
	}
	return nil
}

func (s *stage) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	s.requests = append(s.requests, r)
	return s.converse(ctx, r, emit)
}

func (s *stage) Open(context.Context, string, []string) ([]tool.Offer, error) { return s.tools, nil }

func (s *stage) Listed(context.Context, string, []string) ([]tool.Offer, error) { return s.listed, nil }

func newStage(t *testing.T, notifier func(host.Host) stream.Notifier) *stage {
	h := &clocks{Host: host.System()}
	s := &stage{T: t, host: h, context: t.Context(), wakeups: &wakeups{make(chan string, 1000)}}
	s.table, s.frames = &hooked{Table: memtable.New(h.Now)}, &hooked{Table: memtable.New(h.Now)}
	s.room.Store(1 << 40)
	s.rows.Store(1 << 40)
	s.blobs = &limited{room: &s.room}
	s.store = record.New(s.table, s.blobs, h).WithDisk(share.NewDisk(s.rows.Load, 0), nil)
	tenants := tenant.New(s.store, s.store.Cached(), h, tenant.Defaults{
		UserCap: 100, OrganizationCap: 100, RateLimit: 1, RateBurst: 1, ActiveLimit: 10 * time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	visibility := catalog.SeesAll
	_, err = tenants.EditOrganization(t.Context(), tenant.Platform(), first.Organization.ID, 0,
		tenant.OrganizationEdit{Visibility: &visibility})
	require.NoError(t, err)
	s.who, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	spec := tenants.DefaultSpec(s.who.Organization)
	spec.Name = "a"
	a, err := tenants.CreateAgent(t.Context(), s.who.Organization, spec, true)
	require.NoError(t, err)
	s.agent = a.Value.ID
	b := notifier(h)
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.hub = stream.New(s.frames, b, h, log)
	executor := &transition.Executor{Store: s.store, Queue: s.wakeups, Notifier: b, Host: h, Log: log,
		Caps: tenants.Caps, StartDeadline: time.Hour}
	s.intake = &intake.Intake{Executor: executor, Store: s.store, Tenants: tenants, Host: h}
	s.worker = &worker.Worker{
		Executor: executor, Store: s.store, Cached: s.store.Cached(), Hub: s.hub, Host: h, Log: log, Lease: lease,
		PauseExpiry: time.Hour, Tick: time.Second,
		Loop: &agent.Loop{Models: map[string]model.Model{spec.Model.Provider: s}, Host: h}, Tools: s,
		CanAccess: tenants.SenderMayReach, CitationFilter: tenants.SenderReads, TextOf: reader.Here(s.store),
	}
	if b == (silence{}) {
		s.worker.Tick = time.Hour
	}
	return s
}

func local(host.Host) stream.Notifier { return stream.NewLocalNotifier() }

func polling(host.Host) stream.Notifier {
	return stream.Polling{Every: 250 * time.Millisecond}
}

// mute is a notifier without notifications, and without polls: a worker finds the changes of others only by its own
// writes.
func mute(host.Host) stream.Notifier { return silence{} }

type silence struct{}

func (silence) Notify(string)              {}
func (silence) NotifyEnd(record.RunEntity) {}
func (silence) Interval() time.Duration    { return 0 }
func (silence) OnNotify(func(*record.RunEntity), ...string) func() {
	return func() {}
}

// send posts a message that must be accepted.
func (s *stage) send(m intake.Message) intake.Posted {
	s.Helper()
	m.AgentID = s.agent
	posted, err := s.intake.Post(s.Context(), s.who, m)
	require.NoError(s, err)
	return posted
}

// edit changes the agent for later runs.
func (s *stage) edit(change func(*catalog.AgentSpec)) {
	s.Helper()
	a, err := s.intake.Tenants.EditAgent(s.Context(), s.who, s.agent, 0, true, true,
		func(spec catalog.AgentSpec) (catalog.AgentSpec, error) {
			change(&spec)
			return spec, nil
		})
	require.NoError(s, err)
	s.agent = a.Value.ID
}

// file stores a file of the user.
func (s *stage) file(name, content string) record.FileRef {
	s.Helper()
	f := s.store.NewFile(s.who.Organization, s.who.User, name, "text/plain")
	_, err := record.Create(s.Context(), s.store, f, f.ID)
	require.NoError(s, err)
	f, err = s.store.FillFile(s.Context(), s.who.Scope(), f.ID, strings.NewReader(content), 1<<20)
	require.NoError(s, err)
	return f.Ref()
}

// transition applies an event of another process.
func (s *stage) transition(run string, e lifecycle.Event) {
	s.Helper()
	_, err := s.worker.Executor.Do(s.Context(), record.System(), run, func(record.Run,
		*record.Tx) (transition.Change, error) {
		return transition.Change{Event: e}, nil
	})
	require.NoError(s, err)
}

// journal reads the stored steps of a run.
func (s *stage) journal(run string) []record.Step {
	s.Helper()
	steps, err := s.store.Journal(s.Context(), run)
	require.NoError(s, err)
	return steps
}

// result reads the answer object of a completed run.
func (s *stage) result(run string) view.Result {
	s.Helper()
	output, err := s.store.Output(s.Context(), s.run(run))
	require.NoError(s, err)
	var r view.Result
	require.NoError(s, json.Unmarshal(output, &r))
	return r
}

// request is the context of a client's request.
func (s *stage) request() context.Context {
	return record.By(s.Context(),
		record.Author{Organization: s.who.Organization, UserID: s.who.User, Operation: "doIt"})
}

// post sends a message and returns its run's id.
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

// handle handles one wakeup as in production.
func (s *stage) handle(ctx context.Context, id string) {
	d := queue.Delivery{Message: queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: id}}}
	_, _ = dispatch.Guarded(ctx, d, slog.New(slog.NewTextHandler(&s.log, nil)),
		func(ctx context.Context, id string) (time.Duration, error) {
			return 0, s.worker.Handle(ctx, id)
		})
}

// drive handles wakeups until there are none.
func (s *stage) drive() {
	for {
		select {
		case id := <-s.wakeups.sent:
			s.handle(s.Context(), id)
		default:
			return
		}
	}
}

// begin handles a run in the background; done is closed when that has ended.
func (s *stage) begin(ctx context.Context, id string) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		s.handle(ctx, id)
	}()
	return done
}

// calls is a reply that requests these tools by name.
func calls(names ...string) model.Reply {
	r := model.Reply{Finish: "tool_calls"}
	for _, name := range names {
		r.Calls = append(r.Calls, model.Call{ID: name, Name: name, Arguments: []byte("{}")})
	}
	return r
}

// talks is a model that requests tools once and then answers.
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
