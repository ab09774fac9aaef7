package transition_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/invariant"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// The messages of a transition are sent once after its commit, also when the caller's context has ended. A queue or
// timer that fails undoes nothing, because the due index has them, too.
func TestMessagesFollowTheCommit(t *testing.T) {
	messages := map[string][]string{
		"a new run":                        {"run RUN for o", "ring RUN"},
		"a new run of a long message":      {"run RUN for o", "ring RUN"},
		"a new run of a very long message": {"run RUN for o", "ring RUN"},
		"a long step":                      {"ring RUN"},
		"a pause after a long message": {
			"webhook RUN/3 for o", "at HOUR RUN-p1: run RUN for o", "ring inbox/o", "ring RUN", "ring end/RUN",
		},
		"a pause with a long question": {
			"webhook RUN/3 for o", "at HOUR RUN-p1: run RUN for o", "ring inbox/o", "ring RUN", "ring end/RUN",
		},
		"a decision":                {"run RUN for o", "stop RUN-p1", "ring inbox/o", "ring RUN"},
		"an end":                    {"webhook RUN/3 for o", "ring RUN", "ring end/RUN"},
		"an end with a long result": {"webhook RUN/3 for o", "ring RUN", "ring end/RUN"},
		"an end on which another's message waits": {
			"run NEXT for o", "webhook RUN/3 for o", "ring NEXT", "ring RUN", "ring end/RUN",
		},
		"the end of a pause on which a message waits": {
			"run NEXT for o", "webhook RUN/4 for o", "stop RUN-p1", "ring inbox/o", "ring NEXT", "ring RUN",
			"ring end/RUN",
		},
		"a chat's deletion": {"ring RUN", "ring end/RUN"},
	}
	for name, ready := range operations() {
		for _, broken := range []bool{false, true} {
			for _, listened := range []bool{true, false} {
				w := newWorld(t)
				o := ready(w)
				w.forget()
				before := w.status(o.run)
				w.outbox.broken = broken
				if !listened {
					w.OnTransition = nil
				}
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, o.do(gone), name)
				var want []string
				missed := 0
				for _, line := range messages[name] {
					if broken && !strings.HasPrefix(line, "ring") {
						missed++
						continue
					}
					hour := w.Host.Now().Add(time.Hour).Format(time.RFC3339)
					want = append(want, strings.NewReplacer("RUN", o.run, "NEXT", o.next, "HOUR", hour).Replace(line))
				}
				assert.Equal(t, want, w.outbox.sent, name)
				assert.Equal(t, missed, strings.Count(w.log.String(), "level=WARN"), name)
				after := w.run(o.run)
				assert.Equal(t, before != after.Status, strings.Contains(w.log.String(), logged[after.Status]), name)
				assert.Equal(t, o.next != "", strings.Contains(w.log.String(), "msg=\"run queued\" run_id="+o.next+" "),
					"%s: a promoted run", name)
				if !listened {
					continue
				}
				var ids []string
				for _, m := range w.moved {
					ids = append(ids, m.After.ID())
				}
				assert.Equal(t, strings.Fields(o.run+" "+o.next), ids,
					"%s: the counter of transitions is called for each", name)
				assert.Equal(t, after.Status, w.moved[0].After.Status, name)
			}
		}
	}
}

// status returns a run's status; empty when it does not exist.
func (w *world) status(run string) lifecycle.Status {
	e, _ := w.Store.Run(w.t.Context(), record.System(), run)
	return e.Value.Status
}

// Data that is stored next to a run's head is read as written.
func TestStoredBesideTheRunIsReadAsWritten(t *testing.T) {
	for _, size := range []int{1, 1000, 10_000} {
		w := newWorld(t)
		spec, in := w.ticket("u"), input(size)
		require.NoError(t, w.begin(t.Context(), spec, in))
		run := w.run(spec.RunID)
		found, err := w.Store.Input(t.Context(), run)
		require.NoError(t, err)
		assert.Equal(t, in, found)
		assert.Equal(t, size < 256, run.Input != nil, "a short message rides in the head")
		key, is, err := w.Store.Idempotency(t.Context(), in.Idempotency)
		require.NoError(t, err)
		assert.True(t, is)
		assert.Equal(t, []any{record.StartedRun, run.ID()}, []any{key.Outcome, key.RunID})

		w.claim(run.ID())
		steps := []record.Step{{Index: 1, Text: strings.Repeat("x", size)}, {Index: 2, Text: "y"}}
		w.do(run.ID(), plainly(transition.Change{Event: lifecycle.Step{Work: work}, Steps: steps}))
		journal, err := w.Store.Journal(t.Context(), run.ID())
		require.NoError(t, err)
		assert.Equal(t, steps, journal)

		c := w.pausing()
		c.Interrupts[0].Prompt = strings.Repeat("x", size)
		w.do(run.ID(), plainly(c))
		interrupts, err := w.Store.Interrupts(t.Context(), run.ID(), 1)
		require.NoError(t, err)
		assert.Equal(t, c.Interrupts, interrupts)
		parked := w.park("u", run.ID()) // no new question
		interrupts, err = w.Store.Interrupts(t.Context(), run.ID(), 1)
		require.NoError(t, err)
		assert.Equal(t, c.Interrupts, interrupts)

		slots, err := w.Slots(t.Context(), run.RunSpec)
		require.NoError(t, err)
		c = w.answering(slots)
		by := record.By(t.Context(), record.Author{Organization: "o", UserID: "u", APIKeyID: "k", Operation: "resume"})
		_, err = w.Do(by, record.System(), run.ID(), plainly(c))
		require.NoError(t, err)
		decided, is, err := w.Store.LastDecision(t.Context(), run.ID(), 1)
		require.NoError(t, err)
		assert.True(t, is)
		assert.Equal(t, *c.Decisions, decided)
		log, err := record.Resources[record.AuditEntry](t.Context(), w.Store, record.Of("o"), "", 10)
		require.NoError(t, err)
		require.Len(t, log.Rows, 1, "what humans decide stands in the audit log")
		assert.Equal(t, []record.AuditDecision{{InterruptID: "i", Decision: "answer"}}, log.Rows[0].Value.Decisions)

		w.claim(run.ID())
		last := work
		last.Attempt = 2
		ended := w.do(run.ID(), plainly(transition.Change{Event: lifecycle.Complete{Work: last},
			Result: sizedResult(size)}))
		assert.Equal(t, ended, w.run(run.ID()))
		output, err := w.Store.Output(t.Context(), ended)
		require.NoError(t, err)
		assert.JSONEq(t, string(sizedResult(size)), string(output))
		spent, err := w.Store.Spent(t.Context(), run.Budgets[0].Name)
		require.NoError(t, err)
		assert.Equal(t, int64(7), spent.Tokens, "its tokens count against its budgets")
		assert.Equal(t, []string{parked}, ended.PassedOn)
		assert.Empty(t, slices.Concat(ended.Parked, ended.Dropped))
		audit := invariant.NewAudit()
		require.NoError(t, w.auditItems(audit))
		require.Len(t, audit.Ledger[run.ID()], 1)
		entry := audit.Ledger[run.ID()][0]
		assert.Equal(t, []any{"completed", true, int64(3), int64(4)},
			[]any{entry.Status, entry.Billed, entry.InputTokens, entry.OutputTokens})
	}
}

// A run that is not completed has no result, even if its worker sent one. A run that was cancelled before it paused has
// no interrupts.
func TestCancelledRunHasNoResultOrInterrupts(t *testing.T) {
	for name, change := range map[string]func(w *world) transition.Change{
		"a result": func(*world) transition.Change {
			return transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(10_000)}
		},
		"a question": (*world).pausing,
	} {
		w := newWorld(t)
		run := w.accept("u")
		w.claim(run)
		w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
		after := w.do(run, plainly(change(w)))
		assert.Equal(t, []any{lifecycle.Cancelled, false}, []any{after.Status, after.Outside}, name)
		output, err := w.Store.Output(t.Context(), after)
		require.NoError(t, err)
		assert.Empty(t, output)
		pauses, _, err := w.Store.Pauses(t.Context(), run)
		require.NoError(t, err)
		assert.Empty(t, pauses, name)
		assert.JSONEq(t, "null", string(w.push(after).Result), name)
	}
}

// An ended run frees its chat, or gives it to the first parked message; the others then wait for that run. Messages
// that no longer have a chat are deleted.
func TestEndedRunHandsOnOrFreesItsChat(t *testing.T) {
	for _, waiting := range []int{0, 1, 3} {
		for _, dropped := range []bool{false, true} {
			w := newWorld(t)
			run, came := w.accept("u"), w.Host.Now()
			var parked []string
			for range waiting {
				parked = append(parked, w.park("u", run))
			}
			before := w.run(run)
			w.clock.now = w.clock.now.Add(time.Second)
			edit := func(c *lifecycle.Chat) { c.Title = "edited" }
			after := w.do(run, plainly(transition.Change{Event: lifecycle.Remove{KeepParked: !dropped}, Chat: edit}))
			assert.Equal(t, after, w.run(run))
			chat := w.chat(after).Value
			assert.Equal(t, []any{"edited", w.Host.Now()}, []any{chat.Title, chat.UpdatedAt})
			assert.Empty(t, after.Parked)
			if dropped || waiting == 0 {
				assert.Equal(t, []any{"", run, 1}, []any{chat.ActiveRun, chat.LastRun, chat.Turn})
				assert.Equal(t, parked, after.Dropped)
				assert.Empty(t, after.PassedOn)
				continue
			}
			assert.Equal(t, []any{parked[0], parked[0], 2}, []any{chat.ActiveRun, chat.LastRun, chat.Turn})
			assert.Empty(t, after.Dropped)
			assert.Equal(t, parked, after.PassedOn)
			next := w.run(parked[0])
			now := w.Host.Now()
			assert.Equal(t, []any{lifecycle.Queued, 2, run, before.Slots, came, now, now.Add(time.Minute)},
				[]any{next.Status, next.Turn, next.Previous, next.Slots, next.CreatedAt, next.QueuedAt, next.StartBy})
			assert.ElementsMatch(t, parked[1:], next.Parked)
		}
	}
}

// logged is what the log has of a run that enters a status.
var logged = map[lifecycle.Status]string{
	lifecycle.Queued:        `level=DEBUG msg="run queued"`,
	lifecycle.Running:       `level=DEBUG msg="run started"`,
	lifecycle.AwaitingInput: `level=DEBUG msg="run paused"`,
	lifecycle.Completed:     `level=DEBUG msg="run completed"`,
	lifecycle.Failed:        `level=INFO msg="run failed"`,
	lifecycle.TimedOut:      `level=INFO msg="run timed out"`,
	lifecycle.Cancelled:     `level=DEBUG msg="run cancelled"`,
}

// Each status has its line in the log.
func TestEachStatusIsLogged(t *testing.T) {
	ends := map[lifecycle.Status]lifecycle.Event{
		lifecycle.Completed: lifecycle.Complete{Work: work}, lifecycle.Failed: lifecycle.Fail{Work: work},
		lifecycle.TimedOut: lifecycle.TimeOut{Work: work}, lifecycle.Cancelled: lifecycle.Remove{ProcessID: "other"},
	}
	for _, status := range lifecycle.Statuses() {
		w := newWorld(t)
		run := w.accept("u")
		if status != lifecycle.Queued {
			w.claim(run)
		}
		if status == lifecycle.AwaitingInput {
			w.do(run, plainly(w.pausing()))
		}
		if status.Terminal() {
			w.do(run, plainly(transition.Change{Event: ends[status]}))
		}
		assert.Equal(t, 1, strings.Count(w.log.String(), logged[status]+" run_id="+run+" "), status)
	}
}

// Each parked message is counted once: the run that is made of a message takes over those that wait behind it.
func TestParkedMessagesAreCountedOnce(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	for range 3 {
		w.park("u", run)
	}
	w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
	var events []string
	grown := 0
	for _, m := range w.moved {
		events = append(events, m.Event)
		grown += max(0, len(m.After.Parked)-len(m.Before.Parked))
	}
	assert.Equal(t, 3, grown)
	assert.Equal(t, []string{transition.Accepted, "park", "park", "park", "cancel", transition.Promoted}, events)
	promoted := w.moved[5]
	assert.Equal(t, []lifecycle.Status{"", lifecycle.Queued},
		[]lifecycle.Status{promoted.Before.Status, promoted.After.Status}, "the promoted run enters its first status")
	assert.Equal(t, promoted.Before.ID(), promoted.After.ID())
}

// A transition with data that cannot be stored is refused as a whole.
func TestUnstorableTransitionIsRefusedWhole(t *testing.T) {
	const text = "\xff"
	broken := json.RawMessage(`{`)
	twice := json.RawMessage(`{"a":1,"a":2}`)
	running := func(w *world) string {
		run := w.accept("u")
		w.claim(run)
		return run
	}
	paused := func(w *world) string { return w.ask(w.accept("u")).ID() }
	for name, c := range map[string]struct {
		ready  func(w *world) string
		change func(w *world, c *transition.Change)
	}{
		"a step": {running, func(_ *world, c *transition.Change) {
			c.Event, c.Steps = lifecycle.Step{Work: work}, []record.Step{{Index: 1, Arguments: broken}}
		}},
		"a question": {running, func(w *world, c *transition.Change) {
			*c = w.pausing()
			c.Interrupts[0].Tool = &events.InterruptTool{Arguments: broken}
		}},
		"a decision": {paused, func(w *world, c *transition.Change) {
			*c = w.answering(lifecycle.Slots{})
			c.Decisions.List[0].Arguments = broken
		}},
		"who decided": {paused, func(w *world, c *transition.Change) {
			*c = w.answering(lifecycle.Slots{})
			c.Decisions.By = text
		}},
		"a result": {running, func(_ *world, c *transition.Change) {
			c.Event, c.Result = lifecycle.Complete{Work: work}, twice
		}},
		"a long result": {running, func(_ *world, c *transition.Change) {
			c.Event, c.Result = lifecycle.Complete{Work: work}, append(sizedResult(10_000), broken...)
		}},
		"a chat": {running, func(_ *world, c *transition.Change) {
			c.Event, c.Chat = lifecycle.Complete{Work: work}, func(c *lifecycle.Chat) { c.Title = text }
		}},
	} {
		w := newWorld(t)
		run := c.ready(w)
		var change transition.Change
		c.change(w, &change)
		before := w.stored()
		by := record.By(t.Context(), record.Author{Organization: "o", UserID: "u", APIKeyID: "k", Operation: "resume"})
		_, err := w.Do(by, record.System(), run, plainly(change))
		require.ErrorIs(t, err, record.ErrUnstorable, "%s: so to try again is of no use", name)
		assert.Equal(t, before, w.stored(), name)
	}
	for name, spoil := range map[string]func(a *transition.Acceptance){
		"a new run":  func(a *transition.Acceptance) { a.Spec.APIKey = text },
		"a new chat": func(a *transition.Acceptance) { a.Chat.Value.Title = text },
		"a key's outcome": func(a *transition.Acceptance) {
			a.Idempotency = &record.Idempotency{Outcome: record.StartedRun, RunID: text}
		},
	} {
		w := newWorld(t)
		spec := w.ticket("u")
		slots, err := w.Slots(t.Context(), spec)
		require.NoError(t, err)
		a := transition.Acceptance{
			Spec: spec, Input: input(1), Slots: slots,
			Chat: record.Fresh(lifecycle.Chat{ID: "c", OwnID: true, Organization: "o", User: "u"}),
		}
		spoil(&a)
		_, err = w.Accept(t.Context(), w.Store.Begin(spec.RunID), a)
		require.ErrorIs(t, err, record.ErrUnstorable, name)
		assert.Empty(t, w.stored(), name)
	}
}

// auditItems reads all stored items.
func (w *world) auditItems(audit *invariant.Audit) (err error) {
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) {
		if err == nil {
			err = audit.Add(i)
		}
	})
	return err
}

// A chat is deleted while a worker has its run. The chat is free, and the worker ends the run with all tokens. No
// webhook is sent, and parked messages are dropped.
func TestADeletedRunIsEndedByItsWorker(t *testing.T) {
	w := newWorld(t)
	run := w.fiveBudgets()
	e := w.entity(run)
	e.Value.Callback = true
	tx := w.Store.Begin("callback")
	tx.PutRun(e)
	require.NoError(t, tx.Commit(t.Context()))
	parked := w.park("u", run)
	w.claim(run)
	deletes := transition.Change{Event: lifecycle.Remove{}, Chat: (*lifecycle.Chat).Delete}
	for range 2 { // a user, too, is deleted
		going := w.do(run, plainly(deletes))
		assert.Equal(t, []any{lifecycle.Running, true}, []any{going.Status, going.CancelRequested})
		deletes = transition.Change{Event: lifecycle.Remove{KeepParked: true}}
	}
	assert.Equal(t, []any{true, ""}, []any{w.chat(e.Value).Value.Deleted, w.chat(e.Value).Value.ActiveRun})
	_, err := w.Store.LiveRun(t.Context(), record.System(), run)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = w.Do(t.Context(), record.System(), run, plainly(transition.Change{Event: lifecycle.Park{ID: "late"}}))
	require.ErrorIs(t, err, lifecycle.ErrRefused)
	ended := w.do(run, plainly(transition.Change{Event: lifecycle.Fail{Work: using(1, 20, 9)}}))
	assert.Equal(t, []any{lifecycle.Cancelled, []string{parked}}, []any{ended.Status, ended.Dropped})
	w.counted(run, 29, "the end")
	assert.Equal(t, []any{true, ""}, []any{w.chat(e.Value).Value.Deleted, w.chat(e.Value).Value.ActiveRun})
	_, pushed, err := w.Store.DeliveryAt(t.Context(), run, ended.Transition)
	require.NoError(t, err)
	assert.False(t, pushed)
	ids, err := w.Store.ActiveRuns(t.Context(), "o")
	require.NoError(t, err)
	assert.Empty(t, ids)
}
