package scenario

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// a2aClient returns the official client of the protocol's version 0.3 for an agent's card, with the actor's key.
func (x *Actor) a2aClient(agent string) (*a2aclient.Client, *a2a.AgentCard) {
	x.Helper()
	keyed := &http.Client{Transport: keyed(x.Key)}
	card, err := agentcard.NewResolver(keyed).Resolve(x.Context(), x.world.URL+"/a2a/"+agent)
	require.NoError(x, err)
	client, err := a2aclient.NewFromCard(x.Context(), card, a2aclient.WithJSONRPCTransport(keyed))
	require.NoError(x, err)
	return client, card
}

func newMessage(parts ...a2a.Part) *a2a.MessageSendParams {
	return &a2a.MessageSendParams{Message: a2a.NewMessage(a2a.MessageRoleUser, parts...)}
}

func newTaskMessage(t *a2a.Task, parts ...a2a.Part) *a2a.MessageSendParams {
	return &a2a.MessageSendParams{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, t, parts...)}
}

func textOf(parts a2a.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		if t, ok := p.(a2a.TextPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// The endpoints for clients of the Agent2Agent protocol.
func a2aScenarios() []Story {
	return []Story{
		{Name: "a2a/a message is a run, a context is a chat", Run: func(x *Actor) {
			x.patch("/agents/"+x.Agent, object{"description": "says it back"}).is(200)
			client, card := x.a2aClient(x.Agent)
			assert.Equal(x, "Demo", card.Name)
			assert.Equal(x, "says it back", card.Description)
			send := func(in *a2a.MessageSendParams) *a2a.Task {
				x.Helper()
				r, err := client.SendMessage(x.Context(), in)
				require.NoError(x, err)
				return r.(*a2a.Task)
			}
			hello := newMessage(a2a.TextPart{Text: "hello"})
			task := send(hello)
			assert.Equal(x, a2a.TaskStateCompleted, task.Status.State)
			require.Len(x, task.Artifacts, 1)
			assert.Equal(x, "You said: hello", textOf(task.Artifacts[0].Parts))
			assert.Equal(x, "hello", textOf(task.History[0].Parts))
			run := x.get("/runs/" + string(task.ID)).is(200)
			assert.Equal(x, task.ContextID, run.text("chat_id"))
			assert.Equal(x, task.ID, send(hello).ID, "the same message again is the same task")

			second := newMessage(a2a.TextPart{Text: "again"})
			second.Message.ContextID = task.ContextID
			again := send(second)
			assert.Equal(x, task.ContextID, again.ContextID)
			assert.Equal(x, 2.0, x.get("/runs/"+string(again.ID)).number("turn"))
			got, err := client.GetTask(x.Context(), &a2a.TaskQueryParams{ID: again.ID, HistoryLength: new(int)})
			require.NoError(x, err)
			assert.Equal(x, "You said: again", textOf(got.Artifacts[0].Parts))
			assert.Empty(x, got.History)

			exact := send(newMessage(a2a.TextPart{Text: "  as it was \n said  "}))
			assert.Equal(x, "  as it was \n said  ", textOf(exact.History[0].Parts))

			failed := send(newMessage(a2a.TextPart{Text: "/fail no luck"}))
			assert.Equal(x, a2a.TaskStateFailed, failed.Status.State)
			assert.Contains(x, textOf(failed.Status.Message.Parts), "no luck")
		}},
		{Name: "a2a/a message waits for its task beyond the window", Settings: "brief", Run: func(x *Actor) {
			client, _ := x.a2aClient(x.Agent)
			r, err := client.SendMessage(x.Context(), newMessage(a2a.TextPart{Text: "/sleep 1500ms"}))
			require.NoError(x, err)
			assert.Equal(x, a2a.TaskStateCompleted, r.(*a2a.Task).Status.State)
		}},
		{Name: "a2a/a pause is input-required, and is answered", Run: func(x *Actor) {
			agent := x.post("/agents",
				object{"name": "A", "approval": object{"mode": "always"}}).is(201).text("agent_id")
			client, _ := x.a2aClient(agent)
			r, err := client.SendMessage(x.Context(), newMessage(a2a.TextPart{Text: "/ask Which city?"}))
			require.NoError(x, err)
			task := r.(*a2a.Task)
			assert.Equal(x, a2a.TaskStateInputRequired, task.Status.State)
			assert.Equal(x, "Which city?", textOf(task.Status.Message.Parts))
			r, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.TextPart{Text: "Paris"}))
			require.NoError(x, err)
			assert.Equal(x, task.ID, r.(*a2a.Task).ID)
			assert.Equal(x, "Answer: Paris", textOf(r.(*a2a.Task).Artifacts[0].Parts))
			_, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.TextPart{Text: "Rome"}))
			assert.ErrorContains(x, err, "completed")

			r, err = client.SendMessage(x.Context(), newMessage(a2a.TextPart{Text: `/tool echo {"text":"a"}`}))
			require.NoError(x, err)
			task = r.(*a2a.Task)
			_, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.TextPart{Text: "yes"}))
			assert.ErrorContains(x, err, "decisions", "a text approves nothing")
			pending := task.Status.Message.Parts[1].(a2a.DataPart).Data["interrupts"].([]any)[0].(object)
			assert.Equal(x, "echo", pending["tool"].(object)["name"])
			for field, bad := range map[string]object{
				"message.parts: decisions[0].arguments: must fit the tool echo: text: got number": {
					"interrupt_id": pending["id"], "decision": "edit", "arguments": object{"text": 7}},
				"decision":     {"interrupt_id": pending["id"], "decision": "perhaps"},
				"arguments":    {"interrupt_id": pending["id"], "decision": "edit", "arguments": 7},
				"interrupt_id": {"decision": "approve"},
			} {
				_, err = client.SendMessage(x.Context(),
					newTaskMessage(task, a2a.DataPart{Data: object{"decisions": []object{bad}}}))
				assert.ErrorContains(x, err, field)
				x.get("/runs/" + string(task.ID)).is(200)
			}
			r, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.DataPart{Data: object{
				"decisions": []object{{"interrupt_id": pending["id"], "decision": "approve"}},
			}}))
			require.NoError(x, err)
			assert.Equal(x, "echo → a", textOf(r.(*a2a.Task).Artifacts[0].Parts))
		}},
		{Name: "a2a/a stream tells the task, the pieces of its answer, its end", Run: func(x *Actor) {
			client, _ := x.a2aClient(x.Agent)
			follow := func(in *a2a.MessageSendParams) (text string, states []a2a.TaskState, task a2a.TaskID) {
				x.Helper()
				for e, err := range client.SendStreamingMessage(x.Context(), in) {
					require.NoError(x, err)
					switch e := e.(type) {
					case *a2a.Task:
						task = e.ID
						states = append(states, e.Status.State)
					case *a2a.TaskArtifactUpdateEvent:
						assert.Equal(x, text != "" && !e.LastChunk, e.Append)
						if !e.Append { // the last one has the whole
							text = ""
						}
						text += textOf(e.Artifact.Parts)
					case *a2a.TaskStatusUpdateEvent:
						states = append(states, e.Status.State)
						assert.Equal(x, e.Status.State.Terminal() || e.Status.State == a2a.TaskStateInputRequired,
							e.Final)
					}
				}
				return text, states, task
			}
			text, states, task := follow(newMessage(a2a.TextPart{Text: "count\n/stream 5 30ms"}))
			assert.Equal(x, "You said: count\n1 2 3 4 5", text)
			assert.Equal(x, a2a.TaskStateCompleted, states[len(states)-1])
			assert.Equal(x, text, x.get("/runs/"+string(task)).is(200).text("result", "answer"))
			_, states, paused := follow(newMessage(a2a.TextPart{Text: "/ask Which?"}))
			assert.Equal(x, a2a.TaskStateInputRequired, states[len(states)-1])
			r, err := client.GetTask(x.Context(), &a2a.TaskQueryParams{ID: paused})
			require.NoError(x, err)
			text, states, _ = follow(newTaskMessage(r, a2a.TextPart{Text: "this"}))
			assert.Equal(x, "Answer: this", text)
			assert.Equal(x, a2a.TaskStateCompleted, states[len(states)-1])
		}},
		{Name: "a2a/a task is cancelled, and one of another is not there", Run: func(x *Actor) {
			client, _ := x.a2aClient(x.Agent)
			atOnce := newMessage(a2a.TextPart{Text: "/sleep 20s"})
			atOnce.Config = &a2a.MessageSendConfig{Blocking: new(bool)}
			r, err := client.SendMessage(x.Context(), atOnce)
			require.NoError(x, err)
			task := r.(*a2a.Task)
			assert.Contains(x, []a2a.TaskState{a2a.TaskStateSubmitted, a2a.TaskStateWorking}, task.Status.State)
			_, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.TextPart{Text: "x"}))
			assert.ErrorIs(x, err, a2a.ErrUnsupportedOperation)
			cancelled, err := client.CancelTask(x.Context(), &a2a.TaskIDParams{ID: task.ID})
			require.NoError(x, err)
			assert.Equal(x, task.ID, cancelled.ID)
			x.await(string(task.ID), "cancelled")
			_, err = client.CancelTask(x.Context(), &a2a.TaskIDParams{ID: task.ID})
			assert.ErrorIs(x, err, a2a.ErrTaskNotCancelable)

			other, _ := x.a2aClient(x.post("/agents", object{"name": "other"}).is(201).text("agent_id"))
			for _, id := range []a2a.TaskID{task.ID, "0123456789abcdef01234567", "nonsense"} {
				_, err = other.GetTask(x.Context(), &a2a.TaskQueryParams{ID: id})
				assert.ErrorIs(x, err, a2a.ErrTaskNotFound, id)
			}
			y := newActor(x.T, x.world, x.receiver)
			y.post("/a2a/"+x.Agent, object{"jsonrpc": "2.0", "id": 1, "method": "GetTask",
				"params": object{"id": task.ID}}).problem(403, "outside_organization")
			y.get("/a2a/"+x.Agent+"/.well-known/agent-card.json").problem(403, "outside_organization")
			y.with("").get("/a2a/"+x.Agent+"/.well-known/agent-card.json").problem(401, "missing_api_key")
		}},
		{Name: "a2a/version 1.0 speaks its own names, and faults are the protocol's", Run: func(x *Actor) {
			call := func(method string, params object) reply {
				return x.post("/a2a/"+x.Agent,
					object{"jsonrpc": "2.0", "id": "7", "method": method, "params": params}).is(200)
			}
			text := func(s string) object {
				return object{"messageId": s, "role": "ROLE_USER", "parts": []object{{"text": s}}}
			}
			a := call("SendMessage", object{"message": text("hello")})
			assert.Equal(x, "7", a.text("id"))
			assert.Equal(x, "TASK_STATE_COMPLETED", a.text("result", "task", "status", "state"))
			assert.Equal(x, "You said: hello", a.text("result", "task", "artifacts", 0, "parts", 0, "text"))
			assert.Equal(x, "ROLE_USER", a.text("result", "task", "history", 0, "role"))
			assert.Equal(x, "TASK_STATE_COMPLETED",
				call("GetTask", object{"id": a.text("result", "task", "id")}).text("result", "status", "state"))
			for _, bad := range []struct {
				method string
				params object
				code   float64
				want   string
			}{
				{"Dance", nil, -32601, "Dance"},
				{"SendMessage", object{"message": object{"parts": []object{}}}, -32602, "parts"},
				{"SendMessage", object{"message": object{"parts": []object{{"url": "https://example.com/a.png"}}}},
					-32005, "file URLs"},
				{"SendMessage", object{"message": 7}, -32602, "message"},
				{"SendMessage", object{"message": object{"messageId": "long",
					"parts": []object{{"text": strings.Repeat("x", 300<<10)}}}}, -32602, "message"},
				{"GetTask", object{"id": "nowhere"}, -32001, "task"},
				{"CreateTaskPushNotificationConfig", object{"taskId": "nowhere"}, -32001, "task"},
			} {
				a := call(bad.method, bad.params)
				assert.Equal(x, bad.code, a.number("error", "code"), bad.method)
				assert.Contains(x, a.text("error", "message"), bad.want)
			}
			assert.Equal(x, -32600.0,
				x.post("/a2a/"+x.Agent, object{"id": 1, "method": "GetTask"}).is(200).number("error", "code"))
			one := object{"jsonrpc": "2.0", "id": 1, "method": "GetTask",
				"params": object{"id": x.begin("message", "x")}}
			assert.Equal(x, -32600.0, x.post("/a2a/"+x.Agent, []object{one, one}).is(200).number("error", "code"),
				"no batches")
			x.post("/a2a/nowhere", object{}).problem(404, "not_found")
		}},
		{Name: "a2a/files come with messages, by their bytes or by our address", Run: func(x *Actor) {
			client, _ := x.a2aClient(x.Agent)
			file := func(f a2a.FilePartContent) *a2a.Task {
				x.Helper()
				r, err := client.SendMessage(x.Context(), newMessage(a2a.TextPart{Text: "look"}, a2a.FilePart{File: f}))
				require.NoError(x, err)
				return r.(*a2a.Task)
			}
			meta := a2a.FileMeta{Name: "a.txt", MimeType: "text/plain"}
			sent := file(a2a.FileBytes{FileMeta: meta, Bytes: "c29tZSB3b3Jkcw=="})
			part := sent.History[0].Parts[1].(a2a.FilePart).File.(a2a.FileURI)
			assert.Equal(x, "a.txt", part.Name)
			id := part.URI[strings.LastIndex(part.URI, "/")+1:]
			kept := x.get("/files/"+id, "Accept", "application/json").is(200)
			assert.Equal(x, "text/plain", kept.text("content_type"))
			again := file(a2a.FileURI{URI: part.URI})
			assert.Equal(x, part.URI, again.History[0].Parts[1].(a2a.FilePart).File.(a2a.FileURI).URI)
			for _, bad := range []a2a.FilePartContent{
				a2a.FileURI{URI: "https://example.com/a.png"}, a2a.FileURI{URI: part.URI + "x"},
				a2a.FileBytes{Bytes: "?"}, a2a.FileBytes{Bytes: ""},
			} {
				_, err := client.SendMessage(x.Context(), newMessage(a2a.FilePart{File: bad}))
				assert.Error(x, err, "%v", bad)
			}
			paused, err := client.SendMessage(x.Context(), newMessage(a2a.TextPart{Text: "/ask Which?"}))
			require.NoError(x, err)
			answered, err := client.SendMessage(x.Context(), newTaskMessage(paused.(*a2a.Task),
				a2a.TextPart{Text: "this"}, a2a.FilePart{File: a2a.FileBytes{FileMeta: meta, Bytes: "aGk="}}))
			require.NoError(x, err)
			assert.Equal(x, paused.(*a2a.Task).ID, answered.(*a2a.Task).ID)
		}},
		{Name: "a2a/the agent's tasks are listed", Run: func(x *Actor) {
			list := func(params object) reply {
				return x.post("/a2a/"+x.Agent,
					object{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}).is(200)
			}
			other := x.post("/agents", object{"name": "other"}).is(201).text("agent_id")
			x.chat("message", "not mine", "agent_id", other).is(200)
			var runs []string
			for range 3 {
				a := x.chat("message", "hello", "chat_id", "one").is(200)
				runs = append(runs, a.text("run_id"))
			}
			paused := x.chat("message", "/ask Which?").is(202).text("run_id")
			x.eventually("the listing", func() bool { return len(list(object{}).list("result", "tasks")) == 4 })
			var seen []string
			for token, pages := "", 0; pages == 0 || token != ""; pages++ {
				require.Less(x, pages, 10)
				page := list(object{"pageSize": 2, "pageToken": token, "contextId": "one"})
				for _, one := range page.list("result", "tasks") {
					seen = append(seen, one.(object)["id"].(string))
					assert.NotContains(x, one, "artifacts")
				}
				token = page.text("result", "nextPageToken")
			}
			assert.ElementsMatch(x, runs, seen)
			waits := list(object{"status": "TASK_STATE_INPUT_REQUIRED", "historyLength": 1})
			assert.Equal(x, paused, waits.text("result", "tasks", 0, "id"))
			assert.Equal(x, "/ask Which?", waits.text("result", "tasks", 0, "history", 0, "parts", 0, "text"))
			for _, never := range []string{"REJECTED", "AUTH_REQUIRED"} {
				assert.Empty(x, list(object{"status": "TASK_STATE_" + never}).list("result", "tasks"))
			}
			assert.NotEmpty(x, list(object{"status": "TASK_STATE_UNSPECIFIED"}).list("result", "tasks"))
			done := list(object{"status": "TASK_STATE_COMPLETED", "includeArtifacts": true})
			assert.Equal(x, "You said: hello", done.text("result", "tasks", 0, "artifacts", 0, "parts", 0, "text"))
			assert.Empty(x, list(object{"contextId": "nowhere"}).list("result", "tasks"))
			for _, bad := range []object{
				{"pageSize": 0}, {"pageSize": 101}, {"pageToken": "?"}, {"status": "DONE"},
				{"statusTimestampAfter": "x"},
			} {
				assert.Equal(x, -32602.0, list(bad).number("error", "code"), "%v", bad)
			}
		}},
		{Name: "a2a/pauses and the end of a task are pushed in version 0.3", Run: func(x *Actor) {
			client, card := x.a2aClient(x.Agent)
			assert.True(x, card.Capabilities.PushNotifications)
			asks := newMessage(a2a.TextPart{Text: "/ask Which?"})
			asks.Config = &a2a.MessageSendConfig{
				PushConfig: &a2a.PushConfig{URL: x.address("ok"), Token: "s3cret-of-the-receiver",
					Auth: &a2a.PushAuthInfo{Schemes: []string{"Bearer"}, Credentials: "s3cret-too"}},
			}
			r, err := client.SendMessage(x.Context(), asks)
			require.NoError(x, err)
			task := r.(*a2a.Task)
			p := x.awaitPosts("ok", 1)[0]
			assert.Equal(x, "application/json", p.header.Get("Content-Type"))
			assert.Equal(x, "s3cret-of-the-receiver", p.header.Get("X-A2A-Notification-Token"))
			assert.Equal(x, "Bearer s3cret-too", p.header.Get("Authorization"))
			assert.NotEmpty(x, p.header.Get("Webhook-Id"))
			assert.NotEmpty(x, p.header.Get("X-Agent-Signature"))
			var pushed a2a.Task
			require.NoError(x, json.Unmarshal(p.raw, &pushed))
			assert.Equal(x, task.ID, pushed.ID)
			assert.Equal(x, a2a.TaskStateInputRequired, pushed.Status.State)
			assert.Equal(x, "Which?", textOf(pushed.Status.Message.Parts))

			configs, err := client.ListTaskPushConfig(x.Context(), &a2a.ListTaskPushConfigParams{TaskID: task.ID})
			require.NoError(x, err)
			require.Len(x, configs, 1)
			assert.Equal(x, a2a.PushConfig{ID: string(task.ID), URL: x.address("ok")}, configs[0].Config, "no token")
			_, err = client.SendMessage(x.Context(), newTaskMessage(task, a2a.TextPart{Text: "this"}))
			require.NoError(x, err)
			require.NoError(x, json.Unmarshal(x.awaitPosts("ok", 2)[1].raw, &pushed))
			assert.Equal(x, a2a.TaskStateCompleted, pushed.Status.State)
			assert.Equal(x, "Answer: this", textOf(pushed.Artifacts[0].Parts))
			var deliveries reply
			x.eventually("the record of it", func() bool {
				deliveries = x.get("/webhooks/deliveries?state=delivered&run_id=" + string(task.ID)).is(200)
				return len(deliveries.list("deliveries")) == 2
			})
			assert.Equal(x, x.address("ok"), deliveries.text("deliveries", 0, "callback_url"))
			for _, response := range []reply{deliveries, x.get("/runs/" + string(task.ID))} {
				assert.NotContains(x, response.raw, "s3cret")
			}
		}},
		{Name: "a2a/where a task is pushed is set, replaced and deleted in version 1.0", Run: func(x *Actor) {
			call := func(method string, params object) reply {
				x.Helper()
				return x.post("/a2a/"+x.Agent,
					object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).is(200)
			}
			set := func(task, behaviour string) reply {
				return call("CreateTaskPushNotificationConfig",
					object{"taskId": task, "url": x.address(behaviour), "token": "t0ken"})
			}
			task := x.chat("message", "/ask One?\n/stream 1 1ms\n/ask Two?", "chat_id", "c").is(202).text("run_id")
			assert.Equal(x, task, set(task, "redirect").text("result", "id"))
			assert.Equal(x, x.address("ok"), set(task, "ok").text("result", "url"))
			x.chat("message", "first", "chat_id", "c").is(202)
			p := x.awaitPosts("ok", 1)[0]
			assert.Equal(x, "application/a2a+json", p.header.Get("Content-Type"))
			assert.Equal(x, "t0ken", p.header.Get("X-A2A-Notification-Token"))
			assert.Equal(x, "TASK_STATE_INPUT_REQUIRED", reply{x: x, body: p.body}.text("task", "status", "state"))
			call("DeleteTaskPushNotificationConfig", object{"taskId": task, "id": task})
			assert.Empty(x, call("ListTaskPushNotificationConfigs", object{"taskId": task}).list("result", "configs"))
			x.chat("message", "second", "chat_id", "c").is(200)
			assert.Len(x, x.delivery(task).list("deliveries"), 1, "its end is not pushed")
			assert.Empty(x, x.pushes("redirect"))

			assert.Equal(x, -32004.0, set(task, "ok").number("error", "code"), "it has ended")
			called := x.chat("message", "/ask Which?", "callback_url", x.address("ok")).is(202).text("run_id")
			assert.Contains(x, set(called, "ok").text("error", "message"), "callback_url")
		}},
		{Name: "a2a/a push to where it must not go begins no task", Run: func(x *Actor) {
			for _, bad := range []object{
				{"url": "http://example.com/"}, {"url": "https://127.0.0.1/"}, {"url": "https://169.254.169.254/"},
				{"url": "https://0x7f.1/"}, {"url": "https://a:b@example.com/"}, {"url": ""}, {},
				{"url": x.address("ok"), "token": strings.Repeat("x", 1025)},
				{"url": x.address("ok"), "token": "x\r\nX-Admin: 1"},
				{"url": x.address("ok"), "authentication": object{"scheme": "Digest", "credentials": "c"}},
			} {
				params := object{"message": object{"role": "ROLE_USER", "parts": []object{{"text": "x"}}},
					"configuration": object{"taskPushNotificationConfig": bad}}
				a := x.post("/a2a/"+x.Agent,
					object{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).is(200)
				assert.Contains(x, []float64{-32602, -32004}, a.number("error", "code"), "%v", bad)
			}
			assert.Empty(x, x.get("/runs").is(200).list("runs"))
		}},
	}
}
