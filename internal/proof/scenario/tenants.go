package scenario

import (
	"time"

	"github.com/stretchr/testify/assert"
)

// Organizations, users, keys, agents.
func tenantScenarios() []Story {
	return []Story{
		{Name: "tenant/operators manage organizations", Run: func(x *Actor) {
			operator := x.with(x.world.Key)
			a := operator.post("/organizations", object{"name": "acme", "caps": object{"user": 3}}).is(201)
			id := a.text("organization_id")
			assert.Equal(x, 3.0, a.number("caps", "user"))
			operator.get("/organizations/" + id).is(200)
			assert.Equal(x, "renamed",
				operator.patch("/organizations/"+id,
					object{"name": "renamed", "caps": object{"user": nil}}).is(200).text("name"))
			assert.Equal(x, 20.0, operator.get("/organizations/"+id).number("caps", "user"))
			assert.NotEmpty(x, ids(operator.get("/organizations?limit=100"), "organizations", "organization_id"))
			x.inside(id).chat("message", "x").is(200)
		}},
		{Name: "tenant/a deleted organization's keys end at once", Run: func(x *Actor) {
			y := newActor(x.T, x.world, x.receiver)
			run := y.begin("message", "/sleep 20s")
			x.with(x.world.Key).delete("/organizations/" + y.Organization).is(204)
			y.get("/runs/"+run).problem(401, "invalid_api_key")
			x.with(x.world.Key).get("/organizations/"+y.Organization).problem(404, "not_found")
		}},
		{Name: "tenant/the scope of none is a scope of its own", Run: func(x *Actor) {
			operator := x.with(x.world.Key)
			n := operator.inside(nil)
			assert.Nil(x, n.get("/me").is(200).at("organization"))
			run := n.chat("message", "x", "chat_id", "none-"+x.Organization).is(200).text("run_id")
			x.get("/runs/"+run).problem(403, "outside_organization")
			other := operator.inside(nil)
			other.get("/runs/" + run).is(200)
			mine := x.chat("message", "x").is(200).text("run_id")
			n.get("/runs/"+mine).problem(403, "outside_organization")
			n.chat("agent_id", x.Agent, "message", "x").problem(403, "outside_organization")
		}},
		{Name: "tenant/api keys: shown once, rotated, revoked, expired", Run: func(x *Actor) {
			made := x.post("/api-keys", object{"name": "k", "level": "run"}).is(201)
			assert.Regexp(x, `^ap_[0-9a-f]{8}_[0-9A-Za-z]{49}$`, made.text("key"))
			id := made.text("api_key_id")
			assert.NotContains(x, x.get("/api-keys/"+id).is(200).raw, made.text("key"))
			assert.Equal(x, made.text("key")[:11], made.text("prefix"))
			one := x.with(made.text("key"))
			one.get("/me").is(200)
			assert.NotNil(x, x.get("/api-keys/"+id).at("last_used_at"))
			two := x.with(x.post("/api-keys/"+id+"/rotate", nil).is(200).text("key"))
			one.get("/me").is(200)
			two.get("/me").is(200)
			three := x.with(x.post("/api-keys/"+id+"/rotate", object{"overlap_seconds": 0}).is(200).text("key"))
			one.get("/me").problem(401, "invalid_api_key")
			two.get("/me").problem(401, "invalid_api_key")
			three.get("/me").is(200)
			x.delete("/api-keys/" + id).is(204)
			three.get("/me").problem(401, "invalid_api_key")
			x.get("/api-keys/"+id).problem(404, "not_found")
			short := x.post("/api-keys",
				object{"name": "short",
					"expires_at": time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339Nano)}).is(201)
			x.with(short.text("key")).get("/me").is(200)
			x.eventually("the key's end", func() bool { return x.with(short.text("key")).get("/me").status == 401 })
			x.post("/api-keys", object{"name": "k", "expires_at": "2020-01-01T00:00:00Z"}).names("expires_at")
			assert.Contains(x, ids(x.get("/api-keys"), "api_keys", "name"), "short")
		}},
		{Name: "tenant/a level is capped by the owner's role, also later", Run: func(x *Actor) {
			y := x.colleague("manager", "manage")
			y.post("/agents", object{"name": "a"}).is(201)
			x.patch("/users/"+y.User, object{"role": "member"}).is(200)
			y.post("/agents", object{"name": "a"}).problem(403, "insufficient_permission")
			y.chat("message", "x").is(200)
		}},
		{Name: "tenant/users: create, list, change, delete", Run: func(x *Actor) {
			a := x.post("/users", object{"email": "c@example.com", "name": "C", "role": "manager",
				"concurrency_cap": 2}).is(201)
			id := a.text("user_id")
			assert.Equal(x, 2.0, a.number("concurrency_cap"))
			assert.Contains(x, ids(x.get("/users"), "users", "user_id"), id)
			assert.Nil(x, x.patch("/users/"+id,
				object{"concurrency_cap": nil, "name": "D"}).is(200).at("concurrency_cap"))
			assert.Equal(x, "D", x.get("/users/"+id).text("name"))
			x.delete("/users/" + id).is(204)
			x.get("/users/"+id).problem(404, "not_found")
		}},
		{Name: "tenant/deleting a user ends its keys and runs and leaves the chat", Run: func(x *Actor) {
			y := x.colleague("member", "run")
			done := y.chat("message", "one", "chat_id", "c").is(200).text("run_id")
			run := y.begin("message", "/sleep 20s", "chat_id", "c")
			parked := x.post("/runs/"+run+"/followups", object{"message": "mine"}).is(202).text("parked", "parked_id")
			theirs := y.post("/runs/"+run+"/followups", object{"message": "theirs"}).is(202).text("parked", "parked_id")
			x.delete("/users/" + y.User).is(204)
			y.get("/me").problem(401, "invalid_api_key")
			assert.Equal(x, "You said: mine", x.awaitTurn(parked, "completed").text("result", "answer"))
			x.eventually("the removal", func() bool {
				return x.get("/runs/"+run).status == 404 && x.get("/runs/"+done).status == 404 &&
					x.get("/runs/"+theirs).status == 404
			})
			assert.Equal(x, "You said: after", x.chat("message", "after", "chat_id", "c").is(200).text("answer"))
		}},
		{Name: "tenant/agents: create, list, change, versions, delete", Run: func(x *Actor) {
			a := x.post("/agents", object{"name": "A", "instructions": "be kind", "unknown": true}).is(201)
			id := a.text("agent_id")
			assert.Equal(x, 1.0, a.number("version"))
			assert.Equal(x, "demo", a.text("model", "provider"))
			run := x.begin("agent_id", id, "message", "/sleep 1s")
			b := x.patch("/agents/"+id, object{"name": "B", "approval": object{"mode": "always"}}).is(200)
			assert.Equal(x, 2.0, b.number("version"))
			assert.Equal(x, "be kind", b.text("instructions"))
			assert.Equal(x, 1.0, x.await(run, "completed").number("agent_version"))
			assert.Equal(x, []string{"B", "A"}, ids(x.get("/agents/"+id+"/versions"), "versions", "name"))
			assert.Contains(x, ids(x.get("/agents"), "agents", "agent_id"), id)
			x.delete("/agents/" + id).is(204)
			x.get("/agents/"+id).problem(404, "not_found")
			x.chat("agent_id", id, "message", "x").problem(404, "not_found")
		}},
		{Name: "tenant/an agent that is deleted meanwhile fails the parked turn", Run: func(x *Actor) {
			id := x.post("/agents", object{"name": "A"}).is(201).text("agent_id")
			run := x.startLongRun("chat_id", "c")
			parked := x.chat("agent_id", id, "message", "x", "chat_id", "c", "on_conflict",
				"enqueue").is(202).text("parked", "parked_id")
			x.delete("/agents/" + id).is(204)
			x.stop(run)
			assert.Contains(x, x.awaitTurn(parked, "failed").text("error"), "agent")
		}},
		{Name: "tenant/the organization's own settings", Run: func(x *Actor) {
			o := x.patch("/organization", object{"name": "new name", "run_retention_days": 30}).is(200)
			assert.Equal(x, 30.0, o.number("run_retention_days"))
			assert.Equal(x, "new name", x.get("/organization").is(200).text("name"))
			assert.Nil(x, x.patch("/organization", object{"run_retention_days": nil}).is(200).at("run_retention_days"))
			x.patch("/organization", object{"caps": object{"user": 0}}).names("caps.user")
		}},
		{Name: "tenant/the built-in toolkit and the models", Run: func(x *Actor) {
			kit := x.get("/toolkits").is(200)
			assert.Equal(x, "builtin", kit.text("toolkits", 0, "kind"))
			assert.Equal(x, []string{"echo", "calculate", "current_time"},
				ids(x.get("/toolkits/"+kit.text("toolkits", 0, "toolkit_id")+"/tools"), "tools", "name"))
			assert.Contains(x, ids(x.get("/models"), "models", "provider"), "demo")
		}},
	}
}
