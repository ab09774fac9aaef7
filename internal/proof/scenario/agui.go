package scenario

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exchange has the events that a front end received for a request of AG-UI.
type exchange struct {
	x      *Actor
	run    string
	events []object
}

// frontEnd is a thread, as a front end of AG-UI keeps it.
type frontEnd struct {
	x             *Actor
	agent, thread string
	messages      []object
	more          object // of each request
}

func (x *Actor) frontEnd(agent, thread string) *frontEnd {
	return &frontEnd{x: x, agent: agent, thread: thread, more: object{}}
}

func (f *frontEnd) addMessage(id, text string) *frontEnd {
	f.messages = append(f.messages, object{"id": id, "role": "user", "content": text})
	return f
}

func (f *frontEnd) body(run string) object {
	body := object{"threadId": f.thread, "runId": run, "protocolVersion": "1.0", "messages": f.messages}
	for name, v := range f.more {
		body[name] = v
	}
	return body
}

// open sends a request and returns its open stream.
func (f *frontEnd) open(run string) (*http.Response, *bufio.Scanner) {
	f.x.Helper()
	r := f.x.request(http.MethodPost, "/agui/"+f.agent, strings.NewReader(jsonOf(f.body(run))),
		"Content-Type", "application/json", "Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r.WithContext(f.x.Context()))
	require.NoError(f.x, err)
	f.x.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(f.x, 200, response.StatusCode)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 8<<20)
	return response, lines
}

// runs sends a request, and adds the received messages to the thread.
func (f *frontEnd) runs(run string) exchange {
	f.x.Helper()
	response, lines := f.open(run)
	e := exchange{x: f.x, run: response.Header.Get("X-Agent-Run-Id")}
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			var one object
			require.NoError(f.x, json.Unmarshal([]byte(data), &one))
			e.events = append(e.events, one)
			f.apply(one)
		}
	}
	require.NoError(f.x, lines.Err())
	require.NotEmpty(f.x, e.events)
	assert.Equal(f.x, "RUN_STARTED", e.events[0]["type"])
	return e
}

// apply changes the thread as the protocol requires of a front end.
func (f *frontEnd) apply(e object) {
	find := func(id any) object {
		for _, m := range f.messages {
			if m["id"] == id {
				return m
			}
		}
		m := object{"id": id, "role": "assistant", "content": ""}
		f.messages = append(f.messages, m)
		return m
	}
	switch e["type"] {
	case "TEXT_MESSAGE_CONTENT":
		m := find(e["messageId"])
		m["content"] = m["content"].(string) + e["delta"].(string)
	case "TOOL_CALL_START":
		m := find(e["parentMessageId"])
		calls, _ := m["toolCalls"].([]any)
		m["toolCalls"] = append(calls, object{"id": e["toolCallId"], "type": "function",
			"function": object{"name": e["toolCallName"], "arguments": "{}"}})
	case "TOOL_CALL_RESULT":
		f.messages = append(f.messages, object{"id": e["messageId"], "role": "tool", "content": e["content"],
			"toolCallId": e["toolCallId"]})
	case "MESSAGES_SNAPSHOT":
		f.messages = nil
		for _, m := range e["messages"].([]any) {
			f.messages = append(f.messages, m.(object))
		}
	}
}

// text returns the agent's text in the thread since the user's last message, without texts of other activities.
func (f *frontEnd) text() string {
	var list []string
	for _, m := range slices.Backward(f.messages) {
		if m["role"] == "user" {
			break
		}
		if content, _ := m["content"].(string); m["role"] == "assistant" && content != "" {
			list = append(list, content)
		}
	}
	slices.Reverse(list)
	return strings.Join(list, "|")
}

func (e exchange) end() object { return e.events[len(e.events)-1] }

func (e exchange) outcome() object {
	e.x.Helper()
	require.Equal(e.x, "RUN_FINISHED", e.end()["type"], "%v", e.end())
	return e.end()["outcome"].(object)
}

// of returns the first event of a type.
func (e exchange) of(kind string) object {
	e.x.Helper()
	n := slices.IndexFunc(e.events, func(o object) bool { return o["type"] == kind })
	require.GreaterOrEqual(e.x, n, 0, "no %s in %v", kind, e.events)
	return e.events[n]
}

// The endpoint for front ends that speak AG-UI.
func aguiScenarios() []Story {
	return []Story{
		{Name: "agui/a thread is a chat, and a request that is sent again is heard again", Run: func(x *Actor) {
			f := x.frontEnd(x.Agent, "talk-1").addMessage("u1", "hello")
			first := f.runs("r1")
			assert.Equal(x, object{"type": "success"}, first.outcome())
			assert.Equal(x, "1.0", first.events[0]["protocolVersion"])
			assert.Equal(x, "You said: hello", f.text())
			assert.Equal(x, "You said: hello", first.end()["result"].(object)["answer"])
			assert.Equal(x, "talk-1", x.get("/runs/"+first.run).is(200).text("chat_id"))
			assert.Equal(x, first.run, f.runs("r1").run, "by its id")
			assert.Equal(x, first.run, f.runs("r2").run, "since it brings nothing new")
			assert.Equal(x, "You said: hello", f.text())
			assert.Len(x, f.messages, 2)

			second := f.addMessage("u2", "again").runs("r3")
			assert.Equal(x, 2.0, x.get("/runs/"+second.run).is(200).number("turn"))
			assert.Equal(x, "You said: again", f.text())
			failed := f.addMessage("u3", "/fail no luck").runs("r4").end()
			assert.Equal(x, "RUN_ERROR", failed["type"])
			assert.Contains(x, failed["message"], "no luck")
		}},
		{Name: "agui/a front end executes its tools", Run: func(x *Actor) {
			f := x.frontEnd(x.Agent, "talk-2").addMessage("u1", "do it\n"+tool("paint", object{"color": "red"}))
			f.more["tools"] = []object{{"name": "paint", "description": "Paints.", "parameters": object{
				"type": "object", "properties": object{"color": object{"type": "string"}}}}}
			first := f.runs("r1")
			call := first.of("TOOL_CALL_START")
			assert.Equal(x, "paint", call["toolCallName"])
			assert.JSONEq(x, `{"color":"red"}`, first.of("TOOL_CALL_ARGS")["delta"].(string))
			assert.Equal(x, object{"type": "success", "pendingToolCallIds": []any{call["toolCallId"]}}, first.outcome())
			f.messages = append(f.messages,
				object{"id": "t1", "role": "tool", "toolCallId": call["toolCallId"], "content": "painted"})
			second := f.runs("r2")
			assert.Equal(x, first.run, second.run)
			assert.Equal(x, object{"type": "success"}, second.outcome())
			assert.Equal(x, "You said: do it|Answer: painted", strings.ReplaceAll(f.text(), "\n", ""))
			assert.Equal(x, first.run, f.runs("r2").run, "the request is sent again")
			assert.Equal(x, "You said: do it|Answer: painted", strings.ReplaceAll(f.text(), "\n", ""))

			f.addMessage("u2", tool("paint", object{"color": "blue"})).runs("r3")
			pending := f.messages[len(f.messages)-1]["toolCalls"].([]any)[0].(object)["id"]
			f.messages = append(f.messages,
				object{"id": "t2", "role": "tool", "toolCallId": pending, "content": "done"})
			both := f.addMessage("u3", "and hello").runs("r4")
			assert.Equal(x, object{"type": "success"}, both.outcome())
			assert.Contains(x, f.text(), "Answer: done")
			assert.Contains(x, f.text(), "You said: and hello", "what the user said meanwhile is answered, too")

			f.addMessage("u4", tool("paint", object{"color": "green"})).runs("r5")
			assert.Equal(x, object{"type": "success"}, f.addMessage("u5", "never mind").runs("r6").outcome())
			assert.Contains(x, f.text(), "Answer: (no output: the user continued without it)")
			assert.Contains(x, f.text(), "You said: never mind")
		}},
		{Name: "agui/approvals and questions are interrupts", Run: func(x *Actor) {
			f := x.frontEnd(x.careful(), "talk-3").addMessage("u1", tool("echo", object{"text": "a"}))
			outcome := f.runs("r1").outcome()
			assert.Equal(x, "interrupt", outcome["type"])
			one := outcome["interrupts"].([]any)[0].(object)
			assert.Equal(x, "tool_call", one["reason"])
			edits := func(text any) {
				f.more["resume"] = []object{{"interruptId": one["id"], "status": "resolved",
					"payload": object{"approved": true, "editedArgs": object{"text": text}}}}
			}
			edits(7)
			wrong := x.post("/agui/"+f.agent, f.body("r2")).names("text: got number, want string")
			assert.Equal(x, "body.resume[0].payload.editedArgs", wrong.text("errors", 0, "location"))
			edits("b")
			second := f.runs("r2")
			assert.Equal(x, object{"type": "success"}, second.outcome())
			result := second.of("TOOL_CALL_RESULT")
			assert.Equal(x, one["toolCallId"], result["toolCallId"], "it is the call that was approved")
			assert.Equal(x, "b", result["content"])
			assert.Equal(x, "echo → b", f.text())
			f.more["resume"] = []object{{"interruptId": one["id"], "status": "cancelled"}}
			assert.Equal(x, second.run, f.runs("r3").run, "answers of a thread that went on are its history")

			delete(f.more, "resume")
			outcome = f.addMessage("u2", "/ask Which city?").runs("r4").outcome()
			one = outcome["interrupts"].([]any)[0].(object)
			assert.Equal(x, "Which city?", one["message"])
			f.more["resume"] = []object{{"interruptId": one["id"], "status": "resolved", "payload": "Paris"}}
			f.runs("r5")
			assert.Equal(x, "Answer: Paris", f.text())
		}},
		{Name: "agui/a connection that was cut is taken up", Run: func(x *Actor) {
			f := x.frontEnd(x.Agent, "talk-4").addMessage("u1", "count\n/stream 30 100ms")
			response, lines := f.open("r1")
			for lines.Scan() {
				if strings.Contains(lines.Text(), "TEXT_MESSAGE_CONTENT") {
					break
				}
			}
			var one object
			require.NoError(x, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &one))
			f.apply(one)
			require.NoError(x, response.Body.Close())
			again := f.runs("r1")
			assert.NotEmpty(x, again.of("MESSAGES_SNAPSHOT"))
			assert.Equal(x, object{"type": "success"}, again.outcome())
			assert.Contains(x, f.text(), "count\n1 2 3 ")
			assert.True(x, strings.HasSuffix(f.text(), " 29 30"), f.text())
			assert.Equal(x, f.text(), x.get("/runs/"+again.run).is(200).text("result", "answer"))
		}},
		{Name: "agui/what is wrong is named, and a thread of others is closed", Run: func(x *Actor) {
			f := x.frontEnd(x.Agent, "talk-5").addMessage("u1", "hello")
			for field, change := range map[string]object{
				"body.threadId":         {"threadId": "a/b"},
				"body.runId":            {"runId": ""},
				"body.messages":         {"messages": []object{}},
				"body.messages[0].role": {"messages": []object{{"id": "m", "role": 7}}},
				"body.messages[1].toolCallId": {"messages": []object{f.messages[0],
					{"id": "t", "role": "tool", "toolCallId": "no"}}},
				"body.tools[1].name": {"tools": []object{{"name": "a"}, {"name": "a"}}},
				"body.resume":        {"resume": "yes"},
			} {
				body := f.body("r1")
				for name, v := range change {
					body[name] = v
				}
				a := x.post("/agui/"+x.Agent, body).problem(400, "invalid_request")
				assert.Contains(x, a.raw, field)
			}
			x.post("/agui/nowhere", f.body("r1")).problem(404, "not_found")
			f.runs("r1")
			y := newActor(x.T, x.world, x.receiver)
			y.post("/agui/"+x.Agent, f.body("r1")).problem(403, "outside_organization")
			other := y.frontEnd(y.Agent, "talk-5").addMessage("u1", "mine")
			assert.NotEqual(x, "", other.runs("r1").run, "a thread's id is an organization's own")
			assert.Equal(x, "You said: mine", other.text())
		}},
	}
}
