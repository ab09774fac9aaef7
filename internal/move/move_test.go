package move_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/feed"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/move"
	"agentplatform/internal/queue/localqueue"
	"agentplatform/internal/record"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/timer/localtimer"
)

func newShell() *move.Shell {
	h, nudges := host.System(), localqueue.New()
	return &move.Shell{
		Store: record.New(memtable.New(h.Now), &memblob.Store{}, h), Host: h, Log: slog.New(slog.DiscardHandler), StartDeadline: time.Minute,
		Queue: nudges, Timer: localtimer.New(nudges), Bell: feed.NewLocalBell(),
		Caps: func(context.Context, string, string) (int, int, error) { return 3, 3, nil },
	}
}

// accept has a run begin, or be parked on one.
func accept(t *testing.T, m *move.Shell, user, on string) string {
	ticket := lifecycle.Ticket{RunID: m.Host.NewID(), Organization: "o", User: user, Agent: "a", Chat: "c", OwnChatID: true, Callback: true}
	input := record.Input{Message: "x", CallbackURL: "https://example.com/hook"}
	if on != "" {
		ticket.Waited = true
		do(t, m, on, func(_ record.Run, name string) (move.Change, error) {
			kept, err := m.Store.PutInput(t.Context(), name, ticket, input, m.Host.Now())
			return move.Change{Event: lifecycle.Park{ID: ticket.RunID}, Ops: kept}, err
		})
		return ticket.RunID
	}
	slots, err := m.Slots(t.Context(), ticket)
	require.NoError(t, err)
	_, err = m.Accept(t.Context(), move.Acceptance{
		Ticket: ticket, Input: input, Slots: slots,
		Chat: record.Fresh(lifecycle.Chat{ID: "c", OwnID: true, Organization: "o", User: user, CreatedAt: m.Host.Now()}),
	})
	require.NoError(t, err)
	return ticket.RunID
}

func do(t *testing.T, m *move.Shell, run string, decide func(r record.Run, name string) (move.Change, error)) record.Run {
	t.Helper()
	after, _, err := m.Do(t.Context(), record.System(), run, decide)
	require.NoError(t, err)
	return after
}

func plainly(c move.Change) func(record.Run, string) (move.Change, error) {
	return func(record.Run, string) (move.Change, error) { return c, nil }
}

// A push says which state was entered and why, in the bytes that are sent each time.
func TestWhatAPushSays(t *testing.T) {
	m := newShell()
	run := accept(t, m, "u", "")
	claim := move.Change{Event: lifecycle.Claim{Holder: "w", Until: m.Host.Now().Add(time.Hour)}}
	do(t, m, run, plainly(claim))
	pushed := func(r record.Run) (events.Webhook, record.Hook) {
		h, found, err := m.Store.Hook(t.Context(), r.ID(), r.Transition)
		require.NoError(t, err)
		require.True(t, found)
		var body events.Webhook
		require.NoError(t, json.Unmarshal([]byte(h.Value.Body), &body))
		assert.Equal(t, []any{run, "c", "a", r.Transition, string(r.Status), map[string]string{}},
			[]any{body.RunID, body.ChatID, body.AgentID, body.Sequence, body.Status, body.Metadata})
		assert.Equal(t, h.Value.Event, body.Event)
		assert.Equal(t, "https://example.com/hook", h.Value.CallbackURL)
		return body, h.Value
	}
	asked := do(t, m, run, plainly(move.Change{
		Event:      lifecycle.Pause{Work: lifecycle.Work{Attempt: 1}, Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Clarification}}, ExpiresAt: m.Host.Now().Add(time.Hour)},
		Interrupts: []record.Interrupt{{Interrupt: events.Interrupt{ID: "i"}}},
	}))
	body, _ := pushed(asked)
	assert.Equal(t, events.WebhookAwaitingInput, body.Event)
	assert.Contains(t, string(body.Interrupts), `"i"`)
	assert.Nil(t, body.UsageStatus)
	slots, err := m.Slots(t.Context(), asked.Ticket)
	require.NoError(t, err)
	do(t, m, run, plainly(move.Change{Event: lifecycle.AnswerMessage{By: "u", Slots: slots, StartBy: m.Host.Now().Add(time.Hour)}}))
	do(t, m, run, plainly(claim))
	failed := do(t, m, run, plainly(move.Change{Event: lifecycle.Fail{Work: lifecycle.Work{Attempt: 2}, Error: "broken"}}))
	body, _ = pushed(failed)
	assert.Equal(t, events.WebhookTerminal, body.Event)
	assert.Equal(t, "broken", *body.Error)
	assert.JSONEq(t, "[]", string(body.Interrupts))
	assert.Nil(t, body.UsageStatus, "only what is completed is billed")
}

// A parked message's run takes over the places of the one before it where they are its own user's and count; else it
// has one of its own user's, so that caps hold for whose the work is.
func TestAPromotedRunHasAPlaceOfItsOwnUsers(t *testing.T) {
	for _, paused := range []bool{false, true} {
		for _, user := range []string{"u", "another"} {
			m := newShell()
			run := accept(t, m, "u", "")
			next := accept(t, m, user, run)
			if paused {
				do(t, m, run, plainly(move.Change{Event: lifecycle.Claim{Holder: "w", Until: m.Host.Now().Add(time.Hour)}}))
				do(t, m, run, plainly(move.Change{Event: lifecycle.Pause{
					Work: lifecycle.Work{Attempt: 1}, Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Clarification}}, ExpiresAt: m.Host.Now(),
				}}))
			}
			do(t, m, run, plainly(move.Change{Event: lifecycle.Remove{KeepParked: true}}))
			e, err := m.Store.Run(t.Context(), record.System(), next)
			require.NoError(t, err)
			assert.Equal(t, []any{lifecycle.Queued, 2, run}, []any{e.Value.Status, e.Value.Turn, e.Value.Previous})
			for whose, want := range map[string]int{"u": 0, "another": 0, user: 1} {
				n, err := m.Store.CountingRunsOfUser(t.Context(), "o", whose)
				require.NoError(t, err)
				assert.Equal(t, want, n, "%s of %s, paused %v", whose, user, paused)
			}
			n, err := m.Store.CountingRuns(t.Context(), "o")
			require.NoError(t, err)
			assert.Equal(t, 1, n)
		}
	}
}
