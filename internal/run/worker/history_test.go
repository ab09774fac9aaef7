package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// turn is a run of a chat when the next one begins.
type turn struct {
	status       lifecycle.Status
	said, answer string
	epoch        int
	removed      bool // with its user: only its link is left
	gone         bool // by the retention period: its link is gone, too
	forgotten    bool // its result is being removed
	pauses       []record.Pause
	before       []record.Said
}

// conversation stores turns, oldest first, and returns the history of the run after them.
func conversation(t *testing.T, turns []turn) ([]model.Message, error) {
	return conversationIn(t, &memblob.Store{}, turns)
}

func conversationIn(t *testing.T, blobs blob.Store, turns []turn) ([]model.Message, error) {
	machine := host.System()
	store := record.New(memtable.New(machine.Now), blobs, machine)
	previous := ""
	for i, turn := range turns {
		spec := lifecycle.RunSpec{
			RunID:        fmt.Sprintf("run%03d", i),
			Organization: "o",
			User:         "u",
			Agent:        "a",
			Chat:         "c",
		}
		place := lifecycle.ChatPosition{Epoch: turn.epoch, Turn: i + 1, Previous: previous}
		r := record.Run{Run: lifecycle.Accept(spec, place, machine.Now(), machine.Now())}
		r.Status, r.Removed = turn.status, turn.removed
		if !turn.removed {
			r.Input = &record.Input{Message: turn.said}
			if turn.before != nil {
				r.Input.Context = &record.Context{Before: turn.before}
			}
		}
		for i, pause := range turn.pauses {
			r.Pause = i + 1
			tx := store.Begin(machine.NewID())
			tx.PutPause(t.Context(), r, r.Pause, pause.Interrupts)
			tx.PutDecisions(t.Context(), r, r.Pause, *pause.Decided)
			require.NoError(t, tx.Commit(t.Context()))
		}
		tx := store.Begin(spec.RunID)
		if turn.status == lifecycle.Completed && !turn.removed {
			result, err := json.Marshal(view.Result{Answer: turn.answer})
			require.NoError(t, err)
			tx.SetOutput(t.Context(), &r, result)
			if r.Outside = r.Outside || turn.forgotten; turn.forgotten {
				r.Output = nil
			}
		}
		tx.PutRun(record.Fresh(r))
		if !turn.gone {
			require.NoError(t, tx.Commit(t.Context()))
		}
		previous = spec.RunID
	}
	w := &Worker{Store: store, MayReach: everyAgent}
	return w.history(t.Context(), record.Run{Run: lifecycle.Run{Previous: previous, Epoch: 1}})
}

// everyAgent reports that everybody may reach every agent.
func everyAgent(context.Context, string, string, string) func(string) (bool, error) {
	return func(string) (bool, error) { return true, nil }
}

func said(turns ...turn) []model.Message {
	messages := []model.Message{}
	for _, turn := range turns {
		messages = append(messages,
			model.Message{Role: model.User, Text: turn.said}, model.Message{Role: model.Assistant, Text: turn.answer})
	}
	return messages
}

// The history has, in order, the turns that were completed, still exist, and belong to the chat's current epoch.
func TestModelIsShownThePreviousTurns(t *testing.T) {
	done := func(n int) turn {
		return turn{
			status: lifecycle.Completed,
			said:   fmt.Sprint("question ", n),
			answer: fmt.Sprint("answer ", n),
			epoch:  1,
		}
	}
	failed, cancelled, removed, gone, forgotten, before := done(2), done(2), done(2), done(2), done(2), done(1)
	failed.status, cancelled.status, before.epoch = lifecycle.Failed, lifecycle.Cancelled, 0
	removed.removed, gone.gone, forgotten.forgotten = true, true, true
	long := done(2)
	long.answer = strings.Repeat("long ", 5000)
	quiet := done(2)
	quiet.answer = ""
	for name, c := range map[string]struct{ turns, want []turn }{
		"nothing":                              {nil, nil},
		"one turn":                             {[]turn{done(1)}, []turn{done(1)}},
		"some turns":                           {[]turn{done(1), done(2), done(3)}, []turn{done(1), done(2), done(3)}},
		"a long answer":                        {[]turn{done(1), long, done(3)}, []turn{done(1), long, done(3)}},
		"a turn that failed":                   {[]turn{done(1), failed, done(3)}, []turn{done(1), done(3)}},
		"a turn that was cancelled":            {[]turn{done(1), cancelled, done(3)}, []turn{done(1), done(3)}},
		"a turn of a deleted user":             {[]turn{done(1), removed, done(3)}, []turn{done(1), done(3)}},
		"a turn removed by retention":          {[]turn{done(1), gone, done(3)}, []turn{done(3)}},
		"a turn of an earlier epoch":           {[]turn{before, done(3)}, []turn{done(3)}},
		"a turn whose answer is being removed": {[]turn{done(1), forgotten, done(3)}, []turn{done(1), quiet, done(3)}},
	} {
		got, err := conversation(t, c.turns)
		require.NoError(t, err, name)
		assert.Equal(t, said(c.want...), got, name)
	}
}

// asks is a pause for each of these things: the name of a client's function, an approval of ours for a name with an
// exclamation mark, or a question; answers are what was said to them.
func asks(answers string, things ...string) record.Pause {
	p := record.Pause{Decided: &record.Decisions{}}
	for i, thing := range things {
		one := record.Interrupt{Interrupt: events.Interrupt{ID: fmt.Sprint(i), Kind: string(lifecycle.Clarification)}}
		d := record.Decision{InterruptID: one.ID, Decision: string(lifecycle.Answer), Message: answers}
		name, approval := strings.CutSuffix(thing, "!")
		switch {
		case strings.HasSuffix(thing, "?"):
			one.Prompt, one.Options = thing, []string{"a"}
		case approval:
			one.Kind, d.Decision, d.Message = string(lifecycle.Approval), string(lifecycle.Approve), ""
			fallthrough
		default:
			one.Tool = &events.InterruptTool{Name: name, Arguments: json.RawMessage(`{"n":1}`)}
		}
		p.Interrupts = append(p.Interrupts, one)
		p.Decided.List = append([]record.Decision{d}, p.Decided.List...)
	}
	return p
}

// What a turn has asked its client for is shown with what the client said to it: each call has its result behind it.
// What was approved is no word of anybody.
func TestModelIsShownWhatWasAskedInATurn(t *testing.T) {
	of := turn{status: lifecycle.Completed, said: "q", answer: "a", epoch: 1, pauses: []record.Pause{
		asks("cold", "weather", "Where?", "delete!"), asks("", "delete!"), asks("warm", "weather"),
	}}
	got, err := conversation(t, []turn{of, {status: lifecycle.Completed, said: "x", answer: "y", epoch: 1}})
	require.NoError(t, err)
	weather := model.Call{ID: "paused_1_1_0", Name: "weather", Arguments: json.RawMessage(`{"n":1}`)}
	question := model.Call{
		ID: "paused_1_1_1", Name: model.AskUser, Arguments: json.RawMessage(`{"question":"Where?","options":["a"]}`),
	}
	again := model.Call{ID: "paused_1_3_0", Name: "weather", Arguments: json.RawMessage(`{"n":1}`)}
	answered := func(c model.Call, text string) model.Result {
		return model.Result{CallID: c.ID, Name: c.Name, Outcome: model.Answered, Text: text}
	}
	assert.Equal(t, []model.Message{
		{Role: model.User, Text: "q"},
		{Role: model.Assistant, Calls: []model.Call{weather, question}},
		{Role: model.Tool, Results: []model.Result{answered(weather, "cold"), answered(question, "cold")}},
		{Role: model.Assistant, Calls: []model.Call{again}},
		{Role: model.Tool, Results: []model.Result{answered(again, "warm")}},
		{Role: model.Assistant, Text: "a"},
		{Role: model.User, Text: "x"}, {Role: model.Assistant, Text: "y"},
	}, got)
}

// Of a turn that has asked for much, the last of it is shown, within the bound of the whole.
func TestWhatWasAskedInATurnIsLimited(t *testing.T) {
	of := turn{status: lifecycle.Completed, said: "q", answer: "a", epoch: 1}
	for range 5 {
		of.pauses = append(of.pauses, asks(strings.Repeat("x", maxChars/2-100), "f"))
	}
	got, err := conversation(t, []turn{of})
	require.NoError(t, err)
	require.Len(t, got, 6)
	assert.Equal(t, "paused_1_4_0", got[1].Calls[0].ID)
	of.pauses = nil
	for range maxAsked + 2 {
		of.pauses = append(of.pauses, asks("x", "f"))
	}
	got, err = conversation(t, []turn{of})
	require.NoError(t, err)
	require.Len(t, got, 2+2*maxAsked)
	assert.Equal(t, "paused_1_3_0", got[1].Calls[0].ID)
}

// counted counts the values that are read.
type counted struct {
	blob.Store

	reads int
}

func (c *counted) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	c.reads++
	return c.Store.Get(ctx, key)
}

// What does not fit is not read either, but for the few pauses that are read with what does: of a turn, and of those
// before it.
func TestWhatWasAskedIsReadAsFarAsItFits(t *testing.T) {
	for size, want := range map[int]struct{ messages, reads int }{
		maxChars * 3 / 4: {4, pausesAtOnce}, maxChars / 6: {2 + 2*5, 2 * pausesAtOnce},
	} {
		blobs := &counted{Store: &memblob.Store{}}
		of := turn{status: lifecycle.Completed, said: "q", answer: "a", epoch: 1}
		for range 3 * pausesAtOnce {
			of.pauses = append(of.pauses, asks(strings.Repeat("x", size), "f"))
		}
		got, err := conversationIn(t, blobs, []turn{of, of, of})
		require.NoError(t, err)
		assert.Equal(t, want.messages, len(got), "messages")
		assert.Equal(t, want.reads, blobs.reads, "values read")
	}
}

// A call has the same id in the history of each later run, so that what providers keep of it stays good.
func TestIdsOfCallsStayInLaterRuns(t *testing.T) {
	of := turn{status: lifecycle.Completed, said: "q", answer: "a", epoch: 1, pauses: []record.Pause{asks("x", "f")}}
	of.before = []record.Said{
		{Role: record.RoleAssistant, Calls: []record.SaidCall{{ID: "c", Name: "f"}}},
		{Role: record.RoleTool, Call: "c", Text: "x"},
	}
	next, err := conversation(t, []turn{of})
	require.NoError(t, err)
	later, err := conversation(t, []turn{of, {status: lifecycle.Completed, said: "x", answer: "y", epoch: 1}})
	require.NoError(t, err)
	require.Len(t, next, 6)
	assert.Equal(t, next, later[:len(next)])
}

// A long history is cut at its beginning: 50 turns, or the last ones up to 200,000 bytes, which the oldest of them
// may exceed.
func TestHistoryIsLimitedToTheLastTurns(t *testing.T) {
	var turns []turn
	for i := range maxTurns + 2 {
		turns = append(turns, turn{status: lifecycle.Completed, said: fmt.Sprint(i), answer: "x", epoch: 1})
	}
	got, err := conversation(t, turns)
	require.NoError(t, err)
	assert.Equal(t, said(turns[2:]...), got)
	for _, c := range []struct{ bytes, turns int }{{maxChars - 1, 2}, {maxChars, 1}} {
		question := turns[2]
		question.said, question.answer = strings.Repeat("x", c.bytes-1000), strings.Repeat("x", 1000)
		got, err := conversation(t, []turn{turns[0], turns[1], question})
		require.NoError(t, err)
		assert.Len(t, got, 2*c.turns)
	}
}

// A stored answer that cannot be decoded is an error; the model would otherwise see a different conversation.
func TestUnreadableStoredAnswerIsAnError(t *testing.T) {
	machine := host.System()
	store := record.New(memtable.New(machine.Now), &memblob.Store{}, machine)
	_, err := answerOf(t.Context(), store, record.Run{Output: json.RawMessage(`{"answer":1}`)})
	assert.Error(t, err)
	_, err = answerOf(t.Context(), record.New(&away{}, &memblob.Store{}, machine), record.Run{Outside: true})
	assert.Error(t, err)
}

// The last step is not journalled if it can be restored from the completed run.
func TestLastStepIsOmittedIfTheRunRestoresIt(t *testing.T) {
	want := record.Step{Kind: record.ModelStep, Text: "done"}
	more := record.Step{Kind: record.ModelStep, Text: "done", RequestID: "r"}
	for _, c := range []struct{ steps, left []record.Step }{
		{nil, nil},
		{[]record.Step{want}, []record.Step{}},
		{[]record.Step{more}, []record.Step{more}},
		{[]record.Step{more, want}, []record.Step{more}},
		{[]record.Step{want, more}, []record.Step{want, more}},
	} {
		assert.Equal(t, c.left, withoutLast(c.steps))
	}
}

type away struct{ table.Table }

func (away) Get(context.Context, ...table.Key) ([]*table.Item, error) { return nil, errors.New("away") }
