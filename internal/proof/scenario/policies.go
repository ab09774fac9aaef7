package scenario

import (
	"github.com/stretchr/testify/assert"
)

// policyScenarios returns the stories of calls that need an approval, and of the right to change that.
func policyScenarios() []Story {
	return []Story{
		{Name: "policy/new tools that may change something need an approval", Run: func(x *Actor) {
			server, address := x.serveTools()
			made := x.post("/toolkits", object{
				"kind": "openapi", "name": "weather", "url": address + "/openapi.json",
				"credentials": object{"type": "bearer", "token": toolToken},
			}).is(201)
			policies := func(r reply) map[string]any {
				of := map[string]any{}
				for _, one := range r.list("tools") {
					of[one.(object)["name"].(string)] = one.(object)["approval"]
				}
				return of
			}
			toolkit := made.text("toolkit_id")
			tools := "/toolkits/" + toolkit + "/tools"
			assert.Equal(x, policies(x.get(tools).is(200)), policies(made))
			assert.Equal(x, "always", policies(made)["order"])
			assert.Equal(x, "never", policies(made)["get_weather"])
			server.set("/send", "put", operation("send", ""))
			server.set("/see", "get", operation("see", ""))
			x.post("/toolkits/"+toolkit+"/refresh", nil).is(200)
			now := policies(x.get(tools).is(200))
			assert.Equal(x, []any{"always", "never"}, []any{now["send"], now["see"]})
			// A GET that becomes a POST is another call.
			server.set("/see", "post", operation("see", ""))
			x.post("/toolkits/"+toolkit+"/refresh", nil).is(200)
			assert.Equal(x, "always", policies(x.get(tools).is(200))["see"])

			agent := x.post("/agents", object{"name": "A", "toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
			paused := x.chat("agent_id", agent, "message", tool("order", object{"city": "Oslo"})).is(202)
			x.post("/runs/"+paused.text("run_id")+"/resume", decide(paused.interrupt(0), "approve")).is(200)
			x.await(paused.text("run_id"), "completed")
			assert.Equal(x, 1, server.count("order"))
		}},
		{Name: "policy/a policy names tools that the agent has", Run: func(x *Actor) {
			server, toolkit, _ := x.weather()
			names := func(mode string, tools ...string) object {
				return object{
					"name": "A", "toolkit_ids": []string{toolkit}, "approval": object{"mode": mode, "tools": tools},
				}
			}
			refused := x.post("/agents", names("tools", "get_weather", "pay")).names("approval.tools[1]")
			assert.Contains(x, refused.raw, `broken, get_weather, hang`)
			x.post("/agents", names("tools", "search")).names("approval.tools[0]")
			agent := x.post("/agents", names("tools", "order")).is(201).text("agent_id")
			x.patch("/agents/"+agent, names("tools", "pay", "order")).names("approval.tools[0]")
			weather := tool("get_weather", object{"city": "Oslo"})
			x.chat("agent_id", agent, "message", weather).is(200)
			assert.Nil(x, x.get("/agents/"+agent).is(200).at("problems"))

			asks := x.chat("agent_id", agent, "message", "/ask Now?\nthen\n"+weather).is(202)
			x.patch("/agents/"+agent, object{"description": "another version"}).is(200)
			x.patch("/toolkits/"+toolkit+"/tools/order", object{"enabled": false}).is(200)
			assert.Contains(x, x.get("/agents/"+agent).is(200).text("problems", 0), `"order"`)
			var paused reply
			x.eventually("the rules", func() bool { // which may be some seconds old
				paused = x.chat("agent_id", agent, "message", weather)
				return paused.status == 202
			})
			assert.Contains(x, paused.text("interrupts", 0, "prompt"), `"order"`)
			assert.Equal(x, "always",
				x.get("/agents/"+agent+"/tools?name=get_weather").is(200).text("tools", 0, "approval"))
			early := asks.text("run_id")
			x.post("/runs/"+early+"/resume", object{"decisions": []object{
				{"interrupt_id": asks.interrupt(0), "decision": "answer", "message": "yes"},
			}}).is(200)
			x.await(early, "awaiting_input")
			assert.Equal(x, "approval", x.get("/runs/"+early).is(200).text("interrupts", 0, "kind"),
				"a run of an older version, too")

			x.patch("/agents/"+agent, object{"description": "no"}).names("approval.tools[0]")
			x.post("/agents/"+agent+"/duplicate", nil).names("approval.tools[0]")
			x.patch("/agents/"+agent, names("tools", "map")).is(200)
			assert.Nil(x, x.get("/agents/"+agent).is(200).at("problems"))
			x.chat("agent_id", agent, "message", weather).is(200)
			x.chat("agent_id", agent, "message", tool("map", object{})).is(202)
			assert.Zero(x, server.count("map"))

			document := x.get("/agents/" + agent + "/export").is(200)
			document.body["agent"].(object)["approval"] = object{"mode": "tools", "tools": []string{"order"}}
			other := newActor(x.T, x.world, x.receiver)
			other.post("/agents/import", document.body).names("approval.tools[0]")
			assert.Len(x, other.get("/toolkits").is(200).list("toolkits"), 1, "nothing is half done")
		}},
		{Name: "policy/only an admin loosens one", Run: loosening},
	}
}

// loosening tries each way in which a manager could remove approvals from calls.
func loosening(x *Actor) {
	server, toolkit, _ := x.weather()
	manager := x.colleague("manager", "manage")
	no := func(r reply, what string) {
		x.Helper()
		assert.Contains(x, r.problem(403, "insufficient_permission").raw, what)
		assert.Equal(x, "admin", r.text("level_needed"))
	}
	order := "/toolkits/" + toolkit + "/tools/order"
	when := object{"approval": "when", "approval_when": object{"argument": "city", "pattern": "^O"}}
	no(manager.patch(order, object{"approval": "never"}), "order")
	no(manager.patch(order, when), "order")
	x.patch(order, when).is(200)
	no(manager.patch(order, object{"approval": "never"}), "order")
	no(manager.patch(order, object{"approval": "when", "approval_when": object{"argument": "other"}}), "order")
	wider := object{"approval": "when", "approval_when": object{"argument": "city"}}
	manager.patch(order, wider).is(200)
	manager.patch(order, object{"approval": "always", "enabled": false}).is(200)
	manager.patch(order, object{"enabled": true}).is(200)
	manager.patch("/toolkits/"+toolkit+"/tools/get_weather", object{"approval": "always"}).is(200)
	no(manager.patch("/toolkits/"+toolkit+"/tools/get_weather", object{"approval": "never"}), "get_weather")

	agent := manager.post("/agents", object{"name": "A", "toolkit_ids": []string{toolkit},
		"approval": object{"mode": "never"}}).is(201).text("agent_id") // which takes no approval off a tool
	manager.chat("agent_id", agent, "message", tool("order", object{"city": "Rome"})).is(202)
	to := func(by *Actor, mode string, more ...string) reply {
		return by.patch("/agents/"+agent, object{"approval": object{"mode": mode, "tools": more}})
	}
	to(manager, "tools", "map").is(200) // 2
	to(manager, "always").is(200)       // 3
	no(to(manager, "never"), "every tool")
	no(to(manager, "tools", "map"), "every tool")
	no(manager.patch("/agents/"+agent, object{"approval": nil}), "every tool")
	no(manager.post("/agents/"+agent+"/publish", object{"version": 2}), "every tool")
	for _, by := range []*Actor{manager, x} { // an older version has the approvals of the published one, too
		by.chat("agent_id", agent, "agent_version", "1", "message", tool("map", object{})).is(202)
	}
	assert.Equal(x, "always",
		x.get("/agents/"+agent+"/tools?agent_version=1&name=map").is(200).text("tools", 0, "approval"))
	to(x, "tools", "map", "meet").is(200) // 4
	no(to(manager, "tools", "meet"), "map")
	manager.patch("/toolkits/"+toolkit+"/tools/map", object{"enabled": false}).is(200)
	no(to(manager, "tools", "meet"), "map") // and on again, without an approval
	no(manager.patch("/agents/"+agent,
		object{"toolkit_ids": []string{}, "approval": object{"tools": []string{}}}), "map")
	manager.patch("/toolkits/"+toolkit+"/tools/map", object{"enabled": true}).is(200)
	to(manager, "tools", "meet", "map", "order").is(200)                                                    // 5
	manager.patch("/agents/"+agent, object{"approval": object{"mode": "always"}, "publish": false}).is(200) // 6
	manager.post("/agents/"+agent+"/publish", object{"version": 6}).is(200)
	no(manager.post("/agents/"+agent+"/publish", object{"version": 5}), "every tool")

	document := x.get("/agents/" + agent + "/export").is(200)
	of := document.body["toolkits"].([]any)[0].(object)
	of["name"] = "another"
	for _, one := range of["tools"].([]any) {
		if one := one.(object); one["name"] == "order" {
			one["approval"] = object{"mode": "never"}
		}
	}
	no(manager.post("/agents/import", document.body), "order")
	x.post("/agents/import", document.body).is(201)

	// A tool that leaves and comes back has the approval of a new tool.
	x.patch(order, object{"approval": "never"}).is(200)
	manager.patch("/toolkits/"+toolkit, object{"exclude": []string{"order"}}).is(200)
	manager.patch("/toolkits/"+toolkit, object{"exclude": nil}).is(200)
	manager.patch(order, object{"enabled": true}).is(200)
	assert.Equal(x, "always", x.get("/toolkits/" + toolkit + "/tools").is(200).tool("order")["approval"])
	assert.Zero(x, server.count("order"))
}

// tool returns the tool with a name from a list.
func (r reply) tool(name string) object {
	for _, one := range r.list("tools") {
		if one := one.(object); one["name"] == name {
			return one
		}
	}
	return nil
}
