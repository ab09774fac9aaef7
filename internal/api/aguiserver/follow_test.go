package aguiserver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

const hello = `{"id":"u1","role":"user","content":"hello"}`

func initial(text string, steps ...events.StepEvent) stream.Event {
	if steps == nil {
		steps = []events.StepEvent{}
	}
	return stream.Event{Event: stream.Init, Run: &view.Run{Status: "running"}, Text: &text, Steps: &steps}
}

func delta(text string) stream.Event { return stream.Event{Event: stream.Delta, Text: &text} }

func step(index int, state string) events.StepEvent {
	return events.StepEvent{Index: index, Kind: "tool", Name: "look", State: state, Arguments: json.RawMessage(`{}`),
		Outcome: "succeeded"}
}

func stepped(index int, state string) stream.Event {
	e := step(index, state)
	return stream.Event{Event: stream.StepEvent, Step: &e}
}

func TestEachEventOfAStreamIsWrittenAsTheProtocolHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		before string // messages of the request before the user's
		events []stream.Event
		want   []string
	}{
		"a text": {"", []stream.Event{initial(""), delta("a"), delta("b")}, []string{"open 1", "a", "b"}},
		"calls between texts": {
			"", []stream.Event{initial("a"), stepped(1, "started"), stepped(2, "started"), stepped(1, "finished"),
				stepped(2, "failed"), delta("b")},
			[]string{"open 1", "a", "close", "look of 1", "look of 1", "got succeeded of 1",
				"got succeeded of 2", "open 2", "b"},
		},
		"a call before any text": {
			"", []stream.Event{initial(""), stepped(1, "finished"), delta("b")},
			[]string{"look of 1", "got succeeded of 1", "open 2", "b"},
		},
		"a text that is replaced": {
			"", []stream.Event{initial(""), delta("a"), initial("x"), delta("y"), stepped(1, "started"), initial("")},
			[]string{"open 1", "a", "close", "all [u1 hello] [1 x]", "open 1", "y", "close", "look of 1",
				"all [u1 hello]"},
		},
		"the break between two texts": {
			"", []stream.Event{
				initial(""), delta("a"), stepped(1, "finished"), delta("\n\n"), delta("b"), delta("\n\n"),
			},
			[]string{"open 1", "a", "close", "look of 1", "got succeeded of 1", "open 2", "b", "\n\n"},
		},
		"what begins twice before anything is said": {
			"", []stream.Event{initial(""), initial("a")}, []string{"open 1", "a"},
		},
		"what was heard before": {
			`{"id":"msg_RUN_0_1","role":"assistant","content":"a"},`,
			[]stream.Event{initial("ab", step(1, "started")), delta("c"), stepped(1, "finished"), delta("d")},
			[]string{"all [1 ab look] [u1 hello]", "open 2", "c", "close", "got succeeded of 1", "open 3", "d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x, err := w.ask("r", hello)
			require.NoError(t, err)
			if c.before != "" {
				x.list = nil
				for _, m := range turnOf(t, "["+strings.ReplaceAll(c.before, "RUN", x.Run())+hello+"]").list {
					x.list = append(x.list, clientMessage{m.ID, m.raw})
				}
			}
			f, l := w.following(x)
			for _, e := range c.events {
				require.NoError(t, f.take(t.Context(), e))
			}
			assert.Equal(t, c.want, l.received)
		})
	}
}

// The journal has the order of texts and calls.
func TestPastEventsAreReplayedInTheOrderOfTheJournal(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r", hello)
	require.NoError(t, err)
	f, l := w.following(x)
	f.journal = []record.Step{
		{Index: 0, Kind: record.ModelStep, Text: "ab", Calls: make([]record.Call, 1)},
		{Index: 1, Kind: record.ToolStep, CallID: "0-1", Output: "one"},
		{Index: 2, Kind: record.ModelStep, Text: "cd", Calls: make([]record.Call, 1)},
		{Index: 3, Kind: record.ToolStep, CallID: "2-1", Outcome: "answered"},
	}
	require.NoError(t, f.replay(t.Context(), "ab\n\ncd\n\nef",
		[]events.StepEvent{step(1, "finished"), step(4, "started")}))
	assert.Equal(t, []string{
		"open 1", "ab", "close", "look of 1", "got one of 1", "open 2", "cd", "\n\nef", "close", "look of 2",
	}, l.received)

	f, l = w.following(x)
	f.journal = []record.Step{{Index: 0, Kind: record.ModelStep, Text: "other"}}
	require.NoError(t, f.replay(t.Context(), "abc", nil))
	assert.Equal(t, []string{"open 1", "abc"}, l.received)
}

// rows counts the items that are read by queries.
type rows struct {
	table.Table

	read int
}

func (r *rows) Query(ctx context.Context, of table.Range) ([]*table.Item, error) {
	list, err := r.Table.Query(ctx, of)
	r.read += len(list)
	return list, err
}

func TestAStepOfALongRunIsReadOnce(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r", hello)
	require.NoError(t, err)
	f, l := w.following(x)
	require.NoError(t, f.take(t.Context(), initial("")))
	e, err := w.Store.Run(t.Context(), record.System(), x.Run())
	require.NoError(t, err)
	counted := &rows{Table: w.items}
	w.Store = record.New(counted, &memblob.Store{}, w.Intake.Host)
	const steps = 300
	for i := range steps {
		require.NoError(t, f.take(t.Context(), stepped(i, "started")))
		done := record.Step{Index: i, Kind: record.ToolStep, CallID: "0-1", Output: "one"}
		tx := w.Store.Begin(w.Intake.Host.NewID())
		tx.PutStep(t.Context(), e.Value, done)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, f.take(t.Context(), stepped(i, "finished")))
	}
	assert.Len(t, l.received, 2*steps)
	assert.Equal(t, steps, counted.read)
}

// The usage of a search before a pause is not counted again after it.
func TestUsageBeforeAPauseIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	tx := w.Store.Begin(w.Intake.Host.NewID())
	tx.PutStep(t.Context(), w.run(run), record.Step{Index: 0, Kind: record.ToolStep, InputTokens: 5})
	require.NoError(t, tx.Commit(t.Context()))
	w.pause(run, question)
	x, err := w.ask("r2", hello, AGUIResume{
		InterruptID: nameOf("int_", run, question), Status: "resolved", Payload: json.RawMessage(`"Oslo"`),
	})
	require.NoError(t, err)
	f, _ := w.following(x)
	used := func(input int64) []AGUIUsage {
		return f.usage(record.Run{Run: lifecycle.Run{Usage: lifecycle.Usage{InputTokens: input}}})
	}
	assert.Empty(t, used(5))
	assert.Equal(t, []AGUIUsage{{InputTokens: 3, TotalTokens: 3}}, used(8))
}

func TestAPauseEndsAnExchangeAndItsAnswersGoOn(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r1", hello)
	require.NoError(t, err)
	run := x.Run()
	w.pause(run, approval, function, question)
	got, end := w.follow(x)
	assert.Equal(t, []string{"run_started", "send of 1", "paint of 1", "run_finished"}, got)
	assert.Equal(t, "interrupt", end.Outcome.Type)
	assert.Empty(t, end.Outcome.Pending)
	require.Len(t, end.Outcome.Interrupts, 2)
	assert.Equal(t, nameOf("call_", run, approval), end.Outcome.Interrupts[0].ToolCallID)
	assert.NotEmpty(t, end.Outcome.Interrupts[0].ExpiresAt)
	assert.Equal(t, "input_required", end.Outcome.Interrupts[1].Reason)

	yes := AGUIResume{InterruptID: nameOf("int_", run, approval), Status: "resolved", Payload: json.RawMessage(`true`)}
	city := yes
	city.InterruptID, city.Payload = nameOf("int_", run, question), json.RawMessage(`"Oslo"`)
	output := `,{"id":"t1","role":"tool","content":"red","toolCallId":"` + nameOf("call_", run, function) + `"}`
	_, err = w.ask("r2", hello+output, yes)
	wrong(t, err, "body.resume")
	_, err = w.ask("r2", hello, yes, city)
	wrong(t, err, "body.messages")
	_, err = w.ask("r2", hello+`,{"id":"u2","role":"user","content":"well?"}`)
	wrong(t, err, "body.resume")
	foreign := `,{"id":"t1","role":"tool","content":"red","toolCallId":"` + nameOf("call_", approval, function) + `"}`
	_, err = w.ask("r2", hello+foreign, yes, city)
	wrong(t, err, "body.messages")
	assert.Equal(t, []string{run}, w.runs("r2", hello), "the thread still waits")

	assert.Equal(t, []string{run}, w.runs("r2", hello+output, yes, city))
	assert.Equal(t, []string{run}, w.runs("r2", hello+output, yes, city), "sent again")
	no := AGUIResume{InterruptID: yes.InterruptID, Status: "cancelled"}
	_, err = w.ask("r3", hello+output, no, city)
	p, _ := problem.As(err)
	require.NotNil(t, p)
	assert.Equal(t, problem.Conflict, p.Kind)

	after, err := w.ask("r2", hello+output, yes, city)
	require.NoError(t, err)
	f, l := w.following(after)
	late := initial("")
	late.Run.Status = "awaiting_input"
	require.NoError(t, f.take(t.Context(), late), "of the pause that is over")
	sent := events.StepEvent{Index: 1, Kind: "tool", Name: "send", State: "finished", Outcome: "succeeded",
		Arguments: json.RawMessage(`{"to":"a"}`)}
	require.NoError(t, f.take(t.Context(), stream.Event{Event: stream.StepEvent, Step: &sent}))
	assert.Equal(t, []string{"got succeeded of " + approval}, l.received, "the call was told before")
}

// A thread goes on after a pause that nobody decided in time. It does so with any messages of that pause in the front
// end, and after the last message that the thread knew.
func TestAThreadOutlivesWhatItWaitedFor(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, function, approval)
	w.transition(run, transition.Change{Event: lifecycle.Cancel{}})
	old := hello + `,{"id":"t1","role":"tool","content":"red","toolCallId":"` + nameOf("call_", run, function) + `"},` +
		`{"id":"u2","role":"user","content":"again"}`
	next := w.runs("r2", old, AGUIResume{InterruptID: nameOf("int_", run, approval), Status: "cancelled"})
	require.Len(t, next, 1)
	assert.NotEqual(t, run, next[0])
	assert.Equal(t, next, w.runs("r2", old), "sent again")
}

// The id of an exchange counts within its thread: the same id in another thread is another exchange.
func TestAnExchangeIsOneOfItsThread(t *testing.T) {
	w := newWorld(t)
	first := w.runs("1", hello)
	in := input(t, "["+hello+"]")
	in.ThreadID, in.RunID = "other", "1"
	x, err := w.Open(t.Context(), w.who, w.agent, in, "")
	require.NoError(t, err)
	assert.NotEqual(t, first, x.runs)
}

// A request is refused before anything is decided.
func TestARefusedRequestDecidesNothing(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, function)
	in := input(t, "["+hello+`,{"id":"t1","role":"tool","content":"x","toolCallId":"`+nameOf("call_", run, function)+
		`"},{"id":"u2","role":"user","content":"more"}]`)
	in.RunID, in.Tools = "r2", []AGUITool{{Name: "ask_user"}}
	_, err := w.Open(t.Context(), w.who, w.agent, in, "")
	wrong(t, err, "body.tools[0].name")
	e, err := w.Intake.Run(t.Context(), w.who, run)
	require.NoError(t, err)
	assert.Equal(t, lifecycle.AwaitingInput, e.Value.Status)
}

// A snapshot in the second run of an exchange has the messages of the first.
func TestASnapshotHasAllRunsOfAnExchange(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r", hello)
	require.NoError(t, err)
	first, _ := w.following(x)
	require.NoError(t, first.take(t.Context(), initial("a")))
	require.NoError(t, first.take(t.Context(), stepped(1, "started")))
	require.NoError(t, first.keep())
	w.complete(x.Run())
	x.runs = w.runs("r2", hello+`,{"id":"u2","role":"user","content":"more"}`)
	second, l := w.following(x)
	require.NoError(t, second.take(t.Context(), initial("b")))
	require.NoError(t, second.take(t.Context(), initial("bc")))
	assert.Equal(t, []string{"open 1", "b", "close", "all [u1 hello] [1 a look] [1 bc]"}, l.received)
}

// Of a thread that is too large to be kept, only ids are kept. The next request for it gets a snapshot.
func TestALargeThreadIsNotKept(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r", `{"id":"u1","role":"user","content":"`+strings.Repeat("x", light)+`"}`)
	require.NoError(t, err)
	f, _ := w.following(x)
	require.NoError(t, f.take(t.Context(), initial("a")))
	for _, m := range x.list {
		assert.Nil(t, m.raw)
	}
	require.ErrorIs(t, f.take(t.Context(), initial("b")), stream.ErrStop)
	assert.Equal(t, Cut(), f.end)
}

// A message that comes with an answer waits behind the run, and the stream follows both.
func TestWordsBesideAnAnswerAreParked(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, function)
	more := hello + `,{"id":"t1","role":"tool","content":"","toolCallId":"` + nameOf("call_", run, function) + `"},` +
		`{"id":"u2","role":"user","content":"and more"}`
	x, err := w.ask("r2", more)
	require.NoError(t, err)
	require.Len(t, x.runs, 2)
	assert.Equal(t, run, x.runs[0])
	assert.Equal(t, x.runs, w.runs("r2", more), "sent again")
	w.complete(run)
	w.complete(x.runs[1])
	got, end := w.follow(x)
	assert.Equal(t, "run_finished", got[len(got)-1])
	assert.Equal(t, "success", end.Outcome.Type)
	in, err := w.Store.Input(t.Context(), w.run(x.runs[1]))
	require.NoError(t, err)
	assert.Equal(t, "and more", in.Message)
}

// A user who stops a stream leaves the run going. The next message waits behind it, once, and the stream follows both.
func TestWordsWhileARunWorksAreParked(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	half := hello + `,{"id":"` + ofPart("msg_", run, 0) + `1","role":"assistant","content":"ha"}`
	second := half + `,{"id":"u2","role":"user","content":"stop"}`
	x, err := w.ask("r2", second)
	require.NoError(t, err)
	require.Len(t, x.runs, 2)
	assert.Equal(t, run, x.runs[0])
	assert.Equal(t, x.runs, w.runs("r2", second), "sent again")
	assert.Equal(t, x.runs, w.runs("r2b", second), "sent again by another id")
	third := w.runs("r3", second+`,{"id":"u3","role":"user","content":"now"}`)
	require.Len(t, third, 3)
	assert.Equal(t, x.runs, third[:2])
	p, err := w.Store.Parked(t.Context(), third[2])
	require.NoError(t, err)
	assert.Equal(t, "now", p.Input.Message, "what is parked is known")

	f, l := w.following(x)
	require.NoError(t, f.take(t.Context(), initial("half")))
	assert.Equal(t, []string{"all [u1 hello] [1 half] [u2 stop]"}, l.received, "in its place")
	require.NoError(t, f.keep())
	assert.Equal(t, ofPart("msg_", run, 0)+"1", x.list[1].id)
	assert.Equal(t, "u2", x.list[2].id)

	w.transition(run, transition.Change{Event: lifecycle.Cancel{}})
	w.complete(x.runs[1])
	got, end := w.follow(x)
	assert.Equal(t, "run_finished", got[len(got)-1])
	assert.Equal(t, "success", end.Outcome.Type, "of what was said behind the run that was cancelled")
}

// A message that has answered a question is known by its text, until the front end has a message that came after it.
func TestAMessageThatWasAnAnswerIsNotSentAgain(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, question)
	answer := hello + `,{"id":"u2","role":"user","content":"Oslo"}`
	assert.Equal(t, []string{run}, w.runs("r2", answer))
	assert.Equal(t, []string{run}, w.runs("r3", answer), "sent again by another id")
	more := w.runs("r4", answer+`,{"id":"u3","role":"user","content":"hurry"}`)
	require.Len(t, more, 2)
	p, err := w.Store.Parked(t.Context(), more[1])
	require.NoError(t, err)
	assert.Equal(t, "hurry", p.Input.Message)
	require.NoError(t, w.Intake.Withdraw(t.Context(), w.who, run, more[1]))
	again := w.runs("r5", answer+`,{"id":"`+ofPart("msg_", run, 1)+`1","role":"assistant","content":"It"},`+
		`{"id":"u3","role":"user","content":"Oslo"}`)
	assert.Len(t, again, 2, "the same words behind what the front end has heard are new")
}

// Words that repeat an answer are new where the answer came by resume: no message was one.
func TestWordsLikeAnAnswerByResumeAreSent(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, question)
	yes := AGUIResume{InterruptID: nameOf("int_", run, question), Status: "resolved", Payload: json.RawMessage(`"yes"`)}
	require.Equal(t, []string{run}, w.runs("r2", hello, yes))
	assert.Len(t, w.runs("r3", hello+`,{"id":"u2","role":"user","content":"yes"}`), 2)
}

// Messages before the last known one are not sent again, by the user or by the agent: an answer of two messages, or a
// message that waited behind it.
func TestWhatStandsBeforeWhatIsKnownIsNotSent(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	assistant := func(run, part, n string) string {
		return `,{"id":"msg_` + run + "_" + part + "_" + n + `","role":"assistant","content":"It"}`
	}
	user := func(id string) string { return `,{"id":"` + id + `","role":"user","content":"` + id + `"}` }
	list := hello + assistant(run, "0", "1") + user("waits")
	runs := w.runs("r2", list)
	w.pause(run, question)
	list += assistant(run, "0", "2")
	assert.Equal(t, runs, w.runs("r3", list), "nobody has answered")
	assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)
	list += user("Oslo")
	assert.Equal(t, runs, w.runs("r4", list))
	d, _, err := w.Store.LastDecision(t.Context(), run, 1)
	require.NoError(t, err)
	assert.Equal(t, "Oslo", d.List[0].Message)
	w.complete(run)
	w.complete(runs[1])
	next := w.runs("r5", list+assistant(run, "1", "1")+assistant(runs[1], "0", "1")+user("next"))
	in, err := w.Store.Input(t.Context(), w.run(next[0]))
	require.NoError(t, err)
	assert.Equal(t, "next", in.Message)
}

// Such messages do not leave a call without an output, either.
func TestWhatStandsBeforeWhatIsKnownDecidesNothing(t *testing.T) {
	for _, interrupt := range []string{approval, function} {
		w := newWorld(t)
		run := w.runs("r1", hello)[0]
		w.pause(run, interrupt)
		assert.Equal(t, []string{run}, w.runs("r2", hello+`,{"id":"u2","role":"user","content":"between"},`+
			`{"id":"`+ofPart("msg_", run, 0)+`1","role":"assistant","content":"It"}`))
		assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)
	}
}

// An answer to a question that was never asked is refused, and decides nothing. One to an earlier pause is history.
func TestAnAnswerToWhatNobodyAskedIsRefused(t *testing.T) {
	w := newWorld(t)
	answer := func(run, interrupt string) AGUIResume {
		return AGUIResume{
			InterruptID: nameOf("int_", run, interrupt), Status: "resolved", Payload: json.RawMessage(`"Oslo"`),
		}
	}
	_, err := w.ask("r0", hello, answer(approval, question))
	wrong(t, err, "body.resume[0].interruptId")
	run := w.runs("r1", hello)[0]
	_, err = w.ask("r2", hello, answer(run, question))
	wrong(t, err, "body.resume[0].interruptId")
	w.pause(run, question)
	for _, other := range []AGUIResume{answer(run, function), answer(approval, question), {InterruptID: "x"}} {
		_, err = w.ask("r2", hello, answer(run, question), other)
		wrong(t, err, "body.resume[1].interruptId")
		assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)
	}
	assert.Equal(t, []string{run}, w.runs("r2", hello, answer(run, question)))
	w.pause(run, function)
	_, err = w.ask("r3", hello, answer(run, function))
	wrong(t, err, "body.resume[0].interruptId")
	assert.Equal(t, []string{run}, w.runs("r4", hello, answer(run, question)), "sent again")
}

// A message that is parked behind a run is followed after it, also when the run has asked a question meanwhile.
func TestWhatIsParkedBehindAQuestionIsFollowed(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	runs := w.runs("r2", hello+`,{"id":"u2","role":"user","content":"more"}`)
	w.pause(run, question)
	assert.Equal(t, runs, w.runs("r3", hello+`,{"id":"u2","role":"user","content":"more"}`, AGUIResume{
		InterruptID: nameOf("int_", run, question), Status: "resolved", Payload: json.RawMessage(`"Oslo"`),
	}))
}

// A call without an output blocks nothing: the user goes on, and the model receives a note in place of the output.
func TestTheUserGoesOnWithoutAnOutput(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	w.pause(run, function)
	history := hello + `,{"id":"` + ofPart("msg_", run, 0) + `1","role":"assistant","toolCalls":[{"id":"` +
		nameOf("call_", run, function) + `","type":"function","function":{"name":"paint","arguments":"{}"}}]}`
	assert.Equal(t, []string{run}, w.runs("r2", history), "nobody has said anything")
	assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)
	on := history + `,{"id":"u2","role":"user","content":"never mind"}`
	x, err := w.ask("r3", on)
	require.NoError(t, err)
	require.Len(t, x.runs, 2)
	assert.Equal(t, run, x.runs[0])
	assert.Equal(t, x.runs, w.runs("r3", on), "sent again")
	d, found, err := w.Store.LastDecision(t.Context(), run, 1)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, "(no output: the user continued without it)", d.List[0].Message)
	w.complete(run)
	in, err := w.Store.Input(t.Context(), w.run(x.runs[1]))
	require.NoError(t, err)
	assert.Equal(t, "never mind", in.Message)
}

// A front end whose run is deleted meanwhile receives an error. It would take the mere end of the stream for a success.
func TestARunThatIsDeletedEndsAnExchange(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r1", hello)
	require.NoError(t, err)
	x.runs[0] = strings.Repeat("d", 24)
	_, end := w.follow(x)
	assert.Equal(t, AGUIEvent{Type: "RUN_ERROR", Message: "the run was deleted", Code: "deleted"}, end)
}

func (w *world) run(id string) record.Run {
	w.t.Helper()
	e, err := w.Store.Run(w.t.Context(), record.System(), id)
	require.NoError(w.t, err)
	return e.Value
}

func TestARequestThatBringsNothingFollowsTheThread(t *testing.T) {
	w := newWorld(t)
	_, err := w.ask("r0", "")
	wrong(t, err, "body.messages")
	run := w.runs("r1", hello)[0]
	assert.Equal(t, []string{run}, w.runs("r1", hello))
	assert.Equal(t, []string{run}, w.runs("r2", hello), "it is working on it")
	w.complete(run)
	assert.Equal(t, []string{run}, w.runs("r3", hello+`,{"id":"`+ofPart("msg_", run, 0)+`1","role":"assistant"}`))
	second := w.runs("r4", hello)
	assert.NotEqual(t, []string{run}, second, "the user wants to hear it again")
	w.transition(second[0], transition.Change{Event: lifecycle.Cancel{}})
	x, err := w.ask("r4", hello)
	require.NoError(t, err)
	_, end := w.follow(x)
	assert.Equal(t, "cancelled", end.Outcome.Type)
}

// Clients before 1.0 name no version. They refuse any member of an outcome except its type, and know no cancelled run.
func TestClientsBeforeTheFirstVersion(t *testing.T) {
	w := newWorld(t)
	x, err := w.ask("r1", hello)
	require.NoError(t, err)
	x.old = true
	w.pause(x.Run(), function)
	_, end := w.follow(x)
	assert.Equal(t, &AGUIOutcome{Type: "success"}, end.Outcome)
	w.transition(x.Run(), transition.Change{Event: lifecycle.Cancel{}})
	_, end = w.follow(x)
	assert.Equal(t, AGUIEvent{Type: "RUN_ERROR", Message: "the run was cancelled", Code: "cancelled"}, end)
	in := input(t, "["+hello+"]")
	again, err := w.Open(t.Context(), w.who, w.agent, in, "")
	require.NoError(t, err)
	assert.True(t, again.old)
	in.ProtocolVersion = "1.0"
	again, err = w.Open(t.Context(), w.who, w.agent, in, "")
	require.NoError(t, err)
	assert.False(t, again.old)
}

// A message that waits behind others is followed after them. So it is when its request is sent again, and when the
// thread knew none of the messages in front.
func TestAMessageIsFollowedBehindThoseInFrontOfIt(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	second := hello + `,{"id":"u2","role":"user","content":"u2"}`
	third := second + `,{"id":"u3","role":"user","content":"u3"}`
	w.runs("r2", second)
	runs := w.runs("r3", third)
	require.Len(t, runs, 3)
	assert.Equal(t, runs, w.runs("r3", third), "sent again")
	w.complete(run)
	assert.Equal(t, runs[1:], w.runs("r3", third), "sent again when the first has ended")
	w.complete(runs[1])
	assert.Equal(t, runs[2:], w.runs("r3", third), "sent again when it has begun")

	w = newWorld(t)
	w.runs("r1", hello)
	in := input(t, "["+second+"]")
	in.RunID = "r2"
	read, err := readTurn(in)
	require.NoError(t, err)
	slow := &beginning{Server: w.Server, who: w.who, agent: w.agent, turn: read}
	require.NoError(t, slow.find(t.Context()))
	faster := w.runs("r3", hello+`,{"id":"v2","role":"user","content":"v2"}`)
	runs, err = slow.begin(t.Context())
	require.NoError(t, err)
	assert.Equal(t, faster, runs[:len(runs)-1], "another tab was faster")
}

// A message that still waits when the runs in front of it have ended is not a success: its request is sent again.
func TestWhatStillWaitsIsFollowedByAnotherRequest(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	second := hello + `,{"id":"u2","role":"user","content":"u2"}`
	w.runs("r2", second)
	x, err := w.ask("r3", second+`,{"id":"u3","role":"user","content":"u3"}`)
	require.NoError(t, err)
	w.complete(run)
	x.runs = []string{run, x.runs[2]}
	_, end := w.follow(x)
	assert.Equal(t, Cut(), end)
	require.NoError(t, w.Intake.Withdraw(t.Context(), w.who, w.active(), x.runs[1]))
	_, end = w.follow(x)
	assert.Equal(t, "success", end.Outcome.Type, "it was withdrawn")
}

// active is the thread's run that works.
func (w *world) active() string {
	w.t.Helper()
	chat, err := w.Intake.Chat(w.t.Context(), w.who, "t")
	require.NoError(w.t, err)
	return chat.Value.ActiveRun
}

// A message to an agent does not answer another agent, with which the thread is busy. The run of another agent is
// followed as long as the right to that agent lasts.
func TestAThreadOfTwoAgents(t *testing.T) {
	w := newWorld(t)
	demo, err := record.Resource[catalog.Agent](t.Context(), w.Store, w.who.Scope(), w.agent)
	require.NoError(t, err)
	made, err := w.Intake.Tenants.CreateAgent(t.Context(), w.who.Organization, demo.Value.Spec, true)
	require.NoError(t, err)
	other := *w
	other.agent = made.Value.ID
	run := other.runs("r1", hello)[0]
	other.pause(run, question)
	_, err = w.ask("r2", `{"id":"v1","role":"user","content":"Oslo"}`)
	assert.True(t, problem.Is(err, "chat_busy"), "%v", err)
	assert.Equal(t, run, w.active())
	assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)

	x, err := other.ask("r1", hello)
	require.NoError(t, err)
	require.NoError(t, w.Intake.Tenants.RevokeKey(t.Context(), tenant.Platform(), record.System(), w.who.Key))
	w.Intake.Tenants.Change(w.who)
	got, end := w.follow(x)
	assert.Equal(t, Cut(), end)
	assert.Equal(t, []string{"run_started", "run_error"}, got)
}

// A resume is sent again after a message behind its run has begun or has ended: the request has nothing new.
func TestAResumeIsSentAgainBehindItsRun(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	list := hello + `,{"id":"u2","role":"user","content":"u2"}`
	runs := w.runs("r2", list)
	w.pause(run, approval)
	yes := AGUIResume{InterruptID: nameOf("int_", run, approval), Status: "resolved", Payload: json.RawMessage(`true`)}
	assert.Equal(t, runs, w.runs("r3", list, yes))
	w.complete(run)
	assert.Equal(t, runs[1:], w.runs("r3", list, yes), "the next works")
	w.complete(runs[1])
	assert.Equal(t, runs[1:], w.runs("r3", list, yes), "the next has ended")
	in := input(t, "["+hello+"]")
	in.ThreadID, in.Resume = "other", []AGUIResume{yes}
	_, err := w.Open(t.Context(), w.who, w.agent, in, "")
	wrong(t, err, "body.resume[0].interruptId")
}

// Two tabs show a thread, and both send a message while it works. Each connects again by another id, and no message is
// sent twice.
func TestWhatEachTabHasSentIsKnown(t *testing.T) {
	w := newWorld(t)
	run := w.runs("r1", hello)[0]
	tab := func(id string) string {
		return hello + `,{"id":"` + ofPart("msg_", run, 0) + `1","role":"assistant","content":"It"},` +
			`{"id":"` + id + `","role":"user","content":"` + id + `"}`
	}
	w.runs("ra", tab("a"))
	both := w.runs("rb", tab("b"))
	require.Len(t, both, 3)
	assert.Equal(t, both, w.runs("ra2", tab("a")))
	assert.Equal(t, both, w.runs("rb2", tab("b")))
	w.complete(run)
	assert.Equal(t, both[1:], w.runs("ra3", tab("a")), "its message works")
}

// Instructions may stand anywhere, also always last: they hide no message before them.
func TestInstructionsAtTheEndHideNothing(t *testing.T) {
	w := newWorld(t)
	const pinned = `,{"id":"s","role":"system","content":"be kind"}`
	run := w.runs("r1", hello+pinned)[0]
	history := hello + `,{"id":"` + ofPart("msg_", run, 0) + `1","role":"assistant","content":"It"}`
	assert.Len(t, w.runs("r2", history+`,{"id":"u2","role":"user","content":"u2"}`+pinned), 2)
	w = newWorld(t)
	run = w.runs("r1", hello+pinned)[0]
	w.complete(run)
	history = hello + `,{"id":"` + ofPart("msg_", run, 0) + `1","role":"assistant","content":"It"}`
	assert.Equal(t, []string{run}, w.runs("r2", history+pinned), "nothing new")
}

// conflictingTable is a table in which another writer commits before its first commit.
type conflictingTable struct {
	table.Table

	by func()
}

func (o *conflictingTable) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Table.Commit(ctx, token, ops...)
}

// Two tabs begin a thread at the same time: the message of the second waits behind the run that the first has begun.
func TestTwoTabsBeginAThread(t *testing.T) {
	w := newWorld(t)
	var first []string
	items := &conflictingTable{Table: w.items, by: func() { first = w.runs("r1", hello) }}
	w.Store = record.New(items, &memblob.Store{}, w.Intake.Host)
	w.Intake.Store, w.Intake.Executor.Store = w.Store, w.Store
	second := w.runs("r2", `{"id":"v1","role":"user","content":"me too"}`)
	require.Len(t, second, 2)
	assert.Equal(t, first, second[:1])
}
