//go:build peers

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/peertest"
)

// forecaster is a model provider whose model asks for the function get_weather when it is offered it and asked about
// the weather, and otherwise says back what the user said. It holds an answer about "slowly" until it is let go.
type forecaster struct {
	*httptest.Server

	asked atomic.Int64  // calls of the model
	goOn  chan struct{} // closed: slow answers go on
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
	f := &forecaster{goOn: make(chan struct{})}
	f.Server = httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(f.Close)
	return f
}

func (f *forecaster) answer(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	var asked struct {
		Messages []chatMessage `json:"messages"`
		Tools    []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	last := asked.Messages[len(asked.Messages)-1]
	say := func(delta string) {
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
		_ = http.NewResponseController(w).Flush()
	}
	text := func(s string) string {
		b, _ := json.Marshal(map[string]string{"content": s})
		return string(b)
	}
	end := "stop"
	w.Header().Set("Content-Type", "text/event-stream")
	switch said := last.words(); {
	case last.Role == "tool":
		say(text("It is " + said + "."))
	case len(asked.Tools) > 0 && strings.Contains(said, "weather"):
		end = "tool_calls"
		say(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"get_weather",` +
			`"arguments":"{\"location\":\"San Francisco, CA\"}"}}]}`)
	case strings.Contains(said, "slowly"):
		say(text("one "))
		select {
		case <-f.goOn:
		case <-r.Context().Done():
			return
		}
		say(text("two three"))
	case strings.Contains(said, "name?"):
		all := ""
		for _, m := range asked.Messages {
			all += m.Role + ": " + m.words() + "\n"
		}
		say(text(all))
	default:
		say(text("You said: "))
		say(text(said))
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

// The compliance tests of Open Responses, whose folder OPENRESPONSES names, with bun in its node_modules (they are on
// no registry: docs/clients.md says how they come). Those of WebSockets and of compaction, which the specification
// leaves open, are not for this service.
func TestComplianceOfOpenResponses(t *testing.T) {
	suite := os.Getenv("OPENRESPONSES")
	if suite == "" {
		t.Skip("OPENRESPONSES names no folder with the compliance tests of Open Responses")
	}
	p := newForecaster(t).agentOf(t)
	run := exec.Command(filepath.Join(suite, "node_modules/.bin/bun"), "run", "bin/compliance-test.ts", "--json",
		"--base-url", p.url, "--api-key", p.key, "--model", "Forecaster", "--filter",
		"basic-response,assistant-phase,response-output-phase-schema,streaming-response,system-prompt,tool-calling,"+
			"image-input,multi-turn")
	run.Dir = suite
	out, err := run.Output()
	var report struct {
		Summary struct{ Passed, Failed, Skipped int }
		Results []struct {
			ID     string
			Status string
			Errors []string
		}
	}
	require.NoError(t, json.Unmarshal(out, &report), "%v\n%s", err, out)
	for _, r := range report.Results {
		t.Logf("%s: %s", r.ID, r.Status)
		assert.Equal(t, "passed", r.Status, "%s: %v", r.ID, r.Errors)
	}
	assert.NotZero(t, report.Summary.Passed)
}

// hear runs a client's story and returns what it says of itself, line by line.
func hear(t *testing.T, p *program, command ...string) map[string]string {
	t.Helper()
	c := exec.Command(command[0], append(command[1:], p.url, p.key)...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	require.NoError(t, err, "%s\n%s", out, complaints.String())
	heard := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, value, ok := strings.Cut(line, "=")
		require.True(t, ok, "%s", line)
		heard[name] = value
	}
	return heard
}

// The official SDKs of OpenAI hold whole conversations: a text, a stream, a function of the client, a background
// response that is waited for and cancelled, a question, an approval, input items, an error, a deletion.
func TestTheSDKsOfOpenAI(t *testing.T) {
	p := newForecaster(t).agentOf(t)
	scripts, err := filepath.Abs("../../scripts/peers/responses")
	require.NoError(t, err)
	want := map[string]string{
		"text":     "You said: hello",
		"chained":  "user: My name is Ann.|assistant: You said: My name is Ann.|user: What is my name?|",
		"streamed": "You said: count", "call": `get_weather {"location":"San Francisco, CA"}`, "called": "It is sunny.",
		"stateless": "It is cloudy.", "background": "You said: later", "cancelled": "cancelled", "inputs": "hello",
		"question": "Which city?", "answered": "Answer: Oslo", "approval": "echo", "rejected": "yes",
		"missing": "404", "refused": "400 top_p", "deleted": "404",
	}
	for name, command := range map[string][]string{
		"Python":     {peertest.Python(t), filepath.Join(scripts, "conversation.py")},
		"JavaScript": {"node", filepath.Join(scripts, "conversation.mjs"), peertest.Modules(t)},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, want, hear(t, p, command...)) })
	}
}

// A stream that is cut off by kill -9 of the service goes on at the event after the last one that the client saw, and
// nothing of the text is lost or comes twice.
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
			said, _ := io.ReadAll(response.Body)
			require.Equal(t, http.StatusOK, response.StatusCode, "%s", said)
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
	close(f.goOn)
	p.start()
	_, rest := read(ask("GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%.0f", id, last), ""),
		func(event map[string]any) bool { return event["type"] == "response.completed" })
	assert.Equal(t, "one two three", text+rest)
}
