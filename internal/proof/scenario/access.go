package scenario

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// restricted is an agent that is restricted to a group, with its work for a member: a run that has ended and one that
// is paused.
type restricted struct {
	*Actor // an admin who belongs to no group

	member                    *Actor
	group, agent              string
	ended, asks, parked, chat string
	question, delivery, file  string
	token                     string // of the paused run, made by the member
}

func (x *Actor) restrict() restricted {
	x.Helper()
	r := restricted{Actor: x, member: x.colleague("manager", "manage"), chat: "closed"}
	r.group = x.post("/groups", object{"name": "g"}).is(201).text("group_id")
	x.post("/groups/"+r.group+"/members", object{"user_id": r.member.User}).is(201)
	r.agent = x.post("/agents", object{"name": "Closed", "group_ids": []string{r.group}}).is(201).text("agent_id")
	r.file = x.file(secretWord)
	r.converse()
	return r
}

// converse sends the member's messages to the agent.
func (r *restricted) converse() {
	r.Helper()
	done := r.member.chat("agent_id", r.agent, "message", secretWord, "file_ids", r.file, "chat_id", r.chat,
		"callback_url", r.address("ok"), "idempotency_key", "once").is(200)
	r.ended = done.text("run_id")
	asks := r.member.chat("agent_id", r.agent, "message", "/ask "+secretWord, "chat_id", r.chat).is(202)
	r.asks, r.question = asks.text("run_id"), asks.interrupt(0)
	r.parked = r.member.post("/runs/"+r.asks+"/followups", object{"message": secretWord}).is(202).text("parked",
		"parked_id")
	r.token = r.member.post("/runs/"+r.asks+"/token", nil).is(201).text("token")
	r.eventually("the delivery", func() bool {
		list := r.get("/webhooks/deliveries?run_id=" + r.ended).is(200)
		if len(list.list("deliveries")) == 0 || list.text("deliveries", 0, "state") != "delivered" {
			return false
		}
		r.delivery = list.text("deliveries", 0, "delivery_id")
		return true
	})
}

func (r restricted) answer() object {
	return object{"decisions": []object{{"interrupt_id": r.question, "decision": "answer",
		"message": "no business of yours"}}}
}

// closed checks that a user has no access to the agent's work at any endpoint. By id it is refused, and no list
// contains it.
func (r restricted) closed(who *Actor) {
	r.Helper()
	r.refused(who)
	assert.NotContains(r, who.get("/agents").is(200).raw, r.agent)
}

// refused checks that a user has no access to the chat, its runs and its files at any endpoint.
func (r restricted) refused(who *Actor) {
	r.Helper()
	before := r.get("/runs/" + r.asks).is(200).raw
	for what, a := range map[string]reply{
		"read":            who.get("/runs/" + r.ended),
		"read, waiting":   who.get("/runs/" + r.asks + "?wait_ms=10"),
		"stream":          who.get("/runs/" + r.ended + "/stream"),
		"steps":           who.get("/runs/" + r.ended + "/steps"),
		"messages of run": who.get("/runs/" + r.ended + "/messages"),
		"interrupts":      who.get("/runs/" + r.asks + "/interrupts"),
		"response":        who.get("/responses/resp_" + r.ended),
		"its input":       who.get("/responses/resp_" + r.ended + "/input_items"),
		"its cancel":      who.post("/responses/resp_"+r.asks+"/cancel", nil),
		"its end":         who.delete("/responses/resp_" + r.ended),
		"delivery":        who.get("/webhooks/deliveries/" + r.delivery),
		"parked":          who.get("/runs/" + r.asks + "/parked"),
		"withdraw":        who.delete("/runs/" + r.asks + "/parked/" + r.parked),
		"resume":          who.post("/runs/"+r.asks+"/resume", r.answer()),
		"cancel":          who.post("/runs/"+r.asks+"/cancel", nil),
		"followup":        who.post("/runs/"+r.asks+"/followups", object{"message": "x"}),
		"token":           who.post("/runs/"+r.asks+"/token", nil),
		"chat":            who.get("/chats/" + r.chat),
		"runs of chat":    who.get("/chats/" + r.chat + "/runs"),
		"active run":      who.get("/chats/" + r.chat + "/runs?active=true"),
		"messages":        who.get("/chats/" + r.chat + "/messages"),
		"delete chat":     who.delete("/chats/" + r.chat),
		"answer":          who.chat("message", "x", "chat_id", r.chat),
		"enqueue":         who.chat("message", "x", "chat_id", r.chat, "on_conflict", "enqueue"),
		"file":            who.get("/files/" + r.file),
		"attach":          who.chat("message", "x", "file_ids", r.file),
		"redeliver":       who.post("/webhooks/deliveries/"+r.delivery+"/redeliver", object{"force": true}),
		"deliveries":      who.get("/webhooks/deliveries?run_id=" + r.ended),
		"a token, read":   who.with(r.token).get("/runs/" + r.asks),
		"a token, answer": who.with(r.token).post("/runs/"+r.asks+"/resume", r.answer()),
		"a token, cancel": who.with(r.token).post("/runs/"+r.asks+"/cancel", nil),
		"a token, stream": who.with(r.token).get("/runs/" + r.asks + "/stream"),
	} {
		assert.Equal(r, 403, a.status, "%s: %s", what, a.raw)
		assert.Equal(r, "insufficient_permission", a.body["code"], "%s: %s", what, a.raw)
		assert.NotContains(r, a.raw, secretWord, what)
	}
	for _, list := range []string{"/runs", "/runs?chat_id=" + r.chat, "/chats", "/interrupts", "/webhooks/deliveries",
		"/runs?agent_id=" + r.agent, "/files"} {
		raw := who.get(list).is(200).raw
		assert.NotContains(r, raw, secretWord, list)
		assert.NotContains(r, raw, r.agent, list)
		assert.NotContains(r, raw, r.ended, list)
	}
	assert.Equal(r, 0.0, who.post("/runs/cancel",
		object{"filter": object{"agent_id": r.agent}, "confirm_count": 0}).is(200).number("matched"))
	session, err := who.mcpClient()
	require.NoError(r, err)
	result, err := session.CallTool(r.Context(),
		&mcp.CallToolParams{Name: "get_run", Arguments: object{"run_id": r.ended}})
	require.NoError(r, err)
	assert.True(r, result.IsError)
	assert.NotContains(r, jsonOf(result), secretWord)
	assert.NoError(r, session.Close())
	assert.Equal(r, before, r.get("/runs/"+r.asks).is(200).raw, "what is refused changes nothing")
}

// closedAgent checks that the user cannot read, use or change the agent itself either, while it exists.
func (r restricted) closedAgent(who *Actor) {
	r.Helper()
	task := object{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": object{"id": r.ended}}
	push := object{"jsonrpc": "2.0", "id": 1, "method": "ListTaskPushNotificationConfigs",
		"params": object{"taskId": r.ended}}
	for what, a := range map[string]reply{
		"read":      who.get("/agents/" + r.agent),
		"versions":  who.get("/agents/" + r.agent + "/versions"),
		"export":    who.get("/agents/" + r.agent + "/export"),
		"duplicate": who.post("/agents/"+r.agent+"/duplicate", nil),
		"publish":   who.post("/agents/"+r.agent+"/publish", object{"version": 1}),
		"change":    who.patch("/agents/"+r.agent, object{"group_ids": []string{}}),
		"delete":    who.delete("/agents/" + r.agent),
		"card":      who.get("/a2a/" + r.agent + "/.well-known/agent-card.json"),
		"task":      who.post("/a2a/"+r.agent, task),
		"push":      who.post("/a2a/"+r.agent, push),
		"chat":      who.chat("agent_id", r.agent, "message", "x"),
		"again":     who.chat("agent_id", r.agent, "message", secretWord, "chat_id", r.chat, "idempotency_key", "once"),
	} {
		assert.Equal(r, 403, a.status, "%s: %s", what, a.raw)
		assert.Equal(r, "insufficient_permission", a.body["code"], "%s: %s", what, a.raw)
	}
}

// The work of an agent with groups is visible to its groups only, for as long as it has them.
func accessScenarios() []Story {
	stories := []Story{
		{Name: "access/outsiders find every door closed, members and admins open", Run: func(x *Actor) {
			r := x.restrict()
			for _, role := range []string{"manager", "member"} {
				level := map[string]string{"manager": "manage", "member": "run"}[role]
				outsider := x.colleague(role, level)
				if role == "manager" {
					r.closedAgent(outsider)
				}
				r.token = outsider.Key // it has no token of that run
				r.closed(outsider)
			}
			for _, who := range []*Actor{r.member, x} {
				assert.Contains(x, who.get("/runs").is(200).raw, r.ended)
				assert.Contains(x, who.get("/chats/"+r.chat+"/messages").is(200).raw, secretWord)
				assert.Equal(x, secretWord, who.get("/files/"+r.file).is(200).raw)
				who.get("/agents/" + r.agent).is(200)
			}
			x.post("/runs/"+r.asks+"/resume", r.answer()).is(200)
			x.await(r.asks, "completed")
			outsider := x.colleague("member", "run")
			outsider.chat("message", "what did they say?", "chat_id", r.chat, "on_conflict", "enqueue").problem(403,
				"insufficient_permission")
		}},
		{Name: "access/a chat of several agents shows each reader what is theirs", Run: func(x *Actor) {
			r := x.restrict()
			x.post("/runs/"+r.asks+"/resume", r.answer()).is(200)
			x.awaitTurn(r.parked, "completed")
			open := r.member.chat("message", "open words", "chat_id", r.chat).is(200).text("run_id")
			outsider := x.colleague("member", "run")
			list := outsider.get("/chats/" + r.chat + "/messages").is(200)
			assert.Equal(x, []string{"user", "assistant"}, ids(list, "messages", "role"))
			assert.Equal(x, []string{open, open}, ids(list, "messages", "run_id"))
			var paged []string
			for next, pages := "?limit=1", 0; next != ""; pages++ {
				require.Less(x, pages, 20)
				page := outsider.get("/chats/" + r.chat + "/messages" + next).is(200)
				paged = append(paged, ids(page, "messages", "role")...)
				next = ""
				if cursor, more := page.body["next_cursor"].(string); more {
					next = "?limit=1&cursor=" + cursor
				}
			}
			assert.Equal(x, []string{"user", "assistant"}, paged, "a page may be short without being the last")
			assert.Equal(x, []string{open}, ids(outsider.get("/chats/"+r.chat+"/runs").is(200), "runs", "run_id"))
			assert.NotContains(x, outsider.get("/chats/"+r.chat).is(200).raw, secretWord,
				"its title is of the first message")
			assert.NotContains(x, outsider.get("/chats").is(200).raw, secretWord)
			// A message there would give a model the contents that the outsider may not read, and a deletion would
			// remove them.
			outsider.chat("message", "x", "chat_id", r.chat).problem(403, "insufficient_permission")
			outsider.delete("/chats/"+r.chat).problem(403, "insufficient_permission")
			r.member.delete("/chats/" + r.chat).is(204)
			outsider.chat("message", "x", "chat_id", r.chat).is(200) // another chat of the same id
		}},
		{Name: "access/a file stays its sender's, whoever has an agent read it", Run: func(x *Actor) {
			r := x.restrict()
			sender, colleague := x.colleague("member", "run"), x.colleague("member", "run")
			file := sender.file("mine")
			assert.Equal(x, "mine", colleague.get("/files/"+file).is(200).raw)
			r.member.chat("agent_id", r.agent, "message", "x", "file_ids", file).is(200)
			colleague.get("/files/"+file).problem(403, "insufficient_permission")
			assert.Equal(x, "mine", sender.get("/files/"+file).is(200).raw)
			sender.chat("message", "x", "file_ids", file).is(200)
			assert.Equal(x, "mine", colleague.get("/files/"+file).is(200).raw,
				"the sender has an open agent read it, too")
		}},
		{Name: "access/a message parked for an agent keeps its words to those who reach it", Run: func(x *Actor) {
			r := x.restrict()
			open := r.member.startLongRun("chat_id", "open")
			parked := r.member.chat("agent_id", r.agent, "message", secretWord, "chat_id", "open", "on_conflict",
				"enqueue").is(202)
			assert.Equal(x, secretWord, parked.text("parked", "message"), "to whom it is said")
			outsider := x.colleague("member", "run")
			for _, path := range []string{"/runs/" + open, "/runs/" + open + "/parked", "/chats/open/runs",
				"/runs?chat_id=open"} {
				seen := outsider.get(path).is(200).raw
				assert.Contains(x, seen, parked.text("parked", "parked_id"), path)
				assert.NotContains(x, seen, secretWord, path)
			}
			own := r.member.post("/runs/"+open+"/followups",
				object{"message": "for the open agent"}).is(202).text("parked", "parked_id")
			seen := outsider.get("/runs/" + open + "/parked").is(200)
			assert.Equal(x, []string{parked.text("parked", "parked_id"), own}, ids(seen, "parked", "parked_id"))
			assert.Equal(x, []string{"", "for the open agent"}, ids(seen, "parked", "message"))
			x.stop(open)
		}},
		{Name: "access/what a closed agent said reaches no model of an outsider, in whatever order they came",
			Run: func(x *Actor) {
				r := x.restrict()
				outsider, words := x.colleague("member", "run"), strings.Repeat(secretWord+" ", 100)
				// result returns the number of words that the model received with an outsider's last message, and with
				// an insider's after it.
				inputTokens := func(chat string, between, followup bool) (outside, inside float64) {
					outsider.chat("message", "hello", "chat_id", chat).is(200)
					run := outsider.startLongRun("chat_id", chat)
					if between {
						r.member.chat("agent_id", r.agent, "message", words, "chat_id", chat, "on_conflict",
							"enqueue").is(202)
					}
					var parked reply
					if followup {
						parked = outsider.post("/runs/"+run+"/followups", object{"message": "what did they say?"})
					} else {
						parked = outsider.chat("message", "what did they say?", "chat_id", chat, "on_conflict",
							"enqueue")
					}
					last := r.member.chat("message", "and now?", "chat_id", chat, "on_conflict", "enqueue").is(202)
					x.stop(run)
					turn := x.awaitTurn(parked.is(202).text("parked", "parked_id"), "completed")
					assert.NotContains(x, turn.raw, secretWord)
					next := x.awaitTurn(last.text("parked", "parked_id"), "completed")
					return turn.number("usage", "input_tokens"), next.number("usage", "input_tokens")
				}
				for i, followup := range []bool{false, true} {
					alone, before := inputTokens(fmt.Sprint("alone-", i), false, followup)
					outside, inside := inputTokens(fmt.Sprint("shared-", i), true, followup)
					assert.Equal(x, alone, outside)
					assert.Greater(x, inside, before+100, "whoever may, is told all of it")
				}
			}},
		{Name: "access/a chat is not deleted over a parked message of others", Run: func(x *Actor) {
			r := x.restrict()
			open := r.member.startLongRun("chat_id", "open")
			parked := r.member.chat("agent_id", r.agent, "message", "x", "chat_id", "open", "on_conflict",
				"enqueue").is(202)
			outsider := x.colleague("member", "run")
			outsider.delete("/runs/"+open+"/parked/"+parked.text("parked", "parked_id")).problem(403,
				"insufficient_permission")
			outsider.delete("/chats/open").problem(403, "insufficient_permission")
			assert.Equal(x, "running", r.member.get("/runs/"+open).is(200).text("status"))
			assert.Len(x, r.member.get("/runs/"+open+"/parked").is(200).list("parked"), 1)
			r.member.delete("/runs/" + open + "/parked/" + parked.text("parked", "parked_id")).is(204)
			outsider.delete("/chats/open").is(204)
		}},
		{Name: "access/deleting a group leaves its agents closed", Run: func(x *Actor) {
			r := x.restrict()
			x.delete("/groups/" + r.group).is(204)
			r.closedAgent(r.member)
			x.eventually("the group to leave its members", func() bool {
				return len(x.get("/users/"+r.member.User).is(200).list("group_ids")) == 0
			})
			assert.Equal(x, []any{r.group}, x.get("/agents/"+r.agent).is(200).at("group_ids"), "where it opens nothing")
			// Stored groups may stay, new ones are checked.
			x.patch("/agents/"+r.agent, object{"description": "x"}).is(200)
			x.patch("/agents/"+r.agent, object{"group_ids": []string{r.group}}).is(200)
			x.post("/agents/"+r.agent+"/duplicate", nil).is(201)
			x.patch("/agents/"+x.Agent, object{"group_ids": []string{r.group}}).names("group_ids[0]")
			r.closed(r.member)
			x.patch("/agents/"+r.agent, object{"group_ids": []string{}}).is(200)
			r.member.get("/runs/" + r.asks).is(200)
		}},
		{Name: "approvers/lifting them does not decide what is pending", Run: func(x *Actor) {
			lifts := func(m *Actor, agent string, change object) {
				m.patch("/agents/"+agent, change).problem(403, "insufficient_permission")
				x.patch("/agents/"+agent, change).is(200)
			}
			for _, lift := range []func(manager *Actor, agent string){
				func(m *Actor, agent string) { lifts(m, agent, object{"approver_group_ids": []string{}}) },
				func(m *Actor, agent string) { lifts(m, agent, object{"approver_group_ids": nil}) },
				func(m *Actor, agent string) {
					own := x.post("/groups", object{"name": "own"}).is(201).text("group_id")
					x.post("/groups/"+own+"/members", object{"user_id": m.User}).is(201)
					lifts(m, agent, object{"approver_group_ids": []string{own}, "publish": false})
				},
				func(m *Actor, agent string) {
					m.post("/agents/"+agent+"/publish", object{"version": 1}).problem(403, "insufficient_permission")
					x.post("/agents/"+agent+"/publish", object{"version": 1}).is(200)
				},
				func(m *Actor, agent string) { m.delete("/agents/" + agent).is(204) },
				func(m *Actor, agent string) {
					lifts(m, agent, object{"approver_group_ids": []string{}})
					m.delete("/agents/" + agent).is(204)
				},
			} {
				manager, approver := x.colleague("manager", "manage"), x.colleague("member", "run")
				group := x.post("/groups", object{"name": "approvers"}).is(201).text("group_id")
				x.post("/groups/"+group+"/members", object{"user_id": approver.User}).is(201)
				agent := manager.post("/agents",
					object{"name": "A", "approval": object{"mode": "always"}}).is(201).text("agent_id")
				asks := manager.chat("agent_id", agent, "message",
					"/ask Ready?\nthen\n"+tool("echo", object{"text": "a"})).is(202)
				early := asks.text("run_id")
				// after the run has started, before it pauses
				manager.patch("/agents/"+agent, object{"approver_group_ids": []string{group}}).is(200)
				manager.post("/runs/"+early+"/resume", object{"decisions": []object{
					{"interrupt_id": asks.interrupt(0), "decision": "answer", "message": "yes"},
				}}).is(200)
				paused := x.await(early, "awaiting_input")
				lift(manager, agent)
				manager.post("/runs/"+early+"/resume", decide(paused.interrupt(0), "approve")).problem(403,
					"insufficient_permission")
				x.post("/runs/"+early+"/resume", decide(paused.interrupt(0), "approve")).is(200)
			}
		}},
		{Name: "approvers/those of a deleted group are admins alone", Run: func(x *Actor) {
			approver := x.colleague("member", "run")
			group := x.post("/groups", object{"name": "approvers"}).is(201).text("group_id")
			x.post("/groups/"+group+"/members", object{"user_id": approver.User}).is(201)
			agent := x.post("/agents", object{"name": "A", "approval": object{"mode": "always"},
				"approver_group_ids": []string{group}}).is(201).text("agent_id")
			a := approver.chat("agent_id", agent, "message", tool("echo", object{"text": "a"})).is(202)
			assert.Nil(x, x.get("/agents/"+agent).is(200).at("problems"))
			x.delete("/groups/" + group).is(204)
			assert.Contains(x, x.get("/agents/"+agent).is(200).text("problems", 0), "approver groups")
			approver.post("/runs/"+a.text("run_id")+"/resume", decide(a.interrupt(0), "approve")).problem(403,
				"insufficient_permission")
			x.post("/runs/"+a.text("run_id")+"/resume", decide(a.interrupt(0), "approve")).is(200)
		}},
	}
	for name, end := range map[string]func(r restricted){
		"leaves the group": func(r restricted) {
			r.delete("/groups/" + r.group + "/members/" + r.member.User).is(204)
		},
		"is taken out of all groups": func(r restricted) {
			r.patch("/users/"+r.member.User, object{"group_ids": []string{}}).is(200)
		},
		"loses it as its groups change": func(r restricted) { r.regroup() },
		"loses it, and the agent goes":  func(r restricted) { r.regroup(); r.delete("/agents/" + r.agent).is(204) },
		"loses the group, the agent goes": func(r restricted) {
			r.delete("/groups/" + r.group).is(204)
			r.delete("/agents/" + r.agent).is(204)
		},
		"is demoted, and leaves the group": func(r restricted) {
			r.patch("/users/"+r.member.User, object{"role": "member", "group_ids": []string{}}).is(200)
		},
	} {
		stories = append(stories,
			Story{Name: fmt.Sprintf("access/a member who %s has no run of it any more", name), Run: func(x *Actor) {
				r := x.restrict()
				end(r)
				r.closed(r.member)
			}})
	}
	return stories
}

// end is a way in which a member loses the right to the run that it follows. Each has a scenario of its own.
type end struct {
	what string
	do   func(x, member *Actor, keyID, group, agent string)
}

var ends = []end{
	{"the key is revoked", func(x, _ *Actor, keyID, _, _ string) { x.delete("/api-keys/" + keyID).is(204) }},
	{"the key's text is rotated away", func(x, _ *Actor, keyID, _, _ string) {
		x.post("/api-keys/"+keyID+"/rotate", object{"overlap_seconds": 0}).is(200)
	}},
	{"the overlap of the key's text ends", func(x, _ *Actor, keyID, _, _ string) {
		x.post("/api-keys/"+keyID+"/rotate", object{"overlap_seconds": 1}).is(200)
	}},
	{"the key's text is rotated twice", func(x, _ *Actor, keyID, _, _ string) {
		x.post("/api-keys/"+keyID+"/rotate", nil).is(200)
		x.post("/api-keys/"+keyID+"/rotate", object{"overlap_seconds": 0}).is(200)
	}},
	{"the key expires", func(x, _ *Actor, keyID, _, _ string) {
		x.patch("/api-keys/"+keyID,
			object{"expires_at": time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)}).is(200)
	}},
	{"its user leaves the group",
		func(x, m *Actor, _, group, _ string) { x.delete("/groups/" + group + "/members/" + m.User).is(204) }},
	{"the group is deleted", func(x, _ *Actor, _, group, _ string) { x.delete("/groups/" + group).is(204) }},
	{"the agent's groups change", func(x, _ *Actor, _, _, agent string) {
		other := x.post("/groups", object{"name": "others"}).is(201).text("group_id")
		x.patch("/agents/"+agent, object{"group_ids": []string{other}}).is(200)
	}},
}

// soon is longer than anything that happens immediately. A busy machine of two cores with a whole deployment on it has
// taken 6 s. Everything that a scenario must not wait for takes 20 s or more.
const soon = 18 * time.Second

// known is the time until all processes know that a right has ended. With several processes that may take 30 s. The
// limit adds twice as much for a slow machine, and is less than the followed run takes. A single process checks again
// only after minutes.
const known = 90 * time.Second

// Streams, waits and run tokens end with the right to them.
func rightScenarios() (stories []Story) {
	for _, e := range ends {
		stories = append(stories,
			Story{Name: "right/streams, waits and tokens end when " + e.what, Run: func(x *Actor) {
				member := x.colleague("manager", "manage")
				group := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
				x.post("/groups/"+group+"/members", object{"user_id": member.User}).is(201)
				agent := x.post("/agents", object{"name": "A", "group_ids": []string{group}}).is(201).text("agent_id")
				run := x.startLongRun("agent_id", agent)
				token := member.with(member.post("/runs/"+run+"/token", nil).is(201).text("token"))
				task := object{"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": object{"id": run}}
				ctx, cancel := context.WithTimeout(x.Context(), known)
				defer cancel()
				open := map[string]*http.Response{}
				begin := func(name string, r *http.Request) {
					response, err := http.DefaultClient.Do(r.WithContext(ctx))
					require.NoError(x, err)
					x.Cleanup(func() { _ = response.Body.Close() })
					require.Equal(x, 200, response.StatusCode, name)
					_, err = response.Body.Read(make([]byte, 1))
					require.NoError(x, err)
					open[name] = response
				}
				begin("SSE", member.request(http.MethodGet, "/runs/"+run+"/stream", nil))
				begin("SSE by token", token.request(http.MethodGet, "/runs/"+run+"/stream", nil))
				begin("NDJSON", member.chatRequest("agent_id", agent, "message", "/sleep 2m", "streaming", "true"))
				begin("A2A", member.request(http.MethodPost, "/a2a/"+agent, strings.NewReader(jsonOf(task)),
					"Content-Type",
					"application/json"))
				waiting := make(chan int, 1)
				poll := member.request(http.MethodGet, "/runs/"+run+"?wait_ms=10000", nil)
				go func() {
					status := 0
					if response, err := http.DefaultClient.Do(poll); err == nil {
						status = response.StatusCode
						_ = response.Body.Close()
					}
					waiting <- status
				}()
				e.do(x, member, member.keyID(x), group, agent)
				for name, response := range open {
					_, err := io.Copy(io.Discard, response.Body)
					assert.NoError(x, err, "%s goes on", name)
				}
				refused := []int{401, 403}
				if polled := <-waiting; x.world.Spread { // it may have ended before the change was known there
					for who, reader := range map[string]*Actor{"the member": member, "the token": token} {
						x.eventually("the end of the right of "+who, func() bool {
							return slices.Contains(refused, reader.get("/runs/"+run).status)
						})
					}
				} else {
					assert.Contains(x, refused, polled)
					assert.Contains(x, refused, token.get("/runs/"+run).status)
				}
				assert.Equal(x, "running", x.get("/runs/"+run).is(200).text("status"))
				x.post("/runs/cancel", object{"filter": object{"user_id": member.User}, "confirm_count": 1}).is(200)
			}})
	}
	return append(stories, Story{Name: "right/a run's token ends a stream with its own time", Run: func(x *Actor) {
		run := x.startLongRun()
		// Within this number of seconds even a slow machine opens the stream.
		made := x.post("/runs/"+run+"/token", object{"expires_in": 20}).is(201)
		stream := x.with(made.text("token")).follow(run)
		stream.until("init")
		for _, e := range stream.rest() {
			assert.NotEqual(x, "done", e.name)
		}
		assert.Equal(x, "running", x.get("/runs/"+run).is(200).text("status"))
		x.with(made.text("token")).get("/runs/"+run).problem(401, "invalid_api_key")
	}}, Story{Name: "right/streams go on through changes that are none of theirs", Run: func(x *Actor) {
		run := x.begin("message", "/sleep 1s\nafter all")
		stream := x.follow(run)
		stream.until("init")
		x.post("/api-keys/"+x.keyID(x)+"/rotate", nil).is(200) // the previous text stays valid for a day
		x.post("/groups", object{"name": "g"}).is(201)
		x.patch("/agents/"+x.Agent, object{"description": "x"}).is(200)
		stream.until("done")
	}})
}

// keyID returns the id of the actor's key.
func (x *Actor) keyID(admin *Actor) string {
	x.Helper()
	for _, k := range admin.get("/api-keys?limit=100").is(200).list("api_keys") {
		if k := k.(object); strings.HasPrefix(x.Key, k["prefix"].(string)) {
			return k["api_key_id"].(string)
		}
	}
	require.Fail(x, "the key is nowhere")
	return ""
}

// regroup restricts the agent to another group.
func (r restricted) regroup() {
	r.Helper()
	other := r.post("/groups", object{"name": "others"}).is(201).text("group_id")
	r.patch("/agents/"+r.agent, object{"group_ids": []string{other}}).is(200)
}
