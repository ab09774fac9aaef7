package a2aserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// now is when everything happens, as the API writes it.
const now = "2026-03-01T12:00:00.000Z"

// manual is a host whose clocks go on only during a wait.
type manual struct {
	host.Host

	elapsed   time.Duration
	ids       host.Sequence
	meanwhile func() // is called during a wait; nil: the time passes
	waits     int    // how many waits there were
	woken     int    // how many waits an event ended
}

func (h *manual) NewID() string { return h.ids.Next(h.Now(), 0) }

func (*manual) Now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func (h *manual) Elapsed() time.Duration { return h.elapsed }

// Sleep counts a wait for a run.
func (h *manual) Sleep(ctx context.Context, d time.Duration) error {
	h.waits++
	if h.meanwhile == nil {
		h.elapsed += d
	} else {
		h.meanwhile()
		if ctx.Err() != nil {
			h.woken++
		}
	}
	return ctx.Err()
}

// breakable is a table of which items can be made unreadable.
type breakable struct {
	table.Table

	broken string // how their keys begin, written part/sort; empty: none
	err    error
}

func (b *breakable) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if b.broken != "" && strings.HasPrefix(k.Part+"/"+k.Sort, b.broken) {
			return nil, b.err
		}
	}
	return b.Table.Get(ctx, keys...)
}

var errBroken = errors.New("an item that cannot be read")

// world is an organization with the demo agent and an operator. The test executes its runs.
type world struct {
	*a2aserver.Server

	t       *testing.T
	items   *breakable
	waiting *manual
	log     *bytes.Buffer
	who     tenant.Principal // sends the requests
	agent   string           // gets them
}

func newWorld(t *testing.T) *world {
	h := &manual{Host: host.System()}
	notifier := stream.NewLocalNotifier()
	w := &world{t: t, waiting: h, items: &breakable{Table: memtable.New(h.Now)}, log: &bytes.Buffer{}}
	store := record.New(w.items, &memblob.Store{}, h)
	tenants := tenant.New(store, store.Cached(), h, tenant.Defaults{
		UserCap: 9, OrganizationCap: 9, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
	}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	visibility := catalog.SeesAll
	_, err = tenants.EditOrganization(t.Context(), tenant.Platform(), first.Organization.ID, 0,
		tenant.OrganizationEdit{Visibility: &visibility})
	require.NoError(t, err)
	w.who, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	w.agent = first.Agent.ID
	queue := localqueue.New()
	t.Cleanup(queue.Close)
	log := slog.New(slog.NewTextHandler(w.log, nil))
	sealer, err := keyseal.New(make([]byte, seal.KeySize))
	require.NoError(t, err)
	w.Server = &a2aserver.Server{Sealer: sealer, Bridge: bridge.Bridge{
		WhileAllowed: func(
			ctx context.Context, p tenant.Principal, of lifecycle.Whose, wait func(context.Context) error,
		) error {
			if err := wait(ctx); err != nil {
				return err
			}
			_, err := tenants.CheckRight(ctx, p, of)
			return err
		},
		Intake: &intake.Intake{
			Executor: &transition.Executor{
				Store: store, Host: h, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour,
				Notifier: notifier, Queue: queue,
			},
			Store: store, Host: h, Tenants: tenants,
		},
		Store: store, Files: &files.Files{Store: store, Log: log},
		Hub: stream.New(memtable.New(h.Now), notifier, h, log), Log: log, Window: time.Minute,
		URL: "https://api.example.com/api/v1",
	}, CheckURL: func(url string) error {
		if strings.HasPrefix(url, "https://example.com/") {
			return nil
		}
		return problem.InvalidField("callback_url", "is not what the test likes")
	}}
	return w
}

type object = map[string]any

// shown is a value as clients get it.
func shown(t *testing.T, v any) (decoded any) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &decoded))
	return decoded
}

// fill replaces pairs of names and values in a text of JSON, and reads it.
func fill(t *testing.T, text string, pairs ...string) (decoded any) {
	t.Helper()
	text = strings.NewReplacer(pairs...).Replace(text)
	require.NoError(t, json.Unmarshal([]byte(text), &decoded), "%s", text)
	return decoded
}

// reply sends a body that has a reply.
func (w *world) reply(body string) a2aserver.Reply {
	w.t.Helper()
	r, err := w.Call(w.t.Context(), w.who, w.agent, sent(body), seated)
	require.NoError(w.t, err)
	return r
}

// answer sends a body and returns the message that comes back.
func (w *world) answer(body string) object {
	w.t.Helper()
	r := w.reply(body)
	require.NotNil(w.t, r.Message, "it is no stream")
	return shown(w.t, r.Message).(object)
}

// sent is a request of a client that names no version.
func sent(body string) a2aserver.Request { return a2aserver.Request{Body: []byte(body)} }

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
}

// some are the parameters of a message that starts a run.
const some = `{"message":{"parts":[{"text":"hello"}]}}`

// result calls a method that succeeds.
func (w *world) result(method, params string) object {
	w.t.Helper()
	a := w.answer(request(method, params))
	require.NotNil(w.t, a["result"], "%v", a)
	return a["result"].(object)
}

// refusal calls a method that fails with an error of the protocol.
func (w *world) refusal(method, params string) (code float64, text string) {
	w.t.Helper()
	a := w.answer(request(method, params))
	require.NotNil(w.t, a["error"], "%v", a)
	e := a["error"].(object)
	return e["code"].(float64), e["message"].(string)
}

// task sends a text that starts a run, and returns the run's id.
func (w *world) task(text string) string {
	w.t.Helper()
	return w.send(`{"parts":[{"text":"` + text + `"}]}`)["id"].(string)
}

// send sends a message whose task is returned immediately.
func (w *world) send(message string) object {
	w.t.Helper()
	return w.result("message/send", `{"message":`+message+`,"configuration":{"blocking":false}}`)
}

// transition makes a transition of a worker.
func (w *world) transition(run string, c transition.Change) {
	w.t.Helper()
	_, err := w.Intake.Executor.Do(w.t.Context(), record.System(), run,
		func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
	require.NoError(w.t, err)
}

// claim begins an attempt at a run, as a worker does.
func (w *world) claim(run string) lifecycle.Work {
	w.t.Helper()
	w.transition(run, transition.Change{
		Event: lifecycle.Claim{Holder: "w", Until: w.Intake.Host.Now().Add(time.Hour)},
	})
	return lifecycle.Work{Attempt: w.run(run).Attempt}
}

// complete ends a run with a result.
func (w *world) complete(run, result string) {
	w.t.Helper()
	w.transition(run, transition.Change{
		Event: lifecycle.Complete{Work: w.claim(run)}, Result: json.RawMessage(result),
	})
}

// ask pauses a run with interrupts of these kinds. Their ids are i, j and so on.
func (w *world) ask(run string, kinds ...lifecycle.InterruptKind) {
	w.t.Helper()
	w.pause(run, w.claim(run), 0, kinds...)
}

// pause is ask in an attempt that has begun. The first id is first letters after i.
func (w *world) pause(run string, work lifecycle.Work, first int, kinds ...lifecycle.InterruptKind) {
	w.t.Helper()
	e := lifecycle.Pause{Work: work, ExpiresAt: w.Intake.Host.Now().Add(100 * 365 * 24 * time.Hour)}
	var list []record.Interrupt
	for n, kind := range kinds {
		id := string(rune('i' + first + n))
		e.Interrupts = append(e.Interrupts, lifecycle.Pending{ID: id, Kind: kind})
		list = append(list, record.Interrupt{Interrupt: events.Interrupt{
			ID: id, Kind: string(kind), Prompt: "Which " + id + "?", CreatedAt: now,
		}})
	}
	w.transition(run, transition.Change{Event: e, Interrupts: list})
}

func (w *world) run(id string) record.Run {
	w.t.Helper()
	e, err := w.Store.Run(w.t.Context(), record.System(), id)
	require.NoError(w.t, err)
	return e.Value
}

// other creates another agent of the organization.
func (w *world) other(change func(*catalog.AgentSpec)) string {
	w.t.Helper()
	spec := w.Intake.Tenants.DefaultSpec(w.who.Organization)
	spec.Name = "Other"
	change(&spec)
	a, err := w.Intake.Tenants.CreateAgent(w.t.Context(), w.who.Organization, spec, true)
	require.NoError(w.t, err)
	return a.Value.ID
}

// group creates a group without members.
func (w *world) group() string {
	w.t.Helper()
	name := "group"
	g, err := w.Intake.Tenants.CreateGroup(w.t.Context(), w.who.Organization, tenant.GroupEdit{Name: &name})
	require.NoError(w.t, err)
	return g.Value.ID
}

// member is a new user of an organization, with a key of level run.
func (w *world) member(organization string) tenant.Principal {
	w.t.Helper()
	tenants := w.Intake.Tenants
	email := "member@example.com"
	user, err := tenants.CreateUser(w.t.Context(), tenant.Platform(), organization, tenant.UserEdit{Email: &email})
	require.NoError(w.t, err)
	_, key, err := tenants.CreateKey(w.t.Context(), tenant.Platform(), record.Of(organization),
		tenant.NewKey{Name: "k", UserID: user.Value.ID, Level: tenant.LevelRun})
	require.NoError(w.t, err)
	p, err := tenants.Authenticate(w.t.Context(), key)
	require.NoError(w.t, err)
	return p
}

// outsider is a user of another organization.
func (w *world) outsider() tenant.Principal {
	w.t.Helper()
	name := "elsewhere"
	o, err := w.Intake.Tenants.CreateOrganization(w.t.Context(), tenant.OrganizationEdit{Name: &name})
	require.NoError(w.t, err)
	return w.member(o.Value.ID)
}

// change is a transition that changes nothing else.
func change(e lifecycle.Event) transition.Change { return transition.Change{Event: e} }

// seated finds a place for every stream.
func seated() error { return nil }
