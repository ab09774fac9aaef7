package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// turn is a run of a chat when the next one begins.
type turn struct {
	status          lifecycle.Status
	message, answer string
	epoch           int
	removed         bool // with its user: only its link is left
	gone            bool // by the retention period: its link is gone, too
	forgotten       bool // its result is being removed
	pauses          []record.Pause
	before          []record.ContextMessage
	files           []record.FileRef
	steps           int
	ofModel         int64 // of the steps
	refused         bool  // by the model's provider
	agent           string
}

// The lines about the end of a turn.
const (
	emptyLine     = "[This turn ended and has no answer.]"
	failedLine    = "[This turn failed and has no answer.]"
	timedOutLine  = "[This turn ran out of time and has no answer.]"
	cancelledLine = "[This turn was cancelled and has no answer.]"
	undone        = " Earlier effects of tools were not undone.]"
	refusedWords  = "[This message is left out: the model's provider refused it.]"
	longWords     = "[This message is left out: it is too long.]"
)

// conversation stores turns, oldest first, and returns the history of the run after them.
func conversation(t *testing.T, turns []turn) ([]model.Message, error) {
	return conversationIn(t, &memblob.Store{}, turns)
}

func conversationIn(t *testing.T, blobs blob.Store, turns []turn) ([]model.Message, error) {
	messages, _, _, err := historyOf(t, blobs, turns)
	return messages, err
}

// links counts the reads of heads of runs.
type links struct {
	table.Table

	reads int
}

func (l *links) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, key := range keys {
		if key.Sort == "head" && strings.HasPrefix(key.Part, "run/") {
			l.reads++
		}
	}
	return l.Table.Get(ctx, keys...)
}

// historyOf also returns the messages of turns without an answer, and the number of runs that were read.
func historyOf(t *testing.T, blobs blob.Store, turns []turn) ([]model.Message, []int, int, error) {
	machine := host.System()
	items := &links{Table: memtable.New(machine.Now)}
	store := record.New(items, blobs, machine)
	previous := ""
	for i, turn := range turns {
		spec := lifecycle.RunSpec{
			RunID:        fmt.Sprintf("run%03d", i),
			Organization: "o",
			User:         "u",
			Agent:        cmp.Or(turn.agent, "a"),
			Chat:         "c",
		}
		position := lifecycle.ChatPosition{Epoch: turn.epoch, Turn: i + 1, Previous: previous}
		r := record.Run{Run: lifecycle.Accept(spec, position, machine.Now(), machine.Now())}
		r.Status, r.Removed, r.Steps, r.Refused = turn.status, turn.removed, turn.steps, turn.refused
		r.Usage.ModelCalls = turn.ofModel
		if !turn.removed {
			r.Input = &record.Input{Message: turn.message, Files: turn.files}
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
	w := &Worker{Store: store, CanAccess: everyAgent}
	items.reads = 0
	messages, unanswered, err := w.history(t.Context(),
		record.Run{Run: lifecycle.Run{RunSpec: lifecycle.RunSpec{ChatUser: "u"}, Previous: previous, Epoch: 1}})
	return messages, unanswered, items.reads, err
}

// everyAgent reports that every user may access every agent except a secret one.
func everyAgent(context.Context, string, string, string) func(lifecycle.Whose) (bool, error) {
	return func(of lifecycle.Whose) (bool, error) { return of.Agent != "secret", nil }
}

// The model gets files only in their own turn. Later turns name them, as a user may write "try again".
func TestEarlierFilesAreNamed(t *testing.T) {
	files := []record.FileRef{{Name: "report.pdf"}, {Name: "a.png"}}
	messages, err := conversation(t, []turn{
		{status: lifecycle.Failed, message: "Sum it up.", files: files, epoch: 1},
		{status: lifecycle.Completed, answer: "A cat.", files: files[1:], epoch: 1, pauses: []record.Pause{{
			Interrupts: []record.Interrupt{
				{Interrupt: events.Interrupt{ID: "i", Kind: "clarification", Prompt: "Which?"}},
			},
			Decided: &record.Decisions{List: []record.Decision{
				{InterruptID: "i", Decision: "answer", Message: "This", Files: files[:1]},
			}},
		}}},
	})
	require.NoError(t, err)
	assert.Equal(t, "Sum it up.\n\n[Attached, and not shown again: report.pdf, a.png]", messages[0].Text)
	assert.Equal(t, failedLine, messages[1].Text)
	assert.Equal(t, "[Attached, and not shown again: a.png]", messages[2].Text)
	assert.Equal(t, "This\n\n[Attached, and not shown again: report.pdf]", messages[4].Results[0].Text)
}

func messagesOf(turns ...turn) []model.Message {
	messages := []model.Message{}
	for _, turn := range turns {
		messages = append(messages, model.Message{Role: model.User, Text: turn.message},
			model.Message{Role: model.Assistant, Text: turn.answer})
	}
	return messages
}

// The history has, in order, the turns that have ended, still exist, and belong to the chat's current epoch. For a turn
// without an answer it has the user's message and a line about the end.
func TestModelIsShownThePreviousTurns(t *testing.T) {
	done := func(n int) turn {
		return turn{
			status:  lifecycle.Completed,
			message: fmt.Sprint("question ", n),
			answer:  fmt.Sprint("answer ", n),
			epoch:   1,
		}
	}
	removed, gone, forgotten, before := done(2), done(2), done(2), done(1)
	removed.removed, gone.gone, forgotten.forgotten, before.epoch = true, true, true, 0
	ends := func(status lifecycle.Status, answer string, change func(*turn)) (is, want turn) {
		is = turn{status: status, message: "question 2", epoch: 1}
		change(&is)
		want = is
		want.answer = answer
		return is, want
	}
	nothing, worked := func(*turn) {}, func(t *turn) { t.steps = 2 }
	failed, wantFailed := ends(lifecycle.Failed, failedLine, nothing)
	late, wantLate := ends(lifecycle.TimedOut, timedOutLine, nothing)
	cancelled, wantCancelled := ends(lifecycle.Cancelled, cancelledLine, nothing)
	did, wantDid := ends(lifecycle.Failed, strings.TrimSuffix(failedLine, "]")+undone, worked)
	stopped, wantStopped := ends(lifecycle.Cancelled, strings.TrimSuffix(cancelledLine, "]")+undone, worked)
	empty, wantEmpty := ends(lifecycle.Completed, emptyLine, func(t *turn) { t.answer = "\u00A0" })
	acted, wantActed := ends(lifecycle.Completed, strings.TrimSuffix(emptyLine, "]")+undone, worked)
	talked, wantTalked := ends(lifecycle.Failed, failedLine, func(t *turn) { t.steps, t.ofModel = 2, 2 })
	begun, wantBegun := ends(lifecycle.Failed, strings.TrimSuffix(failedLine, "]")+undone,
		func(t *turn) { t.steps, t.ofModel = 2, 1 })
	refused, wantRefused := ends(lifecycle.Failed, failedLine, func(t *turn) { t.refused = true })
	wantRefused.message = refusedWords
	huge, wantHuge := ends(lifecycle.Failed, failedLine,
		func(t *turn) { t.message = strings.Repeat("x", maxUnanswered+1) })
	wantHuge.message = longWords
	hidden, _ := ends(lifecycle.Failed, "", func(t *turn) { t.agent = "secret" })
	lost, _ := ends(lifecycle.Failed, "", func(t *turn) { t.removed = true })
	former, _ := ends(lifecycle.Failed, "", func(t *turn) { t.epoch = 0 })
	open, _ := ends(lifecycle.Running, "", nothing)
	long := done(2)
	long.answer = strings.Repeat("long ", 5000)
	quiet := done(2)
	quiet.answer = emptyLine
	for name, c := range map[string]struct{ turns, want []turn }{
		"nothing":                     {nil, nil},
		"one turn":                    {[]turn{done(1)}, []turn{done(1)}},
		"some turns":                  {[]turn{done(1), done(2), done(3)}, []turn{done(1), done(2), done(3)}},
		"a long answer":               {[]turn{done(1), long, done(3)}, []turn{done(1), long, done(3)}},
		"a turn that failed":          {[]turn{done(1), failed, done(3)}, []turn{done(1), wantFailed, done(3)}},
		"only a turn that failed":     {[]turn{failed}, []turn{wantFailed}},
		"a turn that ran out of time": {[]turn{done(1), late}, []turn{done(1), wantLate}},
		"a turn that was cancelled": {[]turn{done(1), cancelled, done(3)},
			[]turn{done(1), wantCancelled, done(3)}},
		"a turn with a blank answer":            {[]turn{empty, done(3)}, []turn{wantEmpty, done(3)}},
		"a blank answer after calls":            {[]turn{acted, done(3)}, []turn{wantActed, done(3)}},
		"a turn that failed after calls":        {[]turn{did, done(3)}, []turn{wantDid, done(3)}},
		"a turn that was cancelled after calls": {[]turn{stopped, done(3)}, []turn{wantStopped, done(3)}},
		"a turn that failed without a call":     {[]turn{talked, done(3)}, []turn{wantTalked, done(3)}},
		"a turn that failed within a call":      {[]turn{begun, done(3)}, []turn{wantBegun, done(3)}},
		"turns that ended differently": {[]turn{late, failed, cancelled, did},
			[]turn{wantLate, wantFailed, wantCancelled, wantDid}},
		"a turn that a provider refused": {[]turn{done(1), refused, done(3)},
			[]turn{done(1), wantRefused, done(3)}},
		"a failed turn of many words": {[]turn{done(1), huge, done(3)}, []turn{done(1), wantHuge, done(3)}},
		"failed turns of many words": {[]turn{done(1), huge, failed, huge},
			[]turn{done(1), wantHuge, wantFailed, wantHuge}},
		"a failed turn of a hidden agent":      {[]turn{done(1), hidden, done(3)}, []turn{done(1), done(3)}},
		"a failed turn of a deleted user":      {[]turn{done(1), lost, done(3)}, []turn{done(1), done(3)}},
		"a failed turn of an earlier epoch":    {[]turn{former, done(3)}, []turn{done(3)}},
		"a turn that has not ended":            {[]turn{done(1), open}, []turn{done(1)}},
		"a turn of a deleted user":             {[]turn{done(1), removed, done(3)}, []turn{done(1), done(3)}},
		"a turn removed by retention":          {[]turn{done(1), gone, done(3)}, []turn{done(3)}},
		"a turn of an earlier epoch":           {[]turn{before, done(3)}, []turn{done(3)}},
		"a turn whose answer is being removed": {[]turn{done(1), forgotten, done(3)}, []turn{done(1), quiet, done(3)}},
	} {
		got, err := conversation(t, c.turns)
		require.NoError(t, err, name)
		assert.Equal(t, messagesOf(c.want...), got, name)
	}
}

// Messages of turns without an answer are named by their indexes: these are left out first.
func TestMessagesOfTurnsWithoutAnAnswerAreNamed(t *testing.T) {
	done := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1}
	question := turn{status: lifecycle.Cancelled, message: "q", epoch: 1,
		pauses: []record.Pause{asks("Oslo", "Where?")}}
	messages, unanswered, _, err := historyOf(t, &memblob.Store{},
		[]turn{done, question, done, {status: lifecycle.Failed, message: "q", epoch: 1}})
	require.NoError(t, err)
	require.Len(t, messages, 2+4+2+2)
	assert.Equal(t, "Oslo", messages[4].Results[0].Text, "the user's answer to a question is the user's words, too")
	assert.Equal(t, cancelledLine, messages[5].Text)
	assert.Equal(t, []int{2, 3, 4, 5, 8, 9}, unanswered)
}

// A client's conversation at the start of a turn is kept, also if the turn failed.
func TestConversationThatAClientBroughtOutlivesAFailure(t *testing.T) {
	of := turn{status: lifecycle.Failed, message: "and now?", epoch: 1, before: []record.ContextMessage{
		{Role: record.RoleUser, Text: "hi"}, {Role: record.RoleAssistant, Text: "hello"},
	}}
	got, err := conversation(t, []turn{of})
	require.NoError(t, err)
	assert.Equal(t,
		messagesOf(turn{message: "hi", answer: "hello"}, turn{message: "and now?", answer: failedLine}), got)
}

// For a chat of any length, few of its runs are read, whether they are in the history or not.
func TestFewRunsOfALongChatAreRead(t *testing.T) {
	failed := turn{status: lifecycle.Failed, message: "q", epoch: 1}
	removed := failed
	removed.removed = true
	hidden := failed
	hidden.agent = "secret"
	done := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1}
	for name, c := range map[string]struct {
		of          turn
		shown, read int
	}{
		"answered": {done, maxTurns, maxTurns}, "failed": {failed, maxFailed, maxLinks},
		"removed": {removed, 0, maxLinks}, "hidden": {hidden, 0, maxLinks},
	} {
		messages, _, read, err := historyOf(t, &memblob.Store{}, slices.Repeat([]turn{c.of}, 1000))
		require.NoError(t, err, name)
		assert.Len(t, messages, 2*c.shown, name)
		assert.Equal(t, c.read, read, name)
	}
}

// Messages of failed turns take at most half of the history. Turns with an answer may use the rest.
func TestFailedTurnsDoNotPushOutTheOthers(t *testing.T) {
	turns := []turn{{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1}}
	for range 10 {
		turns = append(turns, turn{status: lifecycle.Failed, message: strings.Repeat("x", maxUnanswered/3), epoch: 1})
	}
	got, err := conversation(t, turns)
	require.NoError(t, err)
	require.Len(t, got, 2*len(turns))
	assert.Equal(t, messagesOf(turns[0]), got[:2])
	whole := 0
	for i := 2; i < len(got); i += 2 {
		if got[i].Text != longWords {
			whole++
			assert.Greater(t, i, 2*len(turns)-6, "the newest are whole")
		}
	}
	assert.Equal(t, 2, whole)
}

// Only the newest turns without an answer are in the history, with those that have one: many short ones would displace
// all others.
func TestManyFailedTurnsDoNotPushOutTheOthers(t *testing.T) {
	var turns []turn
	for i := range maxTurns {
		turns = append(turns, turn{status: lifecycle.Completed, message: fmt.Sprint("q", i), answer: "a", epoch: 1})
	}
	answered := messagesOf(turns...)
	for i := range maxTurns + 1 {
		turns = append(turns, turn{status: lifecycle.Failed, message: fmt.Sprint("f", i), answer: failedLine, epoch: 1})
	}
	want := slices.Concat(answered, messagesOf(turns[len(turns)-maxFailed:]...))
	got, err := conversation(t, turns)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// Questions and outputs of a failed turn count like its message, and do not displace turns with an answer.
func TestWhatAFailedTurnAskedDoesNotPushOutTheOthers(t *testing.T) {
	done := turn{status: lifecycle.Completed, message: "my name is Ann", answer: strings.Repeat("a", 60_000), epoch: 1}
	for _, size := range []int{maxUnanswered / 2, maxUnanswered * 3 / 2, maxChars + 10_000} {
		big := strings.Repeat("x", size)
		for name, c := range map[string]turn{
			"asked":          {message: "q", pauses: []record.Pause{asks(big, "f")}},
			"asked twice":    {message: "q", pauses: []record.Pause{asks(big, "f"), asks("x", "f")}},
			"said and asked": {message: strings.Repeat("x", maxUnanswered-100), pauses: []record.Pause{asks(big, "f")}},
		} {
			c.status, c.epoch = lifecycle.Failed, 1
			messages, unanswered, _, err := historyOf(t, &memblob.Store{}, []turn{done, done, c, c})
			require.NoError(t, err)
			require.Greater(t, len(messages), 4, name)
			assert.Equal(t, messagesOf(done, done), messages[:4], "%s: %d", name, size)
			bytes := 0
			for _, i := range unanswered {
				bytes += model.Size(messages[i])
			}
			assert.LessOrEqual(t, bytes, maxUnanswered+2*len(failedLine)+2*len(longWords), "%s: %d", name, size)
		}
	}
}

// asks is a pause with one interrupt for each thing. A thing is a call of a client's function with that name, an
// approval for a name with an exclamation mark, or a question. answers are the answers to them.
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

// Questions and calls of a turn are in the history with the client's answers: each call is followed by its result.
// Approvals are not in it.
func TestModelIsShownWhatWasAskedInATurn(t *testing.T) {
	of := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1, pauses: []record.Pause{
		asks("cold", "weather", "Where?", "delete!"), asks("", "delete!"), asks("warm", "weather"),
	}}
	got, err := conversation(t, []turn{of, {status: lifecycle.Completed, message: "x", answer: "y", epoch: 1}})
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

// For a turn with many questions, the last of them are in the history, within the total limit.
func TestWhatWasAskedInATurnIsLimited(t *testing.T) {
	of := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1}
	for range 5 {
		of.pauses = append(of.pauses, asks(strings.Repeat("x", maxChars/2-100), "f"))
	}
	got, err := conversation(t, []turn{of})
	require.NoError(t, err)
	require.Len(t, got, 6)
	assert.Equal(t, "paused_1_4_0", got[1].Calls[0].ID)
	of.pauses = nil
	for range maxPauses + 2 {
		of.pauses = append(of.pauses, asks("x", "f"))
	}
	got, err = conversation(t, []turn{of})
	require.NoError(t, err)
	require.Len(t, got, 2+2*maxPauses)
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

// Pauses that do not fit are not read, except for the few that are read together with those that fit: of a turn, and of
// the turns before it.
func TestWhatWasAskedIsReadAsFarAsItFits(t *testing.T) {
	for size, want := range map[int]struct{ messages, reads int }{
		maxChars * 3 / 4: {4, pausesAtOnce}, maxChars / 6: {2 + 2*5, 2 * pausesAtOnce},
	} {
		blobs := &counted{Store: &memblob.Store{}}
		of := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1}
		for range 3 * pausesAtOnce {
			of.pauses = append(of.pauses, asks(strings.Repeat("x", size), "f"))
		}
		got, err := conversationIn(t, blobs, []turn{of, of, of})
		require.NoError(t, err)
		assert.Equal(t, want.messages, len(got), "messages")
		assert.Equal(t, want.reads, blobs.reads, "values read")
	}
}

// A call has the same id in the history of each later run, so that the caches of providers stay valid.
func TestIdsOfCallsStayInLaterRuns(t *testing.T) {
	of := turn{status: lifecycle.Completed, message: "q", answer: "a", epoch: 1, pauses: []record.Pause{asks("x", "f")}}
	of.before = []record.ContextMessage{
		{Role: record.RoleAssistant, Calls: []record.ContextCall{{ID: "c", Name: "f"}}},
		{Role: record.RoleTool, Call: "c", Text: "x"},
	}
	next, err := conversation(t, []turn{of})
	require.NoError(t, err)
	later, err := conversation(t, []turn{of, {status: lifecycle.Completed, message: "x", answer: "y", epoch: 1}})
	require.NoError(t, err)
	require.Len(t, next, 6)
	assert.Equal(t, next, later[:len(next)])
}

// A long history is cut at its beginning: 50 turns, or the last ones up to 200,000 bytes, which the oldest of them may
// exceed.
func TestHistoryIsLimitedToTheLastTurns(t *testing.T) {
	var turns []turn
	for i := range maxTurns + 2 {
		turns = append(turns, turn{status: lifecycle.Completed, message: fmt.Sprint(i), answer: "x", epoch: 1})
	}
	got, err := conversation(t, turns)
	require.NoError(t, err)
	assert.Equal(t, messagesOf(turns[2:]...), got)
	for _, c := range []struct{ bytes, turns int }{{maxChars - 1, 2}, {maxChars, 1}} {
		question := turns[2]
		question.message, question.answer = strings.Repeat("x", c.bytes-1000), strings.Repeat("x", 1000)
		got, err := conversation(t, []turn{turns[0], turns[1], question})
		require.NoError(t, err)
		assert.Len(t, got, 2*c.turns)
	}
}

// A stored answer that cannot be decoded is an error. Otherwise the model would get a different conversation.
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
	calls := record.Step{Kind: record.ModelStep, Text: "look", Calls: []record.Call{{ID: "0"}}}
	for _, c := range []struct {
		answer             string
		before, last, left []record.Step
	}{
		{"", nil, nil, nil},
		{"done", nil, []record.Step{want}, []record.Step{}},
		{"done", nil, []record.Step{more}, []record.Step{more}},
		{"look\n\ndone", nil, []record.Step{calls, want}, []record.Step{calls}},
		{"look\n\ndone", []record.Step{calls}, []record.Step{want}, []record.Step{}},
		{"done", nil, []record.Step{more, more}, []record.Step{more, more}},
		{"cut short", nil, []record.Step{want}, []record.Step{want}},
	} {
		got := withoutLast(agent.Result{
			Answer: &agent.Answer{Text: c.answer}, Last: c.last, All: slices.Concat(c.before, c.last),
		})
		assert.Equal(t, c.left, got, c.answer)
	}
}

type away struct{ table.Table }

func (away) Get(context.Context, ...table.Key) ([]*table.Item, error) { return nil, errors.New("away") }
