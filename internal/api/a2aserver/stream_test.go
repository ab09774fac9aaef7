package a2aserver_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
)

// seen is a run of a status as a stream shows it.
func seen(s lifecycle.Status) *view.Run {
	v := &view.Run{RunID: "r", ChatID: "c", Status: string(s), UpdatedAt: "then", Interrupts: []events.Interrupt{}}
	if s == lifecycle.AwaitingInput {
		v.Interrupts = []events.Interrupt{{ID: "i", Kind: "clarification", Prompt: "Which?", CreatedAt: now}}
	}
	return v
}

func ended(s lifecycle.Status, result, reason string) *view.Run {
	v := seen(s)
	v.Result = json.RawMessage(result)
	if reason != "" {
		v.Error = &reason
	}
	return v
}

func cancelled(text string) *view.Run {
	v := seen(lifecycle.Cancelled)
	v.Partial = &events.Partial{Answer: text}
	return v
}

func initial(s lifecycle.Status, text string) stream.Event {
	return stream.Event{Event: stream.Init, Run: seen(s), Text: &text}
}

func delta(text string) stream.Event { return stream.Event{Event: stream.Delta, Text: &text} }

func status(s lifecycle.Status) stream.Event {
	return stream.Event{Event: stream.Status, Status: string(s), Interrupts: &seen(s).Interrupts}
}

func done(v *view.Run) stream.Event { return stream.Event{Event: stream.Done, Run: v} }

// A stream of both versions carries the same, each in its words; all of it answers the one request.
func TestEachEventOfAStreamIsWrittenInTheWordsOfItsVersion(t *testing.T) {
	result := `{"answer":"so far","output":{"n":1},"files":[{"file_id":"f","name":"a.png","content_type":"image/png"}]}`
	asks := `"message": {"messageId": "r-asks", "taskId": "r", "contextId": "c", `
	interrupts := `{"interrupts": [{"id": "i", "kind": "clarification", "prompt": "Which?", "created_at": "NOW"}]}`
	cases := []struct {
		event    stream.Event
		old, new string
		last     bool
	}{
		{
			stream.Event{Event: stream.Init, Run: ended(lifecycle.Completed, result, ""), Text: new(string)},
			`[{"kind": "task", "id": "r", "contextId": "c", "status": {"state": "completed", "timestamp": "then"}}]`,
			`[{"task": {"id": "r", "contextId": "c",
				"status": {"state": "TASK_STATE_COMPLETED", "timestamp": "then"}}}]`,
			false,
		},
		{
			delta("so far"),
			`[{"kind": "artifact-update", "taskId": "r", "contextId": "c", "append": false, "lastChunk": false,
				"artifact": {"artifactId": "answer", "parts": [{"kind": "text", "text": "so far"}]}}]`,
			`[{"artifactUpdate": {"taskId": "r", "contextId": "c", "append": false, "lastChunk": false,
				"artifact": {"artifactId": "answer", "parts": [{"text": "so far"}]}}}]`,
			false,
		},
		{
			status(lifecycle.Running),
			`[{"kind": "status-update", "taskId": "r", "contextId": "c", "final": false,
				"status": {"state": "working", "timestamp": "NOW"}}]`,
			`[{"statusUpdate": {"taskId": "r", "contextId": "c",
				"status": {"state": "TASK_STATE_WORKING", "timestamp": "NOW"}}}]`,
			false,
		},
		{
			status(lifecycle.AwaitingInput),
			`[{"kind": "status-update", "taskId": "r", "contextId": "c", "final": true,
				"status": {"state": "input-required", "timestamp": "NOW", ` + asks + `
					"kind": "message", "role": "agent", "parts": [
						{"kind": "text", "text": "Which?"}, {"kind": "data", "data": ` + interrupts + `}]}}}]`,
			`[{"statusUpdate": {"taskId": "r", "contextId": "c",
				"status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "NOW", ` + asks + `"role": "ROLE_AGENT",
					"parts": [{"text": "Which?"}, {"data": ` + interrupts + `}]}}}}]`,
			true,
		},
		{
			done(ended(lifecycle.Completed, result, "")),
			`[{"kind": "artifact-update", "taskId": "r", "contextId": "c", "append": false, "lastChunk": true,
				"artifact": {"artifactId": "answer", "parts": [{"kind": "text", "text": "so far"},
					{"kind": "data", "data": {"n": 1}},
					{"kind": "file", "file": {"uri": "URL/files/f", "name": "a.png", "mimeType": "image/png"}}]}},
			{"kind": "status-update", "taskId": "r", "contextId": "c", "final": true,
				"status": {"state": "completed", "timestamp": "then"}}]`,
			`[{"artifactUpdate": {"taskId": "r", "contextId": "c", "append": false, "lastChunk": true,
				"artifact": {"artifactId": "answer", "parts": [{"text": "so far"}, {"data": {"n": 1}},
					{"url": "URL/files/f", "filename": "a.png", "mediaType": "image/png"}]}}},
			{"statusUpdate": {"taskId": "r", "contextId": "c",
				"status": {"state": "TASK_STATE_COMPLETED", "timestamp": "then"}}}]`,
			true,
		},
	}
	w := newWorld(t)
	old, latest := w.reply(request("message/stream", some)), w.reply(request("SendStreamingMessage", some))
	envelopes := func(messages []any) (results []any) {
		for _, m := range messages {
			one := shown(t, m).(object)
			require.Equal(t, object{"jsonrpc": "2.0", "id": 7.0, "result": one["result"]}, one)
			results = append(results, one["result"])
		}
		return results
	}
	for _, c := range cases {
		messages, last := old.Translate(c.event)
		assert.Equal(t, fill(t, c.old, "NOW", now, "URL", w.URL), any(envelopes(messages)))
		assert.Equal(t, c.last, last, c.event.Event)
		messages, last = latest.Translate(c.event)
		assert.Equal(t, fill(t, c.new, "NOW", now, "URL", w.URL), any(envelopes(messages)))
		assert.Equal(t, c.last, last, c.event.Event)
	}
}

// brief writes messages of version 0.3 in a short form. A task is written as its state. A piece of the answer has a +
// where it is appended and a ! where it is the last. A state has a dot where it is final.
func brief(t *testing.T, messages []any) []string {
	t.Helper()
	list := []string{}
	for _, m := range messages {
		r := shown(t, m).(object)["result"].(object)
		switch r["kind"] {
		case "task":
			list = append(list, fmt.Sprint("task ", r["status"].(object)["state"]))
		case "artifact-update":
			mark := map[any]string{true: "+"}[r["append"]] + map[any]string{true: "!"}[r["lastChunk"]]
			part := r["artifact"].(object)["parts"].([]any)[0].(object)
			if part["text"] == nil {
				part["text"] = part["kind"]
			}
			list = append(list, fmt.Sprintf("%s'%s'", mark, part["text"]))
		case "status-update":
			list = append(list, fmt.Sprint(r["status"].(object)["state"], map[any]string{true: "."}[r["final"]]))
		}
	}
	return list
}

func TestAStreamIsTheTaskThenItsAnswerInPiecesThenItsEnd(t *testing.T) {
	type translation struct {
		event stream.Event
		want  []string
		last  bool
	}
	whole := `{"answer":"ab"}`
	for name, story := range map[string][]translation{
		"a run that is read while it is written": {
			{initial(lifecycle.Queued, ""), []string{"task submitted"}, false},
			{status(lifecycle.Running), []string{"working"}, false},
			{delta("a"), []string{"'a'"}, false},
			{delta("b"), []string{"+'b'"}, false},
			{done(ended(lifecycle.Completed, whole, "")), []string{"!'ab'", "completed."}, true},
		},
		"a run that was begun": {
			{initial(lifecycle.Running, "a"), []string{"task working", "'a'"}, false},
			{delta("b"), []string{"+'b'"}, false},
		},
		"a run that has ended": {
			{initial(lifecycle.Completed, "ab"), []string{"task completed", "'ab'"}, false},
			{done(ended(lifecycle.Completed, whole, "")), []string{"!'ab'", "completed."}, true},
		},
		"a run that had paused": {
			{initial(lifecycle.AwaitingInput, "a"), []string{"task input-required", "'a'", "input-required."}, true},
		},
		"a run that pauses, and is followed on": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{status(lifecycle.AwaitingInput), []string{"input-required."}, true},
			{status(lifecycle.Queued), []string{"submitted"}, false},
		},
		"another worker that begins the answer again": {
			{initial(lifecycle.Running, "ab"), []string{"task working", "'ab'"}, false},
			{initial(lifecycle.Running, "a"), []string{"'a'"}, false},
			{delta("c"), []string{"+'c'"}, false},
			{initial(lifecycle.Running, ""), []string{"''"}, false},
			{initial(lifecycle.Running, ""), []string{}, false},
			{delta("d"), []string{"'d'"}, false},
		},
		"a pause that a second look finds": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{initial(lifecycle.AwaitingInput, ""), []string{"input-required."}, true},
		},
		"a run that fails": {
			{initial(lifecycle.Running, "a"), []string{"task working", "'a'"}, false},
			{done(ended(lifecycle.Failed, "null", "no luck")), []string{"failed."}, true},
		},
		"a run that is cancelled": {
			{initial(lifecycle.Running, "a"), []string{"task working", "'a'"}, false},
			{done(cancelled("ab")), []string{"!'ab'", "canceled."}, true},
		},
		"an end without text, but with data": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{done(ended(lifecycle.Completed, `{"output":7}`, "")), []string{"!'data'", "completed."}, true},
		},
		"an empty end": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{done(ended(lifecycle.Completed, `{"answer":""}`, "")), []string{"completed."}, true},
		},
		"a cancel before any text": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{done(cancelled("")), []string{"canceled."}, true},
		},
		"what clients of the protocol are not told": {
			{initial(lifecycle.Running, ""), []string{"task working"}, false},
			{stream.Event{Event: stream.StepEvent, Step: &events.StepEvent{}}, []string{}, false},
			{stream.Event{Event: stream.ParkedMsg, Parked: &view.Parked{}}, []string{}, false},
			{stream.Event{Event: stream.Heartbeat}, []string{}, false},
		},
	} {
		reply := newWorld(t).reply(request("message/stream", some))
		for n, c := range story {
			messages, last := reply.Translate(c.event)
			assert.Equal(t, c.want, brief(t, messages), "%s, event %d", name, n)
			assert.Equal(t, c.last, last, "%s, event %d", name, n)
		}
	}
}

func TestAStreamIsOfTheRunThatWasStartedAnsweredOrNamed(t *testing.T) {
	w := newWorld(t)
	for method, again := range map[string]string{
		"message/stream": "tasks/resubscribe", "SendStreamingMessage": "SubscribeToTask",
	} {
		run := w.reply(request(method, some)).Run
		assert.True(t, w.run(run).Watched, "its worker need not wait for a reader")
		assert.Equal(t, run, w.reply(request(again, `{"id":"`+run+`"}`)).Run)
		w.ask(run, lifecycle.Clarification)
		assert.Equal(t, run, w.reply(request(again, `{"id":"`+run+`"}`)).Run, "a pause is no end")
		answer := `{"message":{"taskId":"` + run + `","parts":[{"text":"Paris"}]}}`
		r := w.reply(request(method, answer))
		assert.Equal(t, run, r.Run)
		assert.Nil(t, r.Message)
		w.complete(run, `{}`)
		code, text := w.refusal(again, `{"id":"`+run+`"}`)
		assert.InDelta(t, -32004, code, 0)
		assert.Equal(t, "the task has ended", text)
	}
}
