package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// A fault in a message of JSON-RPC is answered with a JSON-RPC error: the official clients read no other error.
func TestFaultsOfJSONRPCAreItsErrors(t *testing.T) {
	e := httpapitest.New(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, version := range []string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for body, want := range map[string]struct {
			status int
			id     string
			code   int // 0: no error
		}{
			`{"jsonrpc":"2.0","id":1,"method":"no/such"}`:               {200, "1", -32601},
			`{"jsonrpc":"2.0","id":"a","method":"no/such","params":{}}`: {200, `"a"`, -32601},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:            {200, "1", -32602},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}`: {200, "1", -32602},
			`{"jsonrpc":"2.0","id":1,`:                                  {400, "null", -32700},
			`nonsense`:                                                  {400, "null", -32700},
			``:                                                          {400, "null", -32700},
			`7`:                                                         {400, "null", -32600},
			`{}`:                                                        {400, "null", -32600},
			"[]":                                                        {400, "null", -32600},
			ping + ping:                                                 {400, "null", -32700},
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`:                           {200, "1", -32602},
			`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`:                               {200, "1", -32601},
			`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`:                             {200, "1", -32601},
			`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`: {200, "1", -32601},

			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`: {200, "1", -32602},

			`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                          {400, "1", -32600},
			`{"jsonrpc":"2.0","id":1}`:                                          {400, "1", -32600},
			`{"jsonrpc":"2.0","id":true,"method":"ping"}`:                       {400, "null", -32600},
			`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                         {400, "null", -32600},
			`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                       {400, "null", -32600},
			`{"jsonrpc":"2.0","id":1.50,"method":"ping"}`:                       {200, "1.50", 0},
			`{"jsonrpc":"2.0","id":-0,"method":"ping"}`:                         {200, "-0", 0},
			`{"jsonrpc":"2.0","id":1e3,"method":"ping"}`:                        {200, "1e3", 0},
			`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`:           {200, "9007199254740993", 0},
			`{"jsonrpc":"2.0","id":-9007199254740993,"method":"no/such"}`:       {200, "-9007199254740993", -32601},
			`{"jsonrpc":"2.0","id":99999999999999999999,"method":"tools/list"}`: {200, "99999999999999999999", 0},
			`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call",` +
				`"params":{"name":"none","arguments":{}}}`: {200, "9007199254740993", -32602},
			`{"jsonrpc":"1.0","id":9007199254740993,"method":"ping"}`:   {400, "9007199254740993", -32600},
			`{"jsonrpc":"2.0","id":9007199254740991,"method":"ping"}`:   {200, "9007199254740991", 0},
			`{"jsonrpc":"2.0","id":"9007199254740993","method":"ping"}`: {200, `"9007199254740993"`, 0},
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`:    {202, "", 0},
			`{"jsonrpc":"2.0","method":"notifications/nobody"}`:         {202, "", 0},
		} {
			r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if version != "" {
				r.Header.Set("Mcp-Protocol-Version", version)
			}
			w := e.Do(r)
			assert.Equal(t, want.status, w.Code, "%s %s", version, body)
			if want.id == "" {
				assert.Empty(t, w.Body.String())
				continue
			}
			var answer struct {
				ID    json.RawMessage
				Error struct{ Code int }
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%s: %s", body, w.Body)
			assert.Equal(t, want.id, string(answer.ID), "%s", body)
			assert.Equal(t, want.code, answer.Error.Code, "%s: %s", body, w.Body)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
	}
}

// stopping is a client whose server stops after the first bytes of an answer.
type stopping struct {
	*httptest.ResponseRecorder

	stop func()
}

func (s stopping) Write(p []byte) (int, error) {
	s.stop()
	return s.ResponseRecorder.Write(p)
}

// A stream of AG-UI that is cut ends with an error event, for any reason: clients take its mere end for a success.
func TestAStreamOfAGUIThatIsCutEndsWithAnError(t *testing.T) {
	const cut = `"code":"stream_ended"`
	for name, end := range map[string]func(e httpapitest.API){
		"the service stops":        func(e httpapitest.API) { go e.Stop() },
		"the store cannot be read": func(e httpapitest.API) { e.Items.Break("") },
		"the right has ended":      func(e httpapitest.API) { revoke(t, e) },
	} {
		t.Run(name, func(t *testing.T) {
			e := httpapitest.New(t)
			send := func(w http.ResponseWriter) {
				r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/agui/"+e.Agent, strings.NewReader(
					`{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"x"}]}`))
				r.Header.Set("Authorization", "Bearer "+e.Key)
				e.ServeHTTP(w, r)
			}
			w := stopping{httptest.NewRecorder(), sync.OnceFunc(func() { end(e) })}
			send(w)
			lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
			assert.Contains(t, lines[len(lines)-1], cut)
			assert.Equal(t, 1, strings.Count(w.Body.String(), cut))
			if name == "the service stops" {
				late := httptest.NewRecorder()
				send(late)
				assert.Equal(t, 1, strings.Count(late.Body.String(), cut), late.Body.String())
			}
		})
	}
}

// Budgets hold for a call with progress events, whose answer is a stream, as for any other.
func TestBudgetsApplyToACallWithProgressEvents(t *testing.T) {
	e := httpapitest.New(t)
	require.Equal(t, http.StatusOK, e.Send("PATCH", "/organization", `{"budget":{"period":"day","max_runs":1}}`).Code)
	e.Begin(t)
	for _, meta := range []string{"", `,"_meta":{"progressToken":1}`} {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"}`+
				meta+`}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+e.Key)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		assert.Contains(t, w.Body.String(), "is used up")
		assert.Equal(t, 1, strings.Count(e.Send("GET", "/runs", "").Body.String(), `"agent_id"`))
	}
}

// once is a client that does something with the first words of an answer.
type once struct {
	*httptest.ResponseRecorder

	do func()
}

func (o once) Write(p []byte) (int, error) {
	o.do()
	return o.ResponseRecorder.Write(p)
}

// waiting is an API whose clients of A2A wait, and a function that sends one of their messages. It calls do with the
// first bytes of the answer, then with each piece.
func waiting(t *testing.T, change ...func(*service.Config)) (
	e httpapitest.API, send func(do func(), then ...func()) *httptest.ResponseRecorder,
) {
	e = httpapitest.New(t, append(change, func(c *service.Config) {
		c.Heartbeat, c.ObserveWindow = 10*time.Millisecond, time.Millisecond
	})...)
	return e, func(do func(), then ...func()) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/a2a/"+e.Agent, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"SendMessage",
			"params":{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+e.Key)
		do = sync.OnceFunc(do)
		w := once{httptest.NewRecorder(), func() {
			do()
			for _, each := range then {
				each()
			}
		}}
		e.ServeHTTP(w, r)
		return w.ResponseRecorder
	}
}

// revoke ends the right of the API's key.
func revoke(t *testing.T, e httpapitest.API) {
	t.Helper()
	p, err := e.Tenants.Authenticate(t.Context(), e.Key)
	require.NoError(t, err)
	require.NoError(t, e.Tenants.RevokeKey(t.Context(), tenant.Platform(), record.System(), p.Key))
	e.Tenants.Change(p)
}

func cancelAll(t *testing.T, e httpapitest.API) {
	t.Helper()
	var list struct {
		Runs []struct {
			ID string `json:"run_id"`
		}
	}
	require.NoError(t, json.Unmarshal(e.Send("GET", "/runs", "").Body.Bytes(), &list))
	for _, r := range list.Runs {
		require.Equal(t, http.StatusOK, e.Send("POST", "/runs/"+r.ID+"/cancel", "{}").Code)
	}
}

func state(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var a struct {
		Result struct {
			Task struct{ Status struct{ State string } }
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), "%s", w.Body)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	return a.Result.Task.Status.State
}

// "The operation MUST wait until the task has reached a terminal or interrupted state": spaces keep the connection.
func TestAMessageOfA2AIsAnsweredWhenItsTaskHasEnded(t *testing.T) {
	e, send := waiting(t)
	w := send(func() {
		cancelAll(t, e)
	})
	assert.Equal(t, "TASK_STATE_CANCELED", state(t, w))
	assert.Equal(t, " ", w.Body.String()[:1])
	assert.NotEmpty(t, w.Header().Get("X-Agent-Run-Id"))
}

func TestAServerThatStopsReturnsTheStateOfATaskOfA2A(t *testing.T) {
	e, send := waiting(t)
	stopped := make(chan struct{})
	w := send(func() {
		go func() {
			e.Stop()
			close(stopped)
		}()
	})
	<-stopped
	assert.Equal(t, "TASK_STATE_SUBMITTED", state(t, w))
}

// A client that waits for long takes a stream slot of its key. Without a slot it receives the task's present state.
func TestALongWaitOfA2ATakesAPlace(t *testing.T) {
	e, send := waiting(t, func(c *service.Config) { c.Shares.Key = 1 })
	send(func() {
		assert.Equal(t, "TASK_STATE_SUBMITTED", state(t, send(func() {})))
		cancelAll(t, e)
	})
}

// Its client receives an error without data of the run.
func TestALongWaitWhoseRightEndsIsAnsweredWithAnError(t *testing.T) {
	e, send := waiting(t)
	w := send(func() { revoke(t, e) })
	assert.Equal(t, http.StatusOK, w.Code)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,
		"message":"the stream ended early; read the task again"}}`, w.Body.String())

	e = httpapitest.New(t)
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"a",
		"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"},"_meta":{"progressToken":1}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+e.Key)
	recorder := once{httptest.NewRecorder(), sync.OnceFunc(func() { revoke(t, e) })}
	e.ServeHTTP(recorder, r)
	messages := strings.Split(strings.TrimSpace(recorder.Body.String()), "\n\n")
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,
		"message":"the stream ended early: call get_run to follow the run"}}`,
		strings.TrimPrefix(messages[len(messages)-1], "data: "))
}

// away is a table that is unavailable while a test sets that.
type away struct {
	table.Table

	away   bool
	misses int
}

func (a *away) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if a.away && strings.HasPrefix(keys[0].Part, "run/") {
		a.misses++
		return nil, problem.Retry(errors.New("the table is away"))
	}
	return a.Table.Get(ctx, keys...)
}

// The run goes on: its client waits through it.
func TestALongWaitOutlivesAShortFailureOfTheStore(t *testing.T) {
	e, send := waiting(t)
	store := &away{Table: e.Items.Table}
	e.Items.Table = store
	spaces := 0
	w := send(func() { store.away = true }, func() {
		if spaces++; spaces == 3 {
			store.away = false
			cancelAll(t, e)
		}
	})
	assert.Positive(t, store.misses)
	assert.Equal(t, "TASK_STATE_CANCELED", state(t, w))
	assert.Empty(t, e.Written.String())
}

// Its body counts no more among those that are under way.
func TestALongWaitHoldsNoBody(t *testing.T) {
	const waits, size = 12, 900 << 10 // within the room of one user
	a2a := func(method string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method +
			`","params":{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]},"metadata":{"x":"`
	}
	for name, c := range map[string]struct{ path, begins, ends string }{
		"a2a":                 {"/a2a/", a2a("SendMessage"), `"}}}`},
		"a2a, streamed":       {"/a2a/", a2a("SendStreamingMessage"), `"}}}`},
		"responses":           {"/responses", `{"model":"Demo","input":"x","unknown":"`, `"}`},
		"responses, streamed": {"/responses", `{"model":"Demo","input":"x","stream":true,"unknown":"`, `"}`},
		"agui": {"/agui/", `{"threadId":"THREAD","runId":"r","messages":[{"id":"u","role":"user","content":"x"}],` +
			`"forwardedProps":{"x":"`, `"}}`},
	} {
		e := httpapitest.New(t, func(c *service.Config) {
			c.Heartbeat, c.ResponseWindow = time.Hour, time.Hour
			c.ObserveWindow = time.Millisecond
		})
		path := c.path
		if strings.HasSuffix(path, "/") {
			path += e.Agent
		}
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		before := heap()
		for n := range waits {
			all.Go(func() {
				begins := strings.Replace(c.begins, "THREAD", fmt.Sprint(n), 1)
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, httpapi.Base+path, io.MultiReader(
					strings.NewReader(begins), io.LimitReader(zeros{}, size), strings.NewReader(c.ends)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+e.Key)
				e.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		begun := func() int { return strings.Count(e.Send("GET", "/runs?limit=100", "").Body.String(), `"agent_id"`) }
		require.Eventually(t, func() bool { return begun() == waits }, time.Minute, 10*time.Millisecond, name)
		small := func() bool { return heap()-before < waits*size/2 }
		require.Eventually(t, small, time.Minute, 10*time.Millisecond, name)
		leave()
		all.Wait()
	}
}

// heap is how many bytes live.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep memory until then
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is less
}

// zeros is an endless text of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A function ends before its platform would end it.
func TestALongWaitOfA2AEndsWithItsStream(t *testing.T) {
	_, send := waiting(t, func(c *service.Config) { c.MaxStream = 50 * time.Millisecond })
	assert.Equal(t, "TASK_STATE_SUBMITTED", state(t, send(func() {})))
}

func TestAVersionOfA2AIsNamedByHeaderOrParameter(t *testing.T) {
	e := httpapitest.New(t)
	for query, header := range map[string]string{"?A2A-Version=9.9": "", "": "9.9", "?A2A-Version=1.0": "9.9"} {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/a2a/"+e.Agent+query,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", header)
		assert.Contains(t, e.Do(r).Body.String(), "-32009")
	}
}

// A page of tasks ends by its bytes, too. Page by page a client sees all of them, in order.
func TestAPageOfTasksEndsByItsBytes(t *testing.T) {
	e := httpapitest.New(t)
	var want []string
	for n := range 12 {
		size := []int{10, 250 << 10}[n%2]
		w := e.Chat("chat_id", "c", "message", strings.Repeat("x", size), "wait", "false")
		require.Equal(t, http.StatusAccepted, w.Code)
		want = append(want, w.Header().Get("X-Agent-Run-Id"))
		require.Equal(t, http.StatusOK, e.Send("POST", "/runs/"+want[n]+"/cancel", "{}").Code)
	}
	slices.Reverse(want)
	for _, context := range []string{"", `"contextId":"c",`} {
		var seen []string
		pages := 0
		for token := ""; ; pages++ {
			r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/a2a/"+e.Agent, strings.NewReader(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{%s"pageSize":100,"historyLength":1,`+
					`"pageToken":%q}}`, context, token)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("A2A-Version", "1.0")
			w := e.Do(r)
			require.Less(t, w.Body.Len(), 1<<20+300<<10)
			var list struct {
				Result struct {
					Tasks []struct{ ID string }
					Next  string `json:"nextPageToken"`
				}
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list), w.Body)
			for _, task := range list.Result.Tasks {
				seen = append(seen, task.ID)
			}
			if token = list.Result.Next; token == "" {
				break
			}
		}
		assert.Equal(t, want, seen)
		assert.Positive(t, pages)
	}
}

// Malformed JSON is answered to a client of A2A in the form of its protocol.
func TestMalformedA2AIsAnsweredAsJSONRPC(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("POST", "/a2a/"+e.Agent, `{"jsonrpc":`)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `"jsonrpc":"2.0"`)
	assert.Contains(t, w.Body.String(), `-32700`)
	for _, name := range []string{"agent-card.json", "agent.json"} {
		assert.Contains(t, e.Send("GET", "/a2a/"+e.Agent+"/.well-known/"+name, "").Body.String(), `"Demo"`)
	}
}

// A deployment may lack both; their operations then do not exist.
func TestAServerThatIsNotThereIsNotFound(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.MCP, c.Sealer = nil, nil })
	assert.Equal(t, http.StatusNotFound, e.Send("POST", "/mcp", "{}").Code)
	assert.Equal(t, http.StatusNotFound, e.Send("POST", "/a2a/"+e.Agent, "{}").Code)
	assert.Equal(t, http.StatusNotFound, e.Send("GET", "/a2a/"+e.Agent+"/.well-known/agent-card.json", "").Code)
}

// A stream of a response that ends early ends with an error, whose sequence number is the one to continue after. It has
// no [DONE]: the SDKs' loops would take the received part for the whole.
func TestAStreamOfAResponseThatEndsShortIsAnError(t *testing.T) {
	const request = `{"model":"Demo","input":"x","stream":true}`
	last := func(t *testing.T, body string) string {
		t.Helper()
		assert.NotContains(t, body, "[DONE]")
		_, data, found := strings.Cut(body, "event: error\ndata: ")
		require.True(t, found, body)
		assert.NotContains(t, data, "event: ", "it is the last one")
		return data
	}
	send := func(e httpapitest.API, w http.ResponseWriter) {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/responses", strings.NewReader(request))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+e.Key)
		e.ServeHTTP(w, r)
	}
	t.Run("after its time", func(t *testing.T) {
		e := httpapitest.New(t, func(c *service.Config) { c.MaxStream = 2 * time.Second })
		data := last(t, e.Send("POST", "/responses", request).Body.String())
		assert.Contains(t, data,
			`{"type":"error","sequence_number":1,"error":{"type":"server_error","code":"unavailable"`)
	})
	t.Run("with the server", func(t *testing.T) {
		e := httpapitest.New(t)
		stopped := make(chan struct{})
		w := stopping{httptest.NewRecorder(), sync.OnceFunc(func() {
			go func() {
				e.Stop()
				close(stopped)
			}()
		})}
		send(e, w)
		<-stopped
		last(t, w.Body.String())
		late := httptest.NewRecorder()
		send(e, late)
		last(t, late.Body.String())
		id := "resp_" + late.Header().Get("X-Agent-Run-Id")
		again := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/responses/"+id+"?stream=true&starting_after=7", nil)
		r.Header.Set("Authorization", "Bearer "+e.Key)
		e.ServeHTTP(again, r)
		assert.Contains(t, last(t, again.Body.String()), `"sequence_number":7,`)
	})
	t.Run("with its right", func(t *testing.T) {
		e := httpapitest.New(t)
		w := stopping{httptest.NewRecorder(), sync.OnceFunc(func() {
			revoke(t, e)
		})}
		send(e, w)
		last(t, w.Body.String())
	})
	t.Run("with its run", func(t *testing.T) {
		e := httpapitest.New(t)
		w := stopping{httptest.NewRecorder(), sync.OnceFunc(func() { e.Items.Break("run/") })}
		send(e, w)
		last(t, w.Body.String())
	})
}
