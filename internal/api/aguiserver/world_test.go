package aguiserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// world is an organization with the demo agent and an operator. The test executes its runs.
type world struct {
	*Server

	t     *testing.T
	who   tenant.Principal
	agent string
	items table.Table
}

func newWorld(t *testing.T) *world {
	h := host.System()
	items := memtable.New(h.Now)
	store := record.New(items, &memblob.Store{}, h)
	tenants := tenant.New(store, store.Cached(), h, tenant.Defaults{
		UserCap: 99, OrganizationCap: 99, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	visibility := catalog.SeesAll
	_, err = tenants.EditOrganization(t.Context(), tenant.Platform(), first.Organization.ID, 0,
		tenant.OrganizationEdit{Visibility: &visibility})
	require.NoError(t, err)
	who, err := tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	queue := localqueue.New()
	t.Cleanup(queue.Close)
	notifier := stream.NewLocalNotifier()
	log := slog.New(slog.DiscardHandler)
	return &world{t: t, who: who, agent: first.Agent.ID, items: items, Server: &Server{Bridge: bridge.Bridge{
		WhileAllowed: func(
			ctx context.Context, _ tenant.Principal, _ lifecycle.Whose, wait func(context.Context) error,
		) error {
			return wait(ctx)
		},
		Intake: &intake.Intake{
			Executor: &transition.Executor{
				Store: store, Host: h, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour,
				Notifier: notifier, Queue: queue,
			},
			Store: store, Host: h, Tenants: tenants,
		},
		Store: store, Hub: stream.New(memtable.New(h.Now), notifier, h, log),
		Files: &files.Files{Store: store, Log: log},
	}}}
}

// ask sends a request in the thread t.
func (w *world) ask(id, messages string, resume ...AGUIResume) (*Exchange, error) {
	return w.Open(w.t.Context(), w.who, w.agent, RunAgentInput{
		ThreadID: "t", RunID: id, ProtocolVersion: version,
		Messages: json.RawMessage("[" + messages + "]"), Resume: resume,
	}, "")
}

// runs is ask for a request that is carried out; it returns the runs that its stream follows.
func (w *world) runs(id, messages string, resume ...AGUIResume) []string {
	w.t.Helper()
	x, err := w.ask(id, messages, resume...)
	require.NoError(w.t, err)
	return x.runs
}

func (w *world) transition(run string, c transition.Change) {
	w.t.Helper()
	_, err := w.Intake.Executor.Do(w.t.Context(), record.System(), run,
		func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
	require.NoError(w.t, err)
}

// claim begins an attempt at a run, as a worker does.
func (w *world) claim(run string) lifecycle.Work {
	w.t.Helper()
	w.transition(
		run,
		transition.Change{Event: lifecycle.Claim{Holder: "w", Until: w.Intake.Host.Now().Add(time.Hour)}},
	)
	e, err := w.Store.Run(w.t.Context(), record.System(), run)
	require.NoError(w.t, err)
	return lifecycle.Work{Attempt: e.Value.Attempt}
}

// complete ends a run.
func (w *world) complete(run string) {
	w.t.Helper()
	w.transition(run, transition.Change{
		Event: lifecycle.Complete{Work: w.claim(run)}, Result: json.RawMessage(`{"answer":"done"}`),
	})
}

// Interrupts of a pause: an approval of a call, a call of the client's function, a question.
const (
	approval = "aaaaaaaaaaaaaaaaaaaaaaaa"
	function = "bbbbbbbbbbbbbbbbbbbbbbbb"
	question = "cccccccccccccccccccccccc"
)

// pause pauses a run by interrupts about the calls of the reply 0.
func (w *world) pause(run string, ids ...string) {
	w.t.Helper()
	e := lifecycle.Pause{Work: w.claim(run), ExpiresAt: w.Intake.Host.Now().Add(time.Hour)}
	var list []record.Interrupt
	for _, id := range ids {
		i := record.Interrupt{Call: "0-" + id[:1], Interrupt: events.Interrupt{
			ID: id, Kind: string(lifecycle.Clarification), Prompt: "Which?", CreatedAt: "2026-03-01T12:00:00.000Z",
		}}
		switch id {
		case approval:
			i.Kind = string(lifecycle.Approval)
			i.Tool = &events.InterruptTool{Name: "send", Arguments: json.RawMessage(`{"to":"a"}`)}
		case function:
			i.Tool = &events.InterruptTool{Name: "paint", Arguments: json.RawMessage(`{}`)}
		}
		e.Interrupts = append(e.Interrupts, lifecycle.Pending{
			ID: id, Kind: lifecycle.InterruptKind(i.Kind), Call: id == function,
		})
		list = append(list, i)
	}
	w.transition(run, transition.Change{Event: e, Interrupts: list})
}

// listener notes briefly the events that a front end receives, and that messages and calls open and close as the
// protocol demands.
type listener struct {
	t        *testing.T
	received []string
	open     map[string]bool
}

func (l *listener) emit(e AGUIEvent) error {
	l.t.Helper()
	word := strings.ToLower(e.Type)
	switch e.Type {
	case "TEXT_MESSAGE_START":
		require.False(l.t, l.open[e.MessageID])
		l.open[e.MessageID] = true
		word = "open " + tail(e.MessageID)
	case "TEXT_MESSAGE_CONTENT":
		require.True(l.t, l.open[e.MessageID])
		word = *e.Delta
	case "TEXT_MESSAGE_END":
		require.True(l.t, l.open[e.MessageID])
		delete(l.open, e.MessageID)
		word = "close"
	case "TOOL_CALL_START":
		word = e.ToolCallName + " of " + tail(e.ParentMessageID)
	case "TOOL_CALL_ARGS", "TOOL_CALL_END":
		return nil
	case "TOOL_CALL_RESULT":
		word = "got " + *e.Content + " of " + tail(e.ToolCallID)
	case "MESSAGES_SNAPSHOT":
		require.Empty(l.t, l.open)
		word = "all"
		for _, raw := range *e.Messages {
			var m snapshotMessage
			require.NoError(l.t, json.Unmarshal(raw, &m))
			word += " [" + tail(m.ID) + " " + m.Content
			for _, c := range m.ToolCalls {
				word += " " + c.Function.Name
			}
			word += "]"
		}
	}
	l.received = append(l.received, word)
	return nil
}

// tail is the last part of an id, of which the others are the run's.
func tail(id string) string { return id[strings.LastIndex(id, "_")+1:] }

// following sends the events of a run to a listener.
func (w *world) following(x *Exchange) (*follower, *listener) {
	w.t.Helper()
	l := &listener{t: w.t, open: map[string]bool{}}
	f, err := w.follower(w.t.Context(), w.who, x, x.Run(), l.emit)
	require.NoError(w.t, err)
	return f, l
}

// follow is all events that a front end receives of an exchange whose run has paused or ended.
func (w *world) follow(x *Exchange) ([]string, AGUIEvent) {
	w.t.Helper()
	l := &listener{t: w.t, open: map[string]bool{}}
	var end AGUIEvent
	err := w.Follow(w.t.Context(), w.who, x, time.Hour, func(e AGUIEvent) error { end = e; return l.emit(e) },
		func() error { return context.Canceled }, func() {})
	require.NoError(w.t, err)
	return l.received, end
}
