package mcptool_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// asProgram is the argument by which this test's program is a server over stdin and stdout.
const asProgram = "as-a-server"

// programs are what this test's program may be, by its first argument.
var programs = map[string]func(arguments []string){
	asProgram: func([]string) { serveLines(os.Stdin, os.Stdout) },
	asChild: func(address []string) {
		if c, err := net.Dial("tcp", address[0]); err == nil {
			_, _ = io.Copy(io.Discard, c) // until it is killed
		}
	},
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		programs[os.Args[1]](os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// asChild is the argument by which it is a program that a server has started: it holds a connection.
const asChild = "as-a-child"

// message is a message of JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`

	raw string // what is sent instead
}

func (m message) line() []byte {
	raw, _ := json.Marshal(m)
	if m.raw != "" {
		raw = []byte(m.raw)
	}
	return raw
}

func (m message) answer(result string) message {
	return message{Version: "2.0", ID: m.ID, Result: json.RawMessage(result)}
}

// asker is a server whose tool "ask" sends its client a request and answers with the client's response. The call's
// arguments name the request's method and have its params. The tool "told" answers with all requests so far.
type asker struct {
	mu       sync.Mutex
	requests []json.RawMessage
	replies  chan message
	over     chan struct{} // closed when nobody waits for replies any longer
}

func newAsker() *asker { return &asker{replies: make(chan message, 1), over: make(chan struct{})} }

// reply is the next reply of the client.
func (a *asker) reply() (m message) {
	select {
	case m = <-a.replies:
	case <-a.over:
	}
	return m
}

// on handles a message, and sends the messages that follow from it.
func (a *asker) on(m message, send func(message)) {
	if m.Method == "" {
		select {
		case a.replies <- m:
		case <-a.over:
		}
		return
	}
	raw, _ := json.Marshal(m)
	a.mu.Lock()
	a.requests = append(a.requests, raw)
	requests, _ := json.Marshal(a.requests)
	a.mu.Unlock()
	if m.ID == nil {
		return
	}
	switch m.Method {
	case "initialize":
		send(m.answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},` +
			`"serverInfo":{"name":"s","version":"1"}}`))
	case "tools/list":
		send(m.answer(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}},` +
			`{"name":"told","inputSchema":{"type":"object"}}]}`))
	case "resources/list":
		send(m.answer(`{"resources":[]}`))
	case "prompts/list":
		send(m.answer(`{"prompts":[]}`))
	case "tools/call":
		send(m.answer(a.call(m, string(requests), send)))
	default:
		send(message{Version: "2.0", ID: m.ID, Error: json.RawMessage(`{"code":-32601,"message":"what?"}`)})
	}
}

// call is the result of a call.
func (a *asker) call(m message, requests string, send func(message)) string {
	var call struct {
		Name      string
		Arguments struct {
			Method string
			Params json.RawMessage
			Raw    string
			Until  string // an address: the call lasts until a connection to it ends
			Result string // of the call, in the place of a real one
		}
	}
	_ = json.Unmarshal(m.Params, &call)
	result := []byte(requests)
	switch call.Name {
	case "die": // of a program alone
		fmt.Fprintln(os.Stderr, "Traceback:\n  at http://127.0.0.1:9/x?token=hunter2\nKeyError: 'moon'")
		os.Exit(3)
	case "garble":
		fmt.Print("I am not JSON\n[WARN] nor I\n{\"level\":30}\n\r\n\xef\xbb\xbf")
	case "mute":
		select {}
	case "long":
		if c, err := net.Dial("tcp", call.Arguments.Until); err == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	case "blurt": // a raw text, then a ping
		send(message{raw: call.Arguments.Raw})
		send(message{Version: "2.0", ID: json.RawMessage(`"p"`), Method: "ping"})
		replies := []message{a.reply()}
		if strings.Contains(call.Arguments.Raw, `"id":"q"`) {
			replies = append(replies, a.reply())
		}
		if call.Arguments.Result != "" {
			return call.Arguments.Result
		}
		result, _ = json.Marshal(replies)
	}
	if call.Name == "ask" {
		send(message{Version: "2.0", ID: json.RawMessage(`"q"`), Method: call.Arguments.Method,
			Params: call.Arguments.Params})
		result, _ = json.Marshal(a.reply())
	}
	text, _ := json.Marshal(string(result))
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
}

// serveLines serves a client that writes a message in each line.
func serveLines(in io.Reader, out io.Writer) {
	a := newAsker()
	var mu sync.Mutex
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m message
		_ = json.Unmarshal(lines.Bytes(), &m)
		go a.on(m, func(m message) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = out.Write(append(m.line(), '\n'))
		})
	}
}

// ServeHTTP serves a client of streamable HTTP: the messages that follow from a request are in its response.
func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m message
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil || m.Method == "" {
		a.on(m, nil)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	a.on(m, func(m message) {
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", m.line())
		_ = http.NewResponseController(w).Flush()
	})
}

// askers are the endpoints of a server that asks, by transport.
func askers(t testing.TB) map[string]tool.Endpoint {
	t.Helper()
	a := newAsker()
	web := httptest.NewServer(a)
	t.Cleanup(func() {
		close(a.over)
		web.CloseClientConnections()
		web.Close()
	})
	return map[string]tool.Endpoint{"http": {URL: web.URL}, "command": itself(t)}
}

func call(t *testing.T, e tool.Endpoint, name, arguments string) string {
	t.Helper()
	result, err := (&mcptool.Kind{Client: http.DefaultClient}).Call(t.Context(), e,
		tool.Definition{Binding: json.RawMessage(`{"name":"` + name + `"}`)},
		tool.Invocation{Name: name, Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	return result.Text
}

// A server may wait for a capability that a client declares.
func TestOnlyWhatIsServedIsClaimed(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	for name, e := range askers(t) {
		t.Run(name, func(t *testing.T) {
			_, err := k.Discover(t.Context(), e)
			require.NoError(t, err)
			_, err = k.Browse(t.Context(), e)
			require.NoError(t, err)
			var requests []message
			require.NoError(t, json.Unmarshal([]byte(call(t, e, "told", `{}`)), &requests))
			methods := map[string]int{}
			for _, m := range requests {
				methods[m.Method]++
				var claims struct {
					Capabilities json.RawMessage
					Meta         struct {
						Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
					} `json:"_meta"`
				}
				if m.Params != nil {
					require.NoError(t, json.Unmarshal(m.Params, &claims))
				}
				switch m.Method {
				case "initialize":
					assert.JSONEq(t, `{"elicitation":{"form":{}}}`, string(claims.Capabilities))
				case "server/discover":
					assert.JSONEq(t, `{"elicitation":{"form":{}}}`, string(claims.Meta.Capabilities))
				default:
					assert.Empty(t, claims.Capabilities, "%s", m.Method)
					assert.Empty(t, claims.Meta.Capabilities, "%s", m.Method)
				}
			}
			assert.Zero(t, methods["server/discover"], "by that version, there are no sessions")
			assert.Positive(t, methods["initialize"])
		})
	}
}

// A server that asks although the client declared nothing gets an answer, and need not wait for it.
func TestWhatAServerAsksIsAnswered(t *testing.T) {
	for name, e := range askers(t) {
		for question, code := range map[string]int{
			`{"method":"ping"}`:       0,
			`{"method":"roots/list"}`: -32601,
			`{"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[
				{"role":"user","content":{"type":"text","text":"hi"}}]}}`: -32601,
			`{"method":"elicitation/create","params":{"mode":"url","message":"sign in","elicitationId":"1",
				"url":"https://sign-in.example.com"}}`: -32602,
			`{"method":"tasks/list","params":{}}`: -32601,
			`{"method":"no/such"}`:                -32601,
		} {
			t.Run(name+"/"+question, func(t *testing.T) {
				var reply struct {
					ID     string
					Result json.RawMessage
					Error  struct{ Code int }
				}
				text := call(t, e, "ask", question)
				require.NoError(t, json.Unmarshal([]byte(text), &reply))
				assert.Equal(t, "q", reply.ID)
				assert.Equal(t, code, reply.Error.Code, "%s", text)
				assert.Equal(t, code == 0, reply.Result != nil, "%s", text)
			})
		}
	}
}

// From one version of the protocol on, a server asks by an incomplete result.
func TestAResultThatAsksIsAFailure(t *testing.T) {
	for inputRequests, wantErr := range map[string]string{
		`{"r":{"method":"roots/list","params":{}}}`:                                        "roots/list",
		`{"s":{"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[]}}}`: "sampling/createMessage",
		`{"e":{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://a.example"}}}`: "" +
			"elicitation/create",
		`{}`:            "later",
		`{"n":null}`:    "",
		`{"n":{}}`:      "",
		`{"n":{"x":1}}`: "",
	} {
		t.Run(inputRequests, func(t *testing.T) {
			address, _ := scripted(t, map[string]func(json.RawMessage) string{
				"server/discover": always(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`),
				"tools/call": always(`{"resultType":"input_required","content":[],"requestState":"x","inputRequests":` +
					inputRequests + `}`),
			})
			_, err := (&mcptool.Kind{Client: http.DefaultClient}).Call(t.Context(), tool.Endpoint{URL: address},
				tool.Definition{Binding: json.RawMessage(`{"name":"act"}`)}, tool.Invocation{Name: "act"})
			var failure *tool.Error
			require.ErrorAs(t, err, &failure)
			assert.Contains(t, err.Error(), wantErr)
			t.Log(err)
		})
	}
}

// A server that never reads the answers to its requests blocks no call. This holds for a call that it answers, and for
// one that its caller gives up.
func TestAnswersThatNobodyTakesHoldNoCall(t *testing.T) {
	for _, questions := range []int{1, tool.MaxTools + 100} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(questions, " ", answered), func(t *testing.T) {
				server := &deaf{asker: newAsker(), questions: questions, answered: answered, open: make(chan struct{})}
				web := httptest.NewServer(server)
				t.Cleanup(func() {
					web.CloseClientConnections()
					web.Close()
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { // its caller gives a call up that is never answered
					if <-server.open; !answered {
						cancel()
					}
				}()
				result, err := (&mcptool.Kind{Client: http.DefaultClient}).Call(ctx, tool.Endpoint{URL: web.URL},
					tool.Definition{Binding: json.RawMessage(`{"name":"x"}`)}, tool.Invocation{Name: "x"})
				if answered {
					require.NoError(t, err)
					assert.Equal(t, "done", result.Text)
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				assert.LessOrEqual(t, server.posts.Load(), int64(tool.MaxTools+20))
			})
		}
	}
}

// deaf is a server that sends its client pings during a call, and never answers the requests that carry the replies.
type deaf struct {
	*asker

	questions int
	answered  bool // whether it answers the call in the end
	posts     atomic.Int64
	once      sync.Once
	open      chan struct{} // closed when the first answer has come
}

func (d *deaf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.posts.Add(1)
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	var m message
	switch _ = json.Unmarshal(raw, &m); {
	case m.Method == "" && m.Result != nil:
		d.once.Do(func() { close(d.open) })
		<-r.Context().Done()
	case m.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range d.questions {
			_, _ = fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n\n", n)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-d.open:
		case <-r.Context().Done():
		}
		if !d.answered {
			<-r.Context().Done()
			return
		}
		answer, _ := json.Marshal(m.answer(`{"content":[{"type":"text","text":"done"}]}`))
		_, _ = fmt.Fprintf(w, "data: %s\n\n", answer)
	default:
		d.asker.ServeHTTP(w, r)
	}
}
