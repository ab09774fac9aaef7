package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The endpoints for runs and chats.
func runScenarios() []Story {
	return []Story{
		{Name: "runs/the public view has its fields from the start", Run: func(x *Actor) {
			run := x.startLongRun("metadata", `{"k":"v"}`)
			v := x.get("/runs/" + run).is(200)
			assert.Equal(x, run, v.header.Get("X-Agent-Run-Id"))
			assert.Equal(x, run, x.post("/runs/"+run+"/resume", decide("x", "approve")).header.Get("X-Agent-Run-Id"))
			for _, name := range strings.Fields(`run_id chat_id agent_id agent_version user_id api_key_id turn version
				status interrupts error result usage parked attempt created_at queued_at started_at finished_at
				paused_at updated_at expires_at active_ms cancel_requested cancel_reason decided_by metadata`) {
				assert.Contains(x, v.body, name)
			}
			assert.Nil(x, v.at("error"))
			assert.Nil(x, v.at("result"))
			assert.Regexp(x, `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, v.text("created_at"))
			assert.Regexp(x, `^[0-9a-f]{24}$`, run)
		}},
		{Name: "runs/ETag and If-None-Match", Run: func(x *Actor) {
			run := x.chat("message", "x").is(200).text("run_id")
			v := x.get("/runs/" + run).is(200)
			same := x.get("/runs/"+run, "If-None-Match", v.header.Get("ETag")).is(304)
			assert.Empty(x, same.raw)
			x.get("/runs/"+run, "If-None-Match", `"0"`).is(200)
		}},
		{Name: "runs/ETag changes with what other runs tell of a run", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			second := x.chat("message", "/sleep 2m", "chat_id", "c", "on_conflict", "enqueue").is(202).text("parked",
				"parked_id")
			third := x.chat("message", "x", "chat_id", "c", "on_conflict", "enqueue").is(202).text("parked",
				"parked_id")
			x.stop(run)
			x.awaitTurn(second, "running")
			before := x.get("/runs/" + run).is(200)
			assert.Nil(x, before.at("parked", 1, "run_id"))
			x.stop(second)
			x.awaitTurn(third, "completed")
			after := x.get("/runs/"+run, "If-None-Match", before.header.Get("ETag")).is(200)
			assert.Equal(x, third, after.text("parked", 1, "run_id"))
			assert.Equal(x, before.number("version"), after.number("version"), "it is another run that has changed")
			x.get("/runs/"+run, "If-None-Match", after.header.Get("ETag")).is(304)
		}},
		{Name: "runs/wait_ms waits for a change of status", Run: func(x *Actor) {
			run := x.startLongRun()
			x.await(run, "running")
			began := time.Now()
			answer := x.later("/runs/" + run + "?wait_ms=20000")
			x.get("/me").is(200) // meanwhile it has begun to wait
			x.post("/runs/"+run+"/cancel", nil).is(200)
			assert.Equal(x, "cancelled", (<-answer).is(200).text("status"))
			assert.Less(x, time.Since(began), soon)
			x.get("/runs/" + run + "?wait_ms=20001").names("wait_ms")
		}},
		{Name: "runs/listing: newest first, filters, pages", Run: func(x *Actor) {
			var want []string
			for i := range 5 {
				want = append([]string{x.chat("message", fmt.Sprint(i)).is(200).text("run_id")}, want...)
			}
			failed := x.chat("message", "/fail x").is(500).text("run_id")
			all := x.get("/runs").is(200)
			assert.Equal(x, append([]string{failed}, want...), ids(all, "runs", "run_id"))
			assert.Nil(x, all.at("next_cursor"))
			assert.Equal(x, []string{failed}, ids(x.get("/runs?status=failed"), "runs", "run_id"))
			assert.Empty(x, ids(x.get("/runs?agent_id="+failed), "runs", "run_id"))
			var paged []string
			cursor := ""
			for range 10 {
				page := x.get("/runs?limit=2&status=completed" + cursor).is(200)
				paged = append(paged, ids(page, "runs", "run_id")...)
				if page.at("next_cursor") == nil {
					break
				}
				cursor = "&cursor=" + page.text("next_cursor")
			}
			assert.Equal(x, want, paged)
			middle := x.get("/runs/" + want[2]).text("created_at")
			assert.NotContains(x, ids(x.get("/runs?created_after="+middle), "runs", "run_id"), want[2])
			x.get("/runs?status=nonsense").names("status")
			x.get("/runs?cursor=nonsense").names("cursor")
			x.get("/runs?limit=0").names("limit")
			x.get("/runs?limit=101").names("limit")
			x.get("/runs?created_after=yesterday").names("created_after")
		}},
		{Name: "runs/steps: the journal", Run: func(x *Actor) {
			run := x.chat("message", "a\n"+tool("echo", object{"text": "t"})).is(200).text("run_id")
			s := x.get("/runs/" + run + "/steps").is(200)
			require.Len(x, s.list("steps"), 3)
			assert.Equal(x, "model", s.text("steps", 0, "kind"))
			assert.Equal(x, "tool", s.text("steps", 1, "kind"))
			assert.Equal(x, "t", s.text("steps", 1, "output"))
			assert.Positive(x, s.number("steps", 2, "output_tokens"))
		}},
		{Name: "runs/cancel with a filter asks for the number first", Run: func(x *Actor) {
			var runs []string
			for range 3 {
				runs = append(runs, x.begin("message", "/sleep 2m"))
			}
			other := x.post("/agents", object{"name": "other"}).is(201).text("agent_id")
			spared := x.begin("agent_id", other, "message", "/sleep 1s")
			stop := object{"filter": object{"agent_id": x.Agent}, "confirm_count": 2}
			assert.Equal(x, 3.0, x.post("/runs/cancel", stop).problem(409, "count_mismatch").number("matched"))
			stop["confirm_count"] = 3
			x.post("/runs/cancel", stop).is(200)
			for _, run := range runs {
				x.await(run, "cancelled")
			}
			x.await(spared, "completed")
		}},
		{Name: "chats/list, read, runs, delete", Run: func(x *Actor) {
			a := x.chat("message", "the title\nmore", "chat_id", "c").is(200)
			b := x.chat("message", "/sleep 20s", "chat_id", "c", "wait", "false").is(202)
			assert.Equal(x, []string{"c"}, ids(x.get("/chats"), "chats", "chat_id"))
			chat := x.get("/chats/c").is(200)
			assert.Equal(x, "the title", chat.text("title"))
			assert.Equal(x, b.text("run_id"), chat.text("active_run_id"))
			assert.Equal(x, []string{b.text("run_id"), a.text("run_id")}, ids(x.get("/chats/c/runs"), "runs", "run_id"))
			assert.Equal(x, []string{b.text("run_id")}, ids(x.get("/chats/c/runs?active=true"), "runs", "run_id"))
			page := x.get("/chats/c/runs?limit=1").is(200)
			assert.Equal(x, []string{a.text("run_id")},
				ids(x.get("/chats/c/runs?limit=1&cursor="+page.text("next_cursor")), "runs", "run_id"))
			x.delete("/chats/c").is(204)
			for _, path := range []string{"/chats/c", "/chats/c/runs", "/chats/c/messages", "/runs/" + a.text("run_id"),
				"/runs/" + b.text("run_id")} {
				x.get(path).problem(404, "not_found")
			}
			assert.Empty(x, ids(x.get("/runs"), "runs", "run_id"))
			x.delete("/chats/c").problem(404, "not_found")
			again := x.chat("message", "anew", "chat_id", "c").is(200)
			assert.Equal(x, 1.0, x.get("/runs/"+again.text("run_id")).number("turn"))
			assert.Len(x, x.get("/chats/c/messages").list("messages"), 2)
		}},
		{Name: "parked/list, withdraw, start", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			var parked []string
			for i := range 3 {
				a := x.chat("message", fmt.Sprint("m", i), "chat_id", "c", "on_conflict", "enqueue").is(202)
				assert.Equal(x, run, a.text("run_id"))
				assert.Equal(x, float64(i+1), a.number("parked", "position"))
				assert.Nil(x, a.at("parked", "run_id"))
				parked = append(parked, a.text("parked", "parked_id"))
			}
			x.get("/runs/"+parked[0]).problem(404, "not_found")
			assert.Equal(x, parked, ids(x.get("/runs/"+run+"/parked"), "parked", "parked_id"))
			x.delete("/runs/" + run + "/parked/" + parked[1]).is(204)
			x.delete("/runs/"+run+"/parked/"+parked[1]).problem(404, "not_found")
			assert.Equal(x, []string{parked[0], parked[2]}, ids(x.get("/runs/"+run+"/parked"), "parked", "parked_id"))
			x.stop(run)
			assert.Equal(x, "You said: m0", x.awaitTurn(parked[0], "completed").text("result", "answer"))
			assert.Equal(x, "You said: m2", x.awaitTurn(parked[2], "completed").text("result", "answer"))
			x.delete("/runs/"+run+"/parked/"+parked[0]).problem(409, "already_started")
			assert.Equal(x, parked[0], x.get("/runs/"+run+"/parked").text("parked", 0, "run_id"))
			x.get("/runs/"+parked[1]).problem(404, "not_found")
		}},
		{Name: "interrupts/the inbox, oldest first", Run: func(x *Actor) {
			var want []string
			for range 3 {
				want = append(want, x.chat("message", "/ask Which?").is(202).interrupt(0))
			}
			inbox := x.get("/interrupts?status=pending").is(200)
			assert.Equal(x, want, ids(inbox, "interrupts", "id"))
			assert.NotEmpty(x, inbox.text("interrupts", 0, "expires_at"))
			first := x.get("/interrupts?limit=2").is(200)
			assert.Equal(x, want[2:],
				ids(x.get("/interrupts?limit=2&cursor="+first.text("next_cursor")), "interrupts", "id"))
			chat := inbox.text("interrupts", 1, "chat_id")
			assert.Equal(x, want[1:2], ids(x.get("/interrupts?chat_id="+chat), "interrupts", "id"))
			x.get("/interrupts?status=decided").names("status")
		}},
		{Name: "files/announced, sent, read", Run: func(x *Actor) {
			a := x.post("/files", object{"name": "big.bin", "content_type": "text/plain"}).is(201)
			up := a.at("upload").(object)
			x.get("/files/"+a.text("file_id")).problem(404, "not_found")
			x.chat("file_ids", a.text("file_id")).names("file_ids")
			r, err := http.NewRequestWithContext(x.Context(), up["method"].(string), up["url"].(string),
				strings.NewReader("bytes"))
			require.NoError(x, err)
			for k, v := range up["headers"].(object) {
				r.Header.Set(k, v.(string))
			}
			x.do(r).is(200) // without a key
			got := x.get("/files/" + a.text("file_id")).is(200)
			assert.Equal(x, "bytes", got.raw)
			assert.Equal(x, "text/plain", got.header.Get("Content-Type"))
			assert.Equal(x, 5.0, x.get("/files/"+a.text("file_id"), "Accept", "application/json").number("size"))
		}},
		{Name: "meta/health and documents need no key", Run: func(x *Actor) {
			nobody := x.with("")
			assert.Equal(x, "ok", nobody.get("/healthz").is(200).text("status"))
			document := nobody.get("/openapi.json").is(200)
			assert.Equal(x, "3.1.0", document.text("openapi"))
			assert.Contains(x, nobody.get("/openapi.yaml").is(200).raw, "openapi: 3.1.0")
		}},
		{Name: "meta/me", Run: func(x *Actor) {
			x.startLongRun()
			me := x.get("/me").is(200)
			assert.Equal(x, x.User, me.text("user", "user_id"))
			assert.Equal(x, x.Organization, me.text("organization", "organization_id"))
			assert.Equal(x, "admin", me.text("level"))
			assert.Equal(x, 1.0, me.number("activity", "active_runs_of_user"))
			assert.Equal(x, 20.0, me.number("limits", "active_runs_of_user"))
		}},
		{Name: "analytics/usage: the ledger has one entry for every ended run", Run: func(x *Actor) {
			done := x.chat("message", "one two").is(200).text("run_id")
			failed := x.chat("message", "/fail x").is(500).text("run_id")
			cancelled := x.begin("message", "/sleep 20s")
			x.post("/runs/"+cancelled+"/cancel", nil).is(200)
			x.await(cancelled, "cancelled")
			billed := map[string]any{}
			for _, e := range x.get("/analytics/usage").is(200).list("entries") {
				billed[e.(object)["run_id"].(string)] = e.(object)["billed"]
			}
			assert.Equal(x, map[string]any{done: true, failed: false, cancelled: false}, billed)
			csv := x.get("/analytics/usage", "Accept", "text/csv").is(200)
			assert.Contains(x, csv.header.Get("Content-Type"), "text/csv")
			lines := strings.Split(strings.TrimSpace(csv.raw), "\n")
			assert.Len(x, lines, 4)
			assert.Equal(x, "run_id,chat_id,agent_id,user_id,status,billed,input_tokens,output_tokens,"+
				"active_ms,model_calls,tool_calls,finished_at,kind,entry_id,document_id,knowledge_base_id,"+
				"api_key_id,model,attempts,queue_ms,cost,models",
				strings.TrimSpace(lines[0]))
		}},
	}
}

// ids returns the values of a member of a list's rows.
func ids(a reply, list, member string) []string {
	a.x.Helper()
	a.is(200)
	var found []string
	for i := range a.list(list) {
		found = append(found, a.text(list, i, member))
	}
	return found
}

// A scenario for each row of the transition table.
func transitionScenarios() []Story {
	return []Story{
		{Name: "transition/none to queued: a message is accepted", Run: func(x *Actor) {
			assert.Equal(x, "queued", x.chat("message", "x", "wait", "false").is(202).text("status"))
		}},
		{Name: "transition/queued to running: a worker starts", Run: func(x *Actor) {
			run := x.startLongRun()
			assert.NotNil(x, x.await(run, "running").at("started_at"))
		}},
		{Name: "transition/queued to failed, not started within the deadline; queued to cancelled, at once",
			Settings: "stuck", Run: func(x *Actor) {
				y := newActor(x.T, x.world, x.receiver)
				y.await(y.startLongRun(), "running")
				y.await(y.startLongRun(), "running") // another organization has both workers now
				run := x.begin("message", "x")
				assert.Contains(x, x.await(run, "failed").text("error"), "could not be started")
				queued := x.begin("message", "x")
				cancelled := x.post("/runs/"+queued+"/cancel", object{"reason": "no more"}).is(200)
				assert.Equal(x, "cancelled", cancelled.text("status"))
				assert.Equal(x, "no more", cancelled.text("cancel_reason"))
			}},
		{Name: "transition/running to completed: saved, billed once", Run: func(x *Actor) {
			run := x.chat("message", "x").is(200).text("run_id")
			assert.Equal(x, []string{run}, ids(x.get("/analytics/usage"), "entries", "run_id"))
		}},
		{Name: "transition/running to failed: the error is recorded", Run: func(x *Actor) {
			run := x.begin("message", "/fail because")
			assert.Equal(x, "because", x.await(run, "failed").text("error"))
		}},
		{Name: "transition/running to awaiting_input: interrupts are there", Run: func(x *Actor) {
			run := x.begin("message", "/ask Which?")
			paused := x.await(run, "awaiting_input")
			assert.Len(x, paused.list("interrupts"), 1)
			assert.NotNil(x, paused.at("expires_at"))
			assert.NotNil(x, paused.at("paused_at"))
		}},
		{Name: "transition/awaiting_input to queued: resumed", Run: func(x *Actor) {
			a := x.chat("agent_id", x.careful(), "message", tool("echo", object{"text": "t"})).is(202)
			v := x.post("/runs/"+a.text("run_id")+"/resume", decide(a.interrupt(0), "approve")).is(200)
			assert.Equal(x, "queued", v.text("status"))
			assert.Empty(x, v.list("interrupts"))
			assert.Equal(x, "echo → t", x.await(a.text("run_id"), "completed").text("result", "answer"))
		}},
		{Name: "transition/awaiting_input: a message answers the clarification", Run: func(x *Actor) {
			a := x.chat("message", "/ask Which?", "chat_id", "c").is(202)
			b := x.chat("message", "that one", "chat_id", "c").is(200)
			assert.Equal(x, a.text("run_id"), b.text("run_id"))
			assert.Equal(x, "Answer: that one", b.text("answer"))
		}},
		{Name: "transition/awaiting_input to cancelled: undecided until it expires", Settings: "hasty",
			Run: func(x *Actor) {
				run := x.begin("agent_id", x.patient(), "message", "/ask Which?")
				v := x.await(run, "cancelled")
				assert.NotNil(x, v.at("paused_at"))
				assert.Empty(x, v.list("interrupts"))
			}},
		{Name: "transition/awaiting_input to cancelled: at once", Run: func(x *Actor) {
			a := x.chat("message", "/ask Which?").is(202)
			assert.Equal(x, "cancelled", x.post("/runs/"+a.text("run_id")+"/cancel", nil).is(200).text("status"))
		}},
		{Name: "transition/running to cancelled: told, and settles shortly after", Run: func(x *Actor) {
			run := x.startLongRun()
			x.await(run, "running")
			v := x.post("/runs/"+run+"/cancel", nil).is(200)
			assert.Equal(x, true, v.at("cancel_requested"))
			active := x.await(run, "cancelled").number("usage", "active_ms")
			assert.Less(x, active, 60_000.0, "of 120,000 that its model call would have taken")
		}},
		{Name: "transition/terminal: cancel returns it unchanged", Run: func(x *Actor) {
			run := x.chat("message", "x").is(200).text("run_id")
			before := x.get("/runs/" + run).is(200)
			assert.Equal(x, before.body, x.post("/runs/"+run+"/cancel", object{}).is(200).body)
		}},
		{Name: "transition/parked messages start as turns of their own, in order", Run: func(x *Actor) {
			for _, end := range []string{"/sleep 15s", "/sleep 15s\n/fail x", "/sleep 2m"} {
				chat := "c" + fmt.Sprint(len(end))
				run := x.begin("message", end, "chat_id", chat)
				var parked []string
				for i := range 3 {
					parked = append(parked,
						x.post("/runs/"+run+"/followups", object{"message": fmt.Sprint(i)}).is(202).text("parked",
							"parked_id"))
				}
				if strings.Contains(end, "2m") {
					x.post("/runs/"+run+"/cancel", nil).is(200)
				}
				for i, p := range parked {
					v := x.awaitTurn(p, "completed")
					assert.Equal(x, fmt.Sprint("You said: ", i), v.text("result", "answer"))
					assert.Equal(x, float64(i+2), v.number("turn"))
				}
			}
		}},
	}
}

// The rows of the tables of errors.
func errorScenarios() []Story {
	return []Story{
		{Name: "error/400: the chat form", Run: func(x *Actor) {
			for _, c := range []struct{ field, part, value string }{
				{"agent_id", "agent_id", "nonsense"}, {"streaming", "streaming", "maybe"}, {"wait", "wait", "2"},
				{"on_conflict", "on_conflict", "queue"},
				{"metadata", "metadata", "[]"}, {"metadata", "metadata", `{"a":1}`},
				{"idempotency_key", "idempotency_key", strings.Repeat("k", 256)},
				{"idempotency_key", "idempotency_key", "ключ"}, {"chat_id", "chat_id", "a b"},
				{"chat_id", "chat_id", strings.Repeat("c", 129)},
				{"file_ids", "file_ids", "nonsense"}, {"message", "message", strings.Repeat("m", 256<<10+1)},
				{"message", "message", "\xff\xfe"},
			} {
				pairs := []string{c.part, c.value}
				if c.part != "message" {
					pairs = append(pairs, "message", "x")
				}
				x.chat(pairs...).names(c.field)
			}
			x.chat("agent_id", "", "message", "x").names("agent_id")
			x.chat().names("message")
			x.chat("message", "").names("message")
			x.chat("message", "a", "message", "b").names("message")
			x.post("/chat", object{"agent_id": x.Agent, "message": "x"}).names("multipart/form-data")
			x.do(x.request("POST", "/chat", strings.NewReader("agent_id=x"), "Content-Type",
				"application/x-www-form-urlencoded")).names("multipart/form-data")
			x.do(x.request("POST", "/chat", strings.NewReader("not a form"), "Content-Type",
				"multipart/form-data; boundary=b")).problem(400, "invalid_request")
			x.do(x.request("POST", "/chat", nil, "Content-Type", "multipart/form-data")).names("multipart/form-data")
			assert.Empty(x, x.get("/runs").list("runs"))
		}},
		{Name: "error/400: JSON bodies", Run: func(x *Actor) {
			a := x.chat("agent_id", x.careful(), "message", tool("echo", object{"text": "t"})).is(202)
			resume := "/runs/" + a.text("run_id") + "/resume"
			x.post(resume, object{}).names("decisions")
			x.post(resume, object{"decisions": "x"}).names("decisions")
			x.post(resume, object{"decisions": []object{{"decision": "approve"}}}).names("interrupt_id")
			x.post(resume, object{"decisions": []object{{"interrupt_id": a.interrupt(0)}}}).names("decision")
			x.post(resume, decide(a.interrupt(0), "maybe")).names("decision")
			x.post(resume, decide(a.interrupt(0), "edit")).names("arguments")
			edit := decide(a.interrupt(0), "edit")
			edit["decisions"].([]object)[0]["arguments"] = object{"text": 7}
			wrong := x.post(resume, edit).names("text: got number, want string")
			assert.Equal(x, "body.decisions[0].arguments", wrong.text("errors", 0, "location"))
			answer := decide(a.interrupt(0), "answer")
			answer["decisions"].([]object)[0]["message"] = "x"
			x.post(resume, answer).names("decisions")
			x.do(x.request("POST", resume, strings.NewReader("{"), "Content-Type", "application/json")).problem(400,
				"invalid_request")
			assert.Equal(x, "awaiting_input", x.get("/runs/"+a.text("run_id")).text("status"))
			x.post("/runs/"+a.text("run_id")+"/followups", object{}).names("message")
			x.post("/runs/"+a.text("run_id")+"/followups", object{"message": 5}).names("message")
			x.post("/agents", object{"name": 5}).names("name")
			x.post("/agents", object{"name": ""}).names("name")
			x.post("/agents", object{}).names("name")
			x.post("/agents", object{"name": "a", "model": object{"provider": "none"}}).names("provider")
			x.post("/agents", object{"name": "a", "approval": object{"mode": "sometimes"}}).names("mode")
			x.post("/agents", object{"name": "a",
				"limits": object{"max_active_seconds": 5}}).names("max_active_seconds")
			x.post("/agents", object{"name": "a", "toolkit_ids": []string{"x"}}).names("toolkit_ids")
			x.post("/users", object{"email": "nonsense"}).names("email")
			x.post("/users", object{"email": "a@b.c", "organization_id": ""}).names("organization_id")
			x.post("/api-keys", object{"name": "k", "level": "god"}).names("level")
		}},
		{Name: "error/400: callback_url", Run: func(x *Actor) {
			for _, u := range []string{"http://example.com/", "example.com", "/relative", "ftp://example.com/",
				"https://", "%%%"} {
				x.chat("message", "x", "callback_url", u).problem(400, "callback_url_not_https")
			}
			for _, u := range []string{"https://127.0.0.1/", "https://10.0.0.1:8443/", "https://[::1]/",
				"https://169.254.169.254/x", "https://0x7f.1/", "https://2130706433/", "https://u:p@example.com/",
				"https://localhost.:1@10.0.0.1/"} {
				x.chat("message", "x", "callback_url", u).problem(400, "callback_url_forbidden")
			}
			assert.Empty(x, x.get("/runs").list("runs"))
		}},
		{Name: "error/401: no key, bad keys", Run: func(x *Actor) {
			x.with("").get("/runs").problem(401, "missing_api_key")
			altered := x.Key[:20] + map[bool]string{true: "B", false: "A"}[x.Key[20] == 'A'] + x.Key[21:]
			for _, key := range []string{"nonsense", "ap_", altered, x.Key + "x", x.Key[:len(x.Key)-1]} {
				x.with(key).get("/runs").problem(401, "invalid_api_key")
			}
			x.do(x.with("").request("GET", "/runs", nil, "Authorization", "Basic "+x.Key)).problem(401,
				"missing_api_key")
			x.with("").chat("message", "x").problem(401, "missing_api_key")
			x.with("").get("/nowhere").problem(401, "missing_api_key")
		}},
		{Name: "error/403: levels", Run: func(x *Actor) {
			run := x.chat("message", "x").is(200).text("run_id")
			reader := x.colleague("member", "read")
			reader.get("/runs/" + run).is(200)
			reader.chat("message", "x").problem(403, "insufficient_permission")
			reader.post("/runs/"+run+"/cancel", nil).problem(403, "insufficient_permission")
			runner := x.colleague("member", "run")
			runner.chat("message", "x").is(200)
			assert.Contains(x, runner.post("/agents", object{"bad": 1}).problem(403, "insufficient_permission").raw,
				"manage")
			manager := x.colleague("manager", "manage")
			manager.post("/agents", object{"name": "a"}).is(201)
			for _, path := range []string{"/users", "/api-keys", "/organization", "/analytics/usage"} {
				assert.Contains(x, manager.get(path).problem(403, "insufficient_permission").raw, "admin")
			}
			x.get("/organizations").problem(403, "insufficient_permission")
			member := x.post("/users", object{"email": "m@example.com"}).is(201)
			assert.Equal(x, "member", member.text("role"))
			x.post("/api-keys", object{"name": "k", "user_id": member.text("user_id"), "level": "manage"}).problem(403,
				"insufficient_permission")
			x.post("/api-keys", object{"name": "k", "level": "operator"}).problem(403, "insufficient_permission")
		}},
		{Name: "error/403 and 404: what is outside, and what is not there", Run: func(x *Actor) {
			y := newActor(x.T, x.world, x.receiver)
			a := y.chat("message", "/ask Which?").is(202)
			run, chat := a.text("run_id"), a.text("chat_id")
			never := "0123456789abcdef01234567"
			for _, path := range []string{"/runs/%s", "/runs/%s/stream", "/runs/%s/steps", "/runs/%s/parked"} {
				x.get(fmt.Sprintf(path, run)).problem(403, "outside_organization")
				x.get(fmt.Sprintf(path, never)).problem(404, "not_found")
				x.get(fmt.Sprintf(path, "malformed")).problem(404, "not_found")
			}
			x.post("/runs/"+run+"/resume", decide(a.interrupt(0), "approve")).problem(403, "outside_organization")
			x.post("/runs/"+run+"/cancel", nil).problem(403, "outside_organization")
			x.post("/runs/"+run+"/followups", object{"message": "x"}).problem(403, "outside_organization")
			x.post("/runs/"+never+"/cancel", nil).problem(404, "not_found")
			x.get("/chats/"+chat).problem(403, "outside_organization")
			x.delete("/chats/"+chat).problem(403, "outside_organization")
			foreign := x.chat("message", "x", "chat_id", chat).problem(403, "outside_organization")
			assert.NotContains(x, foreign.raw, run)
			x.chat("agent_id", y.Agent, "message", "x").problem(403, "outside_organization")
			x.chat("agent_id", never, "message", "x").problem(404, "not_found")
			x.get("/agents/"+y.Agent).problem(403, "outside_organization")
			x.patch("/users/"+y.User, object{"name": "x"}).problem(403, "outside_organization")
			x.post("/api-keys", object{"name": "k", "user_id": y.User}).problem(403, "outside_organization")
			x.post("/users", object{"email": "a@b.c", "organization_id": y.Organization}).problem(403,
				"outside_organization")
			x.get("/chats/none").problem(404, "not_found")
			x.get("/nowhere").problem(404, "not_found")
			assert.Equal(x, "awaiting_input", y.get("/runs/"+run).text("status"))
		}},
		{Name: "error/409: a busy chat names its run", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			assert.Equal(x, run, x.chat("message", "x", "chat_id", "c").problem(409, "chat_busy").text("active_run_id"))
			assert.Equal(x, run, x.chat("message", "x", "chat_id", "c", "on_conflict", "reject").problem(409,
				"chat_busy").text("active_run_id"))
			x.chat("message", "x", "chat_id", "d").is(200)
		}},
		{Name: "error/409: a resume that does not match", Run: func(x *Actor) {
			a := x.chat("agent_id", x.careful(), "message",
				tool("echo", object{"text": "1"})+"\n"+tool("echo", object{"text": "2"})).is(202)
			resume := "/runs/" + a.text("run_id") + "/resume"
			for _, body := range []object{
				decide(), decide(a.interrupt(0), "approve"),
				decide(a.interrupt(0), "approve", a.interrupt(0), "approve"),
				decide(a.interrupt(0), "approve", a.interrupt(1), "approve", "0123456789abcdef01234567", "approve"),
				decide("unknown", "approve"),
			} {
				if body["decisions"] == nil || len(body["decisions"].([]object)) == 0 {
					body["decisions"] = []object{}
				}
				mismatch := x.post(resume, body).problem(409, "interrupts_mismatch")
				assert.Len(x, mismatch.list("pending_interrupt_ids"), 2)
			}
			x.post(resume, decide(a.interrupt(0), "approve", a.interrupt(1), "reject")).is(200)
			x.await(a.text("run_id"), "completed")
			second := x.post(resume, decide(a.interrupt(0), "approve", a.interrupt(1), "reject")).problem(409,
				"not_awaiting_input")
			assert.Len(x, second.list("last_decision", "interrupt_ids"), 2)
			assert.Equal(x, x.User, second.text("last_decision", "decided_by"))
			assert.NotEmpty(x, second.text("last_decision", "at"))
		}},
		{Name: "error/409: a followup to an ended run", Run: func(x *Actor) {
			run := x.chat("message", "x").is(200).text("run_id")
			x.post("/runs/"+run+"/followups", object{"message": "x"}).problem(409, "run_not_active")
		}},
		{Name: "error/412: a stale If-Match", Run: func(x *Actor) {
			a := x.get("/agents/" + x.Agent).is(200)
			tag := a.header.Get("ETag")
			x.patch("/agents/"+x.Agent, object{"name": "one"}, "If-Match", tag).is(200)
			x.patch("/agents/"+x.Agent, object{"name": "two"}, "If-Match", tag).problem(412, "precondition_failed")
			assert.Equal(x, "one", x.get("/agents/"+x.Agent).text("name"))
		}},
		{Name: "error/413: a body over the limit", Settings: "hasty", Run: func(x *Actor) {
			x.chat("message", "x", "f", "file:"+strings.Repeat("x", 2<<20)).problem(413, "payload_too_large")
			x.post("/agents", object{"name": "a", "description": strings.Repeat("x", 2<<20)}).problem(413,
				"payload_too_large")
		}},
		{Name: "error/429: the rate limit", Run: func(x *Actor) {
			x.patch("/organization", object{"rate_limit": object{ // so low that even a slow machine exceeds it
				"requests_per_minute": 6, "burst": 5,
			}}).is(200)
			limited := false
			for n := 0; n < 100 && !limited; n++ {
				a := x.get("/me")
				assert.NotEmpty(x, a.header.Get("Ratelimit-Limit"))
				assert.NotEmpty(x, a.header.Get("Ratelimit-Remaining"))
				assert.NotEmpty(x, a.header.Get("Ratelimit-Reset"))
				if a.status == 429 {
					a.problem(429, "rate_limited")
					assert.GreaterOrEqual(x, a.number("retry_after"), 1.0)
					limited = true
				}
			}
			assert.True(x, limited)
		}},
	}
}

// The rows of the table of limits.
func limitScenarios() []Story {
	return []Story{
		{Name: "limit/five parked messages, the sixth is refused", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			for range 5 {
				x.chat("message", "m", "chat_id", "c", "on_conflict", "enqueue").is(202)
			}
			assert.Equal(x, run, x.chat("message", "m", "chat_id", "c", "on_conflict", "enqueue").problem(409,
				"parked_queue_full").text("active_run_id"))
			x.post("/runs/"+run+"/followups", object{"message": "m"}).problem(409, "parked_queue_full")
		}},
		{Name: "limit/active runs of a user", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 2}).is(200)
			one := x.startLongRun()
			x.startLongRun()
			refused := x.chat("message", "x").problem(429, "user_concurrency_cap")
			assert.Equal(x, 2.0, refused.number("limit"))
			assert.Equal(x, 2.0, refused.number("active"))
			x.colleague("member", "run").chat("message", "x").is(200)
			x.stop(one)
			x.chat("message", "x").is(200)
		}},
		{Name: "limit/active runs of an organization", Run: func(x *Actor) {
			x.patch("/organization", object{"caps": object{"organization": 2}}).is(200)
			x.startLongRun()
			x.colleague("member", "run").startLongRun()
			x.chat("message", "x").problem(429, "organization_concurrency_cap")
		}},
		{Name: "limit/pauses do not count", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			for range 3 {
				x.chat("message", "/ask Which?").is(202)
			}
			x.chat("message", "x").is(200)
		}},
		{Name: "limit/paused runs of a user and of an organization", Settings: "brief", Run: func(x *Actor) {
			first := x.begin("message", "/ask Which?", "chat_id", "a")
			run := x.begin("message", "/ask Which?", "chat_id", "b")
			x.await(first, "awaiting_input")
			x.await(run, "awaiting_input")
			refused := x.chat("message", "x").problem(429, "paused_runs_limit")
			assert.Equal(x, "60", refused.header.Get("Retry-After"))
			assert.Equal(x, []any{"paused_runs", "user", 2.0, 2.0}, []any{refused.text("limit"), refused.text("scope"),
				refused.number("max"), refused.number("used")})
			x.post("/responses", object{"model": x.Agent, "input": "x"}).is(429)
			newActor(x.T, x.world, x.receiver).begin("message", "x")
			x.post("/runs/"+run+"/followups", object{"message": "m"}).is(202)
			x.chat("message", "that one", "chat_id", "a")
			x.await(first, "completed")
			x.begin("message", "x")
			y := x.colleague("member", "run")
			y.await(y.begin("message", "/ask Which?"), "awaiting_input")
			assert.Equal(x, "organization", y.chat("message", "x").problem(429, "paused_runs_limit").text("scope"))
		}},
		{Name: "limit/one active run per chat", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			x.chat("message", "x", "chat_id", "c").problem(409, "chat_busy")
			x.stop(run)
			x.chat("message", "x", "chat_id", "c").is(200)
		}},
		{Name: "limit/ten files, the eleventh is refused", Run: func(x *Actor) {
			var ten []string
			for range 10 {
				ten = append(ten, "f", "file:x")
			}
			x.chat(ten...).is(200)
			x.chat(append(ten, "f", "file:x")...).names("files")
		}},
		{Name: "limit/a message of 256 KiB", Run: func(x *Actor) {
			message := strings.Repeat("word ", 256<<10/5)
			a := x.chat("message", message).is(200)
			assert.Len(x, a.text("answer"), len("You said: ")+len(message))
		}},
	}
}
