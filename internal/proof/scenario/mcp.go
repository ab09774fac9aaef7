package scenario

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keyed adds a key to requests.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// mcpClient returns the official client of the protocol, with the actor's key.
func (x *Actor) mcpClient() (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "teller", Version: "1"}, nil)
	return client.Connect(x.Context(), &mcp.StreamableClientTransport{
		Endpoint: x.world.URL + "/mcp", HTTPClient: &http.Client{Transport: keyed(x.Key)}, DisableStandaloneSSE: true,
		MaxRetries: -1,
	}, nil)
}

// The endpoint for clients of the Model Context Protocol.
func mcpScenarios() []Story {
	return []Story{
		{Name: "mcp/agents are tools", Run: func(x *Actor) {
			second := x.post("/agents", object{"name": "Demo", "description": "another one"}).is(201).text("agent_id")
			session, err := x.mcpClient()
			require.NoError(x, err)
			defer func() { _ = session.Close() }()
			byAgent := map[any]*mcp.Tool{}
			for t, err := range session.Tools(x.Context(), nil) {
				require.NoError(x, err)
				byAgent[t.Meta["agent_id"]] = t
			}
			require.Len(x, byAgent, 3, "two agents, and the tools for runs, which have no agent")
			assert.NotEqual(x, byAgent[x.Agent].Name, byAgent[second].Name)
			assert.Equal(x, "another one", byAgent[second].Description)

			call := func(name string, arguments object) (*mcp.CallToolResult, object) {
				r, err := session.CallTool(x.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
				require.NoError(x, err)
				content, _ := r.StructuredContent.(object)
				return r, content
			}
			demo := byAgent[x.Agent].Name
			r, content := call(demo, object{"message": "hello"})
			assert.False(x, r.IsError)
			assert.Equal(x, "You said: hello", r.Content[0].(*mcp.TextContent).Text)
			assert.Equal(x, "completed", content["status"])
			assert.Equal(x, "You said: hello",
				x.get("/runs/"+content["run_id"].(string)).is(200).text("result", "answer"), "a run like any other")

			_, asks := call(demo, object{"message": "/ask Which city?", "chat_id": "trip"})
			assert.Equal(x, "awaiting_input", asks["status"])
			assert.Equal(x, "Which city?", asks["interrupts"].([]any)[0].(object)["prompt"])
			_, answered := call(demo, object{"message": "Paris", "chat_id": "trip"})
			assert.Equal(x, asks["run_id"], answered["run_id"])
			x.await(asks["run_id"].(string), "completed")
			_, done := call("get_run", object{"run_id": asks["run_id"]})
			assert.Equal(x, "Answer: Paris", done["answer"])

			r, failed := call(demo, object{"message": "/fail no luck"})
			assert.True(x, r.IsError)
			assert.Equal(x, "no luck", failed["error"])
			_, blank := call(demo, object{"message": "  "})
			assert.Equal(x, "completed", blank["status"], "as through POST /chat")
			r, _ = call(demo, object{"message": ""})
			assert.True(x, r.IsError)
			assert.Contains(x, r.Content[0].(*mcp.TextContent).Text, "message", "which the model reads")
			r, _ = call("get_run", object{"run_id": "0123456789abcdef01234567"})
			assert.True(x, r.IsError)
			x.startLongRun("chat_id", "busy")
			r, _ = call(demo, object{"message": "x", "chat_id": "busy"})
			assert.True(x, r.IsError)
			assert.Contains(x, r.Content[0].(*mcp.TextContent).Text, "busy")
		}},
		{Name: "mcp/a call with a progress token is told what happens", Run: func(x *Actor) {
			call := func(name string, arguments object) (result object, words string) {
				a := x.post("/mcp", object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": object{
					"name": name, "arguments": arguments, "_meta": object{"progressToken": "mine"},
				}}, "Accept", "application/json, text/event-stream").is(200)
				require.Equal(x, "text/event-stream", a.header.Get("Content-Type"))
				last := 0.0
				for line := range strings.Lines(a.raw) {
					data, is := strings.CutPrefix(line, "data: ")
					if !is {
						continue
					}
					require.Nil(x, result, "the answer is the last message")
					var m struct {
						ID     int
						Method string
						Params struct {
							ProgressToken, Message string
							Progress               float64
							Meta                   struct{ Event object } `json:"_meta"`
						}
						Result *struct {
							StructuredContent object
							Content           []object
						}
						Error object
					}
					require.NoError(x, json.Unmarshal([]byte(data), &m))
					switch {
					case m.Error != nil:
						result = m.Error
					case m.Result != nil:
						assert.Equal(x, 7, m.ID)
						if result = m.Result.StructuredContent; result == nil {
							result = m.Result.Content[0]
						}
					default:
						assert.Equal(x, "notifications/progress", m.Method)
						assert.Equal(x, "mine", m.Params.ProgressToken)
						assert.Greater(x, m.Params.Progress, last)
						last = m.Params.Progress
						if m.Params.Meta.Event == nil { // nothing happened for a while
							continue
						}
						assert.NotEmpty(x, m.Params.Meta.Event["run_id"])
						words += m.Params.Meta.Event["event"].(string) + " " + m.Params.Message + "\n"
					}
				}
				return result, words
			}
			result, words := call("Demo", object{"message": `/tool calculate {"expression":"6*7"}`, "chat_id": "sums"})
			assert.Equal(x, "completed", result["status"])
			assert.Contains(x, words, "init ")
			assert.Contains(x, words, "step calculate: finished\n")
			assert.Contains(x, result["answer"], "42")
			assert.Equal(x, result["answer"],
				x.get("/runs/"+result["run_id"].(string)).is(200).text("result", "answer"))
			asks, _ := call("Demo", object{"message": "/ask Which city?", "chat_id": "trip"})
			assert.Equal(x, "awaiting_input", asks["status"])
			again, words := call("get_run", object{"run_id": asks["run_id"]})
			assert.Equal(x, "awaiting_input", again["status"])
			assert.Contains(x, words, "init The run "+asks["run_id"].(string)+" is awaiting_input.\n")
			wrong, words := call("Demo", object{"message": ""})
			assert.Contains(x, wrong["text"], "message")
			assert.Empty(x, words)
			wrong, _ = call("nobody", object{"message": "hello"})
			assert.Contains(x, wrong["message"], "nobody")
			wrong, _ = call("get_run", object{"run_id": newActor(x.T, x.world, x.receiver).begin("message", "x")})
			assert.Empty(x, wrong["status"], "of another organization")
		}},
		{Name: "mcp/files come with a message, by their bytes or by their ids", Run: func(x *Actor) {
			session, err := x.mcpClient()
			require.NoError(x, err)
			defer func() { _ = session.Close() }()
			call := func(arguments object) (object, error) {
				arguments["message"] = "read this"
				r, err := session.CallTool(x.Context(), &mcp.CallToolParams{Name: "Demo", Arguments: arguments})
				require.NoError(x, err)
				if r.IsError {
					return nil, errors.New(r.Content[0].(*mcp.TextContent).Text)
				}
				return r.StructuredContent.(object), nil
			}
			result, err := call(object{"files": []object{{"name": "a.txt", "data": "c29tZSB3b3Jkcw=="}}})
			require.NoError(x, err)
			messages := x.get("/runs/" + result["run_id"].(string) + "/messages").is(200)
			id := messages.text("messages", 0, "files", 0, "file_id")
			assert.Equal(x, "a.txt", messages.text("messages", 0, "files", 0, "name"))
			assert.Equal(x, "some words", x.get("/files/"+id, "Accept", "text/plain").is(200).raw)
			result, err = call(object{"file_ids": []string{id}})
			require.NoError(x, err)
			again := x.get("/runs/" + result["run_id"].(string) + "/messages").is(200)
			assert.Equal(x, id, again.text("messages", 0, "files", 0, "file_id"))
			_, err = call(object{"files": []object{{"name": "a.txt", "data": "???"}}})
			assert.ErrorContains(x, err, "files[0].data: must be base64")
			_, err = call(object{"files": []object{{"name": "a.txt", "data": ""}}})
			assert.ErrorContains(x, err, "files[0].data: has no bytes")
		}},
		{Name: "mcp/a batch is refused from version 2025-06-18 on", Run: func(x *Actor) {
			run := x.begin("message", "x")
			one := object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{
				"name": "get_run", "arguments": object{"run_id": run},
			}}
			const both = "application/json, text/event-stream"
			for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
				a := x.post("/mcp", []object{one, one}, "Accept", both, "Mcp-Protocol-Version", version).is(400)
				assert.Equal(x, -32600.0, a.number("error", "code"), a.raw)
				assert.NotContains(x, a.raw, run)
			}
			assert.Contains(x, x.post("/mcp", one, "Accept", both).is(200).raw, run, "one is answered")
		}},
		{Name: "mcp/only with a key, and only one's own", Run: func(x *Actor) {
			_, err := x.with("").mcpClient()
			require.Error(x, err)
			_, err = x.colleague("member", "read").mcpClient()
			require.Error(x, err)
			run := x.begin("message", "/ask Which?")
			session, err := newActor(x.T, x.world, x.receiver).mcpClient()
			require.NoError(x, err)
			defer func() { _ = session.Close() }()
			for _, tool := range []string{"cancel_run", "get_run"} {
				r, err := session.CallTool(x.Context(),
					&mcp.CallToolParams{Name: tool, Arguments: object{"run_id": run}})
				require.NoError(x, err)
				assert.True(x, r.IsError)
			}
			assert.NotEqual(x, "cancelled", x.get("/runs/"+run).is(200).text("status"))
		}},
	}
}
