//go:build !race

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scripted is an endpoint of models that replies by scripts. The first line of a message is the name of its script.
type scripted struct {
	mu      sync.Mutex
	scripts map[string][]http.HandlerFunc
	bodies  map[string][]string // of the requests, by script
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(raw, &body)
	s.mu.Lock()
	name := ""
	for _, m := range body.Messages {
		text, _ := m.Content.(string)
		if line, _, _ := strings.Cut(text, "\n"); m.Role == "user" && s.scripts[line] != nil {
			name = line
		}
	}
	s.bodies[name] = append(s.bodies[name], string(raw))
	reply := http.NotFound
	if n := len(s.bodies[name]); n <= len(s.scripts[name]) {
		reply = s.scripts[name][n-1]
	}
	s.mu.Unlock()
	reply(w, r)
}

// streamed reads a message's stream. It returns the init events, and the final text of the reader. seen gets each text
// before the final one.
func (p *program) streamed(seen func(text string), pairs ...string) (inits []string, text string, run map[string]any) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.WriteField("streaming", "true")
	_ = w.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/chat", &form)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", w.FormDataContentType())
	response, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var e struct {
			Event, Text string
			Run         map[string]any
		}
		require.NoError(p.t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		switch e.Event {
		case "init":
			inits, text = append(inits, e.Text), e.Text
		case "delta":
			text += e.Text
		case "done":
			run = e.Run
		}
		if seen != nil {
			seen(text)
		}
	}
	require.NotNil(p.t, run)
	return inits, text, run
}

func TestTextsOfAModelThroughTheProgram(t *testing.T) {
	stop := func(text string) http.HandlerFunc { return replyHandler(speech{text: text, finish: "stop"}) }
	call := func(text string) http.HandlerFunc {
		return replyHandler(speech{text: text, finish: "tool_calls",
			calls: [][3]string{{"c", "calculate", `{"expression":"2+3"}`}}})
	}
	held := make(chan struct{}) // until a reader has the answer, which is then replaced
	slow := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		chunk(w, map[string]any{"content": `Here: {"town":"Rome"}`}, "")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-held:
		case <-r.Context().Done():
		}
		stop("")(w, r)
	}
	models := &scripted{bodies: map[string][]string{}, scripts: map[string][]http.HandlerFunc{
		"joined": {call("Let me check for you."), stop("# Result\n5")}, "next": {stop("bye")},
		"empty": {stop(" \n"), stop("")}, "second": {stop("\u200B"), stop("Hello")},
		"repaired": {call("I look."), slow, stop(`{"city":"Repaired"}`)},
	}}
	provider := httptest.NewServer(models)
	t.Cleanup(provider.Close)
	p := built(t)
	p.environ = []string{"OPENAI_BASE_URL=" + provider.URL + "/v1", "OPENAI_API_KEY=none"}
	p.start()
	t.Cleanup(p.stop)
	agent := func(more string) string {
		return fmt.Sprint(p.make("/agents", `{"name":"a","skip_check":true,"model":{"provider":"openai","name":"m"}`+
			more+`}`)["agent_id"])
	}
	plain := agent("")
	city := agent(`,"output_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],
		"additionalProperties":false}`)
	result := func(run map[string]any) map[string]any { return run["result"].(map[string]any) }

	_, text, run := p.streamed(nil, "agent_id", plain, "message", "joined", "chat_id", "talk")
	assert.Equal(t, "Let me check for you.\n\n# Result\n5", text)
	assert.Equal(t, text, result(run)["answer"])
	p.streamed(nil, "agent_id", plain, "message", "next", "chat_id", "talk")
	assert.Contains(t, models.bodies["next"][0], `Let me check for you.\n\n# Result\n5`, "the history has it, too")

	_, text, run = p.streamed(nil, "agent_id", plain, "message", "empty")
	assert.Empty(t, text)
	assert.Equal(t, "empty", result(run)["finish_reason"])
	assert.Len(t, models.bodies["empty"], 2)
	assert.InDelta(t, 2, result(run)["usage"].(map[string]any)["model_calls"], 0)

	_, text, run = p.streamed(nil, "agent_id", plain, "message", "second")
	assert.Equal(t, "Hello", text)
	assert.Equal(t, "stop", result(run)["finish_reason"])
	assert.Contains(t, models.bodies["second"][1], "Your reply was empty")

	release := sync.OnceFunc(func() { close(held) })
	inits, text, run := p.streamed(func(text string) {
		if strings.Contains(text, "Rome") {
			release()
		}
	}, "agent_id", city, "message", "repaired")
	assert.Equal(t, "I look.\n\n{\"city\":\"Repaired\"}", text)
	assert.Equal(t, text, result(run)["answer"])
	assert.Equal(t, map[string]any{"city": "Repaired"}, result(run)["output"])
	assert.Greater(t, len(inits), 1, "what replaces a text begins with a fresh init")
	last := inits[len(inits)-1] // has the repaired answer, too, if the reader was slow
	assert.True(t, strings.HasPrefix(last, "I look."), last)
	assert.NotContains(t, last, "Rome")
}
