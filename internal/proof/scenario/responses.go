package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// weather is a function of the client's, as Open Responses has it.
var weather = object{
	"type": "function", "name": "get_weather",
	"parameters": object{
		"type":       "object",
		"properties": object{"place": object{"type": "string"}},
		"required":   []string{"place"},
	},
}

const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAf" +
	"FcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// respond sends a request to the actor's agent, with further members.
func (x *Actor) respond(input any, more ...any) reply {
	x.Helper()
	body := object{"model": x.Agent, "input": input}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return x.post("/responses", body)
}

// output returns the first item of a response of that type.
func (a reply) output(kind string) object {
	a.x.Helper()
	for _, item := range a.list("output") {
		if item.(object)["type"] == kind {
			return item.(object)
		}
	}
	require.Fail(a.x, "no "+kind, a.raw)
	return nil
}

// messageText returns the text of a response's message.
func (a reply) messageText() string {
	a.x.Helper()
	content := a.is(200).output("message")["content"].([]any)
	return content[0].(object)["text"].(string)
}

// events reads a stream of Open Responses until enough returns true, and returns its events. It fails if the stream
// ends earlier.
func (x *Actor) events(r *http.Request, enough func(object) bool) (events []object) {
	x.Helper()
	response, err := client.Do(r)
	require.NoError(x, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(x, 200, response.StatusCode)
	require.Contains(x, response.Header.Get("Content-Type"), "text/event-stream")
	name, ended := "", false
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		assert.False(x, strings.HasPrefix(line, "id:"), "events are known by sequence_number")
		if event, is := strings.CutPrefix(line, "event: "); is {
			name = event
		}
		data, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		if ended = data == "[DONE]"; ended {
			break
		}
		var event object
		require.NoError(x, json.Unmarshal([]byte(data), &event), data)
		assert.Equal(x, name, event["type"])
		if n := len(events); n > 0 {
			assert.Greater(x, event["sequence_number"], events[n-1]["sequence_number"], data)
		}
		if events = append(events, event); enough != nil && enough(event) {
			return events
		}
	}
	require.True(x, ended, "the stream ends with [DONE]: %v", events)
	return events
}

func deltas(events []object) (text string) {
	for _, e := range events {
		if e["type"] == "response.output_text.delta" {
			text += e["delta"].(string)
		}
	}
	return text
}

// The endpoints for clients of Open Responses.
func responsesScenarios() []Story {
	return append(orderOfResponses(), []Story{
		{Name: "responses/a response is a run, a conversation a chat", Run: func(x *Actor) {
			first := x.respond("hello", "metadata", object{"a": "b"}, "instructions", "Be brief.")
			assert.Equal(x, "You said: hello", first.messageText())
			assert.Equal(x, "completed", first.text("status"))
			assert.Equal(x, "Be brief.", first.text("instructions"))
			assert.Equal(x, "b", first.text("metadata", "a"))
			assert.Positive(x, first.number("usage", "total_tokens"))
			run := first.header.Get("X-Agent-Run-Id")
			assert.Equal(x, "resp_"+run, first.text("id"))
			assert.Equal(x, "hello", x.get("/runs/"+run+"/messages").is(200).text("messages", 0, "content"))
			read := x.get("/responses/" + first.text("id")).is(200)
			assert.Equal(x, first.body, read.body)
			assert.Equal(
				x,
				304,
				x.get("/responses/"+first.text("id"), "If-None-Match", read.header.Get("ETag")).status,
			)
			inputs := x.get("/responses/" + first.text("id") + "/input_items").is(200)
			assert.Equal(x, "hello", inputs.text("data", 0, "content", 0, "text"))

			system := []object{
				{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "hi"},
				{"role": "system", "content": "Be calm."},
			}
			for _, own := range []any{nil, "Be brief."} {
				of := x.respond(system, "instructions", own).is(200)
				assert.Equal(x, own, of.at("instructions"), "without the messages of the input")
				given := x.get("/responses/" + of.text("id") + "/input_items?order=asc").is(200)
				for i, want := range []string{"developer Be kind.", "system Be calm.", "user hi"} {
					assert.Equal(x, want, given.text("data", i, "role")+" "+given.text("data", i, "content", 0, "text"))
				}
			}

			second := x.respond("again", "previous_response_id", first.text("id")).is(200)
			assert.Equal(x, first.text("conversation", "id"), second.text("conversation", "id"))
			assert.Equal(x, first.text("id"), second.text("previous_response_id"))
			x.respond("late", "previous_response_id", first.text("id")).names("previous_response_id")
			again := x.respond("again", "previous_response_id", first.text("id")).is(200)
			assert.Equal(x, second.text("id"), again.text("id"), "the request is sent again")
			for field, value := range map[string]any{"temperature": 0.5, "metadata": object{"a": "b"}} {
				x.respond("again", "previous_response_id", first.text("id"), field, value).names("previous_response_id")
			}
			third := x.respond("and", "previous_response_id", first.text("conversation", "id")).is(200)
			assert.Nil(x, third.at("previous_response_id"), "it is the id of a conversation")
			x.respond("x", "previous_response_id", third.text("conversation", "id"), "store", false).names("store")
			x.respond("again", "previous_response_id", first.text("id")).names("previous_response_id")
			third = x.respond("and", "conversation", object{"id": first.text("conversation", "id")}).is(200)
			assert.Equal(x, first.text("conversation", "id"), third.text("conversation", "id"))
			x.delete("/responses/"+third.text("id")).problem(409, "conflict")

			alone := x.respond("alone")
			assert.Equal(x, true, x.delete("/responses/"+alone.text("id")).is(200).at("deleted"))
			x.get("/responses/"+alone.text("id")).problem(404, "not_found")
			failed := x.respond("/fail no luck").is(200)
			assert.Equal(x, "failed", failed.text("status"))
			assert.Contains(x, failed.text("error", "message"), "no luck")
			assert.Equal(x, "server_error", failed.text("error", "type"))
		}},
		{Name: "responses/the same request with one key is one run", Run: func(x *Actor) {
			send := func() reply {
				return x.post("/responses", object{"model": x.Agent, "input": "once"}, "Idempotency-Key", "k1").
					is(200)
			}
			first := send()
			again := send()
			assert.Equal(x, first.text("id"), again.text("id"))
			assert.Equal(x, "true", again.header.Get("Idempotent-Replayed"))
			assert.Empty(x, again.header.Get("Idempotent-Mismatch"))
			other := x.post("/responses", object{"model": x.Agent, "input": "twice"}, "Idempotency-Key", "k1").is(200)
			assert.Equal(x, first.text("id"), other.text("id"))
			assert.Equal(x, "true", other.header.Get("Idempotent-Mismatch"))
			next := func(input, key string, more ...any) reply {
				body := object{"model": x.Agent, "input": input}
				for i := 0; i+1 < len(more); i += 2 {
					body[more[i].(string)] = more[i+1]
				}
				return x.post("/responses", body, "Idempotency-Key", key).is(200)
			}
			second := next("/ask Which?", "k2", "previous_response_id", first.text("id"))
			assert.Equal(
				x,
				second.text("id"),
				next("/ask Which?", "k2", "previous_response_id", first.text("id")).text("id"),
			)
			chat := second.text("conversation", "id")
			answered := next("this", "k3", "conversation", chat)
			assert.Equal(x, second.text("id")+"_1", answered.text("id"))
			assert.Equal(x, answered.text("id"), next("this", "k3", "conversation", chat).text("id"))
			assert.Equal(
				x,
				"this",
				x.get("/responses/"+answered.text("id")+"/input_items").
					is(200).
					text("data", 0, "content", 0, "text"),
			)
		}},
		{Name: "responses/a conversation goes on with all that it began with", Run: func(x *Actor) {
			first := x.respond([]object{
				{"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": "Hello Ann."},
				{"role": "user", "content": "one"},
			}).is(200)
			second := x.respond("two", "previous_response_id", first.text("id")).is(200)
			more := second.number("usage", "input_tokens") - first.number("usage", "input_tokens")
			assert.Positive(x, more, "the model is shown the whole of it again")
		}},
		{Name: "responses/a stream is taken up behind any event", Run: func(x *Actor) {
			post := func(input string) *http.Request {
				return x.request(http.MethodPost, "/responses", strings.NewReader(jsonOf(object{
					"model": x.Agent, "input": input, "stream": true,
				})), "Content-Type", "application/json")
			}
			all := x.events(post("count\n/stream 5 30ms"), nil)
			want := "You said: count\n1 2 3 4 5"
			assert.Equal(x, want, deltas(all))
			last := all[len(all)-1]
			assert.Equal(x, "response.completed", last["type"])
			id := last["response"].(object)["id"].(string)
			for _, n := range []int{0, 1, 3, len(all) / 2, len(all) - 2} {
				after := all[n]["sequence_number"].(float64)
				rest := x.events(x.request(http.MethodGet,
					fmt.Sprintf("/responses/%s?stream=true&starting_after=%.0f", id, after), nil), nil)
				assert.Equal(x, want, deltas(all[:n+1])+deltas(rest))
				assert.Equal(x, last, rest[len(rest)-1])
			}
			// one that is under way
			begun := x.events(post("count\n/stream 20 100ms"), func(e object) bool {
				return e["type"] == "response.output_text.delta"
			})
			id = begun[0]["response"].(object)["id"].(string)
			rest := x.events(
				x.request(http.MethodGet, fmt.Sprintf("/responses/%s?stream=true&starting_after=%.0f", id,
					begun[len(begun)-1]["sequence_number"]), nil),
				nil,
			)
			whole := x.get("/responses/" + id).messageText()
			assert.Equal(x, whole, deltas(begun)+deltas(rest))
		}},
		{Name: "responses/a part begins with its own text, and has breaks within", Run: func(x *Actor) {
			message := strings.Join([]string{"first", tool("echo", object{"text": "2"}), "/stream 1 1ms",
				"/ask Which?", "/stream 1 1ms", tool("echo", object{"text": "3"})}, "\n")
			paused := x.respond(message).is(200)
			assert.Equal(x, "You said: first\n\necho → 2\n1", paused.messageText())
			all := x.events(x.request(http.MethodPost, "/responses", strings.NewReader(jsonOf(object{
				"model": x.Agent, "input": "this", "stream": true, "previous_response_id": paused.text("id"),
			})), "Content-Type", "application/json"), nil)
			want := "Answer: this\n1\n\necho → 3"
			assert.Equal(x, want, deltas(all))
			id := all[len(all)-1]["response"].(object)["id"].(string)
			assert.Equal(x, want, x.get("/responses/"+id).messageText())
		}},
		{Name: "responses/a function of the client pauses the run", Run: func(x *Actor) {
			ask := "first\n" + tool("get_weather", object{"place": "Oslo"})
			paused := x.respond(ask, "tools", []object{weather}).is(200)
			call := paused.output("function_call")
			assert.Equal(x, "completed", paused.text("status"))
			assert.Equal(x, "get_weather", call["name"])
			assert.JSONEq(x, `{"place":"Oslo"}`, call["arguments"].(string))
			run := paused.header.Get("X-Agent-Run-Id")
			waits := x.get("/runs/" + run).is(200)
			assert.Equal(x, "awaiting_input", waits.text("status"))
			assert.Equal(x, "get_weather", waits.text("interrupts", 0, "tool", "name"))

			answer := func(call string) []object {
				return []object{{"type": "function_call_output", "call_id": call, "output": "cold"}}
			}
			id := paused.text("id")
			x.respond("hm?", "previous_response_id", id).names("input")
			x.respond("hm?", "conversation", paused.text("conversation", "id")).problem(409, "chat_busy")
			x.chat("message", "hm?", "chat_id", paused.text("conversation", "id")).problem(409, "chat_busy")
			x.respond(answer("call_"+run+"_0123456789abcdef01234567"), "previous_response_id", id).names("input")
			x.respond(answer("call_x"), "previous_response_id", id).names("call_id")
			for field, value := range map[string]any{"metadata": object{"a": "b"}, "store": false} {
				x.respond(answer(call["call_id"].(string)), "previous_response_id", id, field, value).names(field)
			}
			next := x.respond(
				answer(call["call_id"].(string)),
				"previous_response_id",
				id,
				"tools",
				[]object{weather},
			)
			assert.Contains(x, next.messageText(), "cold")
			assert.Equal(x, "resp_"+run+"_1", next.text("id"))
			assert.Equal(x, id, next.text("previous_response_id"))
			again := x.respond(answer(call["call_id"].(string)), "previous_response_id", id)
			assert.Equal(x, next.text("id"), again.text("id"), "the request is sent again")
			assert.Equal(
				x,
				"cold",
				x.get("/responses/"+next.text("id")+"/input_items").is(200).text("data", 0, "output"),
			)
			assert.Equal(x, paused.body, x.get("/responses/"+id).is(200).body, "the response before stays as it was")
			for _, of := range []string{id, next.text("id")} {
				x.delete("/responses/"+of).problem(409, "conflict")
			}
			x.get("/responses/resp_"+run+"_2").problem(404, "not_found")

			// the model of the next response receives the call and its output, too
			after := func(output string) float64 {
				long := x.respond(ask, "tools", []object{weather}).is(200)
				id := long.output("function_call")["call_id"]
				ended := x.respond([]object{
					{"type": "function_call_output", "call_id": id, "output": output},
				}, "previous_response_id", long.text("id")).is(200)
				return x.respond("again", "previous_response_id", ended.text("id")).is(200).
					number("usage", "input_tokens")
			}
			longer := after(strings.TrimSpace(strings.Repeat("cold ", 100))) - after("cold")
			assert.InDelta(x, 2*99, longer, 0, "words of the output, which the answer has, too")

			// of a client that keeps the conversation
			paused = x.respond(ask, "tools", []object{weather}).is(200)
			call = paused.output("function_call")
			history := append([]any{object{"role": "user", "content": ask}}, paused.list("output")...)
			history = append(history, answer(call["call_id"].(string))[0])
			more := object{"role": "user", "content": "and more"}
			x.respond(append(history[:len(history):len(history)], more), "tools", []object{weather}).
				names(fmt.Sprintf("input[%d]", len(history)))
			x.respond([]object{history[len(history)-1].(object), more},
				"previous_response_id", paused.text("id")).names("input[1]")
			next = x.respond(history, "tools", []object{weather})
			assert.Equal(x, "resp_"+paused.header.Get("X-Agent-Run-Id")+"_1", next.text("id"))
			history = append(history, next.list("output")[0], object{"role": "user", "content": "thanks"})
			assert.Equal(x, "You said: thanks", x.respond(history, "tools", []object{weather}).messageText())

			// only the last run of a conversation counts here, with any end of the earlier runs
			gone := x.respond(ask, "tools", []object{weather}).is(200)
			waits = x.respond(ask, "tools", []object{weather})
			x.post("/responses/"+gone.text("id")+"/cancel", nil).is(200)
			history = []any{}
			for _, of := range []reply{gone, waits} {
				call := of.output("function_call")
				history = append(history, object{"role": "user", "content": ask}, call,
					answer(call["call_id"].(string))[0])
			}
			x.respond(append(history, more), "tools", []object{weather}).names("input[6]")

			y := newActor(x.T, x.world, x.receiver)
			y.respond(answer(call["call_id"].(string))).problem(403, "outside_organization")
			refused := y.respond("x", "previous_response_id", paused.text("id")).problem(403, "outside_organization")
			assert.Equal(x, "invalid_request", refused.text("error", "type"))
			y.respond([]object{{"type": "item_reference", "id": paused.list("output")[0].(object)["id"]}}).
				names("input[0].id")
		}},
		{Name: "responses/what is sent with an output holds from then on", Run: func(x *Actor) {
			other := object{"type": "function", "name": "other", "parameters": object{"type": "object"}}
			paused := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather},
				"instructions", "Be kind.", "tool_choice", "required", "top_p", 0.5).is(200)
			assert.Equal(x, "required", paused.text("tool_choice"))
			outputOf := func(a reply) []object {
				return []object{{"type": "function_call_output", "call_id": a.output("function_call")["call_id"],
					"output": "transferred"}}
			}
			next := x.respond(outputOf(paused), "previous_response_id", paused.text("id"), "instructions", "Be rude.",
				"tools", []object{other}, "temperature", 0.5, "parallel_tool_calls", false,
				"tool_choice", object{"type": "function", "name": "other"},
				"reasoning", object{"effort": "low"}).is(200)
			assert.Contains(x, next.messageText(), "transferred")
			for _, a := range []reply{next, x.get("/responses/" + next.text("id")).is(200)} {
				assert.Equal(x, []any{"Be rude.", "other", 0.5, 0.5, false, "other", "low"}, []any{
					a.text("instructions"), a.text("tools", 0, "name"), a.at("temperature"), a.at("top_p"),
					a.at("parallel_tool_calls"), a.text("tool_choice", "name"), a.text("reasoning", "effort"),
				})
			}
			assert.Equal(x, paused.body, x.get("/responses/"+paused.text("id")).is(200).body)
			assert.Equal(x, next.text("id"), x.respond(outputOf(paused), "previous_response_id", paused.text("id"),
				"instructions", "Be rude.").is(200).text("id"), "it is sent again")

			first := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather},
				"top_p", 0.5).is(200)
			without := x.respond(outputOf(first), "previous_response_id", first.text("id"), "tools", []object{},
				"top_p", 1).is(200)
			assert.Equal(x, []any{[]any{}, 1.0}, []any{without.at("tools"), without.at("top_p")}, "it has none now")

			again := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather}).is(200)
			for field, value := range map[string]any{
				"tools[0].name": []object{{"type": "function", "name": "ask_user", "parameters": object{}}},
				"tools[0].type": []object{{"type": "web_search"}},
			} {
				x.respond(outputOf(again), "previous_response_id", again.text("id"), "tools", value).names(field)
			}
			x.respond(outputOf(again), "previous_response_id", again.text("id"), "tool_choice",
				object{"type": "function", "name": "other"}).names("tool_choice")
			assert.Contains(x, x.respond(outputOf(again), "previous_response_id", again.text("id"),
				"tools", []object{weather}).is(200).messageText(), "transferred")
		}},
		{Name: "responses/one that is not stored is deleted with its chat", Run: func(x *Actor) {
			a := x.respond("x", "store", false).is(200)
			assert.Equal(x, false, a.at("store"))
			assert.Equal(x, "You said: x", a.messageText())
			x.respond("y", "previous_response_id", a.text("id")).problem(404, "not_found")
			stored := x.respond("x").is(200)
			x.respond("y", "previous_response_id", stored.text("id"), "store", false).names("store")
			x.respond("y", "conversation", stored.text("conversation", "id"), "store", false).names("store")
			x.respond("y", "background", true, "store", false).names("store")

			paused := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather},
				"store", false).is(200)
			history := []any{object{"role": "user", "content": tool("get_weather", object{"place": "Oslo"})}}
			history = append(append(history, paused.list("output")...), object{"type": "function_call_output",
				"call_id": paused.output("function_call")["call_id"], "output": "cold"})
			next := x.respond(history, "tools", []object{weather}, "store", false).is(200)
			assert.Contains(x, next.messageText(), "cold")
			assert.Equal(x, false, next.at("store"))
		}},
		{Name: "responses/a question is a message, an approval an MCP approval request", Run: func(x *Actor) {
			paused := x.respond("/ask Which city?")
			assert.Equal(x, "Which city?", paused.messageText())
			for range 2 { // it is sent again
				assert.Equal(x, "Answer: Oslo",
					x.respond("Oslo", "previous_response_id", paused.text("id")).messageText())
			}
			x.respond("Rome", "previous_response_id", paused.text("id")).names("previous_response_id")

			paused = x.respond("/ask Which city?", "tools", []object{weather}, "instructions", "Be brief.").is(200)
			other := x.careful()
			for _, with := range [][]any{
				{"previous_response_id", paused.text("id")}, {"conversation", paused.text("conversation", "id")},
			} {
				for field, value := range map[string]any{
					"model": other, "instructions": "Be rude.", "tools": []object{{"type": "function", "name": "g"}},
					"metadata": object{"a": "b"}, "temperature": 0.5, "max_output_tokens": 20,
					"text": object{"format": object{"type": "json_object"}},
				} {
					x.respond("Oslo", append(with, field, value)...).names(field)
				}
				x.respond([]object{
					{"role": "assistant", "content": "Where?"}, {"role": "user", "content": "Oslo"},
				}, with...).names("input")
			}
			assert.Equal(x, "Answer: Oslo", x.respond("Oslo", "conversation", paused.text("conversation", "id"),
				"tools", []object{weather}, "instructions", "Be brief.").messageText())

			kind := object{"role": "developer", "content": "Be kind."}
			for _, own := range []any{nil, "Be brief."} {
				for _, again := range [][]object{{}, {kind}} {
					paused := x.respond([]object{kind, {"role": "user", "content": "/ask Which city?"}},
						"instructions", own)
					respond := func(messages ...object) reply {
						return x.respond(append(messages, object{"role": "user", "content": "Oslo"}),
							"previous_response_id", paused.is(200).text("id"), "instructions", own)
					}
					respond(object{"role": "system", "content": "Be rude."}).names("input")
					assert.Equal(x, "Answer: Oslo", respond(again...).messageText())
				}
			}

			careful := x.careful()
			wanted := x.respond(tool("echo", object{"text": "a"}), "model", careful).is(200)
			request := wanted.output("mcp_approval_request")
			assert.Equal(x, "echo", request["name"])
			decide := func(approve any) []object {
				return []object{
					{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve},
				}
			}
			for _, bad := range []any{nil, "yes"} {
				x.respond(decide(bad), "model", careful, "previous_response_id", wanted.text("id")).names("approve")
			}
			for range 2 { // it is sent again
				done := x.respond(decide(true), "model", careful, "previous_response_id", wanted.text("id"))
				assert.Equal(x, "echo → a", done.messageText())
			}
		}},
		{Name: "responses/one in the background is followed and cancelled", Run: func(x *Actor) {
			slow := x.respond("/sleep 20s", "background", true).is(200)
			assert.Contains(x, []string{"queued", "in_progress"}, slow.text("status"))
			assert.Equal(x, true, slow.at("background"))
			x.respond("more", "previous_response_id", slow.text("id")).problem(409, "chat_busy")
			x.post("/responses/"+slow.text("id")+"/cancel", nil).is(200)
			events := x.events(x.request(http.MethodGet, "/responses/"+slow.text("id")+"?stream=true", nil), nil)
			assert.Equal(x, "response.incomplete", events[len(events)-1]["type"])
			assert.Equal(x, "cancelled", x.get("/responses/"+slow.text("id")).is(200).text("status"))
		}},
		{Name: "responses/what cannot be done is refused by its name", Run: func(x *Actor) {
			for field, value := range map[string]any{
				"top_p": 1.5, "presence_penalty": 1, "frequency_penalty": 1, "top_logprobs": 2, "max_tool_calls": 3,
				"parallel_tool_calls": "no", "store": "no", "truncation": "none", "service_tier": "best",
				"tool_choice": object{"type": "function", "name": "none"}, "temperature": 3, "max_output_tokens": 1,
				"reasoning.effort": object{"effort": "utmost"}, "reasoning.summary": object{"summary": "long"},
				"include": []string{"message.output_text.logprobs"},
				"tools":   []object{{"type": "web_search"}}, "text": object{"format": object{"type": "yaml"}},
				"conversation": 7, "metadata": object{"a": strings.Repeat("x", 2000)}, "stream": "yes",
				"stream_options": object{"include_obfuscation": true}, "input": []object{},
				"prompt": object{"id": "pmpt_1"}, "context_management": []object{{"type": "compaction"}},
			} {
				member, _, _ := strings.Cut(field, ".")
				a := x.respond("x", member, value).names(field)
				assert.Equal(x, "invalid_request", a.text("error", "type"), field)
				assert.Equal(x, a.text("message"), a.text("error", "message"))
			}
			for want, a := range map[string]reply{ // of refusals outside of the operations, too
				"":      x.with(x.Key+"x").post("/responses", object{"input": "x"}).problem(401, "invalid_api_key"),
				"limit": x.get("/responses/resp_"+x.Agent+"/input_items?limit=0").problem(400, "invalid_request"),
				"model": x.respond("x", "model", "nobody").problem(404, "not_found"),
			} {
				assert.Equal(x, a.text("message"), a.text("error", "message"))
				param, _ := a.at("error", "param").(string)
				assert.Equal(x, want, param)
			}
			for field, item := range map[string]object{
				"input[0].type": {"type": "computer_call"}, "input[0].role": {"role": "critic", "content": "x"},
				"input[0].content[0].image_url": {"role": "user", "content": []object{
					{"type": "input_image", "image_url": "https://example.com/a.png"},
				}},
				"input[0].content[0].file_data": {"role": "user", "content": []object{
					{"type": "input_file", "file_data": "data:text/plain;base64,???"},
				}},
				"input[0].call_id":             {"type": "function_call_output", "call_id": "c", "output": "x"},
				"input[0].arguments":           {"type": "function_call", "call_id": "c", "arguments": "{"},
				"input[0].approval_request_id": {"type": "mcp_approval_response", "approve": true},
			} {
				x.respond([]object{item}).names(field)
			}
			x.respond("x", "model", "Nobody").problem(404, "not_found")
			x.respond("x", "model", "").names("model")
			x.respond("x", "previous_response_id", "resp_0123456789abcdef01234567").problem(404, "not_found")
			x.respond("x", "previous_response_id", "nonsense").problem(404, "not_found")
			x.get("/responses/nonsense").problem(404, "not_found")
			for _, query := range []string{
				"stream=perhaps", "stream=true&starting_after=-1", "stream=true&starting_after=x",
				"stream=true&starting_after=9007199254740993", "stream=true&starting_after=9223372036854775807",
			} {
				a := x.get("/responses/resp_0123456789abcdef01234567?"+query).problem(400, "invalid_request")
				name, _, _ := strings.Cut(query[strings.LastIndex(query, "&")+1:], "=")
				assert.Equal(x, name, a.text("error", "param"))
			}
			wished := x.respond("x", "prompt", nil, "context_management", nil, "user", "u", "service_tier", "priority",
				"reasoning", object{"summary": "auto"}).is(200)
			assert.Equal(x, "default", wished.text("service_tier"))
		}},
		{Name: "responses/a function may have the name of a tool that the agent does not have", Run: func(x *Actor) {
			for _, name := range []string{"search", "ask_user"} {
				f := object{"type": "function", "name": name}
				agent := x.post("/agents", object{"name": "Plain", "can_ask": false}).is(201).text("agent_id")
				paused := x.respond(tool(name, object{"q": "x"}), "model", agent, "tools", []object{f}).is(200)
				call := paused.output("function_call")
				assert.Equal(x, name, call["name"])
				answer := []object{{"type": "function_call_output", "call_id": call["call_id"], "output": "found"}}
				done := x.respond(answer, "model", agent, "previous_response_id", paused.text("id"))
				assert.Contains(x, done.messageText(), "found")
			}
			base := x.post("/knowledge-bases", object{"name": "b"}).is(201).text("knowledge_base_id")
			has := x.post("/agents", object{
				"name": "Has", "knowledge_base_ids": []string{base},
			}).is(201).text("agent_id")
			for _, name := range []string{"search", "ask_user"} {
				x.respond("x", "model", has, "tools", []object{weather, {"type": "function", "name": name}}).
					names("tools[1].name")
			}
		}},
		{Name: "responses/an output brings files", Run: func(x *Actor) {
			waiting := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather}).is(200)
			answer := func(output ...object) reply {
				return x.respond([]object{{"type": "function_call_output",
					"call_id": waiting.output("function_call")["call_id"], "output": output}},
					"previous_response_id", waiting.text("id"))
			}
			missing := object{"type": "input_file", "file_id": "0123456789abcdef01234567"}
			answer(missing).problem(404, "not_found")
			files := []object{{"type": "input_image", "image_url": picture},
				{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain,some%20words"}}
			next := answer(files...).is(200)
			assert.Contains(x, next.messageText(), "(its files follow)")
			assert.Equal(x, next.text("id"), answer(files...).is(200).text("id"), "the request is sent again")
			given := x.get("/responses/" + next.text("id") + "/input_items").is(200)
			assert.Equal(x, "input_image", given.text("data", 0, "output", 1, "type"))
			assert.Equal(x, "a.txt", given.text("data", 0, "output", 2, "filename"))
			file := "/files/" + given.text("data", 0, "output", 2, "file_id")
			assert.Equal(x, "some words", x.get(file).is(200).raw)
		}},
		{Name: "responses/files come along", Run: func(x *Actor) {
			sent := x.respond([]object{{"role": "user", "content": []object{
				{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": picture},
				{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain,some%20words"},
			}}}).is(200)
			items := x.get("/responses/" + sent.text("id") + "/input_items").is(200)
			assert.Equal(x, "a.txt", items.text("data", 0, "content", 2, "filename"))
			image := items.at("data", 0, "content", 1).(object)
			assert.Equal(x, "input_image", image["type"])
			assert.Equal(x, "auto", image["detail"])
			assert.Contains(x, image, "image_url", "it is there, and null")
			assert.Nil(x, image["image_url"])
			again := x.respond([]object{{"type": "item_reference", "id": items.text("data", 0, "id")}}).is(200)
			assert.Equal(x, image, x.get("/responses/"+again.text("id")+"/input_items").is(200).
				at("data", 0, "content", 1))
		}},
	}...)
}

// The order of a response's parts: the events of a stream, and the input items.
func orderOfResponses() []Story {
	return []Story{
		{Name: "responses/each event has its place", Run: func(x *Actor) {
			text := "output_item.added content_part.added output_text.delta output_text.done content_part.done " +
				"output_item.done"
			call := "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done"
			for input, items := range map[string][]string{
				"count\n/stream 5 1ms": {text},
				"first\n" + tool("get_weather", object{"place": "Oslo"}): {text, call},
			} {
				events := x.events(x.request(http.MethodPost, "/responses", strings.NewReader(jsonOf(object{
					"model": x.Agent, "input": input, "stream": true, "tools": []object{weather},
				})), "Content-Type", "application/json"), nil)
				want := "created in_progress " + strings.Join(items, " ") + " completed"
				assert.Equal(x, want, strings.Join(inOrder(events), " "), input)
				whole := events[len(events)-1]["response"].(object)["output"].([]any)
				require.Len(x, whole, len(items))
				for _, e := range events {
					at, is := e["output_index"].(float64)
					if !is {
						continue
					}
					id := e["item_id"]
					if item, is := e["item"].(object); is {
						id = item["id"]
					}
					assert.Equal(x, whole[int(at)].(object)["id"], id, "%v", e)
				}
			}
		}},
		{Name: "responses/the first events show the request", Run: func(x *Actor) {
			name := x.get("/agents/" + x.Agent).is(200).text("name")
			request := object{
				"model": name, "input": "hi", "stream": true, "instructions": "Be A.", "metadata": object{"a": "b"},
				"temperature": 0.3, "top_p": 0.5, "max_output_tokens": 99, "store": false, "tools": []object{weather},
				"tool_choice": "none", "parallel_tool_calls": false, "truncation": "disabled",
				"reasoning": object{"effort": "low"}, "text": object{"format": object{"type": "text"}},
				"safety_identifier": "s", "prompt_cache_key": "k",
			}
			events := x.events(x.request(http.MethodPost, "/responses", strings.NewReader(jsonOf(request)),
				"Content-Type", "application/json"), nil)
			ended := events[len(events)-1]["response"].(object)
			require.Equal(x, []any{name, "Be A.", 0.3}, []any{ended["model"], ended["instructions"],
				ended["temperature"]})
			for _, e := range events[:2] {
				shown := e["response"].(object)
				for _, member := range []string{"status", "output", "usage", "completed_at"} { // of the answer
					shown[member] = ended[member]
				}
				assert.Equal(x, ended, shown, e["type"])
			}
		}},
		{Name: "responses/input items are paged", Run: func(x *Actor) {
			sent := x.respond([]object{
				{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
				{"role": "user", "content": "three"},
			}).is(200)
			path := "/responses/" + sent.text("id") + "/input_items?"
			for query, want := range map[string][]string{
				"order=asc":  {"one", "two", "three"},
				"order=desc": {"three", "two", "one"},
				"":           {"three", "two", "one"},
			} {
				assert.Equal(x, want, x.pagesOf(path+query+"&limit=2"), query)
				assert.Equal(x, want, x.pagesOf(path+query+"&limit=1"), query)
				assert.Equal(x, want, x.pagesOf(path+query), query)
			}
			for field, query := range map[string]string{
				"after": "after=msg_0123456789abcdef01234567_in", "order": "order=up", "limit": "limit=101",
			} {
				x.get(path + query).names(field)
			}
		}},
	}
}

// inOrder returns the types of events without their common part. Successive deltas are one.
func inOrder(events []object) (list []string) {
	for _, e := range events {
		kind := strings.TrimPrefix(e["type"].(string), "response.")
		if n := len(list); n == 0 || !strings.HasSuffix(kind, ".delta") || list[n-1] != kind {
			list = append(list, kind)
		}
	}
	return list
}

// pagesOf reads a list of input items page by page, and returns their texts.
func (x *Actor) pagesOf(path string) (texts []string) {
	x.Helper()
	for after := ""; ; {
		page := x.get(path + after).is(200)
		for _, item := range page.list("data") {
			texts = append(texts, item.(object)["content"].([]any)[0].(object)["text"].(string))
		}
		assert.Equal(x, page.text("data", 0, "id"), page.text("first_id"))
		assert.Equal(x, page.text("data", len(page.list("data"))-1, "id"), page.text("last_id"))
		if page.at("has_more") == false {
			return texts
		}
		after = "&after=" + page.text("last_id")
	}
}
