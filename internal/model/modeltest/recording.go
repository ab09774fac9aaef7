package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/model"
)

// Recordings are conversations with providers as sent over the wire, each in a file of its adapter's testdata.
// They are replayed without a provider, byte for byte, and our requests must equal the recorded ones: a change on
// either side shows in a file. The recordings were made with the mock of providers that `make peers` uses; `make
// record` makes them again.

// recordings is their folder, relative to the adapter's.
const recordings = "testdata/recordings"

// exchange is one request with its response.
type exchange struct {
	Path    string              `json:"path"`
	Request json.RawMessage     `json:"request"`
	Status  int                 `json:"status"`
	Header  map[string][]string `json:"header"`
	Text    string              `json:"text,omitempty"` // of a text response
	Bytes   []byte              `json:"bytes,omitempty"`
	Cut     bool                `json:"cut,omitempty"` // the connection ended before the response did
}

// conversation is a recorded conversation with its expected outcome.
type conversation struct {
	name string
	hold func(t *testing.T, m model.Model)
}

// says calls the model once and checks that the emitted pieces equal the reply's text.
func says(t *testing.T, m model.Model, messages ...model.Message) (model.Reply, error) {
	t.Helper()
	var pieces string
	reply, err := m.Converse(t.Context(), model.Request{
		Name: "some-model", Instructions: "Be brief.", Messages: messages, Tools: []model.ToolSpec{{
			Name: "echo", Description: "gives back",
			Parameters: json.RawMessage(`{"type":"object",` +
				`"properties":{"text":{"type":"string"}},"required":["text"]}`),
		}},
	}, func(s string) { pieces += s })
	if err == nil {
		assert.Equal(t, reply.Text, pieces)
	}
	return reply, err
}

// conversations are recorded for every provider.
var conversations = []conversation{
	{"answer", func(t *testing.T, m model.Model) {
		reply, err := says(t, m, model.Message{Role: model.User, Text: "talk"})
		require.NoError(t, err)
		assert.Equal(t, "Hello there, this is an answer of several words, and more than one piece.", reply.Text)
		assert.Equal(t, "stop", reply.Finish)
		assert.EqualValues(t, 11, reply.InputTokens)
		assert.EqualValues(t, 22, reply.OutputTokens)
	}},
	{"history", func(t *testing.T, m model.Model) {
		_, err := says(t, m, model.Message{Role: model.User, Text: "first"},
			model.Message{Role: model.Assistant, Text: "second"}, model.Message{
				Role: model.User, Text: "talk", Texts: []model.Text{{Name: "a.txt", Text: "what a file says"}},
				Images: []model.Image{{ContentType: "image/png", Data: []byte("\x89PNG")}},
			})
		require.NoError(t, err)
	}},
	{"tools", func(t *testing.T, m model.Model) {
		asked := model.Message{Role: model.User, Text: "pair"}
		reply, err := says(t, m, asked)
		require.NoError(t, err)
		require.Len(t, reply.Calls, 2)
		assert.Equal(t, "tool_calls", reply.Finish)
		results := model.Message{Role: model.Tool}
		for i, c := range reply.Calls {
			assert.JSONEq(t, []string{`{"text":"one"}`, `{"text":"two"}`}[i], string(c.Arguments))
			results.Results = append(results.Results, model.Result{
				CallID: c.ID, Name: c.Name, Outcome: []model.Outcome{model.Succeeded, model.Rejected}[i],
				Text: []string{"one", "not two"}[i],
			})
		}
		reply, err = says(t, m, asked, model.Message{Role: model.Assistant, Text: reply.Text, Calls: reply.Calls},
			results)
		require.NoError(t, err)
		assert.Equal(t, "One, and not two.", reply.Text)
		assert.Empty(t, reply.Calls)
	}},
	{"throttled", func(t *testing.T, m model.Model) {
		_, err := says(t, m, model.Message{Role: model.User, Text: "throttled"})
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, model.Throttled, failure.Kind)
		assert.Equal(t, 7*time.Second, failure.Wait)
	}},
	{"cut", func(t *testing.T, m model.Model) {
		_, err := says(t, m, model.Message{Role: model.User, Text: "cut"})
		assert.Equal(t, model.Retryable, model.KindOf(err), "%v", err)
	}},
}

// RunRecordings replays an adapter's recordings. Each conversation must have exactly one recording.
func RunRecordings(t *testing.T, open func(address string) model.Model) {
	files, err := filepath.Glob(recordings + "/*.json")
	require.NoError(t, err)
	var claimed []string
	for _, c := range conversations {
		file := filepath.Join(recordings, c.name+".json")
		claimed = append(claimed, file)
		t.Run(c.name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err, "make record writes it")
			var exchanges []exchange
			require.NoError(t, json.Unmarshal(raw, &exchanges))
			p := &player{t: t, left: exchanges}
			server := httptest.NewServer(p)
			defer server.Close()
			c.hold(t, open(server.URL))
			assert.Empty(t, p.left, "so many exchanges were recorded and not asked for")
		})
	}
	assert.ElementsMatch(t, claimed, files, "a recording that no test replays proves nothing")
}

// player answers with the recorded responses.
type player struct {
	t    *testing.T
	mu   sync.Mutex
	left []exchange
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if !assert.NoError(p.t, err) || !assert.NotEmpty(p.t, p.left, "more is asked than was recorded") {
		panic(http.ErrAbortHandler)
	}
	next := p.left[0]
	p.left = p.left[1:]
	assert.Equal(p.t, next.Path, r.URL.EscapedPath())
	assert.JSONEq(p.t, string(next.Request), string(body), "we send something else than when this was recorded")
	for name, values := range next.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(next.Status)
	_, _ = io.WriteString(w, next.Text)
	_, _ = w.Write(next.Bytes)
	if next.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
