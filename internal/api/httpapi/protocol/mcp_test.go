package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// A refusal by the library of MCP itself has the shape of all errors, with its own status.
func TestRefusalsOfMCPHaveTheOneShape(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("GET", "/mcp", "")
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	httpapitest.Sane(t, w)
	assert.Contains(t, w.Body.String(), `"code":"method_not_allowed"`)
	w = e.Post("/mcp", "text/plain", []byte("x"))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	httpapitest.Sane(t, w)
}

// The answer in a stream has the id in the form in which it was sent, too, and so has each form of id in a call.
func TestACallInAStreamKeepsItsID(t *testing.T) {
	e := httpapitest.New(t)
	for _, id := range []string{"1", `"1"`, `""`, "9007199254740993", "-1.50", "1E400", `"9007199254740993"`, "0"} {
		for _, meta := range []string{"", `,"_meta":{"progressToken":18446744073709551617}`} {
			r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(
				`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call",`+
					`"params":{"name":"get_run","arguments":{"run_id":"x"}`+
					meta+`}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			w := e.Do(r)
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, meta != "", w.Header().Get("Content-Type") == "text/event-stream")
			assert.Contains(t, w.Body.String(), `"id":`+id+`,`)
			assert.Contains(t, w.Body.String(), `"isError":true`)
		}
	}
}

// listing is a table that counts how often agents are listed, and may fail at it.
type listing struct {
	table.Table

	lists int
	err   error
}

func (l *listing) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	if strings.HasPrefix(r.Part, "agents/") {
		if l.lists++; l.err != nil {
			return nil, l.err
		}
	}
	return l.Table.List(ctx, index, r)
}

func TestAgentsAreListedOnceForARequestOfMCP(t *testing.T) {
	e := httpapitest.New(t)
	agents := &listing{Table: e.Items.Table}
	e.Items.Table = agents
	for _, meta := range []string{"", `,"_meta":{"progressToken":1}`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_run","arguments":{"run_id":"x"}` +
			meta + `}}`
		send := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			return e.Do(r)
		}
		agents.lists, agents.err = 0, nil
		assert.Contains(t, mcpOf(e, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "", "").Body.String(), `"result"`)
		assert.Zero(t, agents.lists, "a ping needs none")
		assert.Contains(t, send().Body.String(), "isError")
		assert.Equal(t, 1, agents.lists)
		agents.err = problem.Retry(errors.New("the table is away"))
		w := send()
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
		httpapitest.Sane(t, w)
	}
}

// A call that wants progress has its stream before the library reads it. A refusal by the library is then an event of
// the stream, except a refusal of the request's header.
func TestRefusalsOfMCPInAStreamAreAnswers(t *testing.T) {
	e := httpapitest.New(t)
	body := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"get_run","_meta":{"progressToken":1}}}`
	send := func(version, kind, accepts string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept", accepts)
		r.Header.Set("Mcp-Protocol-Version", version)
		return e.Do(r)
	}
	const kind, both = "application/json", "application/json, text/event-stream"
	for _, w := range []*httptest.ResponseRecorder{ // these have a status, which a stream has no more
		send("1999-01-01", kind, both), send("2099-01-01", kind, both), send("2025-06-18", "text/plain", both),
		send("2025-06-18", kind, "text/html"),
	} {
		assert.GreaterOrEqual(t, w.Code, http.StatusBadRequest)
		assert.Less(t, w.Code, http.StatusInternalServerError)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), "%s", w.Body)
	}
	w := send("2026-07-28", kind, both)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	assert.NotContains(t, w.Header(), "X-Agent-Run-Id")
	assert.Contains(t, w.Body.String(), `"id":"a"`, "as the library says it: %s", w.Body)
	assert.Contains(t, w.Body.String(), `"error":{`)
	assert.Equal(t, 1, strings.Count(w.Body.String(), "data: "))
	w = send("2025-06-18", kind, "text/event-stream")
	assert.Contains(t, w.Body.String(), "Accept must contain both", "the client takes a stream")
	w = send("2025-06-18", kind, "application/*;q=0.9, text/event-stream")
	assert.Contains(t, w.Body.String(), `run_id`, "%s", w.Body)
}

// An answer is JSON, unless a call has a progress token: a client that accepts JSON need not accept a stream.
func TestWhoTakesJSONIsAnsweredByMCP(t *testing.T) {
	e := httpapitest.New(t)
	for accepts, status := range map[string]int{
		"": 200, "*/*": 200, "application/json": 200, "application/*": 200, "text/html, Application/JSON;q=0.1": 200,
		"text/html": 400, "text/event-stream": 400,
	} {
		w := mcpOf(e, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Accept", accepts)
		assert.Equal(t, status, w.Code, accepts)
	}
}

// The host name of a web page may lead a browser to a server that trusts every caller that reaches it.
func TestMCPIsNotForForeignPages(t *testing.T) {
	e := httpapitest.New(t) // at http://localhost
	for origin, status := range map[string]int{
		"": 200, "http://localhost": 200, "http://localhost:5173": 200, "http://127.0.0.1:1": 200, "http://[::1]": 200,
		"vscode-file://vscode-app": 200, "app://-": 200,
		"http://evil.example": 403, "https://localhost.evil.example": 403, "null": 403, "http://a b": 403,
	} {
		w := mcpOf(e, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", origin)
		assert.Equal(t, status, w.Code, origin)
		httpapitest.Sane(t, w)
	}
}

// An origin is a scheme, a host and a port, however PUBLIC_URL writes them.
func TestMCPKnowsItsOwnPages(t *testing.T) {
	for _, c := range []struct {
		own, origin string
		status      int
	}{
		{"https://agents.example:443", "https://agents.example", 200},
		{"https://Agents.Example/", "https://agents.example", 200},
		{"https://agents.example", "https://AGENTS.example:443", 200},
		{"http://agents.example", "http://agents.example:80", 200},
		{"https://agents.example", "http://agents.example", 403},
		{"https://agents.example", "https://agents.example:8443", 403},
		{"https://agents.example", "http://localhost", 403},
		{"https://agents.example", "https://agents.example.evil.example", 403},
		{"http://[::]:8080", "http://localhost:8080", 200},
		{"http://0.0.0.0:8080", "http://127.0.0.1:3000", 200},
		{"http://[::]:8080", "http://[::1]:8080", 200},
		{"http://[::]:8080", "http://evil.example:8080", 403},
		{"http://localhost", "http://app.localhost:3000", 200},
		{"http://app.localhost:3000", "http://localhost", 200},
		{"http://localhost", "http://notlocalhost", 403},
		{"http://[::]:8080", "http://0.0.0.0:8080", 200},
		{"http://localhost", "http://", 403},
		{"http://10.0.0.7:8080", "http://10.0.0.7:8080", 200},
		{"http://10.0.0.7:8080", "http://localhost", 403},
	} {
		e := httpapitest.New(t, func(s *service.Config) { s.PublicURL = c.own })
		w := mcpOf(e, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", c.origin)
		assert.Equal(t, c.status, w.Code, "%s asked by %s", c.own, c.origin)
		if c.status == http.StatusForbidden {
			assert.Contains(t, w.Body.String(), `"location":"header.Origin"`)
			assert.Contains(t, w.Body.String(), "PUBLIC_URL")
		}
	}
}

// Servers of version 2025-03-26 must take batches. Each message is served as if it came alone.
func TestABatchOfMCP(t *testing.T) {
	e := httpapitest.New(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const pong = `{"jsonrpc":"2.0","id":1,"result":{}}`
	const begun = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const call = `{"jsonrpc":"2.0","id":"a","method":"tools/call",
		"params":{"_meta":{"progressToken":1},"name":"get_run","arguments":{"run_id":""}}}`
	const unread = `,{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		" [" + ping + "]":                           {200, `[` + pong + `]`},
		"[" + begun + "]":                           {202, ""},
		"[" + call + "," + begun + "]":              {200, `"id":"a","result":`},
		"[]":                                        {400, `"code":-32600`},
		"[" + ping + ",7]":                          {200, `[` + pong + unread},
		"[" + ping + ",[" + call + "]]":             {200, `[` + pong + unread},
		"[" + ping + `,{"method":"x"}]`:             {200, `[` + pong + unread},
		"[" + ping + "," + begun + "," + ping + "]": {400, `id: must be different for each request of a batch`},
		"[" + ping + `,{"jsonrpc":"2.0","id":"1"}]`: {200, `,{"jsonrpc":"2.0","id":"1","error":{"code":-32600,`},
		`[{"jsonrpc":"2.0","id":-0,"method":"no/such"},` + ping + "]": {200, `"id":-0,"error":{"code":-32601,`},
		`[{"jsonrpc":"2.0","id":2,"method":"ping","params":7}]`:       {200, `"id":2,"error":{"code":-32602,`},
		"[" + ping + strings.Repeat(","+begun, 20) + "]":              {400, "1 to 20 requests"},
	} {
		for _, version := range []string{"", "2024-11-05", "2025-03-26"} {
			w := mcpOf(e, body, "Mcp-Protocol-Version", version)
			assert.Equal(t, want.status, w.Code, body)
			assert.Contains(t, w.Body.String(), want.text, body)
			assert.True(t, w.Code == http.StatusAccepted || json.Valid(w.Body.Bytes()), "%s: %s", body, w.Body)
		}
		w := mcpOf(e, body, "Mcp-Protocol-Version", "2025-06-18")
		assert.Equal(t, http.StatusBadRequest, w.Code, body)
	}
	w := mcpOf(e, "["+ping+","+begun+"]", "Mcp-Protocol-Version", "1")
	assert.Equal(t, http.StatusBadRequest, w.Code, "what is refused of all is refused as one request is")
	assert.Contains(t, w.Body.String(), `"code":"`)
}

// Calls with ids that are the same float are two calls.
func TestEachCallOfABatchBeginsItsRun(t *testing.T) {
	e := httpapitest.New(t)
	call := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id +
			`,"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"}}}`
	}
	w := mcpOf(e, "["+call("9007199254740992")+","+call("9007199254740993")+"]", "", "")
	assert.Contains(t, w.Body.String(), `"id":9007199254740992,"result"`)
	assert.Contains(t, w.Body.String(), `"id":9007199254740993,"result"`)
	assert.Equal(t, 2, strings.Count(e.Send("GET", "/runs", "").Body.String(), `"agent_id"`))
}

// Each request of a batch counts against the limit. Those beyond it are refused one by one, and have done nothing.
func TestABatchCountsAsItsRequests(t *testing.T) {
	e := httpapitest.New(t)
	rate := e.Send("PATCH", "/organization", `{"rate_limit":{"requests_per_minute":1,"burst":9}}`)
	require.Equal(t, http.StatusOK, rate.Code)
	other := e
	e = e.As(anotherKey(t, e)) // of which nothing was counted
	var list []string
	for id := range 12 {
		list = append(list, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"}}}`, id))
	}
	w := mcpOf(e, "["+strings.Join(list, ",")+"]", "", "")
	require.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "0", w.Header().Get("RateLimit-Remaining"))
	var answers []struct {
		ID    int
		Error *struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answers))
	require.Len(t, answers, 12)
	for i, a := range answers {
		assert.Equal(t, i, a.ID)
		assert.Equal(t, i >= 9, a.Error != nil, w.Body)
		if a.Error != nil {
			assert.Contains(t, a.Error.Message, "requests per minute")
		}
	}
	assert.Equal(t, http.StatusTooManyRequests, mcpOf(e, list[0], "", "").Code)
	runs := other.Send("GET", "/runs", "").Body.String()
	assert.Equal(t, 9, strings.Count(runs, `"run_id"`), runs)
}

// A part of a batch that cannot be served has an error of its own, as the other parts have begun their runs.
func TestAFaultOfOursIsOneAnswerOfABatch(t *testing.T) {
	e := httpapitest.New(t)
	e.Items.Table = &listing{Table: e.Items.Table, err: problem.Retry(errors.New("the table is away"))}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	w := mcpOf(e, `[{"jsonrpc":"2.0","id":1,"method":"ping"},`+list+`]`, "", "")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `"id":1,"result":{}`)
	assert.Contains(t, w.Body.String(), `"id":2,"error":{"code":-32603,`)
	assert.Equal(t, http.StatusServiceUnavailable, mcpOf(e, "["+list+"]", "", "").Code)
}

// Models write null for members that they leave out.
func TestAnArgumentThatIsNullWasLeftOut(t *testing.T) {
	e := httpapitest.New(t)
	call := func(arguments string) string {
		return mcpOf(e, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Demo","arguments":`+
			arguments+`}}`, "", "").Body.String()
	}
	assert.Contains(t, call(`{"message":"x","chat_id":null,"files":null,"file_ids":null}`), `"status":"queued"`)
	for _, wrong := range []string{`{"message":null}`, `null`, `{}`, `{"message":7}`, `{"message":"x","no":1}`} {
		assert.Contains(t, call(wrong), `"isError":true`, wrong)
	}
}

// mcpOf sends a body as a client of MCP, with one header unchanged; an empty one is not sent.
func mcpOf(e httpapitest.API, body, header, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+e.Key)
	r.Header.Set(header, value)
	if value == "" {
		r.Header.Del(header)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r) // the document does not have the body of a batch
	return w
}

// A call whose stream the server ends is answered with its run, which goes on: the client need not begin another.
func TestACallOfMCPOutlivesAStop(t *testing.T) {
	e := httpapitest.New(t)
	send := func(w http.ResponseWriter) {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,
			"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"},"_meta":{"progressToken":1}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+e.Key)
		e.ServeHTTP(w, r)
	}
	stopped := make(chan struct{})
	w := stopping{httptest.NewRecorder(), sync.OnceFunc(func() {
		go func() {
			e.Stop()
			close(stopped)
		}()
	})}
	send(w)
	<-stopped
	assert.Contains(t, w.Body.String(), "call get_run for ")
	late := httptest.NewRecorder()
	send(late)
	assert.Contains(t, late.Body.String(), "the service is stopping; try again")
	assert.Equal(t, 1, strings.Count(e.Send("GET", "/runs", "").Body.String(), `"agent_id"`), "the late one began none")
}
