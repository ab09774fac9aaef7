package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pausing is an agent that needs approval for each call, with users around it.
type pausing struct {
	*Actor // an admin

	agent                     string
	owner, colleague, manager *Actor // may use the agent
	approver                  *Actor // may not, where it names users
	reader, token             *Actor // the owner's, by another key and by a run's token
	users, approvers          string // groups
	run, chat, interrupt      string // the waiting run, its chat and its interrupt
}

// pausing makes the agent with some members; if named is set, it names groups of users and of approvers.
func (x *Actor) pausing(named bool, approval object) *pausing {
	x.Helper()
	p := &pausing{Actor: x, owner: x.colleague("member", "run"), colleague: x.colleague("member", "run"),
		manager: x.colleague("manager", "manage"), approver: x.colleague("member", "run")}
	x.patch("/users/"+p.owner.User, object{"name": "Olive Owner"}).is(200)
	key := x.post("/api-keys", object{"name": "k", "user_id": p.owner.User, "level": "read"}).is(201)
	p.reader = p.owner.with(key.text("key"))
	p.users = x.post("/groups", object{"name": "users"}).is(201).text("group_id")
	p.approvers = x.post("/groups", object{"name": "approvers"}).is(201).text("group_id")
	for _, member := range []*Actor{p.owner, p.colleague, p.manager} {
		x.post("/groups/"+p.users+"/members", object{"user_id": member.User}).is(201)
	}
	x.post("/groups/"+p.approvers+"/members", object{"user_id": p.approver.User}).is(201)
	body := object{"name": "Payer", "approval": approval}
	if named {
		body["group_ids"], body["approver_group_ids"] = []string{p.users}, []string{p.approvers}
	}
	p.agent = x.post("/agents", body).is(201).text("agent_id")
	return p
}

var asks = object{"mode": "always"}

// pause makes the owner begin a run that waits for an approval.
func (p *pausing) pause(by *Actor) {
	p.Helper()
	a := by.chat("agent_id", p.agent, "message", tool("echo", object{"text": "a"}), "idempotency_key",
		fmt.Sprint("k", emails.Add(1))).is(202)
	p.run, p.chat, p.interrupt = a.text("run_id"), a.text("chat_id"), a.interrupt(0)
	p.token = p.with(by.post("/runs/"+p.run+"/token", nil).is(201).text("token"))
}

// ways returns all ways to approve a pause. Each returns the response.
func (p *pausing) ways() map[string]func(who *Actor) reply {
	resume := func(who *Actor) reply {
		return who.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve"))
	}
	return map[string]func(who *Actor) reply{
		"resume": resume,
		"edit": func(who *Actor) reply {
			return who.post("/runs/"+p.run+"/resume", object{"decisions": []object{{"interrupt_id": p.interrupt,
				"decision": "edit", "arguments": object{"text": "a"}}}})
		},
		"a token": func(who *Actor) reply {
			made := who.post("/runs/"+p.run+"/token", nil)
			if made.status != 201 {
				return made
			}
			return resume(who.with(made.text("token")))
		},
		"A2A": func(who *Actor) reply {
			return who.post("/a2a/"+p.agent, object{"jsonrpc": "2.0", "id": 1, "method": "message/send",
				"params": object{"message": object{"kind": "message", "messageId": fmt.Sprint("m", emails.Add(1)),
					"role": "user", "taskId": p.run,
					"parts": []object{{"kind": "data", "data": decide(p.interrupt, "approve")}}}}})
		},
		"AG-UI": func(who *Actor) reply {
			f := who.frontEnd(p.agent, p.chat)
			f.messages = []object{}
			f.more["resume"] = []object{{"interruptId": "int_" + p.run + "_" + p.interrupt, "status": "resolved",
				"payload": object{"approved": true}}}
			return who.post("/agui/"+f.agent, f.body("r"))
		},
		"Responses": func(who *Actor) reply {
			return who.respond([]object{{"type": "mcp_approval_response",
				"approval_request_id": "mcpr_" + p.run + "_" + p.interrupt, "approve": true}}, "model", p.agent,
				"previous_response_id", "resp_"+p.run)
		},
	}
}

// Decisions on calls, and the access of users who may decide.
func decisionScenarios() []Story {
	return []Story{
		{Name: "approvers/who may approve may by each way in, and nobody else", Run: func(x *Actor) {
			others := maps.Clone(asks)
			others["self"] = false
			for name, c := range map[string]struct {
				named    bool
				approval object
				may      []string // in addition to the admin
			}{
				"an agent for all":              {false, asks, []string{"the owner", "a manager"}},
				"an agent of groups":            {true, asks, []string{"an approver"}},
				"an agent that others approve":  {false, others, []string{"a manager"}},
				"a group's that others approve": {true, others, []string{"an approver"}},
			} {
				p := x.pausing(c.named, c.approval)
				people := map[string]*Actor{"the owner": p.owner, "a colleague": p.colleague, "a manager": p.manager,
					"an approver": p.approver, "an admin": x, "a reader": p.reader}
				p.pause(p.owner)
				before := x.get("/runs/" + p.run).is(200).raw
				for who, actor := range people {
					if who == "an admin" || slices.Contains(c.may, who) {
						continue
					}
					for way, approve := range p.ways() {
						a := approve(actor)
						assert.Equal(x, 403, a.status, "%s, %s by %s: %s", name, who, way, a.raw)
					}
				}
				if !slices.Contains(c.may, "the owner") {
					p.token.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(403,
						"insufficient_permission")
				}
				assert.Equal(x, before, x.get("/runs/"+p.run).is(200).raw, "what is refused changes nothing")
				x.post("/runs/"+p.run+"/cancel", nil).is(200)
				for _, who := range append(c.may, "an admin") {
					for way, approve := range p.ways() {
						outside := who == "an approver" && c.named && way != "resume" && way != "edit"
						p.pause(p.owner)
						a := approve(people[who])
						if outside { // the other ways lead through the chat
							assert.Equal(x, 403, a.status, "%s, %s by %s: %s", name, who, way, a.raw)
							assert.Equal(x, "awaiting_input", x.get("/runs/"+p.run).is(200).text("status"))
							x.post("/runs/"+p.run+"/cancel", nil).is(200)
							continue
						}
						require.Equal(x, 200, a.status, "%s, %s by %s: %s", name, who, way, a.raw)
						assert.Contains(x, x.await(p.run, "completed").raw, "echo → a", "%s, %s by %s", name, who, way)
					}
				}
			}
		}},
		{Name: "approvers/the user of a run may not approve it by any key, and may reject it", Run: func(x *Actor) {
			alone := object{"name": "A", "approval": object{"mode": "always", "self": false}}
			x.post("/agents", alone).names("approval.self")
			x.patch("/agents/"+x.Agent, object{"approval": object{"self": false}}).names("approval.self")
			p := x.pausing(false, object{"mode": "always", "self": false})
			assert.Equal(x, false, x.get("/agents/"+p.agent).is(200).at("approval", "self"))
			assert.Equal(x, true, x.get("/agents/"+x.Agent).is(200).at("approval", "self"))
			for _, own := range []*Actor{p.owner, p.manager, x} { // not even as an admin
				p.pause(own)
				second := own.with(x.post("/api-keys",
					object{"name": "second", "user_id": own.User, "level": "run"}).is(201).text("key"))
				for _, who := range []*Actor{own, second, p.token} {
					who.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(403,
						"insufficient_permission")
				}
				row := own.get("/interrupts").is(200)
				assert.Equal(x, false, row.at("interrupts", len(row.list("interrupts"))-1, "decidable"))
				second.post("/runs/"+p.run+"/resume", decide(p.interrupt, "reject")).is(200)
				assert.Contains(x, x.await(p.run, "completed").raw, "rejected")
			}
			// An edit does not change a pending decision.
			p.pause(p.owner)
			p.manager.patch("/agents/"+p.agent, object{"approval": object{"self": nil}}).
				problem(403, "insufficient_permission")
			x.patch("/agents/"+p.agent, object{"approval": object{"self": nil}}).is(200)
			p.owner.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(403,
				"insufficient_permission")
			x.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).is(200)
			p.pause(p.owner)
			p.owner.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).is(200)
		}},
		{Name: "approvers/who may not use the agent is shown what is to be decided, and no more", Run: func(x *Actor) {
			p := x.pausing(true, asks)
			p.pause(p.owner)
			shown := func(status string, interrupts ...any) object {
				return object{"run_id": p.run, "agent_name": "Payer", "status": status,
					"message": tool("echo", object{"text": "a"}), "interrupts": append([]any{}, interrupts...),
					"asked_by": object{"user_id": p.owner.User, "name": "Olive Owner"}}
			}
			full := x.get("/runs/" + p.run).is(200)
			assert.Equal(x, shown("")["asked_by"], full.at("asked_by"))
			read := p.approver.get("/runs/" + p.run + "?wait_ms=10").is(200)
			assert.Equal(x, shown("awaiting_input", full.at("interrupts", 0)), read.body)
			tag := read.header.Get("ETag")
			assert.NotEqual(x, full.header.Get("ETag"), tag)
			assert.Equal(x, 304, p.approver.get("/runs/"+p.run, "If-None-Match", tag).status)
			p.approver.get("/runs/"+p.run, "If-None-Match", full.header.Get("ETag")).is(200)

			inbox := p.approver.get("/interrupts").is(200)
			row := maps.Clone(full.at("interrupts", 0).(object))
			maps.Copy(row, shown("awaiting_input"))
			delete(row, "interrupts")
			row["decidable"] = true
			assert.Equal(x, []any{row}, inbox.list("interrupts"))
			assert.Equal(x, []any{1.0, 1.0}, []any{inbox.at("total"), inbox.at("waiting")})
			for _, query := range []string{"chat_id=" + p.chat, "agent_id=" + p.agent} {
				assert.Empty(x, p.approver.get("/interrupts?"+query).is(200).list("interrupts"), query)
			}
			card := p.owner.get("/interrupts").is(200)
			assert.Equal(x, shown("")["asked_by"], card.at("interrupts", 0, "asked_by"))
			assert.Equal(x, p.chat, card.text("interrupts", 0, "chat_id"))
			p.closedTo(p.approver)

			done := p.approver.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).is(200)
			assert.Equal(x, shown("queued"), done.body)
			x.await(p.run, "completed")
			assert.Equal(x, shown("completed"), p.approver.get("/runs/"+p.run).is(200).body)
			p.approver.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(409,
				"not_awaiting_input")
			p.closedTo(p.approver)
			var entry object
			x.eventually("the entry", func() bool {
				list := x.get("/audit-log?subject_id=" + p.run).is(200).list("entries")
				if len(list) > 0 {
					entry = list[0].(object)
				}
				return entry != nil
			})
			assert.Equal(x, []any{p.approver.User, shown("")["asked_by"]}, []any{entry["user_id"], entry["asked_by"]})
		}},
		{Name: "approvers/a question is for who may post, also beside an approval", Run: func(x *Actor) {
			p := x.pausing(true, asks)
			a := p.owner.chat("agent_id", p.agent, "message",
				"/ask "+secretWord+"\n"+tool("echo", object{"text": "a"})).is(202)
			p.run, p.chat = a.text("run_id"), a.text("chat_id")
			both := object{"decisions": []object{
				{"interrupt_id": a.interrupt(0), "decision": "answer", "message": "yes"},
				{"interrupt_id": a.interrupt(1), "decision": "approve"},
			}}
			read := p.approver.get("/runs/" + p.run).is(200)
			assert.Equal(x, []string{"approval"}, ids(read, "interrupts", "kind"))
			inbox := p.approver.get("/interrupts").is(200)
			assert.Equal(x, []any{1.0, 0.0, false},
				[]any{inbox.at("total"), inbox.at("waiting"), inbox.at("interrupts", 0, "decidable")})
			for _, who := range []*Actor{p.approver, p.owner, p.manager} {
				who.post("/runs/"+p.run+"/resume", both).problem(403, "insufficient_permission")
			}
			x.post("/groups/"+p.approvers+"/members", object{"user_id": p.colleague.User}).is(201)
			p.colleague.post("/runs/"+p.run+"/resume", both).is(200) // with both rights
			x.await(p.run, "completed")

			question := p.owner.chat("agent_id", p.agent, "message", "/ask Which?").is(202)
			answer := object{"decisions": []object{
				{"interrupt_id": question.interrupt(0), "decision": "answer", "message": "this"},
			}}
			p.approver.get("/runs/"+question.text("run_id")).problem(403, "insufficient_permission")
			p.approver.post("/runs/"+question.text("run_id")+"/resume", answer).problem(403, "insufficient_permission")
			p.manager.post("/runs/"+question.text("run_id")+"/resume", answer).is(200)
		}},
		{Name: "approvers/who is none any more neither sees nor decides", Run: func(x *Actor) {
			for name, end := range map[string]func(p *pausing){
				"leaves the group": func(p *pausing) {
					p.delete("/groups/" + p.approvers + "/members/" + p.approver.User).is(204)
				},
				"the agent names others": func(p *pausing) {
					p.patch("/agents/"+p.agent, object{"approver_group_ids": []string{p.users}}).is(200)
				},
				"the agent names none": func(p *pausing) {
					p.patch("/agents/"+p.agent, object{"approver_group_ids": nil}).is(200)
				},
				"the group goes": func(p *pausing) { p.delete("/groups/" + p.approvers).is(204) },
			} {
				p := x.pausing(true, asks)
				p.pause(p.owner)
				p.approver.get("/runs/" + p.run).is(200)
				end(p)
				if x.world.Spread {
					x.eventually(name, func() bool { return p.approver.get("/runs/"+p.run).status == 403 })
				}
				p.approver.get("/runs/"+p.run).problem(403, "insufficient_permission")
				assert.Empty(x, p.approver.get("/interrupts").is(200).list("interrupts"), name)
				for _, who := range []*Actor{p.approver, p.owner, p.manager} {
					who.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).problem(403,
						"insufficient_permission")
				}
				x.post("/runs/"+p.run+"/resume", decide(p.interrupt, "approve")).is(200)
			}
		}},
		{Name: "approvers/a wait for the inbox goes by the groups of its end", Run: func(x *Actor) {
			p := x.pausing(true, asks)
			tag := p.approver.get("/interrupts").is(200).header.Get("ETag")
			waiting := p.approver.later("/interrupts?wait_ms=3000", "If-None-Match", tag)
			p.delete("/groups/" + p.approvers + "/members/" + p.approver.User).is(204)
			p.pause(p.owner)
			if a := <-waiting; !x.world.Spread { // elsewhere it may be known later
				assert.NotContains(x, a.raw, p.run)
			}
		}},
		{Name: "approvers/malformed comes before ids, and ids before the schema", Run: func(x *Actor) {
			p := x.pausing(false, asks)
			p.pause(p.owner)
			before := x.get("/runs/" + p.run).is(200).raw
			edit := func(interrupt string, arguments any) object {
				return object{"decisions": []object{
					{"interrupt_id": interrupt, "decision": "edit", "arguments": arguments},
				}}
			}
			resume := "/runs/" + p.run + "/resume"
			p.owner.post(resume, edit("unknown", 7)).names("decisions[0].arguments")
			p.owner.post(resume, edit("unknown", object{"text": 7})).problem(409, "interrupts_mismatch")
			p.owner.post(resume, edit(p.interrupt, object{"text": 7})).names("decisions[0].arguments")
			p.colleague.post(resume, edit("unknown", object{"text": 7})).problem(403, "insufficient_permission")
			assert.Equal(x, before, x.get("/runs/"+p.run).is(200).raw)
		}},
	}
}

// closedTo checks that a user has no access to the agent's work, except to read the run, to resume it and the inbox.
func (p *pausing) closedTo(who *Actor) {
	p.Helper()
	run, chat := "/runs/"+p.run, "/chats/"+p.chat
	task := func(method string) object {
		return object{"jsonrpc": "2.0", "id": 1, "method": method, "params": object{"id": p.run, "taskId": p.run}}
	}
	for what, a := range map[string]reply{
		"stream": who.get(run + "/stream"), "steps": who.get(run + "/steps"), "messages": who.get(run + "/messages"),
		"interrupts": who.get(run + "/interrupts"), "parked": who.get(run + "/parked"),
		"cancel": who.post(run+"/cancel", nil), "token": who.post(run+"/token", nil),
		"followup": who.post(run+"/followups", object{"message": "x"}),
		"chat":     who.get(chat), "runs of the chat": who.get(chat + "/runs"),
		"its messages": who.get(chat + "/messages"),
		"delete":       who.delete(chat), "say": who.chat("message", "x", "chat_id", p.chat),
		"response": who.get("/responses/resp_" + p.run), "input": who.get("/responses/resp_" + p.run + "/input_items"),
		"its cancel":    who.post("/responses/resp_"+p.run+"/cancel", nil),
		"deliveries":    who.get("/webhooks/deliveries?run_id=" + p.run),
		"its end":       who.delete("/responses/resp_" + p.run),
		"task":          who.post("/a2a/"+p.agent, task("tasks/get")),
		"tasks":         who.post("/a2a/"+p.agent, task("ListTasks")),
		"task's cancel": who.post("/a2a/"+p.agent, task("tasks/cancel")),
		"task's stream": who.post("/a2a/"+p.agent, task("tasks/resubscribe")),
		"push":          who.post("/a2a/"+p.agent, task("tasks/pushNotificationConfig/get")),
		"thread":        who.post("/agui/"+p.agent, who.frontEnd(p.agent, p.chat).addMessage("u", "x").body("r")),
		"agent":         who.get("/agents/" + p.agent), "tools": who.get("/agents/" + p.agent + "/tools"),
	} {
		assert.Equal(p, 403, a.status, "%s: %s", what, a.raw)
	}
	for _, list := range []string{"/runs", "/runs?status=awaiting_input", "/chats", "/webhooks/deliveries", "/agents",
		"/analytics/me", "/runs?chat_id=" + p.chat} {
		assert.NotContains(p, who.get(list).is(200).raw, p.run, list)
	}
	none := who.post("/runs/cancel", object{"filter": object{}, "confirm_count": 0}).is(200)
	assert.Equal(p, 0.0, none.number("matched"))
	session, err := who.mcpClient()
	require.NoError(p, err)
	result, err := session.CallTool(p.Context(),
		&mcp.CallToolParams{Name: "get_run", Arguments: object{"run_id": p.run}})
	require.NoError(p, err)
	assert.True(p, result.IsError, jsonOf(result))
	assert.NoError(p, session.Close())
}
