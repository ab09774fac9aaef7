//go:build peers

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// served starts the program and returns a function that runs a client script of scripts/peers.
func served(t *testing.T) (p *program, client func(script, path string, into any, arguments ...string)) {
	p = built(t)
	p.start()
	t.Cleanup(p.stop)
	return p, func(script, path string, into any, arguments ...string) {
		t.Helper()
		command := exec.Command(peertest.Python(t),
			append([]string{"../../scripts/peers/" + script, p.url + path, p.key}, arguments...)...)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NoError(t, json.Unmarshal(out, into), string(out))
	}
}

// The official Python client of MCP calls an agent as a tool.
func TestTheOfficialPythonClientOfMCP(t *testing.T) {
	type result struct {
		Tools      []string
		Text       string
		Structured object
		Error      bool
		Progress   []string
	}
	_, client := served(t)
	var got, failed result
	client("mcp_client.py", "/mcp", &got, "Demo", `{"message":"hello from Python"}`)
	assert.ElementsMatch(t, []string{"Demo", "get_run", "cancel_run"}, got.Tools)
	assert.Equal(t, "You said: hello from Python", got.Text)
	assert.Equal(t, "completed", got.Structured["status"])
	assert.False(t, got.Error)
	assert.Contains(t, strings.Join(got.Progress, ""), "You said: hello from Python")
	client("mcp_client.py", "/mcp", &failed, "Demo", `{"message":"/fail no luck"}`)
	assert.True(t, failed.Error)
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "MCP, official SDK for Python", Version: peertest.PyPI(t, "venv", "mcp"),
		Works: "agents as tools, progress, structured answer, failure",
	})
}

// clientsOfMCP are the official clients of MCP for TypeScript, of both generations: the package of each, and the
// protocol version that it uses. A further version is an alias in scripts/peers/package.json and a line here.
func clientsOfMCP() map[string]string {
	return map[string]string{
		"1.25.0": "mcp-sdk-1.25", "1.30.0": "mcp-sdk-1.30", "1.32.2": "@modelcontextprotocol/sdk",
		"2.4.0": "@modelcontextprotocol/client", "2.4.0, newest protocol": "@modelcontextprotocol/client+auto",
	}
}

// The official TypeScript clients of MCP list agents and call them: with progress, a structured answer, a failure, a
// question. They cancel one call.
func TestTheOfficialTypeScriptClientsOfMCP(t *testing.T) {
	const shape = `{"city":"Oslo","extra":[1,{"a":true}]}`
	models := peertest.Models(t, peertest.Fixture{
		"match": object{"userMessage": "where?"}, "response": object{"content": shape},
	})
	p := built(t)
	p.environ = []string{"OPENAI_BASE_URL=" + models + "/v1", "OPENAI_API_KEY=none"}
	p.start()
	t.Cleanup(p.stop)
	p.make("/agents", `{"name":"Shaped","skip_check":true,"model":{"provider":"openai","name":"m"},"output_schema":
		{"type":"object","properties":{"city":true,"extra":{"type":"array","items":true},"never":false}}}`)
	story := func(t *testing.T, sdk string, command ...string) {
		t.Helper()
		script := peertest.Script(t, "mcp_client.mjs", append([]string{sdk, p.url + "/mcp", p.key}, command...)...)
		run := exec.CommandContext(t.Context(), script[0], script[1:]...)
		run.Env = append(os.Environ(), "MCP_REMOTE_CONFIG_DIR="+t.TempDir())
		var complaints bytes.Buffer
		run.Stderr = &complaints
		out, err := run.Output()
		require.NoError(t, err, "%s\n%.4000s", out, complaints.Bytes())
		var got struct {
			Capabilities, Output                         json.RawMessage
			Tools                                        []string
			Text, Status, Progress, Asks, Unknown, Again string
			Left                                         string
			Failed                                       bool
		}
		require.NoError(t, json.Unmarshal(out, &got), "%s", out)
		assert.JSONEq(t, `{"tools":{}}`, string(got.Capabilities), "all that is served")
		assert.ElementsMatch(t, []string{"Demo", "Shaped", "get_run", "cancel_run"}, got.Tools)
		assert.Equal(t, "You said: hello", got.Text)
		assert.Equal(t, "completed", got.Status)
		if len(command) == 0 { // a proxy may lose output just before the result, which may be all of it
			assert.Contains(t, got.Progress, "You said: hello")
		}
		assert.JSONEq(t, shape, string(got.Output))
		assert.True(t, got.Failed)
		assert.Equal(t, "awaiting_input", got.Asks)
		assert.Equal(t, "-32602", got.Unknown, "a tool that is not there is an error of the protocol")
		assert.Equal(t, "You said: hello", got.Again)
		assert.NotEmpty(t, got.Left)
		p.left()
	}
	for name, sdk := range clientsOfMCP() {
		t.Run(name, func(t *testing.T) {
			story(t, sdk)
			_, variant, _ := strings.Cut(name, ", ")
			peertest.Seen(t, peertest.Counterpart{
				Area: "clients", Name: "MCP, official SDK for TypeScript", Variant: variant,
				Version: peertest.NPM(t, strings.TrimSuffix(sdk, "+auto")),
				Works:   "agents as tools, progress, structured answer, failure, question, cancelled call",
			})
		})
	}
	t.Run("mcp-remote", func(t *testing.T) {
		story(t, "@modelcontextprotocol/sdk", peertest.Node(t, "mcp-remote/dist/proxy.js", p.url+"/mcp", "--header",
			"Authorization:Bearer "+p.key, "--allow-http", "--transport", "http-only")...)
		peertest.Seen(t, peertest.Counterpart{
			Area: "clients", Name: "MCP, `mcp-remote`", Version: peertest.NPM(t, "mcp-remote"),
			Works: "agents as tools, structured answer, failure, question, cancelled call",
			Not:   "progress just before the result may be lost",
		})
	})
}

// The protocol's own conformance suite finds no fault in the service. Its other scenarios need tools with certain names
// and results, or capabilities that are not offered. It has no keys, so a proxy adds one.
func TestTheConformanceSuiteOfMCP(t *testing.T) {
	p := built(t)
	p.start()
	t.Cleanup(p.stop)
	to, err := url.Parse(p.url)
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+p.key)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a quick answer finds it read: otherwise the library closes the connection
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	for _, scenario := range []string{
		"server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-sse-multiple-streams",
	} {
		command := peertest.Script(t, "mcp_conformance.mjs", "server", "--url", proxy.URL+"/mcp", "--scenario",
			scenario)
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		assert.NoError(t, err, "%s: %s", scenario, out)
		assert.Regexp(t, `Passed: ([1-9]\d*)/\d+, 0 failed, 0 warnings`, string(out), scenario)
	}
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "MCP, the conformance suite for servers",
		Version: peertest.NPM(t, "@modelcontextprotocol/conformance"),
		Works:   "initialization, ping, tool list, protection against DNS rebinding, several streams",
		Not:     "scenarios with its own tools, or with prompts, resources, logging (not offered)",
	})
}

// left expects that the newest run, whose call its client has cancelled, is cancelled.
func (p *program) left() {
	p.t.Helper()
	_, list, err := p.call(p.t.Context(), http.MethodGet, "/runs?limit=1", "", nil)
	require.NoError(p.t, err)
	p.until(list["runs"].([]any)[0].(object)["run_id"].(string),
		func(v map[string]any) bool { return v["status"] == "cancelled" })
}

// The official Python client of A2A talks with an agent in version 1.0: a streamed answer, a pause that is answered, a
// task that is cancelled.
func TestTheOfficialPythonClientOfA2A(t *testing.T) {
	type result struct {
		Name, Task, Context, Text, Got string
		Version, States                []string
	}
	p, client := served(t)
	agent := p.ask(http.MethodPost, "/agents", object{"name": "Echo"}, http.StatusCreated)["agent_id"].(string)
	runClient := func(arguments ...string) (r result) {
		t.Helper()
		client("a2a_client.py", "/a2a/"+agent, &r, arguments...)
		return r
	}
	r := runClient("hello\n/stream 5 20ms")
	assert.Equal(t, "Echo", r.Name)
	assert.Equal(t, []string{"1.0", "0.3"}, r.Version)
	assert.Equal(t, "You said: hello\n1 2 3 4 5", r.Text)
	assert.Equal(t, "TASK_STATE_COMPLETED", r.States[len(r.States)-1])
	assert.Equal(t, "TASK_STATE_COMPLETED", r.Got)

	asks := runClient("/ask Which city?")
	assert.Equal(t, "TASK_STATE_INPUT_REQUIRED", asks.Got)
	answered := runClient("Paris", asks.Task, asks.Context)
	assert.Equal(t, asks.Task, answered.Task)
	assert.Equal(t, "Answer: Paris", answered.Text)
	assert.Equal(t, "TASK_STATE_COMPLETED", answered.Got)

	waits := runClient("/ask Which?")
	assert.Equal(t, "TASK_STATE_CANCELED", runClient("cancel", waits.Task).Got)
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "A2A, official SDK for Python", Version: peertest.PyPI(t, "venv", "a2a-sdk"),
		Works: "card, streamed answer, question with answer, cancel",
	})
}
