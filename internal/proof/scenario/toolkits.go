package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tools is a scenario's tool server, behind the receiver's address: its OpenAPI document can be changed, and it
// counts calls.
type tools struct {
	mu       sync.Mutex
	document object
	calls    map[string]int
	together chan struct{} // closed when as many calls of "meet" have arrived as must be concurrent
	meeting  int
}

// crowd is the number of concurrent calls.
const crowd = 10

func operation(id, parameter string) object {
	o := object{"operationId": id, "responses": object{"200": object{"description": "ok"}}}
	if parameter != "" {
		o["parameters"] = []object{{"name": parameter, "in": "query", "required": true,
			"schema": object{"type": "string"}}}
	}
	return o
}

func (t *tools) set(path, method string, o object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	paths := t.document["paths"].(object)
	if o == nil {
		delete(paths, path)
		return
	}
	paths[path] = object{method: o}
}

// lead makes the document name another server.
func (t *tools) lead(to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.document["servers"] = []object{{"url": to}}
}

func (t *tools) count(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[name]
}

const toolToken = "open-sesame"

func (t *tools) serve(w http.ResponseWriter, r *http.Request, name string) {
	if r.Header.Get("Authorization") != "Bearer "+toolToken {
		http.Error(w, "who are you, at "+r.URL.String()+"?", http.StatusUnauthorized)
		return
	}
	t.mu.Lock()
	t.calls[name]++
	document, _ := json.Marshal(t.document)
	if name == "meet" {
		if t.meeting++; t.meeting == crowd {
			close(t.together)
		}
	}
	t.mu.Unlock()
	switch name {
	case "openapi.json":
		_, _ = w.Write(document)
	case "meet":
		select {
		case <-t.together:
			_, _ = io.WriteString(w, "met")
		case <-r.Context().Done():
		}
	case "hang":
		<-r.Context().Done()
	case "report":
		_, _ = io.WriteString(w, strings.Repeat("all work and no play\n", 20_000))
	case "map":
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "\x89PNG\r\n\x1a\n\x00")
	case "broken":
		http.Error(w, "out of order", http.StatusInternalServerError)
	default:
		_, _ = fmt.Fprintf(w, "the weather in %s is fine", r.URL.Query().Get("city"))
	}
}

// serveTools starts a tool server and returns it with its address.
func (x *Actor) serveTools() (*tools, string) {
	t := &tools{calls: map[string]int{}, together: make(chan struct{}), document: object{
		"openapi": "3.0.3", "info": object{"title": "Weather",
			"version": "1"}, "servers": []object{{"url": "."}}, "paths": object{
			"/weather": object{"get": operation("get_weather", "city")}, "/meet": object{"get": operation("meet", "n")},
			"/hang":   object{"get": operation("hang", "")},
			"/broken": object{"get": operation("broken", "")}, "/report": object{"get": operation("report", "")},
			"/map": object{"get": operation("map", "")}, "/order": object{"post": operation("order", "city")},
		},
	}}
	x.receiver.mu.Lock()
	defer x.receiver.mu.Unlock()
	x.receiver.tools[x.Organization] = t
	return t, x.receiver.url + "/tools/" + x.Organization
}

func (x *Actor) weather() (t *tools, toolkit, agent string) {
	x.Helper()
	t, address := x.serveTools()
	toolkit = x.post("/toolkits", object{
		"kind": "openapi", "name": "weather", "url": address + "/openapi.json",
		"credentials": object{"type": "bearer", "token": toolToken},
	}).is(201).text("toolkit_id")
	agent = x.post("/agents", object{"name": "Forecaster", "toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
	return t, toolkit, agent
}

func toolNames(r reply) (all, enabled []string) {
	for _, one := range r.list("tools") {
		all = append(all, one.(object)["name"].(string))
		if one.(object)["enabled"] == true {
			enabled = append(enabled, one.(object)["name"].(string))
		}
	}
	return all, enabled
}

// Toolkits: tools of other servers.
func toolkitScenarios() []Story {
	return []Story{
		{Name: "toolkit/an agent calls the operations of an OpenAPI document", Run: func(x *Actor) {
			server, toolkit, agent := x.weather()
			done := x.chat("agent_id", agent, "message", tool("get_weather", object{"city": "Oslo"})).is(200)
			assert.Equal(x, "get_weather → the weather in Oslo is fine", done.text("answer"))
			assert.Equal(x, "succeeded", done.text("steps", 0, "outcome"))
			assert.Equal(x, 1, server.count("weather"))

			read := x.get("/toolkits/" + toolkit).is(200)
			assert.Equal(x, "bearer", read.text("credentials_type"))
			assert.Equal(x, 7.0, read.number("tool_count"))
			for _, shown := range []reply{read, x.get("/toolkits").is(200),
				x.get("/toolkits/" + toolkit + "/tools").is(200),
				x.get("/runs/" + done.text("run_id") + "/steps").is(200)} {
				assert.NotContains(x, shown.raw, toolToken, "credentials are never shown")
			}
			attempt := x.post("/toolkits/"+toolkit+"/tools/get_weather/try",
				object{"arguments": object{"city": "Rome"}}).is(200)
			assert.Equal(x, "the weather in Rome is fine", attempt.text("result"))
			x.post("/toolkits/"+toolkit+"/tools/get_weather/try", object{"arguments": object{}}).problem(400,
				"invalid_request")
			assert.Contains(x, x.post("/toolkits/"+toolkit+"/tools/broken/try",
				object{"arguments": object{}}).is(200).text("error"), "the server answered 500: out of order")
			x.post("/toolkits/"+toolkit+"/tools/nothing/try", object{"arguments": object{}}).problem(404, "not_found")
		}},
		{Name: "toolkit/a part of a large document is chosen", Run: chooseAPart},
		{Name: "toolkit/an agent has no more tools than a model takes", Run: haveTooManyTools},
		{Name: "toolkit/ten calls at once are made at once", Run: func(x *Actor) {
			server, _, agent := x.weather()
			var lines []string
			for n := range crowd {
				lines = append(lines, tool("meet", object{"n": fmt.Sprint(n)}))
			}
			done := x.chat("agent_id", agent, "message", strings.Join(lines, "\n")).is(200)
			assert.Equal(x, strings.TrimSuffix(strings.Repeat("meet → met\n", crowd), "\n"), done.text("answer"),
				"none is answered before all have come")
			assert.Equal(x, crowd, server.count("meet"))
		}},
		{Name: "toolkit/a tool that hangs costs its time, and one that fails is told", Run: func(x *Actor) {
			_, toolkit, agent := x.weather()
			x.patch("/toolkits/"+toolkit+"/tools/hang", object{"timeout_ms": 300}).is(200)
			done := x.chat("agent_id", agent, "message", "/tool hang {}\n/tool broken {}").is(200)
			assert.Contains(x, done.text("answer"), "hang → error: the ")
			assert.Contains(x, done.text("answer"), "broken → error: the server answered 500: out of order")
		}},
		{Name: "toolkit/a long result is a file of the run", Run: func(x *Actor) {
			_, _, agent := x.weather()
			done := x.chat("agent_id", agent, "message", "/tool report {}").is(200)
			assert.Contains(x, done.text("answer"), "[cut: the result has 420000 bytes")
			file := done.text("files", 0, "file_id")
			whole := x.get("/files/" + file).is(200)
			assert.Len(x, whole.raw, 420_000)
			newActor(x.T, x.world, x.receiver).get("/files/"+file).problem(403, "outside_organization")
			x.delete("/chats/" + done.text("chat_id")).is(204)
			x.eventually("the file's end", func() bool { return x.gone("/files/" + file) })
		}},
		{Name: "toolkit/a picture that a tool gives is a file of the run", Run: func(x *Actor) {
			_, _, agent := x.weather()
			done := x.chat("agent_id", agent, "message", "/tool map {}").is(200)
			assert.Equal(x, "map → [9 bytes of image/png; the user has them as the file map-1.png]",
				done.text("answer"))
			file := x.get("/files/" + done.text("files", 0, "file_id")).is(200)
			assert.Equal(x, "\x89PNG\r\n\x1a\n\x00", file.raw)
			assert.Equal(x, "image/png", file.header.Get("Content-Type"))
		}},
		{Name: "toolkit/the rules of a tool", Run: func(x *Actor) {
			server, toolkit, agent := x.weather()
			rules := "/toolkits/" + toolkit + "/tools/"
			x.patch(rules+"get_weather",
				object{"approval": "when", "approval_when": object{"argument": "city", "pattern": "^O"}}).is(200)
			done := x.chat("agent_id", agent, "message", tool("get_weather", object{"city": "Rome"})).is(200)
			assert.Contains(x, done.text("answer"), "Rome is fine")
			run := x.begin("agent_id", agent, "message", tool("get_weather", object{"city": "Oslo"}))
			paused := x.await(run, "awaiting_input")
			assert.Contains(x, paused.text("interrupts", 0, "prompt"), `argument city matches "^O"`)
			assert.Equal(x, "get_weather", paused.text("interrupts", 0, "tool", "name"))
			x.post("/runs/"+run+"/resume", decide(paused.interrupt(0), "approve")).is(200)
			assert.Contains(x, x.await(run, "completed").text("result", "answer"), "Oslo is fine")

			x.patch(rules+"get_weather", object{"enabled": false}).is(200)
			before := server.count("weather")
			done = x.chat("agent_id", agent, "message", tool("get_weather", object{"city": "Rome"})).is(200)
			assert.Contains(x, done.text("answer"), `the tool "get_weather" does not exist`)
			assert.Equal(x, before, server.count("weather"))

			// A user who tries a tool approves the call only with the right of an admin.
			before = server.count("weather")
			y := x.colleague("manager", "manage")
			x.patch(rules+"get_weather",
				object{"approval": "when", "approval_when": object{"argument": "city", "pattern": "^O"}}).is(200)
			y.post(rules+"get_weather/try", object{"arguments": object{"city": "Oslo"}}).problem(403,
				"insufficient_permission")
			assert.Equal(x, before, server.count("weather"))
			y.post(rules+"get_weather/try", object{"arguments": object{"city": "Rome"}}).is(200)
			x.patch(rules+"get_weather", object{"approval": "always"}).is(200)
			y.post(rules+"get_weather/try", object{"arguments": object{"city": "Rome"}}).problem(403,
				"insufficient_permission")
			assert.Equal(x, before+1, server.count("weather"))
			x.post(rules+"get_weather/try", object{"arguments": object{"city": "Rome"}}).is(200)
			var log reply
			x.eventually("both tries in the log", func() bool {
				log = x.get("/audit-log").is(200)
				return strings.Count(log.raw, `"try-tool"`) == 2
			})
			assert.Equal(x, toolkit, log.text("entries", 0, "subject", "id"))

			x.patch(rules+"get_weather", object{"approval": "when"}).problem(400, "invalid_request")
			x.patch(rules+"get_weather",
				object{"approval": "when", "approval_when": object{"argument": "city", "pattern": "("}}).problem(400,
				"invalid_request")
			x.patch(rules+"get_weather", object{"timeout_ms": 0}).problem(400, "invalid_request")
			x.patch(rules+"nothing", object{"enabled": true}).problem(404, "not_found")
		}},
		{Name: "toolkit/rules that many change at once are all kept", Run: func(x *Actor) {
			_, toolkit, _ := x.weather()
			all, _ := toolNames(x.get("/toolkits/" + toolkit + "/tools").is(200))
			var changing sync.WaitGroup
			for n, name := range all {
				changing.Go(func() {
					x.patch("/toolkits/"+toolkit+"/tools/"+name, object{"timeout_ms": 1000 + n}).is(200)
					x.get("/toolkits/" + toolkit + "/tools").is(200)
				})
			}
			changing.Wait()
			for n, one := range x.get("/toolkits/" + toolkit + "/tools").is(200).list("tools") {
				assert.EqualValues(x, 1000+n, one.(object)["timeout_ms"])
			}
		}},
		{Name: "toolkit/a refresh shows the difference and enables nothing", Run: func(x *Actor) {
			server, toolkit, agent := x.weather()
			server.set("/tides", "get", operation("get_tides", "harbour"))
			server.set("/weather", "get", operation("get_weather", "place"))
			server.set("/hang", "get", nil)
			d := x.post("/toolkits/"+toolkit+"/refresh", nil).is(200)
			assert.Equal(x, object{"added": []any{"get_tides"}, "removed": []any{"hang"},
				"changed": []any{"get_weather"}}, d.body)
			all, enabled := toolNames(x.get("/toolkits/" + toolkit + "/tools").is(200))
			assert.ElementsMatch(x, []string{"broken", "get_tides", "get_weather", "map", "meet", "order", "report"},
				all)
			assert.ElementsMatch(x, []string{"broken", "map", "meet", "order", "report"}, enabled,
				"what takes other arguments is what nobody agreed to")
			x.patch("/toolkits/"+toolkit+"/tools/get_tides", object{"enabled": true}).is(200)
			assert.Contains(x, x.chat("agent_id", agent, "message",
				tool("get_tides", object{"harbour": "Oslo"})).is(200).text("answer"), "is fine")
			d = x.post("/toolkits/"+toolkit+"/refresh", nil).is(200)
			assert.Equal(x, object{"added": []any{}, "removed": []any{}, "changed": []any{}}, d.body)
		}},
		{Name: "toolkit/credentials stay at the server they were given for", Run: func(x *Actor) {
			server, toolkit, agent := x.weather()
			at := "/toolkits/" + toolkit
			read := x.get(at).is(200)
			assert.Equal(x, []any{x.receiver.url}, read.at("credentials_origins"))
			url := read.text("url")
			assert.Equal(x, "bearer",
				x.patch(at, object{"url": url + "?v=2", "name": "renamed"}).is(200).text("credentials_type"),
				"it has not moved")

			server.lead("https://elsewhere.example.com/v1")
			d := x.post(at+"/refresh", nil).is(200)
			assert.Len(x, d.at("changed"), 7, "what is called elsewhere is not what was agreed to")
			_, enabled := toolNames(x.get(at + "/tools").is(200))
			assert.Empty(x, enabled)
			refused := x.patch(at+"/tools/get_weather", object{"enabled": true}).problem(400, "invalid_request")
			assert.Contains(x, refused.text("message"), "set base_url to that server")
			attempt := x.post(at+"/tools/get_weather/try", object{"arguments": object{"city": "Rome"}}).is(200)
			assert.Contains(x, attempt.text("error"), "credentials must be given again")

			server.lead(".")
			x.post(at+"/refresh", nil).is(200)
			x.patch(at+"/tools/get_weather", object{"enabled": true}).is(200)
			assert.Contains(x, x.chat("agent_id", agent, "message",
				tool("get_weather", object{"city": "Oslo"})).is(200).text("answer"), "Oslo is fine")
			moved := x.patch(at, object{"url": "https://elsewhere.example.com/openapi.json"}).is(200)
			assert.Nil(x, moved.at("credentials_type"))
			assert.Empty(x, moved.at("credentials_origins"))
			_, enabled = toolNames(x.get(at + "/tools").is(200))
			assert.Empty(x, enabled)
			assert.Nil(x, x.patch(at, object{"url": url}).is(200).at("credentials_type"), "they do not come back")
			x.post(at+"/refresh", nil).problem(400, "invalid_request")
			back := x.patch(at, object{"url": url, "credentials": object{"type": "bearer", "token": toolToken}}).is(200)
			assert.Equal(x, "bearer", back.text("credentials_type"))
			x.post(at+"/refresh", nil).is(200)
			x.patch(at+"/tools/get_weather", object{"enabled": true}).is(200)
			assert.Contains(x, x.chat("agent_id", agent, "message",
				tool("get_weather", object{"city": "Oslo"})).is(200).text("answer"), "Oslo is fine")

			own := object{"type": "bearer", "token": toolToken, "origins": []string{"https://elsewhere.example.com"}}
			x.patch(at, object{"credentials": own}).problem(400, "invalid_request")
			for _, secret := range []object{
				{"url": url + "?api_key=x"},
				{"request": object{"name": "a", "headers": object{"Authorization": "Bearer x"}}},
				{"request": object{"name": "a", "headers": object{"X-Api-Key": "x"}}},
			} {
				body := object{"kind": "http", "name": "one", "url": url, "request": object{"name": "a"}}
				for member, value := range secret {
					body[member] = value
				}
				assert.Equal(x, 400, x.post("/toolkits", body).status,
					"%v: what lets in stands nowhere but in credentials", secret)
				one := x.post("/toolkits",
					object{"kind": "http", "name": "one", "url": url,
						"request": object{"name": "a"}}).is(201).text("toolkit_id")
				assert.Equal(x, 400, x.patch("/toolkits/"+one, secret).status, secret)
				agent := x.post("/agents", object{"name": "One", "toolkit_ids": []string{one}}).is(201).text("agent_id")
				document := x.get("/agents/" + agent + "/export").is(200).body
				carried := document["toolkits"].([]any)[0].(object)
				for member, value := range secret {
					carried[member] = value
				}
				carried["name"] = "another"
				assert.Equal(x, 400, x.post("/agents/import", document).status, secret)
			}
		}},
		{Name: "toolkit/arguments that do not fit are told, and not for ever", Run: func(x *Actor) {
			server, _, agent := x.weather()
			once := x.chat("agent_id", agent, "message", tool("get_weather", object{"town": "Oslo"})).is(200)
			assert.Contains(x, once.text("answer"), "the arguments do not fit: missing property 'city'")
			line := tool("get_weather", object{"city": 5})
			ended := x.chat("agent_id", agent, "message",
				strings.Join([]string{line, "/stream 1 1ms", line, "/stream 2 1ms", line, "/stream 3 1ms", line},
					"\n")).is(500)
			assert.Contains(x, ended.text("message"),
				"get_weather 3 times one after another with arguments that do not fit")
			assert.Zero(x, server.count("weather"))
		}},
		{Name: "toolkit/parameters that are too much work are told", Run: func(x *Actor) {
			_, address := x.serveTools()
			levels := object{"l0": object{"type": "string"}}
			for n := range 40 {
				below := object{"$ref": fmt.Sprintf("#/$defs/l%d", n)}
				levels[fmt.Sprintf("l%d", n+1)] = object{"anyOf": []object{below, below}}
			}
			doubled := object{"$ref": "#/$defs/l40", "$defs": levels}
			toolkit := x.post("/toolkits", object{"kind": "http", "name": "doubled", "url": address + "/weather",
				"request": object{"name": "look", "parameters": doubled}}).is(201).text("toolkit_id")
			refused := x.post("/toolkits/"+toolkit+"/tools/look/try", object{"arguments": object{}}).problem(400,
				"invalid_request")
			assert.Contains(x, refused.raw, "too much work")
			agent := x.post("/agents", object{"name": "a", "toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
			assert.Contains(x, x.chat("agent_id", agent, "message", tool("look", object{})).is(200).text("answer"),
				"too much work")
			x.post("/agents", object{"name": "a", "output_schema": object{"$ref": "#"}}).problem(400, "invalid_request")
		}},
		{Name: "toolkit/an agent that goes in circles is ended", Run: func(x *Actor) {
			var lines []string
			for range 14 {
				lines = append(lines, tool("echo", object{"text": "a"}), "/stream 1 1ms")
			}
			assert.Contains(x, x.chat("message", strings.Join(lines, "\n")).is(500).text("message"),
				"called echo with the same arguments 10 times")
		}},
		{Name: "toolkit/an agent's tokens and answers are bounded by what it says", Run: func(x *Actor) {
			small := x.post("/agents",
				object{"name": "Small", "limits": object{"max_tokens": 5}}).is(201).text("agent_id")
			message := "one two three four five\n" + tool("echo", object{"text": "a"})
			assert.Contains(x, x.chat("agent_id", small, "message", message).is(500).text("message"),
				"(limits.max_tokens)")
			strict := x.post("/agents",
				object{"name": "Strict", "output_schema": object{"type": "object"}}).is(201).text("agent_id")
			assert.Contains(x, x.chat("agent_id", strict, "message", "hello").is(500).text("message"), "output_schema")
			x.post("/agents", object{"name": "Wrong", "output_schema": object{"type": "colour"}}).problem(400,
				"invalid_request")
		}},
		{Name: "toolkit/what cannot be", Run: func(x *Actor) {
			_, address := x.serveTools()
			good := object{"kind": "openapi", "name": "n", "url": address + "/openapi.json",
				"credentials": object{"type": "bearer", "token": toolToken}}
			with := func(more object) object {
				o := object{}
				for _, part := range []object{good, more} {
					for k, v := range part {
						o[k] = v
					}
				}
				return o
			}
			for _, bad := range []object{
				{"kind": "ftp"}, {"kind": "builtin"}, {"name": ""}, {"url": "ftp://example.com"},
				{"document": "openapi: 3.0.0"}, {"enabled": []string{"nothing"}},
				{"credentials": object{"type": "bearer"}}, {"credentials": object{"type": "magic"}},
				{"credentials": object{"type": "header", "name": "a b", "value": "v"}},
				{"credentials": object{"type": "bearer", "token": "a\r\nb"}}, {"kind": "mcp", "url": nil},
				{"kind": "http"},
			} {
				x.post("/toolkits", with(bad)).problem(400, "invalid_request")
			}
			refused := x.post("/toolkits",
				with(object{"credentials": object{"type": "bearer", "token": "wrong-word"}})).problem(400,
				"invalid_request")
			assert.Contains(x, refused.raw, "answered 401")
			assert.NotContains(x, refused.raw, "wrong-word")
			for _, inside := range []string{"http://127.0.0.1:1/", "http://169.254.169.254/latest", "http://[::1]/",
				"http://0x7f.1/"} {
				x.post("/toolkits", with(object{"url": inside})).problem(400, "url_forbidden")
			}
			named := x.post("/toolkits", with(object{"url": "http://localhost:1/openapi.json"})).problem(400,
				"invalid_request")
			assert.Contains(x, named.raw, "is not allowed",
				"a name that leads inside is refused when it is dialled")
			x.post("/agents", object{"name": "a", "toolkit_ids": []string{"0123456789abcdef01234567"}}).problem(400,
				"invalid_request")
		}},
		{Name: "toolkit/each organization has its own", Run: func(x *Actor) {
			_, toolkit, _ := x.weather()
			other := newActor(x.T, x.world, x.receiver)
			other.get("/toolkits/"+toolkit).problem(403, "outside_organization")
			other.patch("/toolkits/"+toolkit, object{"name": "mine"}).problem(403, "outside_organization")
			other.delete("/toolkits/"+toolkit).problem(403, "outside_organization")
			other.post("/agents", object{"name": "a", "toolkit_ids": []string{toolkit}}).problem(400, "invalid_request")
			require.Len(x, other.get("/toolkits").is(200).list("toolkits"), 1, "the built-in one")
			builtin := other.get("/toolkits").text("toolkits", 0, "toolkit_id")
			other.patch("/toolkits/"+builtin, object{"name": "mine"}).problem(409, "conflict")
			other.delete("/toolkits/"+builtin).problem(409, "conflict")

			etag := x.get("/toolkits/" + toolkit).header.Get("ETag")
			x.patch("/toolkits/"+toolkit, object{"name": "renamed", "credentials": nil}, "If-Match", etag).is(200)
			assert.Nil(x, x.get("/toolkits/"+toolkit).is(200).at("credentials_type"))
			x.patch("/toolkits/"+toolkit, object{"name": "again"}, "If-Match", etag).problem(412, "precondition_failed")
			x.delete("/toolkits/" + toolkit).is(204)
			x.get("/toolkits/"+toolkit).problem(404, "not_found")
		}},
		{Name: "toolkit/a page has no more toolkits than were asked for", Run: func(x *Actor) {
			var all []string
			for n := range 3 {
				_, address := x.serveTools()
				all = append(all, x.post("/toolkits", object{
					"kind": "http", "name": fmt.Sprint(n), "url": address, "request": object{"name": "a"},
				}).is(201).text("toolkit_id"))
			}
			builtin := x.get("/toolkits?limit=1").is(200)
			assert.Equal(x, "builtin", builtin.text("toolkits", 0, "kind"))
			assert.Equal(x, 3.0, builtin.number("toolkits", 0, "tool_count"))
			made := x.get("/organization").is(200).text("created_at")
			one := x.get("/toolkits/" + builtin.text("toolkits", 0, "toolkit_id")).is(200)
			for _, member := range []string{"created_at", "updated_at"} {
				assert.Equal(x, made, builtin.text("toolkits", 0, member))
				assert.Equal(x, made, one.text(member))
			}
			for _, limit := range []int{1, 2, 3, 4, 100} {
				var seen []string
				for cursor, pages := "", 0; pages < 10; pages++ {
					page := x.get(fmt.Sprintf("/toolkits?limit=%d%s", limit, cursor)).is(200)
					assert.LessOrEqual(x, len(page.list("toolkits")), limit)
					for _, t := range page.list("toolkits") {
						seen = append(seen, t.(object)["toolkit_id"].(string))
					}
					if page.at("next_cursor") == nil {
						break
					}
					cursor = "&cursor=" + page.text("next_cursor")
				}
				assert.Equal(x, []string{builtin.text("toolkits", 0, "toolkit_id"), all[2], all[1], all[0]}, seen,
					"limit %d", limit)
			}
			other := newActor(x.T, x.world, x.receiver)
			assert.Nil(x, other.get("/toolkits?limit=1").is(200).at("next_cursor"), "there is no other")
		}},
		{Name: "toolkit/what a server adds takes no approval off another one's tool", Run: func(x *Actor) {
			server, hostile, _ := x.weather()
			address := x.receiver.url + "/tools/" + x.Organization
			bank := x.post("/toolkits", object{
				"kind": "http", "name": "bank", "url": address + "/pay",
				"credentials": object{"type": "header", "name": "Authorization", "value": "Bearer " + toolToken},
				"request":     object{"name": "pay", "method": "POST"},
			}).is(201).text("toolkit_id")
			builtin := x.get("/toolkits").text("toolkits", 0, "toolkit_id")
			agent := x.post("/agents", object{
				"name": "Payer", "toolkit_ids": []string{hostile, bank, builtin},
				"approval": object{"mode": "tools", "tools": []string{"pay", "echo"}},
			}).is(201).text("agent_id")
			asks := func(name string) {
				x.Helper()
				run := x.begin("agent_id", agent, "message", tool(name, object{}))
				paused := x.await(run, "awaiting_input")
				assert.Equal(x, name, paused.text("interrupts", 0, "tool", "name"))
				x.post("/runs/"+run+"/resume", decide(paused.interrupt(0), "reject")).is(200)
				x.await(run, "completed")
			}
			asks("pay")
			server.set("/pay", "get", operation("pay", ""))
			server.set("/echo", "get", operation("echo", ""))
			x.post("/toolkits/"+hostile+"/refresh", nil).is(200)
			for _, name := range []string{"pay_bank", "echo_builtin"} {
				answer := x.chat("agent_id", agent, "message", tool(name, object{})).is(200).text("answer")
				assert.Contains(x, answer, "does not exist", "what is off renames nothing")
			}
			asks("pay")
			for _, name := range []string{"pay", "echo"} {
				x.patch("/toolkits/"+hostile+"/tools/"+name, object{"enabled": true}).is(200)
			}
			asks("pay")
			asks("pay_bank")
			x.patch("/toolkits/"+bank, object{"name": "treasury"}).is(200)
			asks("pay_treasury")
			assert.Zero(x, server.count("pay"))
		}},
		{Name: "toolkit/what a server says back has no credentials", Run: func(x *Actor) {
			_, address := x.serveTools()
			toolkit := x.post("/toolkits", object{
				"kind": "http", "name": "one", "url": address + "/weather",
				"request":     object{"name": "look", "query": []string{"city"}},
				"credentials": object{"type": "query", "name": "city", "value": "QSECRET/1"},
			}).is(201).text("toolkit_id")
			agent := x.post("/agents", object{"name": "a", "toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
			done := x.chat("agent_id", agent, "message", tool("look", object{})).is(200)
			attempt := x.post("/toolkits/"+toolkit+"/tools/look/try", object{"arguments": object{}}).is(200)
			for _, response := range []reply{done, attempt, x.get("/runs/" + done.text("run_id") + "/steps").is(200)} {
				assert.NotContains(x, response.raw, "QSECRET")
				assert.Contains(x, response.raw, "?city=[credentials]")
			}
		}},
		{Name: "toolkit/a single request", Run: func(x *Actor) {
			_, address := x.serveTools()
			toolkit := x.post("/toolkits", object{
				"kind": "http", "name": "one", "url": address + "/weather",
				"credentials": object{"type": "header", "name": "Authorization", "value": "Bearer " + toolToken},
				"request": object{"name": "look outside", "query": []string{"city"},
					"parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}},
			}).is(201).text("toolkit_id")
			agent := x.post("/agents", object{"name": "a", "toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
			done := x.chat("agent_id", agent, "message", tool("look_outside", object{"city": "Bern"})).is(200)
			assert.Equal(x, "look_outside → the weather in Bern is fine", done.text("answer"))
		}},
	}
}
