package scenario

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"
)

// The rights to make, change, rotate or remove users, keys and groups.
func powerScenarios() []Story {
	return []Story{
		{Name: "power/an admin sees an operator's key and user, and may do nothing to them", Run: func(x *Actor) {
			operator := x.with(x.world.Key)
			boss := x.operator()
			group := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
			users, keys := x.get("/users").is(200), x.get("/api-keys").is(200)
			assert.Contains(x, ids(users, "users", "user_id"), boss.User)
			assert.Contains(x, ids(keys, "api_keys", "api_key_id"), boss.keyID)
			key, user := x.get("/api-keys/"+boss.keyID).is(200).raw, x.get("/users/"+boss.User).is(200).raw
			for _, refused := range []reply{
				x.post("/api-keys/"+boss.keyID+"/rotate", object{"overlap_seconds": 0}),
				x.post("/api-keys/"+boss.keyID+"/rotate", nil),
				x.patch("/api-keys/"+boss.keyID, object{"name": "mine"}),
				x.patch("/api-keys/"+boss.keyID, object{"expires_at": "2020-01-01T00:00:00Z"}),
				x.patch("/api-keys/"+boss.keyID, object{"budget": object{"period": "day", "max_runs": 1}}),
				x.delete("/api-keys/" + boss.keyID),
				x.post("/api-keys", object{"name": "k", "user_id": boss.User, "level": "read"}),
				x.post("/api-keys", object{"name": "k", "user_id": boss.User, "level": "operator"}),
				x.post("/api-keys", object{"name": "k", "level": "operator"}),
				x.patch("/users/"+boss.User, object{"role": "member"}),
				x.patch("/users/"+boss.User, object{"email": "mine@example.com"}),
				x.patch("/users/"+boss.User, object{"concurrency_cap": 1}),
				x.patch("/users/"+boss.User, object{"budget": object{"period": "day", "max_runs": 1}}),
				x.patch("/users/"+boss.User, object{"group_ids": []string{group}}),
				x.post("/groups/"+group+"/members", object{"user_id": boss.User}),
				x.delete("/users/" + boss.User),
			} {
				refused.problem(403, "insufficient_permission")
			}
			assert.Equal(x, key, x.get("/api-keys/"+boss.keyID).is(200).raw)
			assert.Equal(x, user, x.get("/users/"+boss.User).is(200).raw)
			boss.get("/organizations").is(200)
			// Nor does an admin's request remove an operator from the group that another operator put it into.
			operator.patch("/users/"+boss.User, object{"group_ids": []string{group}}).is(200)
			x.delete("/groups/"+group+"/members/"+boss.User).problem(403, "insufficient_permission")
			// The operator's right ends, its user remains: without an operator's key it is a user like others.
			operator.delete("/api-keys/" + boss.keyID).is(204)
			x.patch("/users/"+boss.User, object{"role": "manager"}).is(200)
			x.delete("/users/" + boss.User).is(204)
		}},
		{Name: "power/an operator manages operators, and an admin its equals", Run: func(x *Actor) {
			operator, boss := x.with(x.world.Key), x.operator()
			text := operator.post("/api-keys/"+boss.keyID+"/rotate", object{"overlap_seconds": 0}).is(200).text("key")
			boss.get("/me").problem(401, "invalid_api_key")
			boss = boss.as(text)
			operator.patch("/users/"+boss.User, object{"name": "renamed"}).is(200)
			other := x.colleague("admin", "admin")
			other.patch("/users/"+x.User, object{"name": "renamed"}).is(200)
			x.patch("/users/"+other.User, object{"role": "manager"}).is(200)
			// its key has the level admin, but its role no longer has
			other.get("/users").problem(403, "insufficient_permission")
			x.patch("/users/"+other.User, object{"role": "admin"}).is(200)
			other.get("/users").is(200)
			boss.delete("/users/" + other.User).is(204)
			boss.delete("/users/" + boss.User).is(204)
		}},
		{Name: "power/a demoted operator's key is still no admin's to take", Run: func(x *Actor) {
			operator, boss := x.with(x.world.Key), x.operator()
			operator.patch("/users/"+boss.User, object{"role": "member"}).is(200)
			boss.get("/organizations").problem(403, "insufficient_permission")
			x.post("/api-keys/"+boss.keyID+"/rotate", nil).problem(403, "insufficient_permission")
			x.patch("/users/"+boss.User, object{"role": "admin"}).problem(403, "insufficient_permission")
		}},
		{Name: "power/an e-mail address is one user's of an organization", Run: func(x *Actor) {
			user := func(email string) string {
				return x.post("/users", object{"email": email}).is(201).text("user_id")
			}
			first, second := user("First@example.com"), user("second@example.com")
			for _, taken := range []string{"First@example.com", "first@example.com", "FIRST@EXAMPLE.COM"} {
				x.post("/users", object{"email": taken}).problem(409, "conflict")
				x.patch("/users/"+second, object{"email": taken, "name": "renamed"}).problem(409, "conflict")
			}
			assert.Empty(x, x.get("/users/"+second).text("name"))
			for _, other := range []string{"First <first@example.com>", " first@example.com", "\"first\"@example.com"} {
				x.post("/users", object{"email": other}).names("email")
			}
			assert.Equal(x, "FIRST@example.com",
				x.patch("/users/"+first, object{"email": "FIRST@example.com"}).is(200).text("email"), "its own")
			x.patch("/users/"+first, object{"name": "F"}).is(200)
			// of another organization
			newActor(x.T, x.world, x.receiver).post("/users", object{"email": "first@example.com"}).is(201)
			x.patch("/users/"+first, object{"email": "moved@example.com"}).is(200)
			x.post("/users", object{"email": "moved@example.com"}).problem(409, "conflict")
			// the previous address is free again
			x.patch("/users/"+second, object{"email": "first@example.com"}).is(200)
			x.delete("/users/" + second).is(204)
			user("first@example.com")
		}},
		{Name: "power/of many who take an address at once, one gets it", Run: func(x *Actor) {
			const many = 8
			answers := make(chan int, many)
			for i := range many {
				r := x.request(http.MethodPost, "/users",
					strings.NewReader(jsonOf(object{"email": []string{"one@example.com", "ONE@example.com"}[i%2]})),
					"Content-Type", "application/json")
				go func() {
					response, err := http.DefaultClient.Do(r)
					if err != nil {
						answers <- 0
						return
					}
					_ = response.Body.Close()
					answers <- response.StatusCode
				}()
			}
			got := map[int]int{}
			for range many {
				got[<-answers]++
			}
			assert.Equal(x, map[int]int{201: 1, 409: many - 1}, got)
		}},
		{Name: "power/limits are an admin's up to a ceiling, and the ceiling an operator's", Run: func(x *Actor) {
			operator := x.with(x.world.Key)
			home := "/organizations/" + x.Organization
			deployed := x.get("/organization").is(200)
			assert.Equal(x, deployed.at("caps"), deployed.at("ceilings", "caps"),
				"by default the deployment's settings")
			assert.Equal(x, deployed.at("rate_limit"), deployed.at("ceilings", "rate_limit"))
			for field, body := range map[string]object{
				"body.caps.user":                      {"caps": object{"user": 21}},
				"body.caps.organization":              {"name": "renamed", "caps": object{"organization": 1_000_000}},
				"body.rate_limit.requests_per_minute": {"rate_limit": object{"requests_per_minute": 1_000_001}},
				"body.rate_limit.burst":               {"rate_limit": object{"burst": 1_000_001}},
			} {
				x.patch("/organization", body).names(field)
			}
			x.patch("/users/"+x.User, object{"concurrency_cap": 21}).names("body.concurrency_cap")
			x.post("/users", object{"email": "many@example.com",
				"concurrency_cap": 1_000_000}).names("body.concurrency_cap")
			assert.Equal(x, deployed.raw, x.get("/organization").is(200).raw, "what is refused changes nothing")
			x.patch("/organization",
				object{"caps": object{"user": 20, "organization": 39}, "rate_limit": object{"burst": 1000}}).is(200)

			for _, own := range []object{{"caps": object{"user": 100}}, {"rate_limit": object{"burst": 5}}} {
				x.patch("/organization", object{"ceilings": own}).problem(403, "insufficient_permission")
			}
			x.patch(home, object{"ceilings": object{"caps": object{"user": 100}}}).problem(403,
				"insufficient_permission")
			raised := operator.patch(home,
				object{"ceilings": object{"caps": object{"user": 100},
					"rate_limit": object{"burst": 2_000_000}}}).is(200)
			assert.Equal(x, 100.0, raised.number("ceilings", "caps", "user"))
			assert.Equal(x, 40.0, raised.number("ceilings", "caps", "organization"), "the others stay")
			x.patch("/organization", object{"ceilings": nil}).problem(403, "insufficient_permission")
			x.patch("/organization", raised.body).is(200) // it sends the received body back
			x.patch("/organization", object{"caps": object{"user": 100}}).is(200)
			x.patch("/users/"+x.User, object{"concurrency_cap": 100}).is(200)
			x.patch("/organization", object{"caps": object{"user": 101}}).names("body.caps.user")

			// A lowered ceiling applies to earlier values, and to defaults.
			operator.patch(home, object{"ceilings": object{"caps": object{"user": 2, "organization": 3}}}).is(200)
			assert.Equal(x, object{"user": 2.0, "organization": 3.0}, x.get("/organization").at("caps"))
			assert.Equal(x, 2.0, x.get("/me").number("limits", "active_runs_of_user"))
			x.startLongRun()
			x.startLongRun()
			x.chat("message", "x").problem(429, "user_concurrency_cap")
			x.patch("/organization", object{"caps": object{"user": nil}}).is(200)
			assert.Equal(x, 2.0, x.get("/organization").number("caps", "user"))
			operator.patch(home, object{"ceilings": object{"caps": object{"user": 0}}}).names("body.ceilings.caps.user")
			operator.patch(home, object{"caps": object{"user": 3}}).names("body.caps.user")
			// An operator may set more than the deployment's settings, and remove its ceilings.
			free := operator.patch(home, object{"ceilings": nil, "caps": object{"user": 500}}).is(200)
			assert.Equal(x, 500.0, free.number("caps", "user"))
			assert.Equal(x, 20.0, free.number("ceilings", "caps", "user"))
			x.patch("/organization", object{"caps": object{"user": 500}, "name": "as it is"}).is(200)
			made := operator.post("/organizations",
				object{"name": "made", "ceilings": object{"caps": object{"user": 7}}}).is(201)
			assert.Equal(x, 7.0, made.number("caps", "user"))
		}},
	}
}

// boss is an operator whose user belongs to an actor's organization.
type boss struct {
	*Actor

	keyID string
}

func (b boss) as(key string) boss {
	b.Actor = b.with(key)
	return b
}

// operator makes one.
func (x *Actor) operator() boss {
	x.Helper()
	y := x.colleague("admin", "admin")
	k := x.with(x.world.Key).post("/api-keys", object{
		"name": "operator", "user_id": y.User, "level": "operator", "organization_id": x.Organization,
	}).is(201)
	return boss{y.with(k.text("key")), k.text("api_key_id")}
}
