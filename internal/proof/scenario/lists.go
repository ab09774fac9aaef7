package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lists: their tags, their filters, and waits for runs that wait for a human.
func listScenarios() []Story {
	return []Story{
		{Name: "lists/every read has an ETag that changes with what it shows", Run: readsHaveTags},
		{Name: "lists/runs by status, user, key, chat and time", Run: filteredRuns},
		{Name: "lists/a filtered list has pages", Run: func(x *Actor) {
			y := x.colleague("member", "run")
			var want []string
			for i := range 12 {
				who := x
				if i%3 == 0 {
					who = y
				}
				run := who.begin("message", "x", "agent_id", x.Agent)
				if i%3 == 0 {
					want = append([]string{run}, want...)
				}
			}
			x.eventually("all runs", func() bool { return len(x.get("/runs?limit=100").is(200).list("runs")) == 12 })
			assert.Equal(x, want, x.pages("/runs?limit=1&user_id="+y.User, "runs", "run_id"))
			assert.Equal(x, want, x.pages("/runs?limit=3&user_id="+y.User, "runs", "run_id"))
		}},
		{Name: "lists/chats, users, keys, documents and the audit log have filters", Run: filteredResources},
		{Name: "lists/bad filters are named", Run: func(x *Actor) {
			for path, field := range map[string]string{
				"/runs?status=running,sleeping":                 "query.status",
				"/runs?user_id=x":                               "query.user_id",
				"/runs?api_key_id=x":                            "query.api_key_id",
				"/runs?agent_id=x":                              "query.agent_id",
				"/runs?chat_id=x*":                              "query.chat_id",
				"/interrupts?agent_id=x":                        "query.agent_id",
				"/webhooks/deliveries?run_id=x":                 "query.run_id",
				"/analytics/usage?user_id=x":                    "query.user_id",
				"/runs?created_before=yesterday":                "query.created_before",
				"/chats?user_id=x":                              "query.user_id",
				"/chats?agent_id=x":                             "query.agent_id",
				"/users?role=king":                              "query.role",
				"/users?group_id=x":                             "query.group_id",
				"/api-keys?user_id=x":                           "query.user_id",
				"/audit-log?user_id=x":                          "query.user_id",
				"/audit-log?api_key_id=x":                       "query.api_key_id",
				"/audit-log?kind=thing":                         "query.kind",
				"/audit-log?from=x":                             "query.from",
				"/documents?status=lost":                        "query.status",
				"/documents?cursor=x":                           "query.cursor",
				"/interrupts?wait_ms=20001":                     "query.wait_ms",
				"/budgets?kind=thing":                           "query.kind",
				"/budgets?min_used=-1":                          "query.min_used",
				"/budgets?id=" + x.User:                         "query.id",
				"/budgets?kind=user&id=x":                       "query.id",
				"/agents/" + x.Agent + "/tools?agent_version=0": "query.agent_version",
				"/agents/" + x.Agent + "/tools?agent_version=9": "agent_version",
			} {
				x.get(path).names(field)
			}
		}},
		{Name: "lists/a delivery is read by itself", Run: func(x *Actor) {
			d := x.make("delivery")
			a := x.get("/webhooks/deliveries/" + d["id"]).is(200)
			assert.Equal(x, d["id"], a.text("delivery_id"))
			assert.Equal(x, 200.0, a.number("attempts", 0, "status"))
			x.get("/webhooks/deliveries/nonsense").problem(404, "not_found")
		}},
		{Name: "budget/the list shows what is used of each", Run: budgetsInUse},
		{Name: "organization/activity counts what is active now", Run: func(x *Actor) {
			y := x.colleague("member", "run")
			x.patch("/users/"+y.User, object{"concurrency_cap": 3}).is(200)
			for _, who := range []*Actor{x, y, y} {
				x.await(who.startLongRun("agent_id", x.Agent), "running")
			}
			x.chat("message", "/ask Which?").is(202)
			now := x.get("/organization/activity").is(200)
			assert.Equal(x, []any{3.0, 3.0, 1.0, 40.0}, []any{
				now.at("running"), now.at("active"), now.at("awaiting_input"), now.at("limit"),
			})
			assert.Equal(x, []any{
				object{"user_id": y.User, "active": 2.0, "limit": 3.0},
				object{"user_id": x.User, "active": 1.0, "limit": 20.0},
			}, now.at("users"))
		}},
		{Name: "inbox/a wait ends with the next change", Run: inboxWaits},
		{Name: "inbox/a wait ends with the right to it", Run: func(x *Actor) {
			y := x.colleague("member", "run")
			tag := y.get("/interrupts").is(200).header.Get("ETag")
			began := time.Now()
			ended := y.later("/interrupts?wait_ms=20000", "If-None-Match", tag)
			x.delete("/users/" + y.User).is(204)
			assert.Contains(x, []int{401}, (<-ended).status)
			if !x.world.Spread {
				assert.Less(x, time.Since(began), soon)
			}
		}},
		{Name: "inbox/it says who may decide", Run: func(x *Actor) {
			approver, other := x.colleague("member", "run"), x.colleague("member", "run")
			key := x.post("/api-keys", object{"name": "k", "user_id": other.User, "level": "read"}).is(201)
			reader := x.with(key.text("key"))
			group := x.post("/groups", object{"name": "approvers"}).is(201).text("group_id")
			x.post("/groups/"+group+"/members", object{"user_id": approver.User}).is(201)
			agent := x.post("/agents", object{
				"name": "A", "approval": object{"mode": "always"}, "approver_group_ids": []string{group},
			}).is(201).text("agent_id")
			run := other.chat("agent_id", agent, "message", tool("echo", object{"text": "a"})).is(202).text("run_id")
			x.chat("message", "/ask Which?").is(202)
			for name, c := range map[string]struct {
				who            *Actor
				total, waiting float64
			}{
				"an admin": {x, 2, 2}, "an approver": {approver, 2, 2}, "another": {other, 2, 1},
				"a reader": {reader, 2, 0},
			} {
				x.eventually(name+"'s inbox", func() bool { // groups may be known some seconds later
					a := c.who.get("/interrupts").is(200)
					return a.number("total") == c.total && a.number("waiting") == c.waiting
				})
			}
			a := other.get("/interrupts?limit=1").is(200)
			assert.Equal(x, []any{run, false, other.User, 2.0}, []any{
				a.at("interrupts", 0, "run_id"), a.at("interrupts", 0, "decidable"), a.at("interrupts", 0, "user_id"),
				a.at("total"),
			})
			assert.Len(x, x.pages("/interrupts?limit=1", "interrupts", "id"), 2)
		}},
		{Name: "runs/what a run waited for, and what was decided, by whom and when", Run: pastInterrupts},
		{Name: "agents/the tools of an agent are named as its runs name them", Run: func(x *Actor) {
			_, toolkit, _ := x.weather()
			builtin := x.get("/toolkits").is(200).text("toolkits", 0, "toolkit_id")
			agent := x.post("/agents", object{
				"name": "A", "toolkit_ids": []string{builtin, toolkit},
				"approval": object{"mode": "tools", "tools": []string{"echo"}},
			}).is(201).text("agent_id")
			x.patch("/toolkits/"+toolkit+"/tools/map", object{"enabled": false}).is(200)
			x.patch("/toolkits/"+toolkit+"/tools/order", object{
				"approval": "when", "approval_when": object{"argument": "item"},
			}).is(200)
			var list reply
			x.eventually("the rules", func() bool { // which may be some seconds old
				list = x.get("/agents/" + agent + "/tools").is(200)
				return !slices.Contains(ids(list, "tools", "name"), "map") && strings.Contains(list.raw, `"when"`)
			})
			of := map[string]object{}
			for _, one := range list.list("tools") {
				of[one.(object)["name"].(string)] = one.(object)
			}
			assert.Equal(x, []any{"always", builtin}, []any{of["echo"]["approval"], of["echo"]["toolkit_id"]})
			assert.Equal(x, []any{"when", toolkit}, []any{of["order"]["approval"], of["order"]["toolkit_id"]})
			assert.Equal(x, "never", of["get_weather"]["approval"])
			assert.Equal(x, "object", of["get_weather"]["parameters"].(object)["type"])
			paused := x.chat("agent_id", agent, "message", tool("echo", object{"text": "a"})).is(202)
			assert.Contains(x, of, paused.text("interrupts", 0, "tool", "name"))
		}},
		{Name: "toolkit/a dry run says what a refresh would do, and does nothing", Run: func(x *Actor) {
			server, toolkit, _ := x.weather()
			at := "/toolkits/" + toolkit
			server.set("/tides", "get", operation("get_tides", "harbour"))
			server.set("/weather", "get", operation("get_weather", "place"))
			server.set("/hang", "get", nil)
			before, tools := x.get(at).is(200).raw, x.get(at+"/tools").is(200).raw
			dry := x.post(at+"/refresh", object{"dry_run": true}).is(200)
			assert.Equal(x, []any{[]any{"get_tides"}, []any{"hang"}, []any{"get_weather"}},
				[]any{dry.at("added"), dry.at("removed"), dry.at("changed")})
			change := map[string]object{}
			for _, one := range dry.list("tools") {
				change[one.(object)["name"].(string)] = one.(object)
			}
			assert.Equal(x, []string{"get_tides", "get_weather", "hang"}, slices.Sorted(maps.Keys(change)))
			assert.Nil(x, change["get_tides"]["before"])
			assert.Nil(x, change["hang"]["after"])
			was, is := change["get_weather"]["before"].(object), change["get_weather"]["after"].(object)
			assert.Contains(x, jsonOf(was["parameters"]), "city")
			assert.Contains(x, jsonOf(is["parameters"]), "place")
			assert.Equal(x, []any{true, false}, []any{was["enabled"], is["enabled"]})
			assert.Equal(x, before, x.get(at).is(200).raw)
			assert.Equal(x, tools, x.get(at+"/tools").is(200).raw)
			taken := x.post(at+"/refresh", nil).is(200)
			for _, member := range []string{"added", "removed", "changed"} {
				assert.Equal(x, dry.at(member), taken.at(member))
			}
			builtin := x.get("/toolkits").is(200).text("toolkits", 0, "toolkit_id")
			x.post("/toolkits/"+builtin+"/refresh", object{"dry_run": true}).problem(409, "conflict")
			x.post(at+"/refresh", object{"dry_run": "yes"}).names("dry_run")
		}},
	}
}

// pages reads all pages of a list and returns a member of each row.
func (x *Actor) pages(path, list, member string) (found []string) {
	x.Helper()
	cursor := ""
	for range 100 {
		a := x.get(path + "&cursor=" + url.QueryEscape(cursor)).is(200)
		found = append(found, ids(a, list, member)...)
		next := a.at("next_cursor")
		if next == nil {
			return found
		}
		cursor = next.(string)
	}
	require.Fail(x, "the list has no end", path)
	return nil
}

// later sends a request now, and returns a channel with the response.
func (x *Actor) later(path string, header ...string) <-chan reply {
	answer := make(chan reply, 1)
	r := x.request(http.MethodGet, path, nil, header...)
	go func() {
		a := reply{x: x}
		if response, err := client.Do(r); err == nil {
			raw, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			a.status, a.header, a.raw = response.StatusCode, response.Header, string(raw)
			_ = json.Unmarshal(raw, &a.body)
		}
		answer <- a
	}()
	return answer
}

func readsHaveTags(x *Actor) {
	run := x.chat("message", "x").is(200)
	paths := []string{
		"/runs", "/chats", "/agents", "/toolkits", "/knowledge-bases", "/documents", "/users", "/groups", "/api-keys",
		"/interrupts", "/webhooks/deliveries", "/audit-log", "/models", "/organization", "/organization/activity",
		"/budgets", "/agents/" + x.Agent, "/agents/" + x.Agent + "/versions", "/agents/" + x.Agent + "/tools",
		"/users/" + x.User, "/chats/" + run.text("chat_id"), "/chats/" + run.text("chat_id") + "/messages",
		"/chats/" + run.text("chat_id") + "/runs", "/runs/" + run.text("run_id") + "/steps",
	}
	x.eventually("rest", func() bool { // lists may lag
		a := x.get("/runs").is(200)
		return len(a.list("runs")) == 1 && x.get("/runs", "If-None-Match", a.header.Get("ETag")).status == 304
	})
	for _, path := range paths {
		if path == "/api-keys" {
			continue // it shows when this very key was used
		}
		a := x.get(path).is(200)
		tag := a.header.Get("ETag")
		assert.Regexp(x, `^"[0-9a-f.]+"$`, tag, path)
		same := x.get(path, "If-None-Match", `"other", W/`+tag).is(304)
		assert.Empty(x, same.raw, path)
		assert.Equal(x, tag, same.header.Get("ETag"), path)
		x.get(path, "If-None-Match", `"other"`).is(200)
	}
	before := x.get("/agents").is(200).header.Get("ETag")
	one := x.get("/agents/" + x.Agent).is(200).header.Get("ETag")
	changed := x.patch("/agents/"+x.Agent, object{"description": "new"}, "If-Match", one).is(200)
	x.patch("/agents/"+x.Agent, object{"description": "late"}, "If-Match", one).problem(412, "precondition_failed")
	assert.NotEqual(x, one, changed.header.Get("ETag"))
	x.get("/agents/"+x.Agent, "If-None-Match", changed.header.Get("ETag")).is(304)
	x.eventually("the list", func() bool { return x.get("/agents", "If-None-Match", before).status == 200 })

	base := x.base()
	empty := x.get("/knowledge-bases/" + base).is(200).header.Get("ETag")
	x.document(base, object{"text": "words"})
	x.get("/knowledge-bases/"+base, "If-None-Match", empty).is(200) // counts do not change its version
	x.patch("/knowledge-bases/"+base, object{"name": "Renamed"}, "If-Match", empty).is(200)
}

func filteredRuns(x *Actor) {
	y := x.colleague("member", "run")
	later := func(run string) string { // the next row has another time
		came := x.get("/runs/" + run).is(200).text("created_at")
		x.eventually("another millisecond", func() bool {
			return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") > came
		})
		return run
	}
	done := later(x.chat("message", "x", "chat_id", "one").is(200).text("run_id"))
	failed := later(y.chat("agent_id", x.Agent, "message", "/fail no").is(500).text("run_id"))
	waits := later(x.chat("message", "/ask Which?", "chat_id", "two").is(202).text("run_id"))
	held := y.startLongRun("agent_id", x.Agent)
	x.await(held, "running")
	key := y.keyID(x)
	for query, want := range map[string][]string{
		"":                                     {held, waits, failed, done},
		"status=running":                       {held},
		"status=queued,running":                {held},
		"status=awaiting_input":                {waits},
		"status=running,awaiting_input":        {held, waits},
		"status=completed,failed":              {failed, done},
		"status=running,completed":             {held, done},
		"user_id=" + y.User:                    {held, failed},
		"api_key_id=" + key:                    {held, failed},
		"api_key_id=" + key + "&status=failed": {failed},
		"chat_id=one":                          {done},
		"chat_id=two&status=awaiting_input":    {waits},
		"chat_id=two&status=completed":         nil,
		"chat_id=none":                         nil,
		"agent_id=0123456789abcdef01234567":    nil,
	} {
		x.eventually("the runs of "+query, func() bool {
			return slices.Equal(want, ids(x.get("/runs?"+query), "runs", "run_id"))
		})
	}
	at := func(run string) string { return url.QueryEscape(x.get("/runs/" + run).is(200).text("created_at")) }
	future := url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	for query, want := range map[string][]string{
		"created_before=" + at(failed):                                           {done},
		"created_after=" + at(failed):                                            {held, waits},
		"created_after=" + at(done) + "&created_before=" + at(held):              {waits, failed},
		"created_after=" + future:                                                nil,
		"created_before=2001-01-01T00:00:00Z":                                    nil,
		"created_after=1901-01-01T00:00:00Z&created_before=9000-01-01T00:00:00Z": {held, waits, failed, done},
	} {
		assert.Equal(x, want, ids(x.get("/runs?"+query), "runs", "run_id"), query)
		assert.Equal(x, want, x.pages("/runs?limit=1&"+query, "runs", "run_id"), query)
	}
	x.post("/runs/cancel", object{"filter": object{"status": "awaiting_input"}, "confirm_count": 0}).problem(409,
		"count_mismatch")
}

func filteredResources(x *Actor) {
	y := x.colleague("manager", "manage")
	x.patch("/users/"+y.User, object{"name": "Ygritte Snow"}).is(200)
	group := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
	x.post("/groups/"+group+"/members", object{"user_id": y.User}).is(201)
	x.chat("message", "x", "chat_id", "mine").is(200)
	y.chat("agent_id", x.Agent, "message", "x", "chat_id", "yours").is(200)
	base, other := x.base("name", "B"), x.base("name", "C")
	ready := x.document(base, object{"title": "Fish", "text": "swordfish"})
	broken := x.settled(other, x.upload(other, "file", "file:").is(201).text("document_id"), "failed")
	for path, c := range map[string]struct {
		list, member string
		want         []string
	}{
		"/chats?user_id=" + x.User:                             {"chats", "chat_id", []string{"mine"}},
		"/chats?agent_id=" + x.Agent:                           {"chats", "chat_id", []string{"yours", "mine"}},
		"/chats?agent_id=0123456789abcdef01234567":             {"chats", "chat_id", nil},
		"/users?q=ygritte":                                     {"users", "user_id", []string{y.User}},
		"/users?role=manager":                                  {"users", "user_id", []string{y.User}},
		"/users?group_id=" + group:                             {"users", "user_id", []string{y.User}},
		"/users?q=nobody":                                      {"users", "user_id", nil},
		"/api-keys?user_id=" + y.User:                          {"api_keys", "user_id", []string{y.User}},
		"/documents?q=":                                        {"documents", "document_id", []string{broken, ready}},
		"/documents?status=failed":                             {"documents", "document_id", []string{broken}},
		"/documents?status=ready":                              {"documents", "document_id", []string{ready}},
		"/documents?q=FISH":                                    {"documents", "document_id", []string{ready}},
		"/audit-log?operation=create-group":                    {"entries", "operation", []string{"create-group"}},
		"/audit-log?kind=group":                                {"entries", "operation", []string{"create-group"}},
		"/audit-log?kind=group&user_id=" + y.User:              {"entries", "operation", nil},
		"/audit-log?subject_id=" + group:                       {"entries", "operation", []string{"create-group"}},
		"/audit-log?kind=group&to=2001-01-01T00:00:00Z":        {"entries", "operation", nil},
		"/audit-log?kind=group&from=2001-01-01T00:00:00Z":      {"entries", "operation", []string{"create-group"}},
		"/audit-log?kind=group&from=2101-01-01T00:00:00Z":      {"entries", "operation", nil},
		"/audit-log?kind=group&api_key_id=" + x.keyID(x):       {"entries", "operation", []string{"create-group"}},
		"/audit-log?operation=add-member&subject_id=" + y.User: {"entries", "operation", []string{"add-member"}},
	} {
		x.eventually("the rows of "+path, func() bool {
			return slices.Equal(c.want, ids(x.get(path), c.list, c.member))
		})
		assert.Equal(x, c.want, x.pages(path+"&limit=1", c.list, c.member), path)
	}
	x.patch("/knowledge-bases/"+other, object{"group_ids": []string{group}}).is(200)
	z := x.colleague("member", "run")
	got := ids(z.get("/documents"), "documents", "document_id")
	assert.Equal(x, []string{ready}, got, "of the others nothing is told")
	rotated := x.post("/api-keys/"+y.keyID(x)+"/rotate", object{"overlap_seconds": 600}).is(200)
	until, err := time.Parse(time.RFC3339, rotated.text("previous_until"))
	require.NoError(x, err)
	assert.WithinDuration(x, time.Now().Add(10*time.Minute), until, time.Minute)
}

func budgetsInUse(x *Actor) {
	y := x.colleague("member", "run")
	x.patch("/users/"+y.User, object{"name": "Y", "budget": object{"period": "day", "max_runs": 4}}).is(200)
	x.patch("/organization", object{"budget": object{"period": "month", "max_runs": 1000}}).is(200)
	x.patch("/agents/"+x.Agent, object{"budget": object{"period": "day", "max_runs": 2}}).is(200)
	few := object{"period": "day", "max_tokens": 5}
	group := x.post("/groups", object{"name": "g", "budget": few}).is(201).text("group_id")
	key := x.post("/api-keys", object{"name": "k", "budget": few}).is(201).text("api_key_id")
	x.eventually("the budgets", func() bool { // which may be known some seconds later
		return len(x.get("/budgets").is(200).list("budgets")) == 5
	})
	kinds := []string{"organization", "group", "user", "api_key", "agent"}
	assert.Equal(x, kinds, ids(x.get("/budgets"), "budgets", "kind"))
	assert.Equal(x, kinds, x.pages("/budgets?limit=1", "budgets", "kind"))
	x.eventually("a run that counts", func() bool {
		y.chat("agent_id", x.Agent, "message", "x")
		return x.get("/budgets?kind=user&id="+y.User).is(200).number("budgets", 0, "used") >= 0.25 &&
			x.get("/budgets?kind=agent&id="+x.Agent).is(200).number("budgets", 0, "used") >= 0.5
	})
	near := x.get("/budgets?min_used=0.4").is(200)
	assert.Contains(x, ids(near, "budgets", "kind"), "agent")
	assert.NotContains(x, ids(near, "budgets", "kind"), "organization")
	one := x.get("/budgets?kind=user&id=" + y.User).is(200)
	assert.Equal(x, []any{"user", y.User, "Y", "day", 4.0}, []any{
		one.at("budgets", 0, "kind"), one.at("budgets", 0, "id"), one.at("budgets", 0, "name"),
		one.at("budgets", 0, "period"), one.at("budgets", 0, "max_runs"),
	})
	for kind, id := range map[string]string{
		"group": group, "api_key": key, "agent": x.Agent, "organization": x.Organization,
	} {
		assert.Equal(x, []string{id}, ids(x.get(fmt.Sprintf("/budgets?kind=%s&id=%s", kind, id)), "budgets", "id"))
	}
	assert.Empty(x, x.get("/budgets?kind=user&id="+x.User).is(200).list("budgets"), "it has none")
	x.get("/budgets?kind=user&id=0123456789abcdef01234567").problem(404, "not_found")
	other := newActor(x.T, x.world, x.receiver)
	other.get("/budgets?kind=user&id="+y.User).problem(403, "outside_organization")
	other.get("/budgets?kind=organization&id="+x.Organization).problem(403, "outside_organization")
}

func inboxWaits(x *Actor) {
	empty := x.get("/interrupts").is(200)
	assert.Equal(x, []any{0.0, 0.0}, []any{empty.at("total"), empty.at("waiting")})
	tag := empty.header.Get("ETag")
	began := time.Now()
	x.get("/interrupts?wait_ms=1200", "If-None-Match", tag).is(304)
	assert.GreaterOrEqual(x, time.Since(began), time.Second)
	assert.Equal(x, 0.0, x.get("/interrupts?wait_ms=300").is(200).number("total"))

	began = time.Now()
	answer := x.later("/interrupts?wait_ms=20000", "If-None-Match", tag)
	untagged := x.later("/interrupts?wait_ms=20000")
	// One that begins when the run waits already waits for the change after that.
	run := x.chat("message", "/sleep 2s\n/ask Which?", "wait", "false").is(202)
	for _, waiting := range []<-chan reply{answer, untagged} {
		assert.Equal(x, 200, (<-waiting).status)
	}
	if !x.world.Spread {
		assert.Less(x, time.Since(began), soon)
	}
	began = time.Now()
	one := x.get("/interrupts?wait_ms=20000", "If-None-Match", tag).is(200)
	assert.Less(x, time.Since(began), soon, "what differs already is not waited for")
	assert.Equal(x, 1.0, one.number("total"))
	answer = x.later("/interrupts?wait_ms=20000&agent_id="+x.Agent, "If-None-Match", one.header.Get("ETag"))
	x.post("/runs/"+run.text("run_id")+"/cancel", nil).is(200)
	assert.Equal(x, 200, (<-answer).status)
	other := newActor(x.T, x.world, x.receiver)
	quiet := other.later("/interrupts?wait_ms=1500")
	x.chat("message", "/ask Which?").is(202)
	assert.Equal(x, 200, (<-quiet).status)
	assert.Equal(x, 0.0, other.get("/interrupts").is(200).number("total"))
}

func pastInterrupts(x *Actor) {
	agent := x.careful()
	call := tool("echo", object{"text": "a"})
	paused := x.chat("agent_id", agent, "message", "think\n"+call).is(202)
	run := paused.text("run_id")
	at := "/runs/" + run
	pending := x.get(at + "/interrupts").is(200)
	assert.Equal(x, []any{paused.interrupt(0), 1.0, nil}, []any{
		pending.at("interrupts", 0, "id"), pending.at("interrupts", 0, "pause"),
		pending.at("interrupts", 0, "decision"),
	})
	x.post(at+"/resume", object{"decided_by": "Y. Zed", "decisions": []object{{
		"interrupt_id": paused.interrupt(0), "decision": "edit", "arguments": object{"text": "b"},
	}}}).is(200)
	x.await(run, "completed")
	decided := x.get(at + "/interrupts").is(200)
	assert.Equal(x, []any{"edit", "Y. Zed", object{"text": "b"}}, []any{
		decided.at("interrupts", 0, "decision", "decision"), decided.at("interrupts", 0, "decision", "decided_by"),
		decided.at("interrupts", 0, "decision", "arguments"),
	})
	createdAt := decided.text("interrupts", 0, "created_at")
	assert.GreaterOrEqual(x, decided.text("interrupts", 0, "decision", "at"), createdAt)
	messages := x.get(at + "/messages").is(200)
	assert.Equal(x, []string{"user", "assistant"}, ids(messages, "messages", "role"))
	assert.Equal(x, "think\n"+call, messages.text("messages", 0, "content"))
	plain := x.chat("message", "x").is(200).text("run_id")
	assert.Empty(x, x.get("/runs/"+plain+"/interrupts").is(200).list("interrupts"))
}
