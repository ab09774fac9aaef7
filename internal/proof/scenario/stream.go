package scenario

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// event is one event of a stream, of either format.
type event struct {
	name    string
	comment string
	body    object
}

// streaming is an open stream.
type streaming struct {
	x        *Actor
	header   http.Header
	response *http.Response
	scanner  *bufio.Scanner
	sse      bool
}

func (x *Actor) stream(r *http.Request) *streaming {
	x.Helper()
	response, err := http.DefaultClient.Do(r)
	require.NoError(x, err)
	x.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(x, 200, response.StatusCode)
	s := &streaming{x: x, header: response.Header, response: response, scanner: bufio.NewScanner(response.Body)}
	s.scanner.Buffer(nil, 8<<20)
	s.sse = response.Header.Get("Content-Type") == "text/event-stream"
	return s
}

func (x *Actor) follow(run string, header ...string) *streaming {
	x.Helper()
	return x.stream(x.request(http.MethodGet, "/runs/"+run+"/stream", nil, header...))
}

// next reads an event; ok is false at the end.
func (s *streaming) next() (e event, ok bool) {
	s.x.Helper()
	for s.scanner.Scan() {
		line := s.scanner.Text()
		switch {
		case !s.sse:
			require.NoError(s.x, json.Unmarshal([]byte(line), &e.body), line)
			e.name, _ = e.body["event"].(string)
			return e, true
		case line == "":
			if e.name != "" || e.comment != "" {
				return e, true
			}
		case strings.HasPrefix(line, ":"):
			e.comment = strings.TrimSpace(line[1:])
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			require.NoError(s.x, json.Unmarshal([]byte(line[len("data: "):]), &e.body), line)
			assert.Equal(s.x, e.name, e.body["event"])
		}
	}
	return e, false
}

// until reads to the first event of a name.
func (s *streaming) until(name string) event {
	s.x.Helper()
	for {
		e, ok := s.next()
		require.True(s.x, ok, "the stream ended before "+name)
		if e.name == name {
			return e
		}
	}
}

// rest reads to the end.
func (s *streaming) rest() []event {
	s.x.Helper()
	var all []event
	for {
		e, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// joined returns the text of a stream: that of the last init, and the deltas after it.
func joined(events []event) string {
	text := ""
	for _, e := range events {
		switch e.name {
		case "init":
			text, _ = e.body["text"].(string)
		case "delta":
			text += e.body["text"].(string)
		}
	}
	return text
}

func names(events []event) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.name)
	}
	return list
}

func streamScenarios() []Story {
	return []Story{
		{Name: "stream/sse: init, what happens, done", Run: func(x *Actor) {
			run := x.begin("message", "go\n/sleep 100ms\n/stream 20 5ms\n"+tool("echo", object{"text": "t"}))
			s := x.follow(run)
			assert.Equal(x, run, s.header.Get("X-Agent-Run-Id"))
			events := s.rest()
			assert.Equal(x, "init", events[0].name)
			assert.Equal(x, run, events[0].body["run"].(object)["run_id"])
			assert.Equal(x, "done", events[len(events)-1].name)
			// A tool call is reported by its step, or by the init of a reader that joined after it.
			before, _ := events[0].body["steps"].([]any)
			assert.True(x, slices.Contains(names(events), "step") || len(before) > 0, events)
			assert.Equal(x, events[len(events)-1].body["run"].(object)["result"].(object)["answer"], joined(events))
		}},
		{Name: "stream/sse: stays open through a pause and ends after it", Run: func(x *Actor) {
			a := x.chat("message", "/ask Where?\n/sleep 15s").is(202) // a reader may miss a status that lasts no time
			s := x.follow(a.text("run_id"))
			first, _ := s.next()
			assert.Equal(x, "awaiting_input", first.body["run"].(object)["status"])
			x.post("/runs/"+a.text("run_id")+"/resume",
				object{"decisions": []object{{"interrupt_id": a.interrupt(0), "decision": "answer",
					"message": "here"}}}).is(200)
			events := append([]event{first}, s.rest()...)
			// The continuation is reported by its status, or by a new init of the worker that resumed the run.
			assert.Contains(x, []string{"status", "init"}, events[1].name)
			assert.Equal(x, "Answer: here", joined(events))
		}},
		{Name: "stream/sse: of a run that has ended: init, done, end", Run: func(x *Actor) {
			a := x.chat("message", "x").is(200)
			events := x.follow(a.text("run_id")).rest()
			assert.Equal(x, []string{"init", "done"}, names(events))
			assert.Equal(x, "You said: x", joined(events))
		}},
		{Name: "stream/sse: Last-Event-ID is tolerated and is no cursor", Run: func(x *Actor) {
			a := x.chat("message", "x").is(200)
			for _, id := range []string{"1", "garbage", "-5", strings.Repeat("9", 400)} {
				assert.Equal(x, []string{"init", "done"}, names(x.follow(a.text("run_id"), "Last-Event-ID", id).rest()))
			}
		}},
		{Name: "stream/sse: heartbeats are comments", Settings: "hasty", Run: func(x *Actor) {
			run := x.begin("agent_id", x.patient(), "message", "/sleep 2m")
			s := x.follow(run)
			s.until("init")
			for {
				e, ok := s.next()
				require.True(x, ok)
				if e.comment != "" {
					break
				}
			}
			x.post("/runs/"+run+"/cancel", nil).is(200)
			s.until("done")
		}},
		{Name: "stream/ndjson: heartbeats are lines", Settings: "hasty", Run: func(x *Actor) {
			s := x.stream(x.chatRequest("agent_id", x.patient(), "message", "/sleep 2m", "streaming", "true"))
			s.until("heartbeat")
			x.post("/runs/"+s.header.Get("X-Agent-Run-Id")+"/cancel", nil).is(200)
			assert.Equal(x, "cancelled", s.until("done").body["run"].(object)["status"])
		}},
		{Name: "stream/a cancelled run keeps the text that had come", Run: func(x *Actor) {
			pairs := []string{"message", "Read this.\n/tool echo {\"text\":\"hi\"}\n/stream 3000 20ms",
				"callback_url", x.address("ok"), "idempotency_key", "k", "chat_id", "c"}
			s := x.stream(x.chatRequest(append(pairs, "streaming", "true")...))
			run, text := s.header.Get("X-Agent-Run-Id"), ""
			for !strings.Contains(text, " 9 ") {
				e, ok := s.next()
				require.True(x, ok, "it ended with %q", text)
				piece, _ := e.body["text"].(string)
				text += piece
			}
			x.post("/runs/"+run+"/cancel", nil).is(200)
			var last event
			for last.name != "done" {
				e, ok := s.next()
				require.True(x, ok)
				piece, _ := e.body["text"].(string)
				text, last = text+piece, e
			}
			partial := object{"answer": text, "finish_reason": "cancelled"}
			assert.Equal(x, partial, last.body["run"].(object)["partial"])
			r := x.get("/runs/" + run).is(200)
			assert.Equal(x, partial, r.at("partial"))
			assert.Nil(x, r.at("result"))
			assert.Greater(x, r.number("usage", "output_tokens"), 3.0, "the call that was cut short counts")
			assert.Equal(x, 2.0, r.number("usage", "model_calls"))
			assert.Equal(x, partial, x.chat(pairs...).is(200).at("partial"))
			assert.Equal(x, partial, x.awaitPushes("ok", 1)[0].body["partial"])
			list := x.get("/chats/c/messages").is(200)
			assert.Equal(x, text, list.text("messages", 1, "content"))
			steps := x.get("/runs/" + run + "/steps").is(200).at("steps").([]any)
			cut := steps[len(steps)-1].(object)
			assert.Equal(x, []any{"model", "stopped"}, []any{cut["kind"], cut["state"]})
			assert.True(x, strings.HasSuffix(text, cut["text"].(string)))
			assert.Positive(x, cut["output_tokens"])
		}},
		{Name: "stream/ndjson: a pause ends it with a status line", Run: func(x *Actor) {
			events := x.stream(x.chatRequest("message", "first\n/ask Where?", "streaming", "true")).rest()
			last := events[len(events)-1]
			assert.Equal(x, "status", last.name)
			assert.Equal(x, "awaiting_input", last.body["status"])
			assert.Len(x, last.body["interrupts"], 1)
			assert.Equal(x, "You said: first", joined(events))
		}},
		{Name: "stream/several readers, early and late, all see the whole", Run: func(x *Actor) {
			run := x.begin("message", "many\n/stream 100 5ms")
			early := x.follow(run)
			early.until("delta")
			late := x.follow(run)
			for _, s := range []*streaming{early, late} {
				events := s.rest()
				answer := events[len(events)-1].body["run"].(object)["result"].(object)["answer"].(string)
				if s == late {
					assert.Equal(x, answer, joined(events))
				}
			}
		}},
		{Name: "stream/whoever comes or comes back has all so far in one init", Run: func(x *Actor) {
			run := x.begin("message", "many\n/stream 5000 10ms")
			early, shown := x.follow(run), ""
			for range 3 {
				for more := shown + strings.Repeat(" ", 200); len(shown) < len(more); {
					e, ok := early.next()
					require.True(x, ok)
					switch e.name {
					case "init":
						shown = e.body["text"].(string)
					case "delta":
						shown += e.body["text"].(string)
					}
				}
				late := x.follow(run)
				init, _ := late.next()
				require.Equal(x, "init", init.name)
				text := init.body["text"].(string)
				assert.True(x, strings.HasPrefix(text, shown), "%q was shown to another already, an init has %q", shown,
					text)
				next := late.until("delta").body["text"].(string)
				assert.False(x, strings.HasPrefix(text, next), "%q stands in the init already: %q", next, text)
				require.NoError(x, early.response.Body.Close())
				early, shown = late, text+next
			}
			x.stop(run)
		}},
		{Name: "stream/parked messages are told of", Run: func(x *Actor) {
			run := x.startLongRun("chat_id", "c")
			s := x.follow(run)
			s.until("init")
			parked := x.post("/runs/"+run+"/followups", object{"message": "next"}).is(202).text("parked", "parked_id")
			assert.Equal(x, parked, s.until("parked").body["parked"].(object)["parked_id"])
			x.stop(run)
			s.until("done")
			x.awaitTurn(parked, "completed")
		}},
		{Name: "stream/a run token reads, streams, resumes and cancels its run alone", Run: func(x *Actor) {
			a := x.chat("message", "/ask Where?").is(202)
			other := x.chat("message", "x").is(200).text("run_id")
			run := a.text("run_id")
			made := x.post("/runs/"+run+"/token", nil).is(201)
			guest := x.with(made.text("token"))
			guest.get("/runs/" + run).is(200)
			assert.Equal(x, "init", func() string { e, _ := guest.follow(run).next(); return e.name }())
			guest.get("/runs/"+other).problem(403, "insufficient_permission")
			guest.get("/runs").problem(403, "insufficient_permission")
			guest.chat("message", "x").problem(403, "insufficient_permission")
			guest.post("/runs/"+run+"/resume",
				object{"decisions": []object{{"interrupt_id": a.interrupt(0), "decision": "answer",
					"message": "x"}}}).is(200)
			guest.post("/runs/"+run+"/cancel", nil).is(200)
			x.with(made.text("token")+"x").get("/runs/"+run).problem(401, "invalid_api_key")
		}},
	}
}
