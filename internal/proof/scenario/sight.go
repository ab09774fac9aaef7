package scenario

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// private is a chat of an owner in an organization where chats are their users' own, with users around it.
type private struct {
	restricted // its member is the owner; everybody may use its agent

	colleague, manager *Actor
	second             *Actor // the owner, by another key
	monitor, runner    *Actor // another member, by keys that see all: of level read and run
}

// private makes the chat.
func (x *Actor) private() private {
	x.Helper()
	x.share("own")
	p := private{restricted: restricted{Actor: x, member: x.colleague("member", "run"), chat: "mine"},
		colleague: x.colleague("member", "run"), manager: x.colleague("manager", "manage")}
	watcher := x.colleague("member", "run")
	p.monitor, p.runner = x.key(watcher, "read", "organization"), x.key(watcher, "run", "organization")
	p.second = x.key(p.member, "run", "own")
	p.agent = x.post("/agents", object{"name": "Open"}).is(201).text("agent_id")
	p.file = p.member.file(secretWord)
	p.converse()
	return p
}

// share sets the visibility of the chats of the actor's organization.
func (x *Actor) share(visibility string) {
	x.Helper()
	x.patch("/organization", object{"chat_visibility": visibility}).is(200)
}

// key returns a user with another key, which an admin makes.
func (x *Actor) key(of *Actor, level, sees string) *Actor {
	x.Helper()
	return of.with(x.post("/api-keys",
		object{"name": "k", "user_id": of.User, "level": level, "sees": sees}).is(201).text("key"))
}

// closedTo checks that a user has no access to the chat, although everybody may use its agent.
func (p private) closedTo(who *Actor) {
	p.Helper()
	p.token = who.Key // it has no token of the run
	p.refused(who)
	p.protocols(who)
}

// protocols checks that a user cannot reach the chat over any protocol.
func (p private) protocols(who *Actor) {
	p.Helper()
	call := func(method string, params object) object {
		return object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	}
	task := object{"id": p.asks, "taskId": p.asks}
	send := func(to object) object {
		to["messageId"], to["role"], to["parts"] = "m", "ROLE_USER", []object{{"text": "x"}}
		return call("SendMessage", object{"message": to})
	}
	for what, a := range map[string]reply{
		"task":       who.post("/a2a/"+p.agent, call("tasks/get", task), "A2A-Version", "0.3"),
		"its cancel": who.post("/a2a/"+p.agent, call("CancelTask", task), "A2A-Version", "1.0"),
		"its stream": who.post("/a2a/"+p.agent, call("SubscribeToTask", task), "A2A-Version", "1.0"),
		"its pushes": who.post("/a2a/"+p.agent, call("ListTaskPushNotificationConfigs", task), "A2A-Version",
			"1.0"),
		"its answer":     who.post("/a2a/"+p.agent, send(object{"taskId": p.asks}), "A2A-Version", "1.0"),
		"its context":    who.post("/a2a/"+p.agent, send(object{"contextId": p.chat}), "A2A-Version", "1.0"),
		"thread":         who.post("/agui/"+p.agent, who.frontEnd(p.agent, p.chat).addMessage("u", "x").body("r")),
		"response":       who.respond("x", "model", p.agent, "previous_response_id", "resp_"+p.ended),
		"conversation":   who.respond("x", "model", p.agent, "conversation", p.chat),
		"streamed":       who.chat("agent_id", p.agent, "message", "x", "chat_id", p.chat, "streaming", "true"),
		"no such stream": who.get("/runs/"+p.asks+"/stream", "Accept", "text/event-stream"),
	} {
		a.problem(403, "insufficient_permission")
		assert.NotContains(p, a.raw, secretWord, what)
	}
	for _, params := range []object{{}, {"contextId": p.chat}, {"includeArtifacts": true, "historyLength": 5}} {
		raw := who.post("/a2a/"+p.agent, call("ListTasks", params), "A2A-Version", "1.0").raw
		assert.NotContains(p, raw, p.ended, "tasks")
		assert.NotContains(p, raw, p.asks, "tasks")
		assert.NotContains(p, raw, secretWord, "tasks")
	}
	session, err := who.mcpClient()
	require.NoError(p, err)
	for name, arguments := range map[string]object{
		"get_run":    {"run_id": p.asks},
		"cancel_run": {"run_id": p.asks},
	} {
		answered, err := session.CallTool(p.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		require.NoError(p, err, name)
		assert.True(p, answered.IsError, name)
		assert.NotContains(p, jsonOf(answered), secretWord, name)
	}
	assert.NoError(p, session.Close())
}

// open checks that a user has access to all of the chat.
func (p private) open(who *Actor) {
	p.Helper()
	for _, path := range []string{"/runs/" + p.ended, "/runs/" + p.asks + "/interrupts",
		"/chats/" + p.chat + "/messages", "/runs/" + p.asks + "/parked", "/files/" + p.file,
		"/responses/resp_" + p.ended, "/interrupts", "/chats",
		"/runs/" + p.ended + "/messages", "/runs/" + p.ended + "/steps"} {
		assert.Contains(p, who.get(path).is(200).raw, secretWord, path)
	}
	for _, path := range []string{"/runs", "/runs?chat_id=" + p.chat, "/chats/" + p.chat + "/runs",
		"/webhooks/deliveries", "/webhooks/deliveries/" + p.delivery} {
		assert.Contains(p, who.get(path).is(200).raw, p.ended, path)
	}
	p.with(who.Key).follow(p.ended).until("done")
	tasks := object{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": object{"contextId": p.chat}}
	if who != p.monitor { // its level is too low
		assert.Contains(p, who.post("/a2a/"+p.agent, tasks, "A2A-Version", "1.0").is(200).raw, p.ended)
	}
}

// Stories of readers of chats in organizations, or of agents, where chats are their users' own.
func sightScenarios() []Story {
	return append([]Story{
		{Name: "sight/a colleague finds every door of a chat closed", Run: func(x *Actor) {
			p := x.private()
			p.closedTo(p.colleague)
			assert.Equal(x, "awaiting_input", x.get("/runs/"+p.asks).is(200).text("status"))
		}},
		{Name: "sight/other keys of the owner, managers, admins and monitoring keys see a chat", Run: func(x *Actor) {
			p := x.private()
			for _, who := range []*Actor{p.member, p.second, p.monitor, p.runner, p.manager, x} {
				p.open(who)
			}
			p.monitor.post("/runs/"+p.asks+"/resume", p.answer()).problem(403, "insufficient_permission")
			p.runner.post("/runs/"+p.asks+"/resume", p.answer()).is(200)
			x.awaitTurn(p.parked, "completed")
			p.second.post("/runs/"+p.asks+"/cancel", nil).is(200)
			p.second.delete("/chats/" + p.chat).is(204)
		}},
		{Name: "sight/a rotated key sees what it did", Run: func(x *Actor) {
			p := x.private()
			id := p.monitor.keyID(x)
			rotated := x.post("/api-keys/"+id+"/rotate", nil).is(200)
			p.monitor.Key = rotated.text("key")
			p.open(p.monitor)
			x.patch("/api-keys/"+id, object{"sees": "own"}).is(200)
			x.eventually("the end of the right", func() bool { return p.monitor.get("/runs/"+p.asks).status == 403 })
			p.monitor.get("/chats/"+p.chat).problem(403, "insufficient_permission")
		}},
		{Name: "sight/a message to a colleague's chat is told nothing but that", Run: func(x *Actor) {
			p := x.private()
			first := p.colleague.chat("agent_id", p.agent, "message", "x", "chat_id", p.chat)
			first.problem(403, "insufficient_permission")
			assert.Equal(x, "manage", first.text("level_needed"))
			for what, pairs := range map[string][]string{
				"unknown agent":    {"agent_id", "0123456789abcdef01234567"},
				"malformed agent":  {"agent_id", "nonsense"},
				"unknown version":  {"agent_id", p.agent, "agent_version", "77"},
				"malformed fields": {"agent_id", p.agent, "metadata", "{", "callback_url", "nonsense"},
				"busy":             {"agent_id", p.agent, "on_conflict", "reject"},
				"parked":           {"agent_id", p.agent, "on_conflict", "enqueue"},
			} {
				a := p.colleague.chat(append(pairs, "message", "x", "chat_id", p.chat)...)
				a.problem(403, "insufficient_permission")
				assert.Equal(x, first.text("message"), a.text("message"), what)
				assert.NotContains(x, a.raw, p.asks, what)
			}
			p.colleague.post("/runs/"+p.asks+"/followups", object{"message": "x"}).problem(403,
				"insufficient_permission")
		}},
		{Name: "sight/a key that is used again is told nothing of a chat that is closed by now", Run: func(x *Actor) {
			x.share("organization")
			owner, colleague := x.colleague("member", "run"), x.colleague("member", "run")
			owner.chat("message", "hello", "chat_id", "c").is(200)
			again := func() reply {
				return colleague.chat("message", "my words", "chat_id", "c", "idempotency_key", "once")
			}
			run := again().is(200).text("run_id")
			assert.Equal(x, run, again().is(200).text("run_id"))
			x.share("own")
			x.eventually("the end of the right", func() bool { return colleague.get("/runs/"+run).status == 403 })
			again().problem(403, "insufficient_permission")
			assert.Contains(x, owner.get("/chats/c/messages").is(200).raw, "my words")
			assert.Contains(x, owner.get("/runs").is(200).raw, run, "it is a run of the owner's chat, whoever sent it")
			assert.NotContains(x, colleague.get("/runs").is(200).raw, run)
			assert.NotContains(x, colleague.get("/chats").is(200).raw, "hello")
			owner.post("/runs/"+run+"/cancel", nil).is(200)
			owner.chat("message", "and now?", "chat_id", "c").is(200)
		}},
		{Name: "sight/an agent keeps its chats to their users where others are shared", Run: func(x *Actor) {
			x.share("organization")
			p := x.private()
			x.share("organization")
			x.patch("/agents/"+p.agent, object{"chat_visibility": "own"}).is(200)
			x.eventually("the end of the right", func() bool { return p.colleague.get("/runs/"+p.ended).status == 403 })
			p.closedTo(p.colleague)
			for _, who := range []*Actor{p.member, p.second, p.monitor, p.runner, p.manager, x} {
				p.open(who)
			}
			run := p.member.chat("message", "open", "chat_id", "open").is(200).text("run_id")
			assert.Contains(x, p.colleague.get("/runs/"+run).is(200).raw, "open")
			p.colleague.chat("agent_id", p.agent, "message", "x", "chat_id", "open").problem(403,
				"insufficient_permission")
			p.colleague.chat("message", "x", "chat_id", "open").is(200)
			// the head counts, published or not
			x.patch("/agents/"+p.agent, object{"chat_visibility": "organization"}).is(200)
			x.eventually("the right", func() bool { return p.colleague.get("/runs/"+p.ended).status == 200 })
			p.open(p.colleague)
		}},
		{Name: "sight/a file is seen with the runs that hold it, and by its uploader", Run: func(x *Actor) {
			p := x.private()
			unheld, held := p.member.file("unheld words"), p.member.file("held words")
			p.member.chat("message", "x", "file_ids", held).is(200)
			for _, who := range []*Actor{p.colleague, p.monitor, p.runner, p.manager} {
				who.get("/files/"+unheld).problem(403, "insufficient_permission")
				who.chat("message", "x", "file_ids", unheld)
				who.get("/files/"+unheld).problem(403, "insufficient_permission")
			}
			for _, who := range []*Actor{p.member, p.second, x} {
				assert.Equal(x, "unheld words", who.get("/files/"+unheld).is(200).raw)
			}
			p.colleague.get("/files/"+held).problem(403, "insufficient_permission")
			p.colleague.delete("/files/"+held).problem(403, "insufficient_permission")
			for _, who := range []*Actor{p.member, p.second, p.monitor, p.manager, x} {
				assert.Equal(x, "held words", who.get("/files/"+held).is(200).raw)
			}
			x.share("organization")
			x.eventually("the right", func() bool { return p.colleague.get("/files/"+unheld).status == 200 })
			assert.Equal(x, "held words", p.colleague.get("/files/"+held).is(200).raw)
		}},
		{Name: "sight/cancelling many cancels what one sees", Run: func(x *Actor) {
			p := x.private()
			mine := p.colleague.startLongRun()
			hers := p.member.startLongRun()
			none := object{"filter": object{"user_id": p.member.User}, "confirm_count": 0}
			assert.Equal(x, 0.0, p.colleague.post("/runs/cancel", none).is(200).number("matched"))
			all := object{"filter": object{}, "confirm_count": 1}
			assert.Equal(x, 1.0, p.colleague.post("/runs/cancel", all).is(200).number("matched"))
			x.await(mine, "cancelled")
			assert.Equal(x, "running", x.get("/runs/"+hers).is(200).text("status"))
			both := object{"filter": object{"user_id": p.member.User}, "confirm_count": 2}
			p.manager.post("/runs/cancel", both).is(200)
			x.await(hers, "cancelled")
			x.await(p.asks, "cancelled")
		}},
		{Name: "sight/who approves sees the request and no more", Run: func(x *Actor) {
			x.share("own")
			p := x.pausing(true, asks)
			p.pause(p.owner)
			p.closedTo(p.approver)
			seen := p.approver.get("/runs/" + p.run).is(200)
			assert.Equal(x, p.interrupt, seen.interrupt(0))
			p.colleague.get("/runs/"+p.run).problem(403, "insufficient_permission")
			p.colleague.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(403,
				"insufficient_permission")
			assert.NotContains(x, p.colleague.get("/interrupts").is(200).raw, p.run)
			assert.Contains(x, p.approver.get("/interrupts").is(200).raw, p.run)
			p.approver.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).is(200)
			x.await(p.run, "completed")
		}},
		{Name: "sight/citations are seen with the chat, documents by whoever may read them", Run: func(x *Actor) {
			x.share("own")
			l := x.librarian()
			x.post("/groups/"+l.group+"/members", object{"user_id": l.outsider.User}).is(201)
			a := l.reader.chat("agent_id", l.library, "message", "/search swordfish lamp").is(200)
			require.Len(x, a.list("citations"), 1)
			run, chat := a.text("run_id"), a.text("chat_id")
			assert.Contains(x, l.reader.get("/runs/"+run).is(200).raw, l.document)
			for _, path := range []string{"/runs/" + run, "/runs/" + run + "/steps", "/chats/" + chat + "/runs",
				"/chats/" + chat + "/messages", "/runs/" + run + "/stream"} {
				l.outsider.get(path).problem(403, "insufficient_permission")
			}
			assert.NotContains(x, l.outsider.get("/runs?chat_id="+chat).is(200).raw, run)
			found := l.outsider.post("/search", object{"query": "swordfish lamp"}).is(200)
			assert.Contains(x, found.raw, l.document)
			assert.NotContains(x, found.raw, run)
		}},
		{Name: "sight/use by name is for admins, and one's own for each", Run: func(x *Actor) {
			p := x.private()
			for _, who := range []*Actor{p.colleague, p.monitor, p.manager} {
				who.get("/analytics/usage").problem(403, "insufficient_permission")
				who.get("/analytics/summary").problem(403, "insufficient_permission")
				assert.NotContains(x, who.get("/analytics/me").is(200).raw, p.member.User)
			}
		}},
	}, sightStreams()...)
}

// Streams and waits end when a chat is no longer shared.
func sightStreams() (stories []Story) {
	colleague := func(x *Actor) *Actor { return x.colleague("member", "run") }
	for what, c := range map[string]struct {
		before string // the visibility of the organization's chats
		who    func(x *Actor) *Actor
		end    func(x, who *Actor, agent string)
	}{
		"the organization keeps chats to their users": {"organization", colleague,
			func(x, _ *Actor, _ string) { x.share("own") }},
		"the agent keeps chats to their users": {"organization", colleague, func(x, _ *Actor, agent string) {
			x.patch("/agents/"+agent, object{"chat_visibility": "own"}).is(200)
		}},
		"the key is for monitoring no more": {"own",
			func(x *Actor) *Actor { return x.key(colleague(x), "run", "organization") },
			func(x, who *Actor, _ string) {
				x.patch("/api-keys/"+who.keyID(x), object{"sees": "own"}).is(200)
			}},
		"the manager becomes a member": {"own", func(x *Actor) *Actor { return x.colleague("manager", "manage") },
			func(x, who *Actor, _ string) { x.patch("/users/"+who.User, object{"role": "member"}).is(200) }},
	} {
		stories = append(stories, Story{Name: "sight/streams of others end when " + what, Run: func(x *Actor) {
			x.share(c.before)
			owner, who := x.colleague("member", "run"), c.who(x)
			agent := x.post("/agents", object{"name": "A"}).is(201).text("agent_id")
			run := owner.startLongRun("agent_id", agent)
			open := who.streamsOf(agent, run)
			mine := owner.follow(run)
			mine.until("init")
			polled := who.later("/runs/" + run + "?wait_ms=10000")
			c.end(x, who, agent)
			for name, response := range open {
				_, err := io.Copy(io.Discard, response.Body)
				assert.NoError(x, err, "%s goes on", name)
			}
			if a := <-polled; !x.world.Spread {
				assert.Equal(x, 403, a.status, a.raw)
			}
			x.eventually("the end of the right", func() bool { return who.get("/runs/"+run).status == 403 })
			assert.Equal(x, "running", owner.get("/runs/"+run).is(200).text("status"))
			x.stop(run)
			mine.until("done")
		}})
	}
	return stories
}

// streamsOf opens streams of a run that last as long as the right to it.
func (x *Actor) streamsOf(agent, run string) map[string]*http.Response {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), known)
	x.Cleanup(cancel)
	task := object{"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": object{"id": run}}
	open := map[string]*http.Response{}
	for name, r := range map[string]*http.Request{
		"SSE": x.request(http.MethodGet, "/runs/"+run+"/stream", nil),
		"A2A": x.request(http.MethodPost, "/a2a/"+agent, strings.NewReader(jsonOf(task)), "Content-Type",
			"application/json"),
	} {
		response, err := http.DefaultClient.Do(r.WithContext(ctx))
		require.NoError(x, err)
		x.Cleanup(func() { _ = response.Body.Close() })
		require.Equal(x, 200, response.StatusCode, name)
		_, err = response.Body.Read(make([]byte, 1))
		require.NoError(x, err)
		open[name] = response
	}
	return open
}
