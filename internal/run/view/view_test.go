package view_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// Every member exists in every status. A missing value is null, an empty list or zero; it is never left out.
func TestARunOfEachStatusShowsWhatItHasAndNullForTheRest(t *testing.T) {
	for status, c := range map[lifecycle.Status]struct {
		has  func(r *record.Run)
		want object // besides what every run shows
	}{
		lifecycle.Queued: {
			func(r *record.Run) { r.QueuedAt = later(2) },
			object{"queued_at": atNoon(2)},
		},
		lifecycle.Running: {
			func(r *record.Run) {
				r.StartedAt, r.Attempt = later(3), 2
				r.CancelRequested, r.CancelReason = true, "no longer needed"
			},
			object{"started_at": atNoon(3), "attempt": 2.0,
				"cancel_requested": true, "cancel_reason": "no longer needed"},
		},
		lifecycle.AwaitingInput: {
			func(r *record.Run) { r.PausedAt, r.ExpiresAt, r.Pause = later(4), later(5), 1 },
			object{"asked_by": object{"user_id": "u", "name": "Ann"}, "paused_at": atNoon(4),
				"expires_at": atNoon(5), "interrupts": []any{
					object{"id": id(1), "kind": "clarification", "prompt": "Which city?", "created_at": ""},
				}},
		},
		lifecycle.Completed: {
			func(r *record.Run) {
				r.Output, r.FinishedAt, r.DecidedBy = json.RawMessage(`{"answer":"yes"}`), later(6), "Ann"
				r.Usage = lifecycle.Usage{InputTokens: 1, OutputTokens: 2, ModelCalls: 3, ToolCalls: 4}
				r.ActiveMS = 5
			},
			object{"result": object{"answer": "yes"}, "finished_at": atNoon(6), "decided_by": "Ann", "active_ms": 5.0,
				"usage": object{"input_tokens": 1.0, "output_tokens": 2.0, "model_calls": 3.0, "tool_calls": 4.0,
					"active_ms": 5.0}},
		},
		lifecycle.Failed: {
			func(r *record.Run) { r.Error, r.FinishedAt = "no luck", later(7) },
			object{"error": "no luck", "finished_at": atNoon(7)},
		},
		lifecycle.Cancelled: {
			func(r *record.Run) { r.CancelReason, r.Input.Metadata = "no", map[string]string{"order": "7"} },
			object{"cancel_reason": "no", "metadata": object{"order": "7"}},
		},
		lifecycle.TimedOut: {
			func(r *record.Run) { r.Error = "too long" },
			object{"error": "too long"},
		},
	} {
		t.Run(string(status), func(t *testing.T) {
			w := newWorld(t)
			r := head(status)
			c.has(&r)
			w.pause(r, 1, "Which city?")
			w.user("u", "Ann")
			e := w.store(r)
			w.commit(func(tx *record.Tx) { e = tx.PutRun(e) }) // written twice: its version is 2
			v := w.seen(e)
			want := object{
				"run_id": id(0), "chat_id": "c", "agent_id": "a", "agent_version": 3.0, "user_id": "u",
				"api_key_id": "k", "turn": 5.0, "version": 2.0, "status": string(status), "interrupts": []any{},
				"error": nil, "result": nil, "parked": []any{}, "attempt": 0.0, "created_at": atNoon(0),
				"usage": object{"input_tokens": 0.0, "output_tokens": 0.0, "model_calls": 0.0, "tool_calls": 0.0,
					"active_ms": 0.0},
				"queued_at": nil, "started_at": nil, "finished_at": nil, "paused_at": nil, "updated_at": atNoon(1),
				"expires_at": nil, "active_ms": 0.0, "cancel_requested": false, "cancel_reason": nil,
				"decided_by": nil, "metadata": object{},
			}
			maps.Copy(want, c.want)
			assert.Equal(t, want, shown(t, v))
		})
	}
}

func TestALargeResultInputOrQuestionIsShownWhole(t *testing.T) {
	for name, c := range map[string]struct {
		size  int
		blobs int
	}{
		"in the head": {10, 0}, "in an item of its own": {1 << 10, 0}, "in the blob store": {9 << 10, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			large := strings.Repeat("x", c.size)
			completed, waiting := head(lifecycle.Completed), head(lifecycle.AwaitingInput)
			completed.Input = nil
			waiting.RunID, waiting.Pause = id(1), 1
			w.commit(func(tx *record.Tx) {
				tx.PutInput(t.Context(), completed.RunSpec,
					record.Input{Message: large, Metadata: map[string]string{"order": "7"}}, noon)
			})
			w.commit(func(tx *record.Tx) {
				tx.SetOutput(t.Context(), &completed, json.RawMessage(`{"answer":"`+large+`"}`))
			})
			w.pause(waiting, 1, large)
			require.Len(t, w.blobs.Keys(), c.blobs)

			v := w.seen(w.store(completed))
			assert.JSONEq(t, `{"answer":"`+large+`"}`, string(v.Result))
			assert.Equal(t, map[string]string{"order": "7"}, v.Metadata)
			v = w.seen(w.store(waiting))
			require.Len(t, v.Interrupts, 1)
			assert.Equal(t, large, v.Interrupts[0].Prompt)
		})
	}
}

// A decided pause stays stored, but none of it is pending.
func TestInterruptsAreThoseOfTheLastPauseWhileTheRunAwaitsInput(t *testing.T) {
	w := newWorld(t)
	r := head(lifecycle.AwaitingInput)
	w.pause(r, 1, "decided")
	w.commit(func(tx *record.Tx) {
		tx.PutPause(t.Context(), r, 2, []record.Interrupt{
			{
				Interrupt: events.Interrupt{
					ID: "i", Kind: "approval", Prompt: "May it?", CreatedAt: atNoon(0),
					Tool: &events.InterruptTool{Name: "pay", Arguments: json.RawMessage(`{"sum":7}`)},
				},
				Call: "secret", Unsure: true,
			},
			{Interrupt: events.Interrupt{ID: "j", Kind: "clarification", Prompt: "Who?", Options: []string{"me"}}},
		})
	})
	pending := []any{
		object{"id": "i", "kind": "approval", "prompt": "May it?", "created_at": atNoon(0),
			"tool": object{"name": "pay", "arguments": object{"sum": 7.0}}},
		object{"id": "j", "kind": "clarification", "prompt": "Who?", "options": []any{"me"}, "created_at": ""},
	}
	for _, status := range lifecycle.Statuses() {
		for pause, want := range map[int][]any{2: pending, 3: {}} { // nothing is stored of the third
			r.Status, r.Pause = status, pause
			if status != lifecycle.AwaitingInput {
				want = []any{}
			}
			list, err := view.Interrupts(t.Context(), w.Store, r)
			require.NoError(t, err)
			assert.Equal(t, want, shown(t, list), "%s, pause %d", status, pause)
			h, err := view.HandleOf(t.Context(), w.Store, r, nil)
			require.NoError(t, err)
			assert.Equal(t, object{"run_id": id(0), "status": string(status), "interrupts": want, "chat_id": "c",
				"agent_id": "a"}, shown(t, h), "without a member parked")
		}
	}
}

func TestAHandleCarriesTheMessageThatWasParked(t *testing.T) {
	w := newWorld(t)
	for started, run := range map[bool]any{false: nil, true: id(1)} {
		parked := view.ParkedRecord(id(1), 4, "later", noon, started)
		h, err := view.HandleOf(t.Context(), w.Store, head(lifecycle.Running), &parked)
		require.NoError(t, err)
		assert.Equal(t, object{
			"parked_id": id(1), "position": 4.0, "message": "later", "created_at": atNoon(0), "run_id": run,
		}, shown(t, h).(object)["parked"])
	}
}

// An ended run keeps the messages that were parked on it: the first has become the next run, the others wait for that
// run.
func TestParkedMessagesStandInTheirOrderWithTheRunsTheyBecame(t *testing.T) {
	w := newWorld(t)
	for n, text := range []string{1: "first", 2: "second", 4: strings.Repeat("x", 9<<10)} {
		if text != "" {
			w.park(id(n), "a", text, later(n))
		}
	}
	w.begin(id(1))
	parked := func(n, position int, text string, run any) any {
		return object{"parked_id": id(n), "position": float64(position), "message": text, "created_at": atNoon(n),
			"run_id": run}
	}
	first, second := parked(1, 1, "first", id(1)), parked(2, 2, "second", nil)
	for name, c := range map[string]struct {
		waiting, passedOn []string
		want              []any
	}{
		"none":                       {nil, nil, []any{}},
		"waiting":                    {[]string{id(1), id(2)}, nil, []any{first, second}},
		"passed on":                  {nil, []string{id(1), id(2)}, []any{first, second}},
		"waiting before passed on":   {[]string{id(1)}, []string{id(2)}, []any{first, second}},
		"large":                      {[]string{id(4)}, nil, []any{parked(4, 1, strings.Repeat("x", 9<<10), nil)}},
		"one that was withdrawn":     {[]string{id(3)}, nil, []any{}},
		"one beside a withdrawn one": {[]string{id(1), id(3)}, nil, []any{first}},
	} {
		r := head(lifecycle.Running)
		r.Parked, r.PassedOn = c.waiting, c.passedOn
		list, err := view.ParkedOf(t.Context(), w.Store, r)
		require.NoError(t, err)
		assert.Equal(t, c.want, shown(t, list), name)
		v, err := view.Of(t.Context(), w.Store, record.Fresh(r))
		require.NoError(t, err)
		assert.Equal(t, list, v.Parked, name)
		assert.Equal(t, c.waiting, r.Parked, "it is as it was")
	}
}

// A reader of the run may not be in the groups of the message's agent, or may not see the chats with it.
func TestAParkedMessageForAClosedAgentHasNoText(t *testing.T) {
	w := newWorld(t)
	w.agent("a", false, "group")
	w.agent("open", false)
	w.agent("closed", false, "group")
	w.agent("open once", true)
	w.agent("closed once", true, "group")
	own := catalog.Agent{ID: "own", Organization: "o", Version: 1}
	own.Spec.ChatVisibility = catalog.SeesOwn
	w.commit(func(tx *record.Tx) { record.PutResource(tx, record.Fresh(own)) })
	for agent, text := range map[string]string{
		"a":    "secret", // the readers of the run are those of the agent
		"open": "secret", "open once": "secret", "closed": "", "closed once": "", "own": "", "never there": "",
	} {
		r := head(lifecycle.Running)
		r.RunID, r.Parked = "run of "+agent, []string{"for " + agent}
		w.park(r.Parked[0], agent, "secret", noon)
		list, err := view.ParkedOf(t.Context(), w.Store, r)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, text, list[0].Message, agent)
		assert.Equal(t, r.Parked[0], list[0].ParkedID, agent)
	}
}

func TestAnItemThatCannotBeReadIsAnErrorAndNotAGapInTheView(t *testing.T) {
	w := newWorld(t)
	w.agent("other", false)
	r := head(lifecycle.AwaitingInput)
	r.Pause, r.Input, r.Parked = 1, nil, []string{id(1), id(2)}
	w.commit(func(tx *record.Tx) { tx.PutInput(t.Context(), r.RunSpec, *head(r.Status).Input, noon) })
	w.commit(func(tx *record.Tx) {
		tx.SetOutput(t.Context(), &r, json.RawMessage(`"`+strings.Repeat("x", 1<<10)+`"`))
	})
	w.pause(r, 1, "Which?")
	w.park(id(1), "a", "first", noon)
	w.park(id(2), "other", "second", noon)
	w.begin(id(1))
	e := w.store(r)
	_, err := view.Of(t.Context(), w.Store, e)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		part             string
		handle, messages error
	}{
		"the interrupts":                    {"run/" + id(0) + "/pause", errBroken, nil},
		"the result":                        {"run/" + id(0) + "/output", nil, nil},
		"the input":                         {"run/" + id(0) + "/input", nil, nil},
		"a parked message":                  {"run/" + id(2) + "/input", nil, errBroken},
		"the run that a message has become": {"run/" + id(1) + "/head", nil, errBroken},
		"the agent of a parked message":     {"agent/other/", nil, errBroken},
	} {
		w.items.broken = c.part
		_, err := view.Of(t.Context(), w.Store, e)
		require.ErrorIs(t, err, errBroken, name)
		_, err = view.HandleOf(t.Context(), w.Store, e.Value, nil)
		require.ErrorIs(t, err, c.handle, name)
		list, err := view.ParkedOf(t.Context(), w.Store, e.Value)
		require.ErrorIs(t, err, c.messages, name)
		assert.Equal(t, c.messages == nil, list != nil, name)
	}
}

func TestProgressIsTheTextAndTheToolCallsOfTheJournalWithoutQuestions(t *testing.T) {
	answer, calls := view.Progress(nil, lifecycle.Completed)
	assert.Empty(t, answer)
	assert.Equal(t, []events.StepEvent{}, calls, "a list, not null")
	arguments := json.RawMessage(`{"sum":7}`)
	steps := []record.Step{
		{Kind: record.ModelStep, Index: 0, Text: "one ", Calls: make([]record.Call, 1)},
		{Kind: record.StartStep, Index: 1, Name: "pay", Text: "not this"},
		{Kind: record.ToolStep, Index: 2, Name: "pay", Text: "nor this", Outcome: "succeeded", Arguments: arguments},
		{Kind: record.ToolStep, Index: 3, Name: "pay", Outcome: "failed"},
		{Kind: record.ToolStep, Index: 4, Name: "pay", Outcome: "rejected"},
		{Kind: record.ToolStep, Index: 5, Name: "ask", Outcome: "answered"},
		{Kind: record.ToolStep, Index: 6, Name: "search", Outcome: "succeeded"},
		{Kind: record.CutStep, Index: 7, Text: "nor this, which was replaced"},
		{Kind: record.ModelStep, Index: 8, Text: "two", Calls: make([]record.Call, 1)},
		{Kind: record.CutStep, Index: 9, Text: "three"},
	}
	for _, status := range []lifecycle.Status{lifecycle.Failed, lifecycle.Cancelled, lifecycle.TimedOut} {
		answer, calls = view.Progress(steps, status)
		assert.Equal(t, "one \n\ntwo\n\nthree", answer, status)
	}
	answer, _ = view.Progress(steps, lifecycle.Completed)
	assert.Equal(t, "one \n\ntwo", answer, "what was cut short is no part of an answer")
	running, _ := view.Progress(steps, lifecycle.Running)
	assert.Equal(t, "one \n\ntwo", running, "another attempt may replace the rest")
	steps = append(steps, record.Step{Kind: record.ModelStep, Index: 10, Text: "four"})
	answer, _ = view.Progress(steps, lifecycle.Completed)
	assert.Equal(t, "one \n\ntwo\n\nfour", answer)
	running, _ = view.Progress(steps, lifecycle.Running)
	assert.Equal(t, "one \n\ntwo", running, "the model may be asked to replace its answer")
	assert.Equal(t, []events.StepEvent{
		{Index: 2, Kind: "tool", Name: "pay", State: "finished", Outcome: "succeeded", Arguments: arguments},
		{Index: 3, Kind: "tool", Name: "pay", State: "failed", Outcome: "failed"},
		{Index: 4, Kind: "tool", Name: "pay", State: "finished", Outcome: "rejected"},
		{Index: 6, Kind: "search", Name: "search", State: "finished", Outcome: "succeeded"},
	}, calls)
}
