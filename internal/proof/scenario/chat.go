package scenario

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// POST /chat in its modes, and its table of responses.
func chatScenarios() []Story {
	return []Story{
		{Name: "chat/the header Idempotency-Key is the idempotency key", Run: func(x *Actor) {
			send := func(key string, pairs ...string) reply {
				r := x.chatRequest(pairs...)
				r.Header.Set("Idempotency-Key", key)
				return x.do(r)
			}
			headers := func(a reply) [2]string {
				return [2]string{a.header.Get("Idempotent-Replayed"), a.header.Get("Idempotent-Mismatch")}
			}
			first := send("k", "message", "a", "f", "file:one").is(200)
			assert.Equal(x, [2]string{}, headers(first))
			for want, again := range map[[2]string][]reply{
				{"true", ""}: {
					send("k", "message", "a", "f", "file:one").is(200),
					send("k", "message", "a", "f", "file:one", "wait", "false").is(200),
					send("k", "message", "a", "f", "file:one", "idempotency_key", "k").is(200),
					x.chat("message", "a", "f", "file:one", "idempotency_key", "k").is(200),
				},
				{"true", "true"}: {
					send("k", "message", "b", "f", "file:one").is(200), send("k", "message", "a", "f",
						"file:two").is(200),
					send("k", "message", "a", "g", "file:one").is(200), send("k", "message", "a").is(200),
					x.chat("message", "a", "idempotency_key", "k", "title", "t").is(200),
				},
			} {
				for _, a := range again {
					assert.Equal(x, first.text("run_id"), a.text("run_id"))
					assert.Equal(x, want, headers(a))
				}
			}
			differ := send("k", "message", "a", "idempotency_key", "other").problem(400, "invalid_request")
			assert.Contains(x, differ.raw, `"location":"idempotency_key"`)
			assert.Contains(x, differ.raw, `"location":"header.Idempotency-Key"`)
			twice := x.chatRequest("message", "a")
			twice.Header["Idempotency-Key"] = []string{"k", "l"}
			x.do(twice).problem(400, "invalid_request")
			for _, key := range []string{strings.Repeat("k", 256), "ü"} {
				for _, refused := range []reply{
					send(key, "message", "a"),
					x.post("/runs/"+first.text("run_id")+"/followups", object{"message": "a"}, "Idempotency-Key", key),
					x.post("/responses", object{"model": x.Agent, "input": "a"}, "Idempotency-Key", key),
				} {
					refused.names("header.Idempotency-Key")
				}
			}
			for _, blank := range []string{"", "  "} {
				one := send(blank, "message", "a", "idempotency_key", blank).is(200).text("run_id")
				assert.NotEqual(x, one, send(blank, "message", "a", "idempotency_key", blank).is(200).text("run_id"))
			}

			asks := send("asks", "message", "/ask Which?", "chat_id", "c").is(202).text("run_id")
			assert.Equal(x, [2]string{}, headers(send("says", "message", "this", "chat_id", "c").is(200)))
			other := send("says", "message", "that", "chat_id", "c").is(200)
			assert.Equal(x, asks, other.text("run_id"))
			assert.Equal(x, [2]string{"true", "true"}, headers(other))
		}},
		{Name: "chat/a followup takes its key by header or member", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			send := func(body object, header ...string) reply {
				return x.post("/runs/"+run+"/followups", body, header...)
			}
			first := send(object{"message": "a"}, "Idempotency-Key", "k").is(202)
			again := send(object{"message": "a", "idempotency_key": "k"}).is(202)
			assert.Equal(x, first.text("parked", "parked_id"), again.text("parked", "parked_id"))
			assert.Empty(x, again.header.Get("Idempotent-Mismatch"))
			other := send(object{"message": "b"}, "Idempotency-Key", "k").is(202)
			assert.Equal(x, first.text("parked", "parked_id"), other.text("parked", "parked_id"))
			assert.Equal(x, "true", other.header.Get("Idempotent-Mismatch"))
			differ := send(object{"message": "a", "idempotency_key": "l"}, "Idempotency-Key", "k").
				problem(400, "invalid_request")
			assert.Contains(x, differ.raw, `"location":"body.idempotency_key"`)
			assert.Contains(x, differ.raw, `"location":"header.Idempotency-Key"`)
			parked := x.chat("message", "p", "chat_id", "c", "on_conflict", "enqueue", "idempotency_key", "p").is(202)
			changed := x.chat("message", "q", "chat_id", "c", "on_conflict", "enqueue", "idempotency_key", "p").is(202)
			assert.Equal(x, parked.text("parked", "parked_id"), changed.text("parked", "parked_id"))
			assert.Equal(x, "true", changed.header.Get("Idempotent-Mismatch"))
			assert.Len(x, x.get("/runs/"+run+"/parked").list("parked"), 2)
		}},
		{Name: "chat/of an answer only what it says counts", Run: func(x *Actor) {
			gone := x.post("/agents", object{"name": "Gone"}).is(201).text("agent_id")
			x.delete("/agents/" + gone).is(204)
			runner := x.colleague("member", "run")
			for i, ignored := range [][]string{
				{"agent_id", "0123456789abcdef01234567"}, {"agent_id", gone}, {"agent_id", "nonsense"},
				{"agent_id", ""},
				{"callback_url", "http://plain.example.com"}, {"callback_url", "https://127.0.0.1/"},
				{"metadata", "[]"}, {"metadata", "{"},
				{"title", strings.Repeat("x", 201)}, {"agent_version", "0"}, {"agent_version", "7"},
				{"agent_version", "many"},
			} {
				chat := fmt.Sprint("c", i)
				asks := runner.chat("message", "/ask Which?", "chat_id", chat).is(202).text("run_id")
				answer := append([]string{"message", "that one", "chat_id", chat, "idempotency_key", chat}, ignored...)
				a := runner.chat(answer...).is(200)
				assert.Equal(x, asks, a.text("run_id"), "%v", ignored)
				assert.Equal(x, "Answer: that one", a.text("answer"))
				assert.Equal(x, asks, runner.chat(answer...).is(200).text("run_id"), "the same again")
				bad := runner.chat(append([]string{"message", "that one", "chat_id", chat}, ignored...)...)
				assert.Contains(x, []int{400, 403, 404}, bad.status, "a message that answers nothing: %v", ignored)
			}
			for _, counts := range [][]string{{"wait", "perhaps"}, {"on_conflict", "perhaps"},
				{"file_ids", "nonsense"}} {
				run := runner.chat("message", "/ask Which?", "chat_id", counts[0]).is(202).text("run_id")
				runner.chat("message", "x", "chat_id", counts[0], counts[0], counts[1]).problem(400, "invalid_request")
				assert.Equal(x, "awaiting_input", runner.get("/runs/"+run).is(200).text("status"))
			}
		}},
		{Name: "chat/files that come with an answer are the run's, and go with it", Run: func(x *Actor) {
			x.chat("message", "/ask Which?", "chat_id", "c").is(202)
			answered := x.chat("message", "this", "file", "file:the word is swordfish", "chat_id", "c").is(200)
			assert.Equal(x, "Answer: this", answered.text("answer"))
			paused := x.get("/chats/c/messages").is(200)
			file := ""
			for i := range paused.at("messages").([]any) {
				if list, _ := paused.at("messages", i, "files").([]any); len(list) > 0 {
					file = list[0].(object)["file_id"].(string)
				}
			}
			require.NotEmpty(x, file, paused.raw)
			assert.Equal(x, "the word is swordfish", x.get("/files/"+file).is(200).raw)
			x.delete("/chats/c").is(204)
			x.eventually("the file's end", func() bool { return x.gone("/files/" + file) })
		}},
		{Name: "chat/observe: a run that ends within the window is a 200 with the result", Run: func(x *Actor) {
			a := x.chat("message", "Hello there").is(200)
			assert.Equal(x, "You said: Hello there", a.text("answer"))
			assert.Equal(x, x.Agent, a.text("agent_id"))
			assert.Equal(x, "billed", a.text("usage_status"))
			assert.Equal(x, a.text("run_id"), a.header.Get("X-Agent-Run-Id"))
			result := x.get("/runs/" + a.text("run_id")).is(200).at("result").(object)
			for name, value := range result {
				assert.Equal(x, value, a.body[name], name)
			}
			assert.Len(x, a.body, len(result)+2)
			assert.Equal(x, object{"input_tokens": 2.0, "output_tokens": 4.0,
				"active_ms": a.number("usage", "active_ms"), "model_calls": 1.0, "tool_calls": 0.0}, a.at("usage"))
		}},
		{Name: "chat/observe: a run that outlasts the window is a 202 handle", Settings: "brief",
			Run: func(x *Actor) {
				a := x.chat("message", "/sleep 2m").is(202)
				assert.Contains(x, []string{"queued", "running"}, a.text("status"))
				assert.Empty(x, a.list("interrupts"))
				x.stop(a.text("run_id"))
			}},
		{Name: "chat/wait=true: 200 with the result", Run: func(x *Actor) {
			assert.Equal(x, "You said: x", x.chat("message", "x", "wait", "TRUE").is(200).text("answer"))
		}},
		{Name: "chat/wait=false: a handle at once", Run: func(x *Actor) {
			a := x.chat("message", "/sleep 10s", "wait", "false").is(202) // after a wait it would have ended
			assert.Equal(x, a.text("run_id"), a.header.Get("X-Agent-Run-Id"))
			x.post("/runs/"+a.text("run_id")+"/cancel", nil).is(200)
		}},
		{Name: "chat/streaming=true: NDJSON whose pieces join to the answer", Run: func(x *Actor) {
			s := x.stream(x.chatRequest("message", "one two\n/stream 5 1ms", "streaming", "true", "wait", "false"))
			assert.Equal(x, "application/x-ndjson", s.header.Get("Content-Type"))
			events := s.rest()
			assert.Equal(x, "init", events[0].name)
			last := events[len(events)-1]
			assert.Equal(x, "done", last.name)
			assert.Equal(x, s.header.Get("X-Agent-Run-Id"), last.body["run_id"])
			assert.Equal(x, "You said: one two\n1 2 3 4 5", joined(events))
			assert.Equal(x, joined(events), last.body["run"].(object)["result"].(object)["answer"])
		}},
		{Name: "chat/the texts of several steps are paragraphs wherever they are read", Run: func(x *Actor) {
			message := strings.Join([]string{"# One", tool("echo", object{"text": "2"}), "/stream 2 20ms",
				tool("echo", object{"text": "3"}), "/ask More?"}, "\n")
			first := "You said: # One\n\necho → 2\n1 2"
			whole := first + "\n\necho → 3\nAnswer: yes"
			s := x.stream(x.chatRequest("message", message, "streaming", "true", "wait", "false"))
			run := s.header.Get("X-Agent-Run-Id")
			assert.Equal(x, first, joined(s.rest()), "until it pauses")
			waits := x.await(run, "awaiting_input")
			followed := x.follow(run, "Accept", "text/event-stream")
			list := decide(waits.interrupt(0), "answer")
			list["decisions"].([]object)[0]["message"] = "yes"
			x.post("/runs/"+run+"/resume", list).is(200)
			assert.Equal(x, whole, joined(followed.rest()), "what goes on is joined to what it has said")
			assert.Equal(x, whole, x.get("/runs/"+run).text("result", "answer"))
			assert.Equal(x, whole, joined(x.follow(run).rest()), "a stream that begins when all is over")
			assert.Equal(x, whole, x.get("/chats/"+waits.text("chat_id")+"/messages").text("messages", 1, "content"))
			for i, want := range []string{"You said: # One", "echo → 2\n1 2", "echo → 3\nAnswer: yes"} {
				var texts []any
				for _, step := range x.get("/runs/" + run + "/steps").is(200).list("steps") {
					if step.(object)["kind"] == "model" {
						texts = append(texts, step.(object)["text"])
					}
				}
				assert.Equal(x, want, texts[i], "a step has its own text, without breaks")
			}
		}},
		{Name: "chat/a message without an answer says so", Run: func(x *Actor) {
			a := x.chat("message", "/sleep 1ms").is(200)
			assert.Equal(x, "", a.text("answer"))
			assert.Equal(x, "empty", a.text("finish_reason"))
			assert.InDelta(x, 1, a.number("usage", "model_calls"), 0, "the demo model is asked once")
		}},
		{Name: "chat/200: a run cancelled within the window", Run: func(x *Actor) {
			var cancelling sync.WaitGroup // its response may come after the run's
			defer cancelling.Wait()
			cancelling.Go(func() {
				run := x.activeRun("c")
				x.post("/runs/"+run+"/cancel", nil)
			})
			a := x.chat("message", "/sleep 2m", "chat_id", "c").is(200)
			assert.Equal(x, object{"run_id": a.text("run_id"), "status": "cancelled", "agent_id": x.Agent}, a.body)
		}},
		{Name: "chat/202: a pause ends the wait, with its interrupts", Run: func(x *Actor) {
			began := time.Now()
			a := x.chat("message", "/ask Which city?").is(202)
			assert.Less(x, time.Since(began), soon, "less than any window")
			assert.Equal(x, "awaiting_input", a.text("status"))
			assert.Equal(x, "clarification", a.text("interrupts", 0, "kind"))
			assert.Equal(x, "Which city?", a.text("interrupts", 0, "prompt"))
		}},
		{Name: "chat/500: a run that failed within the window", Run: func(x *Actor) {
			a := x.chat("message", "/fail no luck today").problem(500, "run_failed")
			assert.Equal(x, "no luck today", a.text("detail"))
			assert.Equal(x, x.Agent, a.text("agent_id"))
			assert.Equal(x, "no luck today", x.get("/runs/"+a.text("run_id")).is(200).text("error"))
		}},
		{Name: "chat/500: a run that timed out within the window", Settings: "hasty", Run: func(x *Actor) {
			a := x.chat("message", "/sleep 20s").problem(500, "run_failed")
			assert.Contains(x, a.text("detail"), "1s")
			x.await(a.text("run_id"), "timed_out")
		}},
		{Name: "chat/a conversation goes on in its chat", Run: func(x *Actor) {
			one := x.chat("message", "one").is(200)
			two := x.chat("message", "two", "chat_id", one.text("chat_id")).is(200)
			assert.Equal(x, one.text("chat_id"), two.text("chat_id"))
			messages := x.get("/chats/" + one.text("chat_id") + "/messages").is(200)
			var got []string
			for i := range messages.list("messages") {
				got = append(got, messages.text("messages", i, "role")+": "+messages.text("messages", i, "content"))
			}
			assert.Equal(x, []string{"user: one", "assistant: You said: one", "user: two", "assistant: You said: two"},
				got)
			first := x.get("/chats/" + one.text("chat_id") + "/messages?limit=3").is(200)
			assert.Len(x, first.list("messages"), 3)
			rest := x.get("/chats/" + one.text("chat_id") + "/messages?limit=3&cursor=" +
				first.text("next_cursor")).is(200)
			assert.Equal(x, "You said: two", rest.text("messages", 0, "content"))
			assert.Nil(x, rest.at("next_cursor"))
			assert.Equal(x, 2.0, x.get("/runs/"+two.text("run_id")).number("turn"))
		}},
		{Name: "chat/the client's own chat_id", Run: func(x *Actor) {
			assert.Equal(x, "my.chat:1_a-B", x.chat("message", "x", "chat_id", "my.chat:1_a-B").is(200).text("chat_id"))
		}},
		{Name: "chat/files: uploaded ones and earlier ones", Run: func(x *Actor) {
			body, kind := form("file", "file:earlier")
			earlier := x.do(x.request("POST", "/files", body, "Content-Type", kind)).is(201).text("file_id")
			a := x.chat("notes", "file:some notes", "file_ids", earlier).is(200)
			messages := x.get("/chats/" + a.text("chat_id") + "/messages").is(200)
			assert.Len(x, messages.list("messages", 0, "files"), 2)
			var read []string
			for i := range 2 {
				read = append(read, x.get("/files/"+messages.text("messages", 0, "files", i, "file_id")).is(200).raw)
			}
			assert.ElementsMatch(x, []string{"some notes", "earlier"}, read)
		}},
		{Name: "chat/more calls in one turn than fit in one commit", Run: func(x *Actor) {
			agent := x.post("/agents",
				object{"name": "busy", "limits": object{"max_steps": 1000}}).is(201).text("agent_id")
			line := tool("echo", object{"text": "t"}) + "\n"
			a := x.chat("agent_id", agent, "message", strings.Repeat(line, 150)).is(200)
			assert.Len(x, a.list("steps"), 150)
			paused := x.chat("agent_id", agent, "message", strings.Repeat(line, 150)+"/ask Sure?").is(202)
			assert.Len(x, paused.list("interrupts"), 1)
		}},
		{Name: "chat/metadata is echoed on the run", Run: func(x *Actor) {
			a := x.chat("message", "x", "metadata", `{"a":"b"}`).is(200)
			assert.Equal(x, object{"a": "b"}, x.get("/runs/"+a.text("run_id")).at("metadata"))
		}},
		{Name: "chat/directions of the demo model", Run: func(x *Actor) {
			a := x.chat("message", strings.Join([]string{
				"before", tool("echo", object{"text": "A"}), tool("calculate", object{"expression": "2*(3+4)"}),
				tool("none", object{}),
				"/search things", "/flaky 2", "/stream 3 1ms", "after", "/tool echo {broken", "/tool current_time {}",
			}, "\n")).is(200)
			lines := strings.Split(a.text("answer"), "\n")
			require.Len(x, lines, 12, a.raw)
			assert.Equal(x, []string{
				"You said: before", "after", "", "echo → A", "calculate → 14",
				`none → error: the tool "none" does not exist`,
				"", "search → error: no knowledge base", "1 2 3", "",
				"echo → error: the arguments do not fit: it is not valid JSON (at byte 1)",
			}, lines[:11])
			assert.Regexp(x, `^current_time → 20\d\d-`, lines[11])
			assert.Len(x, a.list("steps"), 6)
			assert.Equal(x, "echo", a.text("steps", 0, "name"))
			assert.Equal(x, object{"text": "A"}, a.at("steps", 0, "arguments"))
			assert.Equal(x, "succeeded", a.text("steps", 0, "outcome"))
		}},
		{Name: "chat/approvals: approve, reject, edit and answer in one pause", Run: func(x *Actor) {
			agent := x.careful()
			message := strings.Join([]string{
				tool("echo", object{"text": "1"}), tool("echo", object{"text": "2"}), tool("echo", object{"text": "3"}),
				"/ask Sure?",
			}, "\n")
			a := x.chat("agent_id", agent, "message", message).is(202)
			require.Len(x, a.list("interrupts"), 4)
			assert.Equal(x, "echo", a.text("interrupts", 0, "tool", "name"))
			assert.Equal(x, object{"text": "1"}, a.at("interrupts", 0, "tool", "arguments"))
			body := decide(a.interrupt(0), "approve", a.interrupt(1), "reject", a.interrupt(2), "edit", a.interrupt(3),
				"answer")
			list := body["decisions"].([]object)
			list[1]["message"], list[2]["arguments"], list[3]["message"] = "no", object{"text": "edited"}, "yes"
			body["decided_by"] = "me"
			resumed := x.post("/runs/"+a.text("run_id")+"/resume", body).is(200)
			assert.Equal(x, "queued", resumed.text("status"))
			done := x.await(a.text("run_id"), "completed")
			assert.Equal(x, "echo → 1\necho → rejected: no\necho → edited\nAnswer: yes", done.text("result", "answer"))
			assert.Equal(x, "me", done.text("decided_by"))
			assert.Equal(x, object{"text": "edited"}, done.at("result", "steps", 2, "arguments"))
		}},
	}
}

// activeRun waits until a chat has an active run that is running.
func (x *Actor) activeRun(chat string) string {
	x.Helper()
	run := ""
	x.eventually("the run", func() bool {
		a := x.get("/chats/" + chat + "/runs?active=true")
		if a.status == 200 && len(a.list("runs")) > 0 && a.text("runs", 0, "status") == "running" {
			run = a.text("runs", 0, "run_id")
		}
		return run != ""
	})
	return run
}
