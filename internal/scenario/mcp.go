package scenario

import (
	"net/http"

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

// mcpClient is the official client of the protocol, with the actor's key.
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
			require.Len(x, byAgent, 3, "two agents and get_run")
			assert.NotEqual(x, byAgent[x.Agent].Name, byAgent[second].Name)
			assert.Equal(x, "another one", byAgent[second].Description)

			call := func(name string, arguments object) (*mcp.CallToolResult, object) {
				r, err := session.CallTool(x.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
				require.NoError(x, err)
				told, _ := r.StructuredContent.(object)
				return r, told
			}
			demo := byAgent[x.Agent].Name
			r, told := call(demo, object{"message": "hello"})
			assert.False(x, r.IsError)
			assert.Equal(x, "You said: hello", r.Content[0].(*mcp.TextContent).Text)
			assert.Equal(x, "completed", told["status"])
			assert.Equal(x, "You said: hello", x.get("/runs/"+told["run_id"].(string)).is(200).text("result", "answer"),
				"a run like any other")

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
			_, err = session.CallTool(x.Context(), &mcp.CallToolParams{Name: demo, Arguments: object{"message": ""}})
			assert.ErrorContains(x, err, "message")
			r, _ = call("get_run", object{"run_id": "0123456789abcdef01234567"})
			assert.True(x, r.IsError)
			x.hold("chat_id", "busy")
			r, _ = call(demo, object{"message": "x", "chat_id": "busy"})
			assert.True(x, r.IsError)
			assert.Contains(x, r.Content[0].(*mcp.TextContent).Text, "busy")
		}},
		{Name: "mcp/a batch is refused, by whatever version", Run: func(x *Actor) {
			run := x.begin("message", "x")
			one := object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{
				"name": "get_run", "arguments": object{"run_id": run},
			}}
			const both = "application/json, text/event-stream"
			for _, version := range []string{"", "2025-03-26", "2025-06-18"} {
				header := []string{"Accept", both}
				if version != "" {
					header = append(header, "Mcp-Protocol-Version", version)
				}
				a := x.post("/mcp", []object{one, one}, header...).is(400)
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
			run := x.begin("message", "x")
			session, err := newActor(x.T, x.world, x.receiver).mcpClient()
			require.NoError(x, err)
			defer func() { _ = session.Close() }()
			r, err := session.CallTool(x.Context(),
				&mcp.CallToolParams{Name: "get_run", Arguments: object{"run_id": run}})
			require.NoError(x, err)
			assert.True(x, r.IsError)
		}},
	}
}
