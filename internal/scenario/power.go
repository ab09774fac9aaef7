package scenario

import (
	"github.com/stretchr/testify/assert"
)

// powerStories: who may make, change, take the text of, or take away what.
func powerStories() []Story {
	return []Story{
		{Name: "power/an admin sees an operator's key and user, and may do nothing to them", Tell: func(x *Teller) {
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
			// The group that an operator put its like into is not left by an admin's word either.
			operator.patch("/users/"+boss.User, object{"group_ids": []string{group}}).is(200)
			x.delete("/groups/"+group+"/members/"+boss.User).problem(403, "insufficient_permission")
			// What ends is the operator's power, not its user's past: without such a key it is a user like others.
			operator.delete("/api-keys/" + boss.keyID).is(204)
			x.patch("/users/"+boss.User, object{"role": "manager"}).is(200)
			x.delete("/users/" + boss.User).is(204)
		}},
		{Name: "power/an operator manages operators, and an admin its equals", Tell: func(x *Teller) {
			operator, boss := x.with(x.world.Key), x.operator()
			text := operator.post("/api-keys/"+boss.keyID+"/rotate", object{"overlap_seconds": 0}).is(200).text("key")
			boss.get("/me").problem(401, "invalid_api_key")
			boss = boss.as(text)
			operator.patch("/users/"+boss.User, object{"name": "renamed"}).is(200)
			other := x.colleague("admin", "admin")
			other.patch("/users/"+x.User, object{"name": "renamed"}).is(200)
			x.patch("/users/"+other.User, object{"role": "manager"}).is(200)
			other.get("/users").problem(403, "insufficient_permission") // its key has the level of an admin, and it is none any more
			x.patch("/users/"+other.User, object{"role": "admin"}).is(200)
			other.get("/users").is(200)
			boss.delete("/users/" + other.User).is(204)
			boss.delete("/users/" + boss.User).is(204)
		}},
		{Name: "power/a demoted operator's key is still no admin's to take", Tell: func(x *Teller) {
			operator, boss := x.with(x.world.Key), x.operator()
			operator.patch("/users/"+boss.User, object{"role": "member"}).is(200)
			boss.get("/organizations").problem(403, "insufficient_permission")
			x.post("/api-keys/"+boss.keyID+"/rotate", nil).problem(403, "insufficient_permission")
			x.patch("/users/"+boss.User, object{"role": "admin"}).problem(403, "insufficient_permission")
		}},
	}
}

// boss is an operator that belongs to a teller's organization.
type boss struct {
	*Teller

	keyID string
}

func (b boss) as(key string) boss {
	b.Teller = b.with(key)
	return b
}

// operator makes one.
func (x *Teller) operator() boss {
	x.Helper()
	y := x.colleague("admin", "admin")
	k := x.with(x.world.Key).post("/api-keys", object{
		"name": "operator", "user_id": y.User, "level": "operator", "organization_id": x.Organization,
	}).is(201)
	return boss{y.with(k.text("key")), k.text("api_key_id")}
}
