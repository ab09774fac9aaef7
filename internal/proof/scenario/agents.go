package scenario

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Agents: versions, drafts, exports and imports.
func agentScenarios() []Story {
	return []Story{
		{Name: "agent/a version is tried, published and taken back", Run: func(x *Actor) {
			comesTo := func(status string, version int, more ...string) {
				x.Helper()
				run := x.begin(append([]string{"message", tool("echo", object{"text": "a"})}, more...)...)
				assert.EqualValues(x, version, x.await(run, status).number("agent_version"))
			}
			comesTo("completed", 1)
			edited := x.patch("/agents/"+x.Agent,
				object{"approval": object{"mode": "always"}, "publish": false}).is(200)
			assert.EqualValues(x, 2, edited.number("version"))
			assert.EqualValues(x, 1, edited.number("published_version"))
			comesTo("completed", 1)                            // the published version
			comesTo("awaiting_input", 2, "agent_version", "2") // editors of the agent may run its draft
			x.colleague("member", "run").chat("agent_id", x.Agent, "agent_version", "2", "message", "x").problem(403,
				"insufficient_permission")
			x.chat("agent_version", "9", "message", "x").problem(400, "invalid_request")
			x.chat("agent_version", "two", "message", "x").problem(400, "invalid_request")

			assert.EqualValues(x, 2,
				x.post("/agents/"+x.Agent+"/publish", object{"version": 2}).is(200).number("published_version"))
			comesTo("awaiting_input", 2)
			x.post("/agents/"+x.Agent+"/publish", object{"version": 1}).is(200)
			comesTo("completed", 1)
			x.post("/agents/"+x.Agent+"/publish", object{"version": 3}).problem(400, "invalid_request")
			require.Len(x, x.get("/agents/"+x.Agent+"/versions").is(200).list("versions"), 2)
			assert.EqualValues(x, 3,
				x.patch("/agents/"+x.Agent, object{"description": "d"}).is(200).number("published_version"),
				"an edit is published, unless it says otherwise")
		}},
		{Name: "agent/a copy has a life of its own", Run: func(x *Actor) {
			x.patch("/agents/"+x.Agent, object{"instructions": "be kind"}).is(200)
			made := x.post("/agents/"+x.Agent+"/duplicate", nil).is(201)
			assert.Equal(x, "Demo (copy)", made.text("name"))
			assert.Equal(x, "be kind", made.text("instructions"))
			assert.EqualValues(x, 1, made.number("version"))
			x.patch("/agents/"+made.text("agent_id"), object{"instructions": "be brief"}).is(200)
			assert.Equal(x, "be kind", x.get("/agents/"+x.Agent).is(200).text("instructions"))
			long := x.post("/agents", object{"name": strings.Repeat("é", 193)}).is(201).text("agent_id")
			x.post("/agents/"+long+"/duplicate", nil).is(201)
			x.post("/toolkits", object{
				"kind": "http", "name": strings.Repeat("é", 200), "url": "https://example.com/",
				"request": object{"name": "act", "method": "POST"},
			}).is(201)
			assert.Equal(x, "Twin",
				x.post("/agents/"+x.Agent+"/duplicate", object{"name": "Twin"}).is(201).text("name"))
		}},
		{Name: "agent/one document carries an agent elsewhere", Run: func(x *Actor) {
			server, toolkit, _ := x.weather()
			x.patch("/toolkits/"+toolkit+"/tools/meet", object{"enabled": false}).is(200)
			builtin := x.get("/agents/"+x.Agent).is(200).text("toolkit_ids", 0)
			agent := x.post("/agents", object{"name": "Forecaster", "instructions": "say it",
				"toolkit_ids": []string{toolkit, builtin}}).is(201).text("agent_id")
			document := x.get("/agents/" + agent + "/export").is(200)
			assert.NotContains(x, document.raw, toolToken)

			other := newActor(x.T, x.world, x.receiver)
			made := other.post("/agents/import", document.body).is(201)
			assert.Equal(x, "say it", made.text("instructions"))
			theirs := made.text("toolkit_ids", 0)
			assert.NotEqual(x, toolkit, theirs)
			_, enabled := toolNames(other.get("/toolkits/" + theirs + "/tools").is(200))
			assert.ElementsMatch(x, []string{"broken", "get_weather", "hang", "map", "order", "report"}, enabled)
			answer := other.chat("agent_id", made.text("agent_id"), "message",
				tool("get_weather", object{"city": "Oslo"})+"\n"+tool("echo",
					object{"text": "a"})).is(200).text("answer")
			assert.Contains(x, answer, "the server answered 401", "credentials stay at home")
			assert.Contains(x, answer, "echo → a")
			other.patch("/toolkits/"+theirs,
				object{"credentials": object{"type": "bearer", "token": toolToken}}).is(200)
			assert.Contains(x, other.chat("agent_id", made.text("agent_id"), "message",
				tool("get_weather", object{"city": "Oslo"})).is(200).text("answer"), "Oslo is fine")
			assert.Positive(x, server.count("weather"))
			assert.Equal(x, theirs, other.post("/agents/import", document.body).is(201).text("toolkit_ids", 0),
				"a toolkit that is there is not made again")

			empty := newActor(x.T, x.world, x.receiver)
			agentOf := document.body["agent"].(object)
			model := agentOf["model"]
			agentOf["model"] = object{"provider": "nobody"}
			empty.post("/agents/import", document.body).problem(400, "invalid_request")
			agentOf["model"] = model
			keys := agentOf["toolkit_ids"]
			agentOf["toolkit_ids"] = append(append([]any{}, keys.([]any)...), "unknown")
			empty.post("/agents/import", document.body).problem(400, "invalid_request")
			agentOf["toolkit_ids"] = keys
			assert.Len(x, empty.get("/toolkits").is(200).list("toolkits"), 1,
				"an import that is refused leaves no toolkits")

			for field, value := range map[string]any{ // an import is checked like a creation
				"model":    object{"provider": "demo", "temperature": 99},
				"metadata": object{"a": strings.Repeat("x", 200_000)},
			} {
				was, there := agentOf[field]
				agentOf[field] = value
				assert.Contains(x, empty.post("/agents/import", document.body).problem(400, "invalid_request").raw,
					field)
				if agentOf[field] = was; !there {
					delete(agentOf, field)
				}
			}
			agentOf["model"] = object{"provider": "demo", "max_tokens": -5}
			empty.post("/agents/import", document.body).problem(400, "invalid_request")
			agentOf["model"] = model
			x.post("/agents", object{"name": "a", "metadata": object{"a": strings.Repeat("x", 200_000)}}).problem(400,
				"invalid_request")

			evil := newActor(x.T, x.world, x.receiver)
			body := document.body
			body["toolkits"].([]any)[0].(object)["url"] = "https://elsewhere.example.com/openapi.json"
			astray := evil.post("/agents/import", body).is(201).text("toolkit_ids", 0)
			_, enabled = toolNames(evil.get("/toolkits/" + astray + "/tools").is(200))
			assert.Empty(x, enabled, "tools that lead elsewhere than their toolkit says are not enabled")
			body["format_version"] = 2
			evil.post("/agents/import", body).problem(400, "invalid_request")
			evil.post("/agents/import",
				object{"format": "agent-platform/agent", "format_version": 1,
					"agent": object{"name": "a", "toolkit_ids": []string{"k"}}, "toolkits": []object{}}).problem(400,
				"invalid_request")
		}},
	}
}
