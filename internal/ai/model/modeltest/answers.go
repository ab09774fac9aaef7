package modeltest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// Answer is a server's answer to a call, and the adapter's result.
type Answer struct {
	Server  string            `json:"server"` // and the way in which it answers
	Source  string            `json:"source"` // where this is documented or was reported
	API     string            `json:"api"`    // openai, anthropic or bedrock; empty: any whose streams are text
	Status  int               `json:"status"` // 0: 200
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`   // JSON as it is, another text as a string
	Stream  []json.RawMessage `json:"stream"` // in place of a body: its events; a string is written as it is

	Kind   model.Kind `json:"kind"`  // of the failure; empty: it is a reply
	Wait   string     `json:"wait"`  // a duration
	Shows  string     `json:"shows"` // a part of the failure's text
	Text   string     `json:"text"`
	Calls  []string   `json:"calls"` // names and arguments
	Finish string     `json:"finish"`
	Usage  []int64    `json:"usage"` // of input and output; empty: none
}

//go:embed answers.jsonl
var answers []byte

// Answers are answers of servers, as they document them or as they were reported in public. Lines that name no product
// have forms that servers could also send.
func Answers(t testing.TB) (list []Answer) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(answers))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a Answer
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&a), "%s", lines.Text())
		list = append(list, a)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, list)
	return list
}

// written is JSON as it is, and a string without its quotation marks.
func written(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Provider is how an adapter meets [Answers].
type Provider struct {
	API     string
	Open    func(client *http.Client) model.Model
	Event   func(event json.RawMessage) []byte // an event of a stream; nil: server-sent events
	Reports []string                           // beginnings of members by which an event reports a failure
}

// sent is a body as the provider sends it.
func (p Provider) sent(a Answer) string {
	if len(a.Stream) == 0 {
		return written(a.Body)
	}
	var b strings.Builder
	for _, event := range a.Stream {
		switch {
		case p.Event != nil:
			b.Write(p.Event(event))
		case event[0] == '"':
			b.WriteString(written(event))
		default:
			b.WriteString("data: " + string(event) + "\n\n")
		}
	}
	return b.String()
}

// RunAnswers sends each of [Answers] of an adapter's API to the adapter. A failure is also sent as an event of a stream
// and with the status 200, where the provider could do that.
func RunAnswers(t *testing.T, p Provider) {
	t.Helper()
	for _, a := range Answers(t) {
		if a.API != p.API && (a.API != "" || p.Event != nil) {
			continue
		}
		t.Run(a.Server, func(t *testing.T) {
			body := p.sent(a)
			a.check(t, p.Open, body)
			isTooLong := a.Kind == model.TooLong
			if a.Kind == "" || len(a.Stream) > 0 || !strings.HasPrefix(body, "{") {
				return
			}
			if hasAny(body, p.Reports...) {
				within := kindOf(t, p.Open, "event: error\ndata: "+body+"\n\n")
				assert.Equal(t, isTooLong, within == model.TooLong, "in a stream: %s", within)
				assert.Equal(t, a.Kind == model.Refused, within == model.Refused, "in a stream: %s", within)
			}
			if hasAny(body, `"error":`, `"errors":`, `"object":"error"`, `"base_resp":`, `"error_code":`) {
				whole := kindOf(t, p.Open, body)
				assert.Equal(t, isTooLong, whole == model.TooLong, "with 200: %s", whole)
			}
		})
	}
}

// check lets an adapter be answered so.
func (a Answer) check(t *testing.T, open func(client *http.Client) model.Model, body string) {
	t.Helper()
	var emitted strings.Builder
	client := &http.Client{Transport: answered{max(a.Status, http.StatusOK), a.Headers, body}}
	reply, err := open(client).Converse(t.Context(), model.Request{Name: "m"},
		func(text string) { emitted.WriteString(text) })
	require.Equal(t, a.Kind, model.KindOf(err), "%v", err)
	if a.Usage == nil {
		a.Usage = []int64{0, 0}
	}
	assert.Equal(t, a.Usage, []int64{reply.InputTokens, reply.OutputTokens})
	if err != nil {
		assert.ErrorContains(t, err, a.Shows)
		assert.NotRegexp(t, `key-o|\bours\b`, err.Error(), "it shows a part of the key")
		wait, _ := time.ParseDuration(a.Wait)
		after, _ := model.MayRetry(err)
		assert.InDelta(t, wait.Seconds(), after.Seconds(), 1, "%v", err)
		return
	}
	assert.Equal(t, a.Text, reply.Text)
	assert.Equal(t, a.Text, emitted.String())
	assert.Equal(t, a.Finish, reply.Finish)
	var calls []string
	ids := map[string]bool{}
	for _, c := range reply.Calls {
		calls = append(calls, c.Name+" "+string(c.Arguments))
		ids[c.ID] = true
	}
	assert.Equal(t, a.Calls, calls)
	assert.Len(t, ids, len(calls), "each call has an id of its own")
}

func kindOf(t *testing.T, open func(client *http.Client) model.Model, body string) model.Kind {
	t.Helper()
	_, err := open(Answering(body)).Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
	return model.KindOf(err)
}

func hasAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

type answered struct {
	status  int
	headers map[string]string
	body    string
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	for name, value := range a.headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
