package scenario

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
)

// at64 makes 64 concurrent calls of do and counts the statuses.
func at64(do func(i int) int) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	counts := map[int]int{}
	for i := range 64 {
		wg.Go(func() {
			status := do(i)
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
		})
	}
	wg.Wait()
	return counts
}

// The mistakes that careless versions of such a system make. The simulation and tests of the packages cover hazards
// that need a clock or a crash. docs/hazards.md lists all.
func hazardScenarios() []Story {
	return []Story{
		{Name: "hazard01/idempotency before everything", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			a := x.chat("message", "/sleep 15s", "chat_id", "c", "idempotency_key", "k", "wait", "false").is(202)
			b := x.chat("message", "/sleep 15s", "chat_id", "c", "idempotency_key", "k", "wait", "false").is(202)
			assert.Equal(x, a.text("run_id"), b.text("run_id"),
				"at the cap and with a busy chat the retry finds its run")
			assert.Equal(x, "true", b.header.Get("Idempotent-Replayed"))
			assert.Empty(x, a.header.Get("Idempotent-Replayed"))
			began := time.Now()
			c := x.chat("message", "other content", "idempotency_key", "k")
			assert.Equal(x, a.text("run_id"), c.text("run_id"))
			if c.status != 200 { // on a slow machine the run is longer than the window of 25 s
				assert.Equal(x, 202, c.status)
				assert.Greater(x, time.Since(began), 20*time.Second, "it waits for its run")
			}
			x.await(a.text("run_id"), "completed")
			x.colleague("member", "run").chat("message", "mine", "idempotency_key", "k").is(200)
			late := x.chat("message", "x", "idempotency_key", "k", "wait", "false").is(200)
			assert.Equal(x, a.text("run_id"), late.text("run_id"), "a handle cannot carry a terminal status")
			events := x.stream(x.chatRequest("message", "x", "idempotency_key", "k", "streaming", "true")).rest()
			assert.Equal(x, []string{"init", "done"}, names(events))
			assert.Len(x, x.get("/chats/c/runs").list("runs"), 1)
		}},
		{Name: "hazard01b/64 equal requests at once start one run", Run: func(x *Actor) {
			var runs sync.Map
			counts := at64(func(int) int {
				a := x.chat("message", "hello", "chat_id", "c", "idempotency_key", "k", "wait", "false")
				runs.Store(a.body["run_id"], true)
				return a.status
			})
			assert.Equal(x, 64, counts[202]+counts[200], counts)
			n := 0
			runs.Range(func(any, any) bool { n++; return true })
			assert.Equal(x, 1, n)
		}},
		{Name: "hazard02/idempotency on the two side doors", Run: func(x *Actor) {
			run := x.begin("message", "/sleep 15s\n/ask One?\n/stream 1 1ms\n/ask Two?", "chat_id", "c")
			park := func() reply {
				return x.chat("message", "parked", "chat_id", "c", "on_conflict", "enqueue", "idempotency_key",
					"p").is(202)
			}
			a, b := park(), park()
			assert.Equal(x, a.at("parked"), b.at("parked"))
			f := x.post("/runs/"+run+"/followups", object{"message": "f", "idempotency_key": "f"}).is(202)
			g := x.post("/runs/"+run+"/followups", object{"message": "f", "idempotency_key": "f"}).is(202)
			assert.Equal(x, f.at("parked"), g.at("parked"))
			assert.Len(x, x.get("/runs/"+run+"/parked").list("parked"), 2)
			x.await(run, "awaiting_input")
			answer := func() reply { return x.chat("message", "one", "chat_id", "c", "idempotency_key", "a") }
			assert.Equal(x, run, answer().is(202).text("run_id"))
			paused := x.await(run, "awaiting_input")
			assert.Equal(x, "Two?", paused.text("interrupts", 0, "prompt"))
			assert.Equal(x, run, answer().is(202).text("run_id"))
			assert.Equal(x, "Two?", x.get("/runs/"+run).text("interrupts", 0, "prompt"), "the retry answered nothing")
			x.chat("message", "two", "chat_id", "c").is(200)
			became := x.chat("message", "parked", "chat_id", "c", "on_conflict", "enqueue", "idempotency_key", "p")
			assert.Equal(x, a.text("parked", "parked_id"), became.text("run_id"), became.raw)
			x.awaitTurn(f.text("parked", "parked_id"), "completed")
		}},
		{Name: "hazard03/a message is no approval", Run: func(x *Actor) {
			agent := x.careful()
			a := x.chat("agent_id", agent, "message", tool("echo", object{"text": "t"}), "chat_id", "c").is(202)
			x.chat("agent_id", agent, "message", "yes", "chat_id", "c").problem(409, "chat_busy")
			mixed := x.chat("agent_id", agent, "message", tool("echo", object{"text": "t"})+"\n/ask Sure?", "chat_id",
				"d").is(202)
			x.chat("agent_id", agent, "message", "yes", "chat_id", "d").problem(409, "chat_busy")
			x.chat("agent_id", agent, "message", "later", "chat_id", "d", "on_conflict", "enqueue").is(202)
			assert.Equal(x, "awaiting_input", x.get("/runs/"+a.text("run_id")).text("status"))
			assert.Len(x, x.get("/runs/"+mixed.text("run_id")).list("interrupts"), 2)
		}},
		{Name: "hazard03b/two answers at once: one wins, the other is checked again", Run: func(x *Actor) {
			x.chat("message", "/ask Which?\n/sleep 2m", "chat_id", "c").is(202)
			counts := at64(func(i int) int {
				return x.chat("message", fmt.Sprint(i), "chat_id", "c", "wait", "false").status
			})
			assert.Equal(x, map[int]int{202: 1, 409: 63}, counts)
			x.stopAll(1)
		}},
		{Name: "hazard04/64 equal resumes: one wins", Run: func(x *Actor) {
			a := x.chat("agent_id", x.careful(), "message", tool("echo", object{"text": "t"})).is(202)
			counts := at64(func(int) int {
				return x.post("/runs/"+a.text("run_id")+"/resume", decide(a.interrupt(0), "approve")).status
			})
			assert.Equal(x, map[int]int{200: 1, 409: 63}, counts)
			v := x.await(a.text("run_id"), "completed")
			assert.Len(x, v.list("result", "steps"), 1)
		}},
		{Name: "hazard04b/resume, message and cancel race at a pause", Run: func(x *Actor) {
			for range 5 {
				a := x.chat("message", "/ask Which?").is(202)
				run := a.text("run_id")
				var resumed, answered atomic.Int32
				var wg sync.WaitGroup
				wg.Go(func() {
					body := object{"decisions": []object{{"interrupt_id": a.interrupt(0), "decision": "answer",
						"message": "r"}}}
					if x.post("/runs/"+run+"/resume", body).status == 200 {
						resumed.Add(1)
					}
				})
				wg.Go(func() {
					m := x.chat("message", "m", "chat_id", a.text("chat_id"), "wait", "false")
					if m.status < 300 && m.body["run_id"] == run {
						answered.Add(1)
					}
				})
				wg.Go(func() {
					assert.Equal(x, 200, x.post("/runs/"+run+"/cancel", nil).status, "a cancel is never refused")
				})
				wg.Wait()
				assert.LessOrEqual(x, resumed.Load()+answered.Load(), int32(1))
				x.eventually("an end", func() bool {
					s := x.get("/runs/" + run).text("status")
					return s == "cancelled" || s == "completed"
				})
			}
		}},
		{Name: "hazard06/resume at the cap", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			a := x.chat("message", "/ask Which?\n/sleep 500ms", "chat_id", "c").is(202)
			busy := x.startLongRun()
			assert.Equal(x, 200, x.chat("message", "this", "chat_id", "c").status)
			x.chat("message", "x").problem(429, "user_concurrency_cap")
			x.stop(busy)
			x.await(a.text("run_id"), "completed")
			x.chat("message", "x").is(200)
		}},
		{Name: "hazard07/the lock is handed over without a gap", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			var parked []string
			for i := range 5 {
				parked = append(parked,
					x.post("/runs/"+run+"/followups",
						object{"message": fmt.Sprint("/sleep 50ms\n", i)}).is(202).text("parked", "parked_id"))
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							x.chat("message", "intruder", "chat_id", "c", "wait", "false")
						}
					}
				})
			}
			x.post("/runs/"+run+"/cancel", nil).is(200)
			for i, p := range parked {
				// The parked messages are the next turns: no other message came between.
				assert.EqualValues(x, i+2, x.awaitTurn(p, "completed").number("turn"))
			}
			close(stop)
			wg.Wait()
		}},
		{Name: "hazard08/park and finish race: what was accepted starts", Run: func(x *Actor) {
			for i := range 10 {
				chat := fmt.Sprint("c", i)
				run := x.begin("message", fmt.Sprintf("/sleep %dms", 5*i), "chat_id", chat)
				a := x.post("/runs/"+run+"/followups", object{"message": "f"})
				if a.status == 202 {
					x.awaitTurn(a.text("parked", "parked_id"), "completed")
				} else {
					a.problem(409, "run_not_active")
				}
			}
		}},
		{Name: "hazard09/a second pause, a second push, and the end is pushed too", Run: func(x *Actor) {
			x.chat("message", "/ask One?\n/stream 1 1ms\n/ask Two?", "callback_url", x.address("ok"), "chat_id",
				"c").is(202)
			x.awaitPushes("ok", 1)
			x.chat("message", "first", "chat_id", "c").is(202)
			x.awaitPushes("ok", 2)
			x.chat("message", "second", "chat_id", "c").is(200)
			var sequence []float64
			ids := map[string]bool{}
			for _, p := range x.awaitPushes("ok", 3) {
				sequence = append(sequence, p.body["sequence"].(float64))
				ids[p.header.Get("Webhook-Id")] = true
			}
			assert.IsIncreasing(x, sequence)
			assert.Len(x, ids, 3)
		}},
		{Name: "hazard14/the observe window ends with any end or pause", Run: func(x *Actor) {
			for message, status := range map[string]int{"x": 200, "/fail x": 500, "/ask Which?": 202,
				"/sleep 100ms": 200} {
				began := time.Now()
				x.chat("message", message).is(status)
				assert.Less(x, time.Since(began), soon, "%s must not wait for the window of 25 s", message)
			}
		}},
		{Name: "hazard16/scope before conflict", Run: func(x *Actor) {
			y := newActor(x.T, x.world, x.receiver)
			busy := y.chat("message", "/sleep 20s", "wait", "false").is(202)
			a := x.chat("message", "x", "chat_id", busy.text("chat_id")).problem(403, "outside_organization")
			assert.NotContains(x, a.raw, busy.text("run_id"))
			assert.Empty(x, a.header.Get("X-Agent-Run-Id"))
			y.chat("message", "x", "chat_id", "own-name").is(200)
			x.chat("message", "x", "chat_id", "own-name").is(200)
			y.post("/runs/"+busy.text("run_id")+"/cancel", nil).is(200)
		}},
		{Name: "hazard10/a resumed run gets a fresh start deadline", Settings: "brief", Run: func(x *Actor) {
			a := x.chat("message", "/ask Which?", "chat_id", "c")
			run := a.text("run_id")
			x.await(run, "awaiting_input")
			began := time.Now()
			x.eventually("the old deadline to pass", func() bool { return time.Since(began) > startDeadline })
			x.chat("message", "this", "chat_id", "c")
			x.await(run, "completed")
		}},
		{Name: "hazard13/a dropped client does not drop the run", Run: func(x *Actor) {
			r := x.chatRequest("message", "/sleep 400ms", "chat_id", "c", "streaming", "true")
			s := x.stream(r)
			run := s.header.Get("X-Agent-Run-Id")
			s.until("init")
			_ = s.response.Body.Close()
			x.await(run, "completed")
		}},
		{Name: "hazard15/a refused stream is plain JSON", Run: func(x *Actor) {
			x.startLongRun("chat_id", "c")
			a := x.chat("message", "x", "chat_id", "c", "streaming", "true").problem(409, "chat_busy")
			assert.Equal(x, "application/json", a.header.Get("Content-Type"))
		}},
		{Name: "hazard17/names and e-mails in the form change no attribution", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			x.startLongRun()
			for i := range 3 {
				x.chat("message", "x", "user", fmt.Sprint("u", i), "email", fmt.Sprintf("u%d@example.com", i),
					"user_id", x.Agent).problem(429, "user_concurrency_cap")
			}
		}},
		{Name: "hazard17b/a cap lowered below what runs kills nothing and admits nothing", Run: func(x *Actor) {
			one, two := x.begin("message", "/sleep 15s"), x.begin("message", "/sleep 15s")
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			x.chat("message", "x").problem(429, "user_concurrency_cap")
			x.await(one, "completed")
			x.await(two, "completed")
		}},
		{Name: "hazard19/deleting a chat with an active run", Run: func(x *Actor) {
			run := x.begin("message", "/sleep 20s", "chat_id", "c", "callback_url", x.address("ok"))
			x.await(run, "running")
			parked := x.post("/runs/"+run+"/followups", object{"message": "f"}).is(202).text("parked", "parked_id")
			x.delete("/chats/c").is(204)
			x.get("/runs/"+run).problem(404, "not_found")
			x.get("/runs/"+parked).problem(404, "not_found")
			assert.Equal(x, 0.0, x.get("/me").number("activity", "active_runs_of_user"))
			x.eventually("the ledger entry", func() bool { return len(x.get("/analytics/usage").list("entries")) == 1 })
			x.chat("message", "y", "chat_id", "c").is(200)
			assert.Empty(x, x.pushes("ok"), "no push after deletion")
		}},
		{Name: "hazard20/exactly five parked under concurrency", Run: func(x *Actor) {
			x.startLongRun("chat_id", "c")
			counts := at64(func(i int) int {
				return x.chat("message", fmt.Sprint(i), "chat_id", "c", "on_conflict", "enqueue").status
			})
			assert.Equal(x, map[int]int{202: 5, 409: 59}, counts)
		}},
		{Name: "hazard20b/64 messages at once on one chat start one run", Run: func(x *Actor) {
			counts := at64(func(int) int {
				return x.chat("message", "/sleep 2m", "chat_id", "c", "wait", "false").status
			})
			assert.Equal(x, map[int]int{202: 1, 409: 63}, counts)
			x.stopAll(1)
		}},
		{Name: "hazard20c/64 messages at once keep to the cap", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 7}).is(200)
			counts := at64(func(int) int { return x.chat("message", "/sleep 2m", "wait", "false").status })
			assert.Equal(x, map[int]int{202: 7, 429: 57}, counts)
			x.stopAll(7)
		}},
		{Name: "hazard21/busy chat before cap", Run: func(x *Actor) {
			x.patch("/users/"+x.User, object{"concurrency_cap": 1}).is(200)
			x.startLongRun("chat_id", "c")
			x.chat("message", "x", "chat_id", "c").problem(409, "chat_busy")
			x.chat("message", "x", "chat_id", "d").problem(429, "user_concurrency_cap")
		}},
	}
}
