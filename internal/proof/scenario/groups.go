package scenario

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func groupScenarios() []Story {
	return []Story{
		{Name: "group/create, list, change, members, delete", Run: func(x *Actor) {
			a := x.post("/groups", object{"name": "Sales", "description": "those who sell"}).is(201)
			id := a.text("group_id")
			assert.Contains(x, ids(x.get("/groups"), "groups", "group_id"), id)
			assert.Equal(x, "Trade",
				x.patch("/groups/"+id, object{"name": "Trade"}, "If-Match", a.header.Get("ETag")).is(200).text("name"))
			x.patch("/groups/"+id, object{"name": "late"}, "If-Match", a.header.Get("ETag")).problem(412,
				"precondition_failed")
			assert.Empty(x, ids(x.get("/groups/"+id+"/members"), "members", "user_id"))
			y := x.colleague("member", "run")
			assert.Equal(x, id, x.post("/groups/"+id+"/members", object{"user_id": y.User}).is(201).text("group_ids",
				0))
			x.post("/groups/"+id+"/members", object{"user_id": y.User}).is(201) // repeated: no change
			x.patch("/users/"+x.User, object{"group_ids": []string{id}}).is(200)
			assert.ElementsMatch(x, []string{x.User, y.User},
				ids(x.get("/groups/"+id+"/members"), "members", "user_id"))
			x.delete("/groups/" + id + "/members/" + x.User).is(204)
			x.delete("/groups/"+id+"/members/"+x.User).problem(404, "not_found")
			first := x.get("/groups/" + id + "/members?limit=1").is(200)
			assert.Equal(x, []string{y.User}, ids(first, "members", "user_id"))

			agent := x.post("/agents",
				object{"name": "A", "group_ids": []string{id},
					"approver_group_ids": []string{id}}).is(201).text("agent_id")
			x.delete("/groups/" + id).is(204)
			x.get("/groups/"+id).problem(404, "not_found")
			x.eventually("the group to be taken out", func() bool {
				return len(x.get("/users/"+y.User).at("group_ids").([]any)) == 0
			})
			assert.Equal(x, []any{id}, x.get("/agents/"+agent).at("group_ids"),
				"what was for the group alone stays closed")
			assert.Equal(x, []any{id}, x.get("/agents/"+agent).at("approver_group_ids"))
		}},
		{Name: "group/one that is not there, or another's, is named", Run: func(x *Actor) {
			nowhere := "0123456789abcdef01234567"
			x.patch("/users/"+x.User, object{"group_ids": []string{nowhere}}).names("group_ids[0]")
			x.patch("/agents/"+x.Agent, object{"group_ids": []string{nowhere}}).names("group_ids[0]")
			x.patch("/agents/"+x.Agent, object{"approver_group_ids": []string{nowhere}}).names("approver_group_ids[0]")
			theirs := newActor(x.T, x.world, x.receiver).post("/groups",
				object{"name": "theirs"}).is(201).text("group_id")
			x.get("/groups/"+theirs).problem(403, "outside_organization")
			x.post("/groups/"+theirs+"/members", object{"user_id": x.User}).problem(403, "outside_organization")
			x.patch("/agents/"+x.Agent, object{"group_ids": []string{theirs}}).names("group_ids[0]")
			x.post("/groups", object{"name": ""}).names("name")
		}},
		{Name: "group/an agent works for its groups alone", Run: func(x *Actor) {
			id := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
			member, outsider := x.colleague("member", "run"), x.colleague("member", "run")
			x.post("/groups/"+id+"/members", object{"user_id": member.User}).is(201)
			open := x.patch("/agents/"+x.Agent, object{"description": "open to all"}).is(200).number("version")
			x.patch("/agents/"+x.Agent, object{"group_ids": []string{id}}).is(200)
			x.eventually("the restriction", func() bool { return outsider.chat("message", "x").status == 403 })
			outsider.chat("message", "x").problem(403, "insufficient_permission")
			run := member.begin("message", "/sleep 20s", "chat_id", "c")
			outsider.post("/runs/"+run+"/followups", object{"message": "x"}).problem(403, "insufficient_permission")
			member.post("/runs/"+run+"/followups", object{"message": "x"}).is(202)
			member.post("/runs/"+run+"/cancel", nil).is(200)
			// Nor in a version from before the restriction.
			manager := x.colleague("manager", "manage")
			manager.chat("message", "x", "agent_version", fmt.Sprint(open)).problem(403, "insufficient_permission")
			x.post("/agents/"+x.Agent+"/publish", object{"version": open}).is(200)
			outsider.chat("message", "x").problem(403, "insufficient_permission")
		}},
		{Name: "group/approver groups decide about tool calls, others do not", Run: func(x *Actor) {
			id := x.post("/groups", object{"name": "approvers"}).is(201).text("group_id")
			approver, other := x.colleague("member", "run"), x.colleague("member", "run")
			x.post("/groups/"+id+"/members", object{"user_id": approver.User}).is(201)
			agent := x.post("/agents", object{"name": "A", "approval": object{"mode": "always"},
				"approver_group_ids": []string{id}}).is(201).text("agent_id")
			pause := func() (string, string) {
				a := other.chat("agent_id", agent, "message", `/tool echo {"text":"a"}`).is(202)
				return a.text("run_id"), a.interrupt(0)
			}
			decide := func(interrupt string) object {
				return object{"decisions": []object{{"interrupt_id": interrupt, "decision": "approve"}},
					"decided_by": "somebody"}
			}
			run, interrupt := pause()
			other.post("/runs/"+run+"/resume", decide(interrupt)).problem(403, "insufficient_permission")
			// nothing is revealed
			other.post("/runs/"+run+"/resume", decide("wrong")).problem(403, "insufficient_permission")
			token := x.with(other.post("/runs/"+run+"/token", nil).is(201).text("token"))
			token.post("/runs/"+run+"/resume", decide(interrupt)).problem(403, "insufficient_permission")
			x.await(run, "awaiting_input")
			approver.post("/runs/"+run+"/resume", decide(interrupt)).is(200)
			x.await(run, "completed")
			run, interrupt = pause()
			x.post("/runs/"+run+"/resume", decide(interrupt)).is(200) // an admin
			x.await(run, "completed")
			// A question is answered by the user who is asked.
			paused := other.chat("agent_id", agent, "message", "/ask Which?").is(202)
			other.post("/runs/"+paused.text("run_id")+"/resume",
				object{"decisions": []object{{"interrupt_id": paused.interrupt(0), "decision": "answer",
					"message": "this"}}}).is(200)
		}},
		{Name: "audit/who stopped, deleted, sent again, took out or tried what", Run: func(x *Actor) {
			y := x.colleague("manager", "manage")
			logged := func(operation, kind, subject string, done reply) {
				x.Helper()
				require.Less(x, done.status, 300, done.raw)
				var entry object
				x.eventually("the entry of "+operation, func() bool { // lists are eventually consistent
					for _, e := range x.get("/audit-log").is(200).list("entries") {
						if e := e.(object); e["operation"] == operation && e["subject"].(object)["id"] == subject {
							entry = e
						}
					}
					return entry != nil
				})
				assert.Equal(x, kind, entry["subject"].(object)["kind"])
				assert.Equal(x, y.User, entry["user_id"])
			}
			run := y.startLongRun()
			logged("cancel-run", "run", run, y.post("/runs/"+run+"/cancel", object{"reason": "secret words"}))
			run = y.startLongRun("chat_id", "stopped")
			logged("cancel-runs", "run", run,
				y.post("/runs/cancel", object{"filter": object{"chat_id": "stopped"}, "confirm_count": 1}))
			y.startLongRun("chat_id", "gone")
			logged("delete-chat", "chat", "gone", y.delete("/chats/gone"))
			idle := y.chat("message", "x", "callback_url", x.address("ok")).is(200)
			logged("delete-chat", "chat", idle.text("chat_id"), y.delete("/chats/"+idle.text("chat_id")))
			pushed := y.chat("message", "x", "callback_url", x.address("ok")).is(200).text("run_id")
			x.eventually("the delivery",
				func() bool { return len(x.get("/webhooks/deliveries?run_id="+pushed).list("deliveries")) == 1 })
			delivery := x.get("/webhooks/deliveries?run_id="+pushed).is(200).text("deliveries", 0, "delivery_id")
			logged("redeliver", "delivery", delivery,
				y.post("/webhooks/deliveries/"+delivery+"/redeliver", object{"force": true}))
			file := y.post("/files", object{"name": "a.txt"}).is(201).text("file_id")
			logged("delete-file", "file", file, y.delete("/files/"+file))
			logged("export-agent", "agent", x.Agent, y.get("/agents/"+x.Agent+"/export"))
			builtin := x.get("/toolkits").is(200).text("toolkits", 0, "toolkit_id")
			logged("try-tool", "toolkit", builtin,
				y.post("/toolkits/"+builtin+"/tools/echo/try", object{"arguments": object{"text": "secret words"}}))
			before := x.get("/audit-log").is(200).raw
			assert.NotContains(x, before, "secret words")
			y.post("/runs/"+run+"/cancel", nil).is(200) // it had ended: nothing was changed
			y.delete("/chats/gone").is(404)
			assert.Equal(x, before, x.get("/audit-log").is(200).raw)
		}},
		{Name: "audit/who changed or decided what", Run: func(x *Actor) {
			y := x.colleague("manager", "manage")
			x.patch("/users/"+y.User, object{"name": "Y", "concurrency_cap": 3}).is(200)
			agent := y.post("/agents",
				object{"name": "A", "approval": object{"mode": "always"}}).is(201).text("agent_id")
			y.patch("/agents/"+agent, object{"instructions": "secret words"}).is(200)
			paused := y.chat("agent_id", agent, "message", `/tool echo {"text":"a"}`).is(202)
			run := paused.text("run_id")
			decision := object{"decisions": []object{{"interrupt_id": paused.interrupt(0), "decision": "reject",
				"message": "no"}}, "decided_by": "Y. Zed"}
			y.post("/runs/"+run+"/resume", decision).is(200)
			y.post("/runs/"+run+"/resume", decision).is(409) // refused, so not in the log
			answered := y.chat("message", "/ask Which?", "chat_id", "c").is(202)
			y.chat("message", "this", "chat_id", "c").is(200)
			y.patch("/agents/"+agent, object{"name": ""}).names("name")
			y.delete("/agents/" + agent).is(204)

			y.get("/audit-log").problem(403, "insufficient_permission")
			var log reply
			x.eventually("the whole log", func() bool { // lists are eventually consistent
				log = x.get("/audit-log?limit=6").is(200)
				return log.text("entries", 0, "operation") == "delete-agent"
			})
			assert.Equal(x, []string{"delete-agent", "chat", "resume-run", "edit-agent", "create-agent", "edit-user"},
				ids(log, "entries", "operation"))
			assert.Equal(x, agent, log.text("entries", 0, "subject", "id"))
			assert.Equal(x, "agent", log.text("entries", 0, "subject", "kind"))
			assert.Equal(x, answered.text("run_id"), log.text("entries", 1, "subject", "id"))
			assert.Equal(x, "answer", log.text("entries", 1, "decisions", 0, "decision"))
			assert.Equal(x, run, log.text("entries", 2, "subject", "id"))
			assert.Equal(x, y.User, log.text("entries", 2, "user_id"))
			assert.Equal(x, "Y. Zed", log.text("entries", 2, "decided_by"))
			assert.Equal(x, "reject", log.text("entries", 2, "decisions", 0, "decision"))
			assert.Equal(x, []any{"instructions", "published_version", "version"}, log.at("entries", 3, "changed"))
			assert.Equal(x, []any{"concurrency_cap", "name"}, log.at("entries", 5, "changed"))
			assert.Equal(x, x.User, log.text("entries", 5, "user_id"))
			assert.NotContains(x, log.raw, "secret words")
			other := newActor(x.T, x.world, x.receiver)
			assert.NotContains(x, other.get("/audit-log").is(200).raw, agent)
		}},
	}
}
