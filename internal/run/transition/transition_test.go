package transition_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// push returns the webhook body of the status that a run has entered. It first checks the properties that all of them
// have.
func (w *world) push(r record.Run) events.Webhook {
	w.t.Helper()
	h, found, err := w.Store.DeliveryAt(w.t.Context(), r.ID(), r.Transition)
	require.NoError(w.t, err)
	require.True(w.t, found)
	var body events.Webhook
	require.NoError(w.t, json.Unmarshal([]byte(h.Value.Body), &body))
	assert.Equal(w.t, record.Delivery{
		DeliveryID: body.DeliveryID, Organization: "o", User: r.User, Owner: r.Owner(), RunID: r.ID(),
		Sequence: r.Transition, Event: body.Event,
		Status: string(r.Status), CallbackURL: "https://example.com/hook", Body: h.Value.Body,
		State: record.DeliveryPending, NextAttempt: w.Host.Now(), CheckAt: w.Host.Now().Add(lifecycle.DispatchGrace),
	}, h.Value, "it is due at once, and a nudge is on its way")
	assert.Equal(w.t, events.Webhook{
		Version: 1, Event: body.Event, DeliveryID: record.DeliveryID(r.ID(), r.Transition), RunID: r.ID(), ChatID: "c",
		AgentID: "a", Status: string(r.Status), Interrupts: body.Interrupts, Error: body.Error, Result: body.Result,
		UsageStatus: body.UsageStatus, Metadata: map[string]string{"k": "v"}, OccurredAt: events.Time(w.Host.Now()),
		Sequence: r.Transition,
	}, body)
	return body
}

// A webhook has the status that was entered and its reason, with the same bytes in each attempt.
func TestWebhookHasTheStatusAndItsReason(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	body := w.push(w.ask(run))
	assert.Equal(t, events.WebhookAwaitingInput, body.Event)
	assert.JSONEq(t, `[{"id":"i","kind":"","prompt":"which?","created_at":""}]`, string(body.Interrupts))
	assert.Nil(t, body.UsageStatus)
	slots, err := w.Slots(t.Context(), w.run(run).RunSpec)
	require.NoError(t, err)
	w.do(run, plainly(w.answering(slots)))
	w.claim(run)
	failed := w.do(run, plainly(transition.Change{Event: lifecycle.Fail{Work: lifecycle.Work{Attempt: 2},
		Error: "broken"}}))
	body = w.push(failed)
	assert.Equal(t, events.WebhookTerminal, body.Event)
	assert.Equal(t, "broken", *body.Error)
	assert.JSONEq(t, "[]", string(body.Interrupts))
	assert.JSONEq(t, "null", string(body.Result))
	assert.Nil(t, body.UsageStatus, "only what is completed is billed")

	w = newWorld(t)
	run = w.accept("u")
	w.claim(run)
	body = w.push(w.do(run, plainly(transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(1)})))
	assert.Equal(t, events.WebhookTerminal, body.Event)
	assert.Nil(t, body.Error)
	assert.JSONEq(t, "[]", string(body.Interrupts))
	assert.JSONEq(t, string(sizedResult(1)), string(body.Result))
	require.NotNil(t, body.UsageStatus)
	assert.Equal(t, "billed", *body.UsageStatus)

	w = newWorld(t)
	spec, in := w.ticket("u"), input(1)
	in.Metadata = nil
	require.NoError(t, w.begin(t.Context(), spec, in))
	w.claim(spec.RunID)
	w.do(spec.RunID, plainly(transition.Change{Event: lifecycle.Complete{Work: work}}))
	h, _, err := w.Store.DeliveryAt(t.Context(), spec.RunID, 3)
	require.NoError(t, err)
	assert.Contains(t, h.Value.Body, `"metadata":{}`)
}

// A parked message's run takes over the slots of the run before it if they belong to its user and count. Otherwise it
// gets slots of its own user, so that caps apply to the owner of the work. It is accepted work, so it may exceed the
// caps of user and organization.
func TestPromotedRunHasSlotsOfItsOwnUser(t *testing.T) {
	for _, limit := range []int{1, 3} {
		for _, paused := range []bool{false, true} {
			for _, user := range []string{"u", "another"} {
				w := newWorld(t)
				w.cap = limit
				run := w.accept("u")
				next := w.park(user, run)
				if paused {
					w.ask(run)
				}
				spec := w.ticket("another")
				spec.Chat = "elsewhere"
				require.NoError(t, w.begin(t.Context(), spec, record.Input{Message: "x"}))
				before := w.run(run)
				w.do(run, plainly(transition.Change{Event: lifecycle.Remove{KeepParked: true}}))
				after := w.run(next)
				assert.Equal(t, []any{lifecycle.Queued, 2, run}, []any{after.Status, after.Turn, after.Previous})
				over := "over/" + next
				switch {
				case paused:
					assert.Equal(t, limit == 1, after.Slots.Organization == over, "there was one left, or none")
					assert.Equal(t, limit == 1 && user == "another", after.Slots.User == over)
				case user == "u":
					assert.Equal(t, before.Slots, after.Slots)
				default:
					assert.Equal(t, before.Slots.Organization, after.Slots.Organization)
					assert.Equal(t, limit == 1, after.Slots.User == over)
				}
				for whose, want := range map[string]int{"u": 0, "another": 1, user: 1} {
					if user == "another" && whose == user {
						want = 2
					}
					n, err := w.Store.CountingRuns(t.Context(), record.UserSlots("o", whose))
					require.NoError(t, err)
					assert.Equal(t, want, n, "%s of %s, paused %v", whose, user, paused)
				}
				n, err := w.Store.CountingRuns(t.Context(), record.OrganizationSlots("o"))
				require.NoError(t, err)
				assert.Equal(t, 2, n)
			}
		}
	}
}

// Slots are found with the caps of the user and of its organization, each with its own cap.
func TestSlotsAreFoundWithTheCaps(t *testing.T) {
	w := newWorld(t)
	w.Caps = func(_ context.Context, organization, user string) (int, int, error) {
		assert.Equal(t, []string{"o", "u"}, []string{organization, user})
		return 1, 2, nil
	}
	user, organization, err := w.Admissions(t.Context(), "o", "u")
	require.NoError(t, err)
	assert.Equal(t, record.Admission{Free: "0", Cap: 1}, user)
	assert.Equal(t, []any{2, 0, true}, []any{organization.Cap, organization.Active, organization.Allows()})
	w.accept("u")
	user, organization, err = w.Admissions(t.Context(), "o", "u")
	require.NoError(t, err)
	assert.Equal(t, record.Admission{Active: 1, Cap: 1}, user)
	assert.Equal(t, []any{1, true}, []any{organization.Active, organization.Allows()})
	slots, err := w.Slots(t.Context(), lifecycle.RunSpec{RunID: "r", Organization: "o", User: "u"})
	require.NoError(t, err)
	assert.Equal(t, lifecycle.Slots{User: "over/r", Organization: organization.Free}, slots)
}
