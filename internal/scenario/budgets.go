package scenario

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"
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
			parked := x.begin("message", "/sleep 5s\nfour five six seven eight", "chat_id", "c")
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
