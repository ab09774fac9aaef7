package a2aserver_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/extract"
)

func TestACardDescribesTheAgentToClientsOfBothVersions(t *testing.T) {
	w := newWorld(t)
	plain := w.other(func(s *catalog.AgentSpec) { s.Name = "Plain" })
	edit := func(publish bool) {
		_, err := w.Intake.Tenants.EditAgent(t.Context(), w.who, plain, 0, true, publish,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) { return s, nil })
		require.NoError(t, err)
	}
	edit(true)
	edit(false)
	takes := append([]string{"text/plain"}, append(extract.Types(), model.ImageTypes...)...)
	for agent, c := range map[string]struct{ name, description, version string }{
		w.agent: {
			"Demo", "Repeats its input, deterministically and without a network, and follows /directions.", "1",
		},
		plain: {"Plain", "The agent Plain.", "2"}, // it has no description, and its third version is not published
	} {
		card, err := w.Card(t.Context(), w.who, agent)
		require.NoError(t, err)
		assert.ElementsMatch(t, takes, card.(object)["defaultInputModes"], "what the text is read of, and pictures")
		delete(card.(object), "defaultInputModes")
		assert.Equal(t, fill(t, `{
			"name": "NAME", "description": "DESCRIPTION", "version": "VERSION",
			"capabilities": {"streaming": true, "pushNotifications": true},
			"defaultOutputModes": ["text/plain", "application/json",
				"image/png", "image/jpeg", "image/gif", "image/webp"],
			"skills": [{"id": "chat", "name": "NAME", "description": "DESCRIPTION", "tags": ["chat"]}],
			"securitySchemes": {"key": {"type": "http", "scheme": "bearer",
				"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "an API key of level run"}}},
			"supportedInterfaces": [
				{"url": "ADDRESS", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
				{"url": "ADDRESS", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}],
			"securityRequirements": [{"schemes": {"key": {"list": []}}}],
			"protocolVersion": "0.3.0", "url": "ADDRESS", "preferredTransport": "JSONRPC",
			"security": [{"key": []}]
		}`, "NAME", c.name, "DESCRIPTION", c.description, "VERSION", c.version,
			"ADDRESS", "https://api.example.com/api/v1/a2a/"+agent), shown(t, card))
	}
}

func TestAnAgentOutOfReachHasNoCardAndTakesNoCall(t *testing.T) {
	w := newWorld(t)
	closed := w.other(func(s *catalog.AgentSpec) { s.GroupIDs = []string{w.group()} })
	operator, member := w.who, w.member(w.who.Organization)
	for agent, c := range map[string]struct {
		who  tenant.Principal
		code string
	}{
		"nonsense": {operator, "not_found"}, "0123456789abcdef01234567": {operator, "not_found"},
		closed: {member, "insufficient_permission"}, w.agent: {w.outsider(), "outside_organization"},
	} {
		_, err := w.Card(t.Context(), c.who, agent)
		assert.True(t, problem.Is(err, c.code), "%s: %v", agent, err)
		_, err = w.Call(t.Context(), c.who, agent, sent(request("message/send", some)), seated)
		assert.True(t, problem.Is(err, c.code), "%s: %v", agent, err)
	}
	_, err := w.Card(t.Context(), operator, closed)
	assert.NoError(t, err, "an operator reaches all")
}

func TestATaskIsItsRunInTheWordsOfEachVersion(t *testing.T) {
	message := func(id, parts string) string {
		return `"message": {"messageId": "RUN-` + id + `", "taskId": "RUN", "contextId": "CHAT", ` + parts + `}`
	}
	interrupts := `{"interrupts": [
		{"id": "i", "kind": "approval", "prompt": "Which i?", "created_at": "NOW"},
		{"id": "j", "kind": "clarification", "prompt": "Which j?", "created_at": "NOW"}]}`
	for name, c := range map[string]struct {
		work     func(w *world, run string)
		old, new string // the status with its time, and the artifacts
	}{
		"queued": {func(*world, string) {}, `"state": "submitted"}`, `"state": "TASK_STATE_SUBMITTED"}`},
		"running": {
			func(w *world, run string) { w.claim(run) }, `"state": "working"}`, `"state": "TASK_STATE_WORKING"}`,
		},
		"awaiting input": {
			func(w *world, run string) { w.ask(run, lifecycle.Approval, lifecycle.Clarification) },
			`"state": "input-required", ` + message("asks", `"kind": "message", "role": "agent", "parts": [
				{"kind": "text", "text": "Which i?\nWhich j?"}, {"kind": "data", "data": `+interrupts+`}]`) + `}`,
			`"state": "TASK_STATE_INPUT_REQUIRED", ` + message("asks", `"role": "ROLE_AGENT", "parts": [
				{"text": "Which i?\nWhich j?"}, {"data": `+interrupts+`}]`) + `}`,
		},
		"completed": {
			func(w *world, run string) { w.complete(run, `{"answer":"yes","output":null,"files":[]}`) },
			`"state": "completed"},
				"artifacts": [{"artifactId": "answer", "parts": [{"kind": "text", "text": "yes"}]}]`,
			`"state": "TASK_STATE_COMPLETED"},
				"artifacts": [{"artifactId": "answer", "parts": [{"text": "yes"}]}]`,
		},
		"completed with data and files": {
			func(w *world, run string) {
				w.complete(run, `{"answer":"yes","output":{"n":1},
					"files":[{"file_id":"f","name":"a.png","content_type":"image/png"}]}`)
			},
			`"state": "completed"}, "artifacts": [{"artifactId": "answer", "parts": [
				{"kind": "text", "text": "yes"}, {"kind": "data", "data": {"n": 1}}, {"kind": "file", "file":
					{"uri": "https://api.example.com/api/v1/files/f", "name": "a.png", "mimeType": "image/png"}}]}]`,
			`"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"artifactId": "answer", "parts": [
				{"text": "yes"}, {"data": {"n": 1}},
				{"url": "https://api.example.com/api/v1/files/f", "filename": "a.png", "mediaType": "image/png"}]}]`,
		},
		"failed": {
			func(w *world, run string) {
				w.transition(run, change(lifecycle.Fail{Work: w.claim(run), Error: "no luck"}))
			},
			`"state": "failed", ` + message("error",
				`"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "no luck"}]`) + `}`,
			`"state": "TASK_STATE_FAILED", ` + message("error",
				`"role": "ROLE_AGENT", "parts": [{"text": "no luck"}]`) + `}`,
		},
		"timed out": {
			func(w *world, run string) { w.transition(run, change(lifecycle.TimeOut{Work: w.claim(run)})) },
			`"state": "failed", ` + message("error", `"kind": "message", "role": "agent", "parts": [
				{"kind": "text", "text": "the run reached its active-execution limit of 1m0s"}]`) + `}`,
			`"state": "TASK_STATE_FAILED", ` + message("error", `"role": "ROLE_AGENT", "parts": [
				{"text": "the run reached its active-execution limit of 1m0s"}]`) + `}`,
		},
		"cancelled": {
			func(w *world, run string) { w.transition(run, change(lifecycle.Cancel{Reason: "no"})) },
			`"state": "canceled"}`, `"state": "TASK_STATE_CANCELED"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.task("hello")
			c.work(w, run)
			names := []string{"RUN", run, "CHAT", w.run(run).Chat, "NOW", now}
			params := `{"id":"` + run + `","historyLength":0}`
			assert.Equal(t, fill(t, `{"kind": "task", "id": "RUN", "contextId": "CHAT",
				"status": {"timestamp": "NOW", `+c.old+`}`, names...), w.result("tasks/get", params))
			assert.Equal(t, fill(t, `{"id": "RUN", "contextId": "CHAT",
				"status": {"timestamp": "NOW", `+c.new+`}`, names...), w.result("GetTask", params))
		})
	}
}

func TestATaskHasItsMessageAsHistoryUnlessNoneIsWanted(t *testing.T) {
	w := newWorld(t)
	run := w.task("hello")
	names := []string{"RUN", run, "CHAT", w.run(run).Chat}
	want := map[string]any{
		"tasks/get": fill(t, `[{"kind": "message", "messageId": "RUN-user", "role": "user", "taskId": "RUN",
			"contextId": "CHAT", "parts": [{"kind": "text", "text": "hello"}]}]`, names...),
		"GetTask": fill(t, `[{"messageId": "RUN-user", "role": "ROLE_USER", "taskId": "RUN", "contextId": "CHAT",
			"parts": [{"text": "hello"}]}]`, names...),
	}
	for method, history := range want {
		for length, wanted := range map[string]any{"null": history, "1": history, "9": history, "0": nil, "-1": nil} {
			task := w.result(method, `{"id":"`+run+`","historyLength":`+length+`}`)
			assert.Equal(t, wanted, task["history"], "%s of %s", method, length)
		}
		assert.Equal(t, history, w.result(method, `{"id":"`+run+`"}`)["history"])
	}
	for length, wanted := range map[string]bool{"null": true, "1": true, "0": false} {
		task := w.result("message/send", `{"message":{"parts":[{"text":"x"}]},
			"configuration":{"blocking":false,"historyLength":`+length+`}}`)
		assert.Equal(t, wanted, task["history"] != nil, "message/send of %s", length)
	}
}

// Version 1.0 names the result "task"; in version 0.3 the result has its own kind.
func TestAMessageStartsARunInItsContextAndIsSentOnlyOnce(t *testing.T) {
	w := newWorld(t)
	first := w.send(`{"messageId":"m","contextId":"c","parts":[
		{"kind":"text","text":"  one "},{"kind":"data","data":{"n":1}},{"text":"two"}]}`)
	run := w.run(first["id"].(string))
	assert.Equal(t, "task", first["kind"])
	assert.Equal(t, "c", first["contextId"])
	assert.Equal(t, "  one \n{\"n\":1}\ntwo", run.Input.Message)
	assert.Equal(t, w.agent, run.Agent)
	assert.Equal(t, w.who.User, run.User)
	assert.False(t, run.Watched)
	w.complete(run.ID(), `{}`)

	again := w.result("SendMessage", `{"message":{"messageId":"m","contextId":"c","parts":[{"text":"one"}]}}`)
	assert.Equal(t, run.ID(), again["task"].(object)["id"])
	assert.Len(t, again, 1)
	next := w.run(w.send(`{"messageId":"n","contextId":"c","parts":[{"text":"x"}]}`)["id"].(string))
	assert.Equal(t, 2, next.Turn)
	for range 2 { // messages without an id are never the same
		assert.Equal(t, 1, w.run(w.task("one")).Turn)
	}

	for parts, text := range map[string]string{
		`{"data":7}`: "7", `{"data":{"decisions":[]}}`: `{"decisions":[]}`, // without a task nothing is decided
	} {
		assert.Equal(t, text, w.run(w.send(`{"parts":[` + parts + `]}`)["id"].(string)).Input.Message)
	}

	mine := w.agent
	w.agent = w.other(func(*catalog.AgentSpec) {})
	foreign := w.send(`{"messageId":"m","contextId":"d","parts":[{"text":"one"}]}`)
	assert.NotEqual(t, run.ID(), foreign["id"], "each agent has its own ids of messages")
	w.agent = mine
	assert.Equal(t, run.ID(), w.send(`{"messageId":"m","parts":[{"text":"x"}]}`)["id"])
}

func TestAMessageWaitsForItsRunAtMostForTheWindow(t *testing.T) {
	active := func(w *world) string {
		chat, err := w.Intake.Chat(t.Context(), w.who, "c")
		require.NoError(t, err)
		return chat.Value.ActiveRun
	}
	complete := func(w *world) { w.complete(active(w), `{"answer":"yes"}`) }
	for name, c := range map[string]struct {
		configuration string
		meanwhile     func(w *world)
		state         string
		waits         bool
	}{
		"it ends":                        {`{}`, complete, "completed", true},
		"it ends, and waiting is wanted": {`{"blocking":true,"returnImmediately":false}`, complete, "completed", true},
		"it pauses": {
			`{}`, func(w *world) { w.ask(active(w), lifecycle.Approval) }, "input-required", true,
		},
		"it only begins": {
			`{}`, func(w *world) { w.claim(active(w)); w.waiting.meanwhile = nil }, "working", true,
		},
		"waiting is not wanted":           {`{"blocking":false}`, complete, "submitted", false},
		"waiting is not wanted, in 1.0":   {`{"returnImmediately":true}`, complete, "submitted", false},
		"an immediate answer over a wait": {`{"blocking":true,"returnImmediately":true}`, complete, "submitted", false},
	} {
		w := newWorld(t)
		w.waiting.meanwhile = func() { c.meanwhile(w) }
		task := w.result("message/send",
			`{"message":{"contextId":"c","parts":[{"text":"x"}]},"configuration":`+c.configuration+`}`)
		assert.Equal(t, c.state, task["status"].(object)["state"], name)
		assert.Equal(t, c.waits, w.waiting.waits > 0, name)
		if c.state == "working" {
			assert.Equal(t, w.Window, w.waiting.elapsed, "all of the window has passed")
		}
	}
}

// Only the end of its run wakes a message that waits for longer than the window: a run changes often.
func TestAMessageThatWaitsIsWokenByTheEndOfItsRun(t *testing.T) {
	w := newWorld(t)
	reply := w.reply(request("message/send", some))
	run := reply.Run
	changes := 0
	w.waiting.meanwhile = func() {
		if changes++; changes <= 20 {
			w.Intake.Executor.Notifier.Notify(run)
			return
		}
		w.complete(run, `{"answer":"done"}`)
		w.waiting.meanwhile = nil
	}
	var sent []any
	require.NoError(t, reply.Follow(t.Context(), time.Hour,
		func(message any) error { sent = append(sent, message); return nil }, func() error { return nil }))
	assert.Len(t, sent, 1)
	assert.Equal(t, 1, w.waiting.woken)
}

// A client that loses the right to a run while it waits for the run does not receive its answer.
func TestARightThatEndsWhileAMessageWaitsEndsTheAnswer(t *testing.T) {
	body := []byte(request("message/send", some))
	for name, c := range map[string]struct {
		ends func(w *world, operator tenant.Principal) error
		code string // of the problem that the request is answered with
	}{
		"the key is revoked": {func(w *world, operator tenant.Principal) error {
			return w.Intake.Tenants.RevokeKey(t.Context(), operator, operator.Scope(), w.who.Key)
		}, "invalid_api_key"},
		"the agent is closed": {func(w *world, operator tenant.Principal) error {
			group := w.group()
			_, err := w.Intake.Tenants.EditAgent(t.Context(), operator, w.agent, 0, true, true,
				func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
					s.GroupIDs = []string{group}
					return s, nil
				})
			return err
		}, "insufficient_permission"},
	} {
		w := newWorld(t)
		operator := w.who
		w.who = w.member(operator.Organization)
		w.waiting.meanwhile = func() {
			require.NoError(t, c.ends(w, operator), name)
			w.waiting.meanwhile = nil
		}
		r, err := w.Call(t.Context(), w.who, w.agent, sent(string(body)), seated)
		assert.True(t, problem.Is(err, c.code), "%s: %v", name, err)
		assert.Zero(t, r, name)
	}
}

func TestAPausedTaskTakesTheAnswerThatItWaitsFor(t *testing.T) {
	question, approval := lifecycle.Clarification, lifecycle.Approval
	decisions := `{"kind":"data","data":{"decisions":[
		{"interrupt_id":"i","decision":"edit","arguments":{"n":1},"message":"less"},
		{"interrupt_id":"j","decision":"approve"}]}}`
	decided := []record.Decision{
		{InterruptID: "i", Decision: "edit", Arguments: json.RawMessage(`{"n":1}`), Message: "less"},
		{InterruptID: "j", Decision: "approve"},
	}
	for name, c := range map[string]struct {
		asks    []lifecycle.InterruptKind
		context string
		parts   string
		want    []record.Decision
		code    float64
		text    string
	}{
		"a text to the one question": {
			asks: []lifecycle.InterruptKind{question}, parts: `{"text":"Paris"}`,
			want: []record.Decision{{InterruptID: "i", Decision: "answer", Message: "Paris"}},
		},
		"data to the one question": {
			asks: []lifecycle.InterruptKind{question}, parts: `{"data":{"city":"Paris"}}`,
			want: []record.Decision{{InterruptID: "i", Decision: "answer", Message: `{"city":"Paris"}`}},
		},
		"decisions": {asks: []lifecycle.InterruptKind{approval, approval}, parts: decisions, want: decided},
		"decisions beside a text, in the context of the task": {
			asks: []lifecycle.InterruptKind{approval, approval}, context: "c", parts: `{"text":"well"},` + decisions,
			want: decided,
		},
		"a text to a call that needs approval": {
			asks: []lifecycle.InterruptKind{approval}, parts: `{"text":"yes"}`, code: -32602,
			text: "waits for decisions",
		},
		"a text to two questions": {
			asks: []lifecycle.InterruptKind{question, question}, parts: `{"text":"yes"}`, code: -32602,
			text: "waits for decisions",
		},
		"no decision": {
			asks: []lifecycle.InterruptKind{approval}, parts: `{"data":{"decisions":[]}}`, code: -32602,
			text: "waits for decisions",
		},
		"nothing": {
			asks: []lifecycle.InterruptKind{question}, parts: ``, code: -32602, text: "must contain a text",
		},
		"another context": {
			asks: []lifecycle.InterruptKind{question}, context: "d", parts: `{"text":"Paris"}`, code: -32602,
			text: "message.contextId is not the context of the task",
		},
		"a decision of another pause": {
			asks:  []lifecycle.InterruptKind{approval},
			parts: `{"data":{"decisions":[{"interrupt_id":"x","decision":"approve"}]}}`, code: -32004,
			text: "exactly one decision for each pending interrupt",
		},
		"a verb that does not fit": {
			asks:  []lifecycle.InterruptKind{approval},
			parts: `{"data":{"decisions":[{"interrupt_id":"i","decision":"perhaps"}]}}`, code: -32602,
			text: "decision",
		},
		"a task that runs": {
			parts: `{"text":"Paris"}`, code: -32004, text: "the task is running and accepts no message",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.send(`{"contextId":"c","parts":[{"text":"hello"}]}`)["id"].(string)
			if c.asks == nil {
				w.claim(run)
			} else {
				w.ask(run, c.asks...)
			}
			before := w.run(run)
			params := `{"message":{"taskId":"` + run + `","contextId":"` + c.context + `","parts":[` + c.parts + `]},
				"configuration":{"blocking":false}}`
			if c.code != 0 {
				code, text := w.refusal("message/send", params)
				assert.InDelta(t, c.code, code, 0)
				assert.Contains(t, text, c.text)
				assert.Equal(t, before, w.run(run), "nothing has changed")
				return
			}
			task := w.result("message/send", params)
			assert.Equal(t, run, task["id"])
			assert.Equal(t, "submitted", task["status"].(object)["state"])
			stored, found, err := w.Store.LastDecision(t.Context(), run, 1)
			require.NoError(t, err)
			require.True(t, found)
			assert.Equal(t, c.want, stored.List)
			assert.Equal(t, w.who.User, stored.By)
		})
	}
}

func TestATaskIsCancelledOnceAndNotAfterItsEnd(t *testing.T) {
	for method, words := range map[string]struct{ working, cancelled string }{
		"tasks/cancel": {"working", "canceled"},
		"CancelTask":   {"TASK_STATE_WORKING", "TASK_STATE_CANCELED"},
	} {
		w := newWorld(t)
		queued, running := w.task("x"), w.task("x")
		w.claim(running)
		task := w.result(method, `{"id":"`+queued+`"}`)
		assert.Equal(t, words.cancelled, task["status"].(object)["state"])
		assert.Equal(t, "cancelled through A2A", w.run(queued).CancelReason)
		assert.Equal(t, lifecycle.Cancelled, w.run(queued).Status)
		code, text := w.refusal(method, `{"id":"`+queued+`"}`)
		assert.InDelta(t, -32002, code, 0)
		assert.Equal(t, "the task has ended", text)

		for range 2 {
			task = w.result(method, `{"id":"`+running+`"}`)
			assert.Equal(t, words.working, task["status"].(object)["state"], "its worker stops soon")
			assert.True(t, w.run(running).CancelRequested)
		}
	}
}

// A list has the tasks of those chats alone that its reader sees.
func TestAListHasNoTaskOfAChatOutOfSight(t *testing.T) {
	w := newWorld(t)
	admin, member, shared := w.who, w.member(w.who.Organization), w.agent
	private := w.other(func(s *catalog.AgentSpec) { s.ChatVisibility = catalog.SeesOwn })
	begin := func(agent, chat string) string {
		w.agent = agent
		run := w.send(`{"contextId":"` + chat + `","parts":[{"text":"x"}]}`)["id"].(string)
		w.complete(run, `{"answer":"done"}`)
		return run
	}
	open := begin(shared, "both")
	hidden := []string{begin(private, "both"), begin(private, "alone")}
	w.who = member
	own := begin(private, "mine")
	listed := func(who tenant.Principal, agent, params string) (ids []string) {
		w.who, w.agent = who, agent
		for _, task := range w.result("ListTasks", params)["tasks"].([]any) {
			ids = append(ids, task.(object)["id"].(string))
		}
		return ids
	}
	for _, params := range []string{`{}`, `{"pageSize":1}`} {
		assert.Equal(t, []string{own}, listed(member, private, params), params)
		assert.Equal(t, []string{open}, listed(member, shared, params), params)
	}
	assert.Empty(t, listed(member, private, `{"contextId":"both"}`))
	assert.Empty(t, listed(member, private, `{"contextId":"alone"}`))
	assert.Equal(t, []string{own, hidden[1], hidden[0]}, listed(admin, private, `{}`))
	_, err := w.Call(t.Context(), member, private, sent(request("tasks/get", `{"id":"`+hidden[0]+`"}`)), seated)
	assert.True(t, problem.Is(err, "insufficient_permission"), "%v", err)
}
