package scenario

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func budgetScenarios() []Story {
	return []Story{
		{Name: "budget/runs are counted exactly, whoever carries it", Run: func(x *Actor) {
			for _, kind := range []string{"organization", "user", "api_key", "agent", "group"} {
				y := newActor(x.T, x.world, x.receiver)
				id := map[string]string{"organization": y.Organization, "user": y.User, "agent": y.Agent,
					"api_key": y.get("/me").text("api_key", "api_key_id")}[kind]
				path := map[string]string{"organization": "/organization", "user": "/users/" + id,
					"api_key": "/api-keys/" + id, "agent": "/agents/" + id}[kind]
				if kind == "group" {
					id = y.post("/groups", object{"name": "g"}).is(201).text("group_id")
					path = "/groups/" + id
					y.post(path+"/members", object{"user_id": y.User}).is(201)
				}
				set := y.patch(path, object{"budget": object{"period": "month", "max_runs": 3}}).is(200)
				assert.Equal(x, object{"period": "month", "max_runs": 3.0, "max_tokens": nil}, set.at("budget"), kind)
				y.chat("message", "the first").is(200)
				var wg sync.WaitGroup
				var mu sync.Mutex
				statuses := map[int]int{}
				for i := range 6 {
					wg.Go(func() {
						a := y.chat("message", "x", "chat_id", fmt.Sprint(kind, i))
						mu.Lock()
						defer mu.Unlock()
						statuses[a.status]++
					})
				}
				wg.Wait()
				assert.Equal(x, map[int]int{200: 2, 429: 4}, statuses, kind)
				refused := y.chat("message", "x").problem(429, "budget_exhausted")
				assert.Contains(x, refused.text("message"), "3 of 3 runs")
				assert.Equal(x, kind, refused.text("budget", "kind"))
				assert.Equal(x, id, refused.text("budget", "id"))
				assert.NotEmpty(x, refused.header.Get("Retry-After"))
				assert.Positive(x, refused.number("retry_after"))
				assert.Nil(x, y.patch(path, object{"budget": nil}).is(200).at("budget"))
				x.eventually("its end", func() bool { return y.chat("message", "x").status == 200 })
			}
		}},
		{Name: "budget/tokens end a run between two steps, and close the door", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"budget": object{"period": "day", "max_tokens": 12}}).is(200)
			first := x.chat("message", "one two three").is(200) // three words of input, and the model's output
			used := first.number("usage", "input_tokens") + first.number("usage", "output_tokens")
			assert.Less(x, used, 12.0)
			// longer than the followup takes on a slow machine
			parked := x.begin("message", "/sleep 15s\nfour five six seven eight", "chat_id", "c")
			next := x.post("/runs/"+parked+"/followups", object{"message": "late"}).is(202).text("parked", "parked_id")
			x.await(parked, "completed")
			// A message that was accepted within the budget starts, and fails with the reason.
			assert.Contains(x, x.awaitTurn(next, "failed").text("error"), "the budget of user "+x.User)
			refused := x.chat("message", "x").problem(429, "budget_exhausted")
			assert.Contains(x, refused.text("message"), "of 12 tokens")
			budgets := x.get("/me").is(200)
			assert.Equal(x, "user", budgets.text("budgets", 0, "kind"))
			assert.GreaterOrEqual(x, budgets.number("budgets", 0, "tokens"), 12.0)

			y := x.colleague("member", "run")
			x.patch("/agents/"+x.Agent, object{"budget": object{"period": "day", "max_tokens": 8}}).is(200)
			ended := y.chat("message", "one two three four\n/tool echo {\"text\":\"five\"}").is(500)
			assert.Contains(x, ended.text("message"), "the budget of agent "+x.Agent)
		}},
		{Name: "budget/runs that wait have used their tokens", Run: waitingCounts},
		{Name: "budget/runs that are cancelled late use it up", Run: func(x *Actor) {
			agent := x.post("/agents", object{"name": "Short", "model": object{"provider": "demo"},
				"budget": object{"period": "day", "max_tokens": 60}}).is(201).text("agent_id")
			refused := false
			for n := 0; n < 8 && !refused; n++ {
				answer := x.chat("agent_id", agent, "message", "/stream 3000 20ms", "wait", "false")
				if refused = answer.status == 429; refused {
					answer.problem(429, "budget_exhausted")
					break
				}
				run, text := answer.is(202).text("run_id"), ""
				for s := x.follow(run); !strings.Contains(text, " 20 "); {
					e, ok := s.next()
					require.True(x, ok)
					piece, _ := e.body["text"].(string)
					text += piece
				}
				x.stop(run)
			}
			assert.True(x, refused, "eight runs were read, and cost nothing")
		}},
		{Name: "budget/embeddings count, and are refused when it is used up", Settings: "brief",
			Run: embeddingsCount},
		{Name: "budget/bad ones are named", Run: func(x *Actor) {
			for field, bad := range map[string]object{
				"budget.period":     {"period": "week", "max_runs": 1},
				"budget":            {"period": "day"},
				"budget.max_runs":   {"period": "day", "max_runs": 0},
				"budget.max_tokens": {"period": "day", "max_tokens": -1},
			} {
				x.patch("/users/"+x.User, object{"budget": bad}).names(field)
				x.patch("/agents/"+x.Agent, object{"budget": bad}).names(field)
				x.patch("/organization", object{"budget": bad}).names(field)
				x.post("/groups", object{"name": "g", "budget": bad}).names(field)
				x.post("/api-keys", object{"name": "k", "budget": bad}).names(field)
			}
			x.patch("/users/"+x.User, object{"budget": object{"period": "day", "max_runs": 5}}).is(200)
			merged := x.patch("/users/"+x.User, object{"budget": object{"max_tokens": 7}}).is(200)
			assert.Equal(x, object{"period": "day", "max_runs": 5.0, "max_tokens": 7.0}, merged.at("budget"))
		}},
	}
}

// waiting returns several ways to begin a run that waits. The run has some 300 tokens and does not end by itself. The
// reply is a 429 if the run was refused.
func waiting() map[string]func(y *Actor) reply {
	long := strings.Repeat("word ", 150) + "\n"
	const asks = "/ask Which?"
	return map[string]func(y *Actor) reply{
		"questions": func(y *Actor) reply { return y.chat("message", long+asks) },
		"approvals": func(y *Actor) reply {
			return y.chat("agent_id", y.careful(), "message", long+tool("echo", object{"text": "a"}))
		},
		"functions of the client": func(y *Actor) reply {
			return y.respond(long+tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather})
		},
		"a front end": func(y *Actor) reply {
			f := y.frontEnd(y.Agent, fmt.Sprint("t", len(y.get("/runs").list("runs")))).addMessage("u1", long+asks)
			if me := y.get("/me"); me.number("budgets", 0, "tokens") < 400 {
				f.runs("r1")
				return me
			}
			return y.post("/agui/"+f.agent, f.body("r1"))
		},
		"pauses that are cancelled": func(y *Actor) reply {
			a := y.chat("message", long+asks)
			if a.status == 202 {
				y.stop(a.text("run_id"))
			}
			return a
		},
		"repeats of a key": func(y *Actor) reply {
			key := fmt.Sprint("k", len(y.get("/runs").list("runs")))
			y.chat("message", long+asks, "idempotency_key", key)
			return y.chat("message", long+asks, "idempotency_key", key)
		},
	}
}

// waitingCounts exhausts a budget of 400 tokens with waiting runs of 300 each: the second is the last. Their tokens are
// shown meanwhile, and none of them goes on.
func waitingCounts(x *Actor) {
	for name, begin := range waiting() {
		y := newActor(x.T, x.world, x.receiver)
		path := "/users/" + y.User
		if name == "functions of the client" {
			path = "/organization"
		}
		y.patch(path, object{"budget": object{"period": "day", "max_tokens": 400}}).is(200)
		runs, used := 0, 0.0
		for ; runs < 5; runs++ {
			if a := begin(y); a.status == 429 {
				a.problem(429, "budget_exhausted")
				break
			}
			shown := y.get("/me").is(200).number("budgets", 0, "tokens")
			assert.InDelta(y, shown, y.get("/budgets").is(200).number("budgets", 0, "tokens"), 0, name)
			assert.Greater(y, shown, used, "%s: it has used its tokens", name)
			used = shown
		}
		assert.Equal(y, 2, runs, name)
		assert.Less(y, used, 2*330.0, name)
		for _, r := range y.get("/runs?status=awaiting_input").is(200).list("runs") {
			run := r.(object)["run_id"].(string)
			decision := decide(y.get("/runs/"+run).is(200).interrupt(0), "answer")
			if decision["decisions"].([]object)[0]["message"] = "this"; name == "approvals" {
				decision = decide(y.get("/runs/"+run).interrupt(0), "approve")
			}
			y.post("/runs/"+run+"/resume", decision).is(200)
			assert.Contains(y, y.await(run, "failed").text("error"), "the budget of ", name)
		}
		assert.InDelta(y, used, y.get("/me").is(200).number("budgets", 0, "tokens"), 0, name)
	}
}

// embeddingsCount adds documents and searches with a model that reports its used tokens.
func embeddingsCount(x *Actor) {
	for _, path := range []string{"/users/" + x.User, "/organization"} {
		x.patch(path, object{"budget": object{"period": "month", "max_tokens": 40}}).is(200)
	}
	base := x.base()
	free := x.base("embedding_model", object{"provider": "builtin"})
	id := x.document(base, object{"text": "the word is swordfish"})
	x.document(free, object{"text": "the word is marlin"})
	search := func(base, mode string) reply {
		return x.post("/search", object{"query": "word", "knowledge_base_ids": []string{base}, "mode": mode})
	}
	assert.Len(x, search(base, "hybrid").is(200).list("hits"), 1)
	search(base, "keyword").is(200)
	search(free, "hybrid").is(200)
	x.await(x.begin("message", "one"), "completed")

	var entries []string
	sum := 0.0
	a := x.get("/analytics/usage").is(200)
	for n := range a.list("entries") {
		tokens := a.number("entries", n, "input_tokens") + a.number("entries", n, "output_tokens")
		entries = append(entries, fmt.Sprint(a.text("entries", n, "kind"), " ", a.text("entries", n, "document_id")))
		assert.Equal(x, x.User, a.text("entries", n, "user_id"))
		sum += tokens
	}
	assert.Equal(x, []string{"run ", "search ", "ingestion " + id}, entries, "newest first")
	for n := range 2 {
		assert.InDelta(x, sum, x.get("/me").is(200).number("budgets", n, "tokens"), 0)
	}
	assert.Contains(x, x.get("/analytics/usage", "Accept", "text/csv").is(200).raw, ",ingestion,")

	for sum < 40 {
		search(base, "semantic").is(200)
		sum += 10
	}
	refused := search(base, "hybrid").problem(429, "budget_exhausted")
	assert.Equal(x, "organization", refused.text("budget", "kind"))
	assert.NotEmpty(x, refused.header.Get("Retry-After"))
	documents := "/knowledge-bases/" + base + "/documents"
	x.post(documents, object{"text": "more"}).problem(429, "budget_exhausted")
	x.upload(base, "file", "file:more").problem(429, "budget_exhausted")
	x.post(documents+"/"+id+"/reprocess", nil).problem(429, "budget_exhausted")
	assert.Len(x, search(base, "keyword").is(200).list("hits"), 1, "what is there stays found")
	x.document(free, object{"text": "more"})
	for _, path := range []string{"/users/" + x.User, "/organization"} {
		x.patch(path, object{"budget": nil}).is(200)
	}
	x.eventually("its end", func() bool { return search(base, "hybrid").status == 200 })
	x.document(base, object{"text": "more"})
}
