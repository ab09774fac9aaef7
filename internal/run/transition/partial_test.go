package transition_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// journals commits steps of a running run.
func (w *world) journals(run string, steps ...record.Step) {
	w.t.Helper()
	more := work
	more.Steps = w.run(run).Steps + len(steps)
	w.do(run, plainly(transition.Change{Event: lifecycle.Step{Work: more}, Steps: steps}))
}

func step(index int, kind record.StepKind, text string) record.Step {
	return record.Step{Index: index, Kind: kind, Text: text, CallID: "0-0"}
}

// calls is a step with a call: its text stays after any later step.
func calls(s record.Step) record.Step {
	s.Calls = []record.Call{{ID: "a", Name: "look"}}
	return s
}

// A cancelled run keeps the text that it had received, in each way of cancelling: in the API and in its webhook.
func TestCancelledRunKeepsItsText(t *testing.T) {
	long := strings.Repeat("word.", 10_000) // in a separate item
	for name, c := range map[string]struct {
		cancel func(w *world, run string) record.Run
		want   string
	}{
		"by its worker, in the middle of a call": {func(w *world, run string) record.Run {
			w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
			last := work
			last.Steps = 3
			return w.do(run, plainly(transition.Change{Event: lifecycle.Fail{Work: last},
				Steps: []record.Step{step(2, record.CutStep, "two")}}))
		}, long + "\n\ntwo"},
		"as its answer comes": {func(w *world, run string) record.Run {
			w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
			last := work
			last.Steps = 3
			return w.do(run, plainly(transition.Change{Event: lifecycle.Complete{Work: last}, Result: sizedResult(1),
				Spare: []record.Step{step(2, record.ModelStep, "two")}}))
		}, long + "\n\ntwo"},
		"while it is paused": {func(w *world, run string) record.Run {
			pausing := w.pausing()
			pause := pausing.Event.(lifecycle.Pause)
			pause.Steps = 2
			pausing.Event = pause
			w.do(run, plainly(pausing))
			return w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{Reason: "deleted"}}))
		}, long},
		"when its pause expires": {func(w *world, run string) record.Run {
			pausing := w.pausing()
			pause := pausing.Event.(lifecycle.Pause)
			pause.Steps = 2
			pausing.Event = pause
			after := w.do(run, plainly(pausing))
			w.clock.now = after.ExpiresAt
			return w.do(run, plainly(transition.Change{Event: lifecycle.Expire{Pause: 1}}))
		}, long},
		"without a worker, after a call that was cut short": {func(w *world, run string) record.Run {
			w.journals(run, step(2, record.CutStep, "two"))
			w.clock.now = w.clock.now.Add(2 * time.Hour)
			return w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
		}, long + "\n\ntwo"},
	} {
		w := newWorld(t)
		run := w.accept("u")
		w.claim(run)
		w.journals(run, calls(step(0, record.ModelStep, long)), step(1, record.ToolStep, "not this"))
		after := c.cancel(w, run)
		require.Equal(t, lifecycle.Cancelled, after.Status, name)
		want := &events.Partial{Answer: c.want, FinishReason: "cancelled"}
		got, err := view.PartialOf(t.Context(), w.Store, after)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
		result, err := view.ResultOf(t.Context(), w.Store, after, nil)
		require.NoError(t, err)
		assert.Nil(t, result, name)
		body := w.lastPush(after)
		assert.Equal(t, want, body.Partial, name)
		assert.JSONEq(t, "null", string(body.Result), name)
		v, err := view.Of(t.Context(), w.Store, w.entity(run))
		require.NoError(t, err)
		assert.Equal(t, want, v.Partial)
		assert.JSONEq(t, "null", string(v.Result))
	}
}

func (w *world) lastPush(r record.Run) (body events.Webhook) {
	w.t.Helper()
	h, found, err := w.Store.DeliveryAt(w.t.Context(), r.ID(), r.Transition)
	require.NoError(w.t, err)
	require.True(w.t, found)
	raw, err := w.Store.DeliveryBody(w.t.Context(), h.Value)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(raw, &body))
	return body
}

func (w *world) entity(run string) record.RunEntity {
	w.t.Helper()
	e, err := w.Store.Run(w.t.Context(), record.System(), run)
	require.NoError(w.t, err)
	return e
}

// After other ends there is no text, nor for a run without text, or one that is deleted.
func TestNoTextIsLeftByOtherEnds(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		end  func(w lifecycle.Work) lifecycle.Event
	}{
		"it failed":       {"text", func(w lifecycle.Work) lifecycle.Event { return lifecycle.Fail{Work: w} }},
		"its time was up": {"text", func(w lifecycle.Work) lifecycle.Event { return lifecycle.TimeOut{Work: w} }},
		"it was deleted": {"text", func(lifecycle.Work) lifecycle.Event {
			return lifecycle.Remove{ProcessID: "other"}
		}},
		"its user was deleted": {"text", func(lifecycle.Work) lifecycle.Event {
			return lifecycle.Remove{KeepParked: true, ProcessID: "other"}
		}},
		"it had no text": {"", func(lifecycle.Work) lifecycle.Event { return lifecycle.Cancel{ProcessID: "other"} }},
	} {
		w := newWorld(t)
		run := w.accept("u")
		w.claim(run)
		w.journals(run, step(0, record.ModelStep, c.text))
		last := work
		last.Steps = 1
		after := w.do(run, plainly(transition.Change{Event: c.end(last)}))
		require.True(t, after.Status.Terminal(), name)
		output, err := w.Store.Output(t.Context(), after)
		require.NoError(t, err)
		assert.Nil(t, output, name)
		if h, found, err := w.Store.DeliveryAt(t.Context(), run, after.Transition); found {
			require.NoError(t, err)
			assert.NotContains(t, h.Value.Body, "partial", name)
		}
	}
}

// A run with any amount of text can be cancelled: the text is cut.
func TestALongTextDoesNotKeepARunFromBeingCancelled(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	w.claim(run)
	for n := range 20 { // 80 MiB: more than a document may have
		w.journals(run, calls(step(n, record.ModelStep, strings.Repeat("x", 1-min(n, 1))+strings.Repeat("é", 2<<20))))
	}
	w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
	last := work
	last.Steps = 20
	after := w.do(run, plainly(transition.Change{Event: lifecycle.Fail{Work: last}}))
	assert.Equal(t, lifecycle.Cancelled, after.Status)
	got, err := view.PartialOf(t.Context(), w.Store, after)
	require.NoError(t, err)
	assert.Len(t, got.Answer, 8<<20-1, "no character is cut in two")
}
