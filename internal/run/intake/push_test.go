package intake_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

func at(url string) record.Push { return record.Push{URL: url, Token: "t0ken", Form: "f", API: "api"} }

// deliveries are the addresses of a run's deliveries, the newest first.
func (w *world) deliveries(run string) (list []string) {
	w.t.Helper()
	rows, err := w.Store.DeliveriesOfRun(w.t.Context(), w.who.Scope(), run)
	require.NoError(w.t, err)
	for _, e := range rows {
		b, err := json.Marshal(e.Value)
		require.NoError(w.t, err)
		assert.NotContains(w.t, string(b), "t0ken")
		assert.NotEqual(w.t, e.Value.PushedTo == "", e.Value.CallbackURL == "")
		list = append(list, e.Value.Address())
	}
	return list
}

func TestARunThatBeginsWithAPushHasADeliveryForEachPauseAndItsEnd(t *testing.T) {
	w := newWorld(t)
	push := at("https://example.com/a")
	run := w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	kept, found, err := w.Push(t.Context(), w.who, run)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, push, kept)
	w.ask(run, lifecycle.Clarification)
	require.NoError(t, w.SetPush(t.Context(), w.who, run, at("https://example.com/b")))
	_, err = w.Cancel(t.Context(), w.who, run, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"https://example.com/b", "https://example.com/a"}, w.deliveries(run))
}

func TestAPushMayComeAndGoWhileTheRunGoesOn(t *testing.T) {
	w := newWorld(t)
	run := w.post(intake.Message{Text: "x"}).Run.ID()
	_, found, err := w.Push(t.Context(), w.who, run)
	require.NoError(t, err)
	assert.False(t, found)
	require.NoError(t, w.SetPush(t.Context(), w.who, run, at("https://example.com/a")))
	w.ask(run, lifecycle.Clarification)
	for range 2 { // it is idempotent
		require.NoError(t, w.DeletePush(t.Context(), w.who, run, ""))
	}
	_, err = w.Cancel(t.Context(), w.who, run, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"https://example.com/a"}, w.deliveries(run))
}

func TestARunHasOneAddress(t *testing.T) {
	w := newWorld(t)
	called := w.post(intake.Message{Text: "x", CallbackURL: "https://example.com/callback"}).Run.ID()
	assert.ErrorContains(t, w.SetPush(t.Context(), w.who, called, at("https://example.com/a")), "callback_url")
	require.NoError(t, w.DeletePush(t.Context(), w.who, called, ""), "there is none, and the callback stays")
	w.complete(called)
	assert.Equal(t, []string{"https://example.com/callback"}, w.deliveries(called))

	one := w.post(intake.Message{Text: "x"}).Run.ID()
	require.NoError(t, w.SetPush(t.Context(), w.who, one, at("https://example.com/a")))
	other := at("https://example.com/b")
	other.ID = "other"
	assert.ErrorContains(t, w.SetPush(t.Context(), w.who, one, other), "another id")
	require.NoError(t, w.DeletePush(t.Context(), w.who, one, "other"))
	kept, _, err := w.Push(t.Context(), w.who, one)
	require.NoError(t, err)
	assert.Equal(t, "https://example.com/a", kept.URL)
}

// A push with any id replaces the push of the run, or is its first. The end of the run is sent there.
func TestAnAnswerMayBringThePushOfItsRun(t *testing.T) {
	w := newWorld(t)
	first, other := at("https://example.com/a"), at("https://example.com/b")
	other.ID = "other"
	answer := []record.Decision{{InterruptID: "i", Decision: "answer", Message: "Paris"}}
	for _, m := range []intake.Message{{Text: "x"}, {Text: "x", Push: &first}} {
		run := w.post(m).Run.ID()
		w.ask(run, lifecycle.Clarification)
		w.items.Overtake(func() { require.NoError(t, w.DeletePush(t.Context(), w.who, run, "")) })
		_, err := w.Resume(t.Context(), w.who, run, "", answer, &other, nil)
		require.NoError(t, err)
		_, err = w.Cancel(t.Context(), w.who, run, "")
		require.NoError(t, err)
		assert.Equal(t, other.URL, w.deliveries(run)[0])
		_, err = w.Resume(t.Context(), w.who, run, "", answer, &first, nil)
		assert.Equal(t, "not_awaiting_input", code(err))
		kept, _, err := w.Push(t.Context(), w.who, run)
		require.NoError(t, err)
		assert.Equal(t, other, kept)
	}
	asks := w.post(intake.Message{Text: "x", CallbackURL: "https://example.com/callback"}).Run.ID()
	w.ask(asks, lifecycle.Clarification)
	_, err := w.Resume(t.Context(), w.who, asks, "", answer, &other, nil)
	assert.ErrorContains(t, err, "callback_url")
	assert.Equal(t, lifecycle.AwaitingInput, w.run(asks).Status)
}

func TestAPushOfARunThatHasEndedIsDeletedAndNotSet(t *testing.T) {
	w := newWorld(t)
	push := at("https://example.com/a")
	run := w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	w.complete(run)
	assert.ErrorContains(t, w.SetPush(t.Context(), w.who, run, push), "has ended")
	require.NoError(t, w.DeletePush(t.Context(), w.who, run, ""))
	_, found, err := w.Push(t.Context(), w.who, run)
	require.NoError(t, err)
	assert.False(t, found)
}

// The row of a push is deleted with the run's other rows.
func TestAPushIsErasedWithItsRun(t *testing.T) {
	w := newWorld(t)
	push := at("https://example.com/a")
	run := w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	w.complete(run)
	e, err := w.Store.Run(t.Context(), record.System(), run)
	require.NoError(t, err)
	require.NoError(t, w.Store.EraseRun(t.Context(), e, "erase", false))
	_, found, err := w.Store.Push(t.Context(), run)
	require.NoError(t, err)
	assert.False(t, found)
}

func TestAPushOfAnotherOrganizationsRunIsOutOfReach(t *testing.T) {
	w := newWorld(t)
	push := at("https://example.com/a")
	run := w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	outsider := w.who
	outsider.Organization = w.Host.NewID()
	_, _, err := w.Push(t.Context(), outsider, run)
	assert.Equal(t, "outside_organization", code(err))
	assert.Equal(t, "outside_organization", code(w.SetPush(t.Context(), outsider, run, push)))
	assert.Equal(t, "outside_organization", code(w.DeletePush(t.Context(), outsider, run, "")))
}

// The second of two writers decides again. No webhook is sent that the client had stopped before, and none is missing.
func TestATransitionAndAChangeOfItsPushAreOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	push := at("https://example.com/a")
	cancel := func(run string) {
		_, err := w.Cancel(t.Context(), w.who, run, "")
		require.NoError(t, err)
	}

	run := w.post(intake.Message{Text: "x"}).Run.ID()
	w.items.Overtake(func() { require.NoError(t, w.SetPush(t.Context(), w.who, run, push)) })
	cancel(run)
	assert.Equal(t, []string{push.URL}, w.deliveries(run), "it was set before the run ended")

	run = w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	w.items.Overtake(func() { require.NoError(t, w.DeletePush(t.Context(), w.who, run, "")) })
	cancel(run)
	assert.Empty(t, w.deliveries(run), "it was deleted before the run ended")

	run = w.post(intake.Message{Text: "x"}).Run.ID()
	w.items.Overtake(func() { cancel(run) })
	assert.ErrorContains(t, w.SetPush(t.Context(), w.who, run, push), "has ended")
	_, found, err := w.Push(t.Context(), w.who, run)
	require.NoError(t, err)
	assert.False(t, found)

	run = w.post(intake.Message{Text: "x", Push: &push}).Run.ID()
	w.items.Overtake(func() { cancel(run) })
	require.NoError(t, w.DeletePush(t.Context(), w.who, run, ""))
	assert.Equal(t, lifecycle.Cancelled, w.run(run).Status)
	assert.Equal(t, []string{push.URL}, w.deliveries(run), "which is not sent: the sender asks for the push")
}
