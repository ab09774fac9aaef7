package scenario

import (
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An operator who names an organization is an admin of it.
func actingScenarios() []Story {
	return []Story{
		{Name: "acting/an operator works in another organization as its admin", Run: actsAsAdmin},
		{Name: "acting/what an operator began goes on as an admin's", Run: func(x *Actor) {
			boss := newActor(x.T, x.world, x.receiver).operator()
			there := boss.acting(x.Organization)
			there.Agent = x.Agent
			group := there.post("/groups", object{"name": "g"}).is(201).text("group_id")
			base := there.base("group_ids", []string{group})
			document := there.document(base, object{"title": "Fish", "text": "the word is swordfish"})
			agent := there.post("/agents", object{
				"name": "A", "group_ids": []string{group}, "knowledge_base_ids": []string{base},
			}).is(201).text("agent_id")
			run := there.chat("agent_id", agent, "message", "/search word", "chat_id", "c").is(200)
			assert.Equal(x, document, run.text("citations", 0, "document_id"), "the run reads what the operator may")
			assert.Contains(x, run.raw, "swordfish")
			seen := x.get("/runs/" + run.text("run_id")).is(200)
			assert.Equal(x, boss.User, seen.text("user_id"))
			assert.Equal(x, boss.keyID, seen.text("api_key_id"))
			// The model of a later turn receives the earlier one. A parked turn starts.
			first := there.startLongRun("agent_id", agent, "chat_id", "c")
			parked := there.chat("agent_id", agent, "message", "after", "chat_id", "c", "on_conflict", "enqueue")
			there.stop(first)
			turn := there.awaitTurn(parked.is(202).text("parked", "parked_id"), "completed")
			assert.Equal(x, 1.0, turn.number("attempt"), "its user and key are looked for where they are")
			// A token for a run there works there.
			held := there.startLongRun("agent_id", agent)
			token := there.with(there.post("/runs/"+held+"/token", nil).is(201).text("token"))
			token.follow(held).until("init")
			token.get("/runs/"+held, "X-Organization", x.Organization).problem(403, "insufficient_permission")
			there.stop(held)
			token.get("/runs/" + held).is(200)
			// Files, too.
			body, kind := form("file", "file:words")
			sent := there.do(there.request(http.MethodPost, "/files", body, "Content-Type", kind)).is(201)
			file := sent.text("file_id")
			there.chat("message", "x", "file_ids", file).is(200)
			x.get("/files/" + file).is(200)
			boss.get("/files/"+file).problem(403, "outside_organization")
		}},
		{Name: "acting/caps and idempotency keys are the organization's", Run: func(x *Actor) {
			boss := newActor(x.T, x.world, x.receiver).operator()
			there := boss.acting(x.Organization)
			there.Agent = x.Agent
			x.patch("/organization", object{"caps": object{"organization": 1}}).is(200)
			held := there.startLongRun()
			x.chat("message", "x").problem(429, "organization_concurrency_cap")
			boss.chat("message", "x").is(200)
			assert.Equal(x, 1.0, there.get("/me").is(200).number("activity", "active_runs_of_user"))
			there.stop(held)
			here := boss.chat("message", "x", "idempotency_key", "k").is(200).text("run_id")
			other := there.chat("message", "x", "idempotency_key", "k").is(200)
			assert.NotEqual(x, here, other.text("run_id"), "the same key in another organization is another one")
			again := there.chat("message", "x", "idempotency_key", "k").is(200)
			assert.Equal(x, other.text("run_id"), again.text("run_id"))
			assert.Equal(x, "true", again.header.Get("Idempotent-Replayed"))
			x.patch("/organization", object{"budget": object{"period": "day", "max_runs": 1}}).is(200)
			x.eventually("the budget", func() bool { return there.chat("message", "x").status == 429 })
		}},
		{Name: "acting/a stream ends with the operator's key", Run: func(x *Actor) {
			boss := newActor(x.T, x.world, x.receiver).operator()
			run := x.startLongRun()
			stream := boss.acting(x.Organization).follow(run)
			stream.until("init")
			x.with(x.world.Key).delete("/api-keys/" + boss.keyID).is(204)
			for _, e := range stream.rest() {
				assert.NotEqual(x, "done", e.name)
			}
			assert.Equal(x, "running", x.get("/runs/"+run).is(200).text("status"))
		}},
	}
}

func actsAsAdmin(x *Actor) {
	home := newActor(x.T, x.world, x.receiver)
	boss := home.operator()
	there := boss.acting(x.Organization)
	me := there.get("/me").is(200)
	assert.Equal(x, []any{"admin", x.Organization, boss.keyID, boss.User}, []any{
		me.at("level"), me.at("organization", "organization_id"), me.at("api_key", "api_key_id"),
		me.at("user", "user_id"),
	})
	assert.Equal(x, x.Organization, there.get("/organization").is(200).text("organization_id"))
	assert.Contains(x, there.get("/users").is(200).raw, x.User)
	assert.NotContains(x, there.get("/users").is(200).raw, home.User)
	agent := there.post("/agents", object{"name": "Made"}).is(201).text("agent_id")
	assert.Contains(x, x.get("/agents").is(200).raw, agent)
	boss.get("/agents/"+agent).problem(403, "outside_organization")
	there.get("/agents/"+home.Agent).problem(403, "outside_organization")
	there.post("/api-keys", object{"name": "k"}).names("user_id")
	made := there.post("/api-keys", object{"name": "k", "user_id": x.User, "level": "admin"}).is(201)
	assert.Equal(x, x.Organization, made.text("organization_id"))
	there.post("/api-keys", object{"name": "k", "user_id": x.User, "level": "operator"}).problem(403,
		"insufficient_permission")
	there.post("/users", object{"email": freshEmail(), "organization_id": home.Organization}).problem(403,
		"outside_organization")
	there.get("/organizations").problem(403, "insufficient_permission")
	there.patch("/organization", object{"caps": object{"user": 1_000}}).problem(400, "invalid_request")

	x.eventually("the entry", func() bool {
		log := x.get("/audit-log?operation=create-agent&api_key_id=" + boss.keyID).is(200)
		if len(log.list("entries")) == 0 {
			return false
		}
		assert.Equal(x, []any{true, boss.User, agent}, []any{
			log.at("entries", 0, "as_operator"), log.at("entries", 0, "user_id"), log.at("entries", 0, "subject", "id"),
		})
		return true
	})
	own := x.get("/audit-log?user_id=" + x.User).is(200)
	for i := range own.list("entries") {
		assert.Equal(x, false, own.at("entries", i, "as_operator"))
	}
	assert.NotContains(x, boss.get("/audit-log").is(200).raw, agent)

	for name, who := range map[string]*Actor{"an admin": x, "an admin of another": home} {
		for _, organization := range []string{x.Organization, home.Organization, "nonsense"} {
			a := who.get("/me", "X-Organization", organization)
			require.Equal(x, 403, a.status, "%s, %q", name, organization)
			a.problem(403, "insufficient_permission")
			assert.Equal(x, "operator", a.text("level_needed"))
		}
	}
	boss.get("/me", "X-Organization", "nonsense").names("header.x-organization")
	boss.get("/me", "X-Organization", "0123456789abcdef01234567").problem(404, "not_found")
	boss.acting(home.Organization).get("/organizations").problem(403, "insufficient_permission")
	boss.get("/organizations").is(200)
}
