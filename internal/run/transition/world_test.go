package transition_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// world is an executor over a store whose calls may fail, with all messages that it sends.
type world struct {
	*transition.Executor

	t      *testing.T
	clock  *clock
	items  *faulttable.Table
	blobs  *memblob.Store
	outbox *outbox
	moved  []transition.Move
	log    *strings.Builder
	cap    int
	fails  func() bool // reports whether a call of the table, the blob store or for the caps fails; nil: none
}

// clock is a host whose time stands still and that does not wait.
type clock struct {
	host.Host

	now  time.Time
	naps []time.Duration
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.naps = append(c.naps, d)
	return ctx.Err()
}

// Int64N returns the longest wait.
func (c *clock) Int64N(n int64) int64 { return n - 1 }

// outbox is queue, timer and notifier: it keeps the messages in order, or fails if configured.
type outbox struct {
	sent   []string
	broken bool
	handed func(record.RunEntity)
}

func (o *outbox) take(ctx context.Context, format string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.broken {
		return errors.New("broken")
	}
	o.sent = append(o.sent, fmt.Sprintf(format, args...))
	return nil
}

func (o *outbox) Send(ctx context.Context, m queue.Message) error {
	return o.take(ctx, "%s %s for %s", m.Wakeup.Kind, m.Wakeup.ID, m.Group)
}

func (o *outbox) At(ctx context.Context, name string, at time.Time, m queue.Message) error {
	return o.take(ctx, "at %s %s: %s %s for %s", at.Format(time.RFC3339), name, m.Wakeup.Kind, m.Wakeup.ID, m.Group)
}

func (o *outbox) Stop(ctx context.Context, name string) error { return o.take(ctx, "stop %s", name) }

func (o *outbox) Notify(run string) { o.sent = append(o.sent, "ring "+run) }

func (o *outbox) NotifyEnd(e record.RunEntity) {
	o.Notify(record.EndOf(e.Value.ID()))
	o.handed(e)
}

// blobs is a blob store that fails if the world is set to.
type blobs struct {
	*memblob.Store

	w *world
}

func (b blobs) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	if b.w.fails != nil && b.w.fails() {
		return 0, errors.New("broken")
	}
	return b.Store.Put(ctx, key, r, limit)
}

func newWorld(t *testing.T) *world {
	c := &clock{Host: host.System()}
	c.now = c.Host.Now()
	w := &world{t: t, clock: c, blobs: &memblob.Store{}, outbox: &outbox{}, log: &strings.Builder{}, cap: 3}
	w.items = &faulttable.Table{Inner: memtable.New(c.Now), Before: w.plain}
	w.Executor = &transition.Executor{
		Store: record.New(w.items, blobs{w.blobs, w}, c), Host: c, StartDeadline: time.Minute,
		Log:   slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Queue: w.outbox, Timer: w.outbox, Notifier: w.outbox,
		OnTransition: func(m transition.Move) { w.moved = append(w.moved, m) },
		Caps: func(context.Context, string, string) (int, int, error) {
			if w.fails != nil && w.fails() {
				return 0, 0, problem.Retry(errors.New("broken"))
			}
			return w.cap, w.cap, nil
		},
	}
	w.outbox.handed = w.sameAsRead
	return w
}

// sameAsRead requires that the run that waiters get is the one that they would read.
func (w *world) sameAsRead(handed record.RunEntity) {
	read, err := record.New(w.items.Inner, w.blobs, w.clock).
		LiveRun(context.Background(), record.System(), handed.Value.ID())
	require.NoError(w.t, err)
	require.Equal(w.t, read.Version(), handed.Version())
	require.Equal(w.t, read.Value.Due.UnixMilli(), handed.Value.Due.UnixMilli())
	require.Equal(w.t, read.Value.Organization, handed.Value.Organization)
	require.Equal(w.t, string(read.Value.Output), string(handed.Value.Output))
	want, err := json.Marshal(read.Value)
	require.NoError(w.t, err)
	got, err := json.Marshal(handed.Value)
	require.NoError(w.t, err)
	require.Equal(w.t, string(want), string(got))
}

// plain is a table whose calls fail if the world is set to.
func (w *world) plain(faulttable.Call) faulttable.Fault {
	if w.fails != nil && w.fails() {
		return faulttable.Down
	}
	return faulttable.None
}

// isJob reports whether an item is a job. A job announces each large document, and stays unless a commit names the
// document.
func isJob(k table.Key) bool { return strings.HasPrefix(k.Part, "job/") }

// stored returns the versions of all items except jobs.
func (w *world) stored() map[table.Key]int64 {
	items := map[table.Key]int64{}
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) {
		if !isJob(i.Key) {
			items[i.Key] = i.Version
		}
	})
	return items
}

// forget clears the messages that were sent so far.
func (w *world) forget() {
	w.outbox.sent, w.moved, w.clock.naps = nil, nil, nil
	w.log.Reset()
}

func (w *world) ticket(user string) lifecycle.RunSpec {
	return lifecycle.RunSpec{
		RunID: w.Host.NewID(), Organization: "o", User: user, Agent: "a", Chat: "c", OwnChatID: true, Callback: true,
		Budgets: []lifecycle.Budget{{Name: "user/" + user + "/2026-01", MaxTokens: 100}},
	}
}

// input is a message of a size in bytes.
func input(size int) record.Input {
	return record.Input{
		Message: strings.Repeat(
			"x",
			size,
		),
		CallbackURL: "https://example.com/hook",
		Metadata:    map[string]string{"k": "v"},
		Idempotency: "o/u/key",
	}
}

// begin accepts a message, as a client's request does.
func (w *world) begin(ctx context.Context, t lifecycle.RunSpec, in record.Input) error {
	slots, err := w.Slots(ctx, t)
	if err != nil {
		return err
	}
	chat := record.Fresh(lifecycle.Chat{
		ID: t.Chat, OwnID: t.OwnChatID, Organization: t.Organization, User: t.User, CreatedAt: w.Host.Now(),
	})
	_, err = w.Accept(ctx, w.Store.Begin(t.RunID), transition.Acceptance{
		Spec: t, Input: in, Slots: slots, Chat: chat,
		Idempotency: &record.Idempotency{Outcome: record.StartedRun, RunID: t.RunID},
	})
	return err
}

// accept starts a run.
func (w *world) accept(user string) string {
	w.t.Helper()
	t := w.ticket(user)
	require.NoError(w.t, w.begin(w.t.Context(), t, input(1)))
	return t.RunID
}

// park parks a message on a run.
func (w *world) park(user, on string) string {
	w.t.Helper()
	t := w.ticket(user)
	t.Waited = true
	w.do(on, func(_ record.Run, tx *record.Tx) (transition.Change, error) {
		tx.PutInput(w.t.Context(), t, input(1), w.Host.Now())
		return transition.Change{Event: lifecycle.Park{ID: t.RunID}}, nil
	})
	return t.RunID
}

func (w *world) do(run string, decide func(r record.Run, tx *record.Tx) (transition.Change, error)) record.Run {
	w.t.Helper()
	after, err := w.Do(w.t.Context(), record.System(), run, decide)
	require.NoError(w.t, err)
	return after
}

func plainly(c transition.Change) func(record.Run, *record.Tx) (transition.Change, error) {
	return func(record.Run, *record.Tx) (transition.Change, error) { return c, nil }
}

func (w *world) claim(run string) record.Run {
	w.t.Helper()
	return w.do(run, plainly(transition.Change{Event: lifecycle.Claim{Holder: "w",
		Until: w.Host.Now().Add(time.Hour)}}))
}

var work = lifecycle.Work{Attempt: 1, Usage: lifecycle.Usage{InputTokens: 3, OutputTokens: 4}}

// pausing is a transition that pauses a run with a question.
func (w *world) pausing() transition.Change {
	return transition.Change{
		Event: lifecycle.Pause{
			Work: work, Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Clarification}},
			ExpiresAt: w.Host.Now().Add(time.Hour),
		},
		Interrupts: []record.Interrupt{{Interrupt: events.Interrupt{ID: "i", Prompt: "which?"}}},
	}
}

func (w *world) ask(run string) record.Run {
	w.t.Helper()
	w.claim(run)
	return w.do(run, plainly(w.pausing()))
}

// answering is the transition that ends that pause.
func (w *world) answering(slots lifecycle.Slots) transition.Change {
	return transition.Change{
		Event: lifecycle.Resume{
			Decisions: []lifecycle.Decision{{InterruptID: "i", Verb: lifecycle.Answer}}, By: "u", Slots: slots,
			StartBy: w.Host.Now().Add(time.Hour),
		},
		Decisions: &record.Decisions{
			List: []record.Decision{{InterruptID: "i", Decision: "answer", Message: "that"}}, By: "u", At: w.Host.Now(),
		},
	}
}

// sent is a result of a size in bytes.
func sizedResult(size int) json.RawMessage {
	return json.RawMessage(`{"answer":"` + strings.Repeat("x", size) + `\u003c\u2028\u00e9\/"}`)
}

func (w *world) run(id string) record.Run {
	w.t.Helper()
	e, err := w.Store.Run(w.t.Context(), record.System(), id)
	require.NoError(w.t, err)
	return e.Value
}

func (w *world) chat(r record.Run) record.ChatEntity {
	w.t.Helper()
	e, found, err := w.Store.ChatOf(w.t.Context(), r.RunSpec)
	require.NoError(w.t, err)
	require.True(w.t, found)
	return e
}

func code(err error) string {
	if p, ok := problem.As(err); ok {
		return p.Code
	}
	return ""
}

// operation is a transition to make once.
type operation struct {
	run  string                      // its run
	next string                      // the run that gets the chat, if there is one
	do   func(context.Context) error // makes it
}

// operations are all kinds of transitions, each prepared in its own world.
func operations() map[string]func(w *world) operation {
	made := func(w *world, run string, decide func(ctx context.Context) (transition.Change, error)) operation {
		return operation{run: run, do: func(ctx context.Context) error {
			_, err := w.Do(
				ctx,
				record.System(),
				run,
				func(record.Run, *record.Tx) (transition.Change, error) { return decide(ctx) },
			)
			return err
		}}
	}
	change := func(w *world, run string, c transition.Change) operation {
		return made(w, run, func(context.Context) (transition.Change, error) { return c, nil })
	}
	begun := func(w *world, in record.Input) operation {
		t := w.ticket("u")
		return operation{run: t.RunID, do: func(ctx context.Context) error { return w.begin(ctx, t, in) }}
	}
	return map[string]func(w *world) operation{
		"a new run":                        func(w *world) operation { return begun(w, input(1)) },
		"a new run of a long message":      func(w *world) operation { return begun(w, input(1000)) },
		"a new run of a very long message": func(w *world) operation { return begun(w, input(10_000)) },
		"a long step": func(w *world) operation {
			run := w.accept("u")
			w.claim(run)
			return change(w, run, transition.Change{
				Event: lifecycle.Step{
					Work: work,
				},
				Steps: []record.Step{{Index: 1}, {Index: 2, Text: strings.Repeat("x", 10_000)}},
			})
		},
		"a pause after a long message": func(w *world) operation {
			t := w.ticket("u")
			require.NoError(w.t, w.begin(w.t.Context(), t, input(1000)))
			w.claim(t.RunID)
			return change(w, t.RunID, w.pausing())
		},
		"a pause with a long question": func(w *world) operation {
			run, c := w.accept("u"), w.pausing()
			w.claim(run)
			c.Interrupts[0].Prompt = strings.Repeat("x", 10_000)
			return change(w, run, c)
		},
		"a decision": func(w *world) operation {
			run := w.ask(w.accept("u"))
			return made(w, run.ID(), func(ctx context.Context) (transition.Change, error) {
				slots, err := w.Slots(ctx, run.RunSpec)
				c := w.answering(slots)
				c.Decisions.List[0].Message = strings.Repeat("x", 10_000)
				return c, err
			})
		},
		"an end": func(w *world) operation {
			run := w.accept("u")
			w.claim(run)
			return change(w, run, transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(1)})
		},
		"an end with a long result": func(w *world) operation {
			run := w.accept("u")
			w.claim(run)
			return change(w, run, transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(10_000)})
		},
		"an end on which another's message waits": func(w *world) operation {
			run := w.accept("u")
			next := w.park("another", run)
			w.claim(run)
			o := change(w, run, transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(1)})
			o.next = next
			return o
		},
		"the end of a pause on which a message waits": func(w *world) operation {
			run := w.accept("u")
			next := w.park("u", run)
			w.ask(run)
			o := change(w, run, transition.Change{Event: lifecycle.Cancel{}})
			o.next = next
			return o
		},
		"a chat's deletion": func(w *world) operation {
			run := w.accept("u")
			return change(
				w,
				run,
				transition.Change{Event: lifecycle.Remove{}, Chat: func(c *lifecycle.Chat) { c.Deleted = true }},
			)
		},
	}
}
