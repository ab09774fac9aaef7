//go:build peers

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// forecaster is a model provider. Its model calls the first function of the client for a question about the weather,
// and otherwise repeats the message. An answer to a message with "slowly" stops at its gate.
type forecaster struct {
	*httptest.Server

	mu    sync.Mutex
	gates map[string]*gate // by message
}

// gate stops the answers to a message after their first word, until the test opens it.
type gate struct {
	came chan struct{} // a token for each call of the model
	open chan struct{} // closed: they continue
}

func (f *forecaster) gate(message string) *gate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gates[message] == nil {
		f.gates[message] = &gate{came: make(chan struct{}, 100), open: make(chan struct{})}
	}
	return f.gates[message]
}

// awaitCall returns when the model has been called once more.
func (g *gate) awaitCall(t *testing.T) {
	t.Helper()
	select {
	case <-g.came:
	case <-time.After(time.Minute):
		require.Fail(t, "the model was not called")
	}
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// words are a message's text, of a string or of parts.
func (m chatMessage) words() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts)
	for _, p := range parts {
		if text += p.Text; p.Type == "image_url" {
			text += "[picture]"
		}
	}
	return text
}

func newForecaster(t *testing.T) *forecaster {
	f := &forecaster{gates: map[string]*gate{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(f.Close)
	return f
}

func (f *forecaster) answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []chatMessage `json:"messages"`
		Tools    []struct {
			Function struct {
				Name       string                                 `json:"name"`
				Parameters struct{ Properties map[string]object } `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	last := request.Messages[len(request.Messages)-1]
	name, filled := "", map[string]string{} // of the client's first function; the agent's own tools come first
	for _, tool := range request.Tools {
		own := []string{"echo", "calculate", "current_time", "ask_user"}
		if name == "" && !slices.Contains(own, tool.Function.Name) {
			name = tool.Function.Name
			for property := range tool.Function.Parameters.Properties {
				filled[property] = "San Francisco, CA"
			}
		}
	}
	send := func(delta string) {
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
		_ = http.NewResponseController(w).Flush()
	}
	text := func(s string) string {
		b, _ := json.Marshal(map[string]string{"content": s})
		return string(b)
	}
	end := "stop"
	w.Header().Set("Content-Type", "text/event-stream")
	switch prompt := last.words(); {
	case last.Role == "tool" && !strings.Contains(prompt, "slowly"):
		send(text("It is " + prompt + "."))
	case name != "" && strings.Contains(prompt, "weather"):
		end = "tool_calls"
		arguments, _ := json.Marshal(filled)
		call, _ := json.Marshal(map[string]string{"name": name, "arguments": string(arguments)})
		send(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":` + string(call) + `}]}`)
	case strings.Contains(prompt, "slowly"):
		g := f.gate(prompt)
		g.came <- struct{}{}
		send(text("one "))
		select {
		case <-g.open:
		case <-r.Context().Done():
			return
		}
		send(text("two three"))
	case strings.Contains(prompt, "name?"):
		all := ""
		for _, m := range request.Messages {
			all += m.Role + ": " + m.words() + "\n"
		}
		send(text(all))
	default:
		send(text("You said: "))
		send(text(prompt))
	}
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}],\"usage\":"+
		"{\"prompt_tokens\":20,\"completion_tokens\":10,\"total_tokens\":30}}\n\ndata: [DONE]\n\n", end)
}

// agentOf is a program with the agent Forecaster, which this provider's model works for.
func (f *forecaster) agentOf(t *testing.T) *program {
	p := built(t)
	p.environ = []string{"OPENAI_BASE_URL=" + f.URL + "/v1", "OPENAI_API_KEY=none"}
	p.start()
	t.Cleanup(p.stop)
	p.make("/agents", `{"name":"Forecaster","skip_check":true,"model":{"provider":"openai","name":"m"}}`)
	_, tools, err := p.call(t.Context(), http.MethodGet, "/toolkits", "", nil)
	require.NoError(t, err)
	builtin := tools["toolkits"].([]any)[0].(object)["toolkit_id"]
	p.make(
		"/agents",
		fmt.Sprintf(`{"name":"Careful","model":{"provider":"demo"},"toolkit_ids":[%q],"approval":{"mode":"always"}}`,
			builtin),
	)
	return p
}

// The compliance tests of Open Responses. OPENRESPONSES names their folder, with bun in its node_modules. (They are in
// no registry: docs/clients.md describes how to get them.) All of them must pass, except those of WebSockets and of
// compaction. The specification leaves these open, and the service does not have them.
func TestComplianceOfOpenResponses(t *testing.T) {
	suite := os.Getenv("OPENRESPONSES")
	if suite == "" {
		t.Skip("OPENRESPONSES names no folder with the compliance tests of Open Responses")
	}
	p := newForecaster(t).agentOf(t)
	run := exec.Command(filepath.Join(suite, "node_modules/.bin/bun"), "run", "bin/compliance-test.ts", "--json",
		"--base-url", p.url, "--api-key", p.key, "--model", "Forecaster")
	run.Dir = suite
	out, err := run.Output() // it fails if any of them fails
	var report struct {
		Results []struct {
			ID     string
			Status string
			Errors []string
		}
	}
	require.NoError(t, json.Unmarshal(out, &report), "%v\n%s", err, out)
	passed := 0
	for _, r := range report.Results {
		if strings.HasPrefix(r.ID, "websocket-") || strings.HasPrefix(r.ID, "compact-") {
			t.Logf("%s: left out", r.ID)
			continue
		}
		t.Logf("%s: %s", r.ID, r.Status)
		if assert.Equal(t, "passed", r.Status, "%s: %v", r.ID, r.Errors) {
			passed++
		}
	}
	assert.GreaterOrEqual(t, passed, 8)
}

// runStory runs a client's story and returns its output, line by line. For a line like "please WHAT NAME" it calls
// please, and then reports to the client that this is done.
func runStory(t *testing.T, please func(t *testing.T, what, name string), command ...string) map[string]string {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	results := map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if request, ok := strings.CutPrefix(lines.Text(), "please "); ok {
			what, name, _ := strings.Cut(request, " ")
			please(t, what, name)
			_, err = io.WriteString(stdin, "done\n")
			require.NoError(t, err)
			continue
		}
		name, value, ok := strings.Cut(lines.Text(), "=")
		require.True(t, ok, "%s", lines.Text())
		results[name] = value
	}
	require.NoError(t, c.Wait(), "%v\n%s", results, complaints.String())
	return results
}

// sdks are the commands that run a story with the official SDKs of OpenAI.
func sdks(t *testing.T, story string) map[string][]string {
	scripts, err := filepath.Abs("../../scripts/peers/responses")
	require.NoError(t, err)
	return map[string][]string{
		"python":     {peertest.Python(t), filepath.Join(scripts, story+".py")},
		"javascript": {"node", filepath.Join(scripts, story+".mjs"), peertest.Modules(t)},
	}
}

// The official SDKs of OpenAI have whole conversations: a text, a stream, a function of the client, and a background
// response that is polled and cancelled. They also have a question, an approval, input items, an error, and a deletion.
func TestTheSDKsOfOpenAI(t *testing.T) {
	p := newForecaster(t).agentOf(t)
	want := map[string]string{
		"text":     "You said: hello",
		"chained":  "user: My name is Ann.|assistant: You said: My name is Ann.|user: What is my name?|",
		"streamed": "You said: count", "call": `get_weather {"location":"San Francisco, CA"}`, "called": "It is sunny.",
		"stateless": "It is cloudy.", "background": "You said: later", "cancelled": "cancelled", "inputs": "hello",
		"question": "Which city?", "answered": "Answer: Oslo", "approval": "echo", "rejected": "yes",
		"missing": "404", "refused": "400 text.verbosity", "deleted": "404",
	}
	for name, command := range sdks(t, "conversation") {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, want, runStory(t, nil, append(command, p.url, p.key)...))
			seenSDK(t, name, "responses", "text, stream, client functions, background response with cancel, "+
				"question, approval, errors, deletion", "`text.verbosity`; chat completions")
		})
	}
}

// seenSDK writes the row of an official SDK of OpenAI.
func seenSDK(t *testing.T, language, what, works, not string) {
	version := peertest.NPM(t, "openai")
	if language == "python" {
		version = peertest.PyPI(t, "venv", "openai")
	}
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "OpenAI's SDKs, " + what, Version: version, Variant: language,
		Works: works, Not: not,
	})
}

// wire is an address that forwards connections to another one, until they are cut.
type wire struct {
	net.Listener

	mu   sync.Mutex
	ends []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l}
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
	})
	go w.join(to)
	return w
}

func (w *wire) join(to string) {
	for {
		near, err := w.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.ends = append(w.ends, near, far)
		w.mu.Unlock()
		for from, into := range map[net.Conn]net.Conn{near: far, far: near} {
			go func() {
				_, _ = io.Copy(into, from)
				_ = into.Close()
			}()
		}
	}
}

// cut ends all present connections. New ones are forwarded.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.ends = nil
}

// When their streams break in the middle, the official SDKs of OpenAI resume them after the last event. A retry of
// theirs after a broken connection or kill -9 finds, with an idempotency key, the existing run. So does a request with
// a previous_response_id. Otherwise it is a second run, or it is refused (docs/clients.md).
func TestTheSDKsOfOpenAIOutliveConnectionsAndTheProcess(t *testing.T) {
	f := newForecaster(t)
	p := f.agentOf(t)
	address := strings.TrimPrefix(strings.TrimSuffix(p.url, "/api/v1"), "http://")
	p.environ = append(p.environ, "ADDR="+address) // to start again at this address
	frail := newWire(t, address)
	please := func(t *testing.T, what, message string) {
		g := f.gate(message)
		if what != "let-go" {
			g.awaitCall(t)
		}
		switch what {
		case "closed", "let-go":
			close(g.open)
		case "cut", "cut-plain", "cut-chained", "cut-output":
			frail.cut()
			close(g.open)
		case "cut-keyless": // the second run is under way, too
			frail.cut()
			g.awaitCall(t)
			close(g.open)
		case "cut-conversation": // the first run is under way until it asks for "let-go"
			frail.cut()
		case "killed", "killed-plain":
			p.kill()
			close(g.open)
			p.start()
		}
	}
	for name, command := range sdks(t, "interruptions") {
		t.Run(name, func(t *testing.T) {
			url := "http://" + frail.Addr().String() + "/api/v1"
			results := runStory(t, please, append(command, p.url, p.key, url)...)
			broke := map[string]string{"python": "APIConnectionError", "javascript": "TypeError"}[name]
			assert.Equal(t, map[string]string{
				"closed": "no|one |two three", "cut": broke + "|one |two three", "killed": broke + "|one |two three",
				"cut-plain": "one two three|true", "killed-plain": "one two three|true",
				"cut-keyless": "one two three|false", "cut-chained": "one two three",
				"cut-output": "one two three", "cut-conversation": "409 chat_busy",
			}, results)
			runs := runsOf(t, p)
			for story := range results {
				want := 1
				switch story {
				case "cut-keyless":
					want = 2
				case "cut-output": // its message is different
					want = 0
				}
				assert.Equal(t, want, runs["slowly "+name+" "+story], story)
			}
			seenSDK(t, name, "interruptions", "a stream continues after a cut connection or `kill -9`; "+
				"a request with an idempotency key is one run", "a request without a key may be a second run")
		})
	}
}

// runsOf counts the runs by their message.
func runsOf(t *testing.T, p *program) map[string]int {
	_, list, err := p.call(t.Context(), http.MethodGet, "/runs?limit=100", "", nil)
	require.NoError(t, err)
	require.Nil(t, list["next_cursor"])
	runs := map[string]int{}
	for _, run := range list["runs"].([]any) {
		path := fmt.Sprintf("/runs/%v/messages", run.(object)["run_id"])
		_, answer, err := p.call(t.Context(), http.MethodGet, path, "", nil)
		require.NoError(t, err)
		runs[fmt.Sprint(answer["messages"].([]any)[0].(object)["content"])]++
	}
	return runs
}

// A stream that is cut off by kill -9 of the service continues at the event after the last one that the client
// received. No text is lost or repeated.
func TestAResponseOutlivesItsStreamAndTheProcess(t *testing.T) {
	f := newForecaster(t)
	p := f.agentOf(t)
	read := func(response *http.Response, until func(event map[string]any) bool) (last float64, text string) {
		defer func() { _ = response.Body.Close() }()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			raw, data := strings.CutPrefix(lines.Text(), "data: ")
			var event map[string]any
			if !data || json.Unmarshal([]byte(raw), &event) != nil {
				continue
			}
			last = event["sequence_number"].(float64)
			if delta, ok := event["delta"].(string); ok {
				text += delta
			}
			if until(event) {
				break
			}
		}
		return last, text
	}
	ask := func(method, path, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+p.key)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		if response.StatusCode != http.StatusOK {
			raw, _ := io.ReadAll(response.Body)
			require.Equal(t, http.StatusOK, response.StatusCode, "%s", raw)
		}
		return response
	}
	var id string
	last, text := read(ask("POST", "/responses", `{"model":"Forecaster","input":"count slowly","stream":true}`),
		func(event map[string]any) bool {
			if r, ok := event["response"].(map[string]any); ok {
				id, _ = r["id"].(string)
			}
			return event["type"] == "response.output_text.delta"
		})
	assert.Equal(t, "one ", text)
	p.kill()
	close(f.gate("count slowly").open)
	p.start()
	_, rest := read(ask("GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%.0f", id, last), ""),
		func(event map[string]any) bool { return event["type"] == "response.completed" })
	assert.Equal(t, "one two three", text+rest)
}
