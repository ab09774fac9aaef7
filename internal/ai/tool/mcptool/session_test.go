package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/platform/share"
)

// itself is this test's program as a server. With the race detector it would sleep for a second before it ends, and be
// killed meanwhile. The program under test passes no GORACE on.
func itself(t testing.TB) tool.Endpoint {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return tool.Endpoint{Command: []string{"env", "GORACE=atexit_sleep_ms=0", program, asProgram}}
}

func ask(ctx context.Context, s tool.Session, name string, more ...func(*tool.Invocation)) (string, error) {
	binding, _ := json.Marshal(map[string]string{"name": name})
	i := tool.Invocation{Arguments: json.RawMessage(`{}`)}
	for _, one := range more {
		one(&i)
	}
	r, err := s.Call(ctx, tool.Definition{Binding: binding}, i)
	return r.Text, err
}

func resumed(i *tool.Invocation) { i.Resumed = true }

// rooms is a server over HTTP. Its sessions keep the results of their calls.
type rooms struct {
	*httptest.Server

	begun, ended atomic.Int64
	lose         atomic.Bool // answers the next call as if its session were not known
}

func newRooms(t *testing.T, options *mcp.StreamableHTTPOptions) *rooms {
	t.Helper()
	r := &rooms{}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "rooms", Version: "1"}, nil)
		var calls atomic.Int64
		mcp.AddTool(s, &mcp.Tool{Name: "count"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return text(fmt.Sprint(calls.Add(1))), nil, nil
			})
		mcp.AddTool(s, &mcp.Tool{Name: "fail"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				result := text("the tool's own words, see https://docs.example.com/x")
				result.IsError = true
				return result, nil, nil
			})
		return s
	}, options)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		switch {
		case strings.Contains(string(body), `"server/discover"`): // as every server before 2026
			http.Error(w, "what?", http.StatusBadRequest)
			return
		case strings.Contains(string(body), `"initialize"`):
			r.begun.Add(1)
		case q.Method == http.MethodDelete:
			r.ended.Add(1)
		case strings.Contains(string(body), `"tools/call"`) && r.lose.Swap(false):
			http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`,
				http.StatusNotFound)
			return
		}
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func TestTheCallsOfASessionShareIt(t *testing.T) {
	server := newRooms(t, nil)
	k := &mcptool.Kind{Client: server.Client()}
	s := k.Session(tool.Endpoint{URL: server.URL})
	for n := range 3 {
		got, err := ask(t.Context(), s, "count")
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(n+1), got)
		_, err = ask(t.Context(), s, "fail")
		require.EqualError(t, err, "the tool's own words, see https://docs.example.com/x")
	}
	other := k.Session(tool.Endpoint{URL: server.URL})
	got, err := ask(t.Context(), other, "count")
	require.NoError(t, err)
	assert.Equal(t, "1", got, "another run has its own")
	assert.Equal(t, int64(2), server.begun.Load())
	s.End()
	other.End()
	assert.Equal(t, int64(2), server.ended.Load(), "the server is told")
	_, open := mcptool.Open(k)
	assert.Zero(t, open)
	_, err = ask(t.Context(), s, "count")
	require.EqualError(t, err, "the session with the server has ended")
	assert.Equal(t, int64(2), server.begun.Load())
}

func TestParallelCallsShareASession(t *testing.T) {
	server := newRooms(t, nil)
	s := (&mcptool.Kind{Client: server.Client()}).Session(tool.Endpoint{URL: server.URL})
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]bool{}
	for range 10 {
		all.Go(func() {
			text, err := ask(t.Context(), s, "count")
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			got[text] = true
		})
	}
	all.Wait()
	s.End()
	assert.Len(t, got, 10)
	assert.Equal(t, int64(1), server.begun.Load())
}

// If the server does not know the session of a call, the call is made again in a new session, and the model reads a
// note.
func TestALostSessionIsOpenedAgain(t *testing.T) {
	server := newRooms(t, nil)
	s := (&mcptool.Kind{Client: server.Client()}).Session(tool.Endpoint{URL: server.URL})
	defer s.End()
	_, err := ask(t.Context(), s, "count")
	require.NoError(t, err)
	server.lose.Store(true)
	got, err := ask(t.Context(), s, "count")
	require.NoError(t, err)
	assert.Regexp(t, `(?s)opened again.*\n1$`, got)
	got, err = ask(t.Context(), s, "count")
	require.NoError(t, err)
	assert.Equal(t, "2", got, "it is got once")
}

// The first call of an attempt warns that the previous attempt had another session, where the server has sessions.
func TestTheFirstCallAfterAnotherAttemptWarns(t *testing.T) {
	for name, c := range map[string]struct {
		options *mcp.StreamableHTTPOptions
		want    bool
	}{
		"with sessions":    {nil, true},
		"without sessions": {&mcp.StreamableHTTPOptions{Stateless: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := newRooms(t, c.options)
			s := (&mcptool.Kind{Client: server.Client()}).Session(tool.Endpoint{URL: server.URL})
			defer s.End()
			got, err := ask(t.Context(), s, "count", resumed)
			require.NoError(t, err)
			assert.Equal(t, c.want, strings.Contains(got, "opened again"), got)
			got, err = ask(t.Context(), s, "count", resumed)
			require.NoError(t, err)
			assert.NotContains(t, got, "opened again")
		})
	}
}

// A program is started once. When it dies, the call's error has its last output, and the next call starts it again.
func TestAProgramIsStartedOnceAndItsLastOutputIsShown(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	s := k.Session(itself(t))
	calls := func() (n int) {
		got, err := ask(t.Context(), s, "told")
		require.NoError(t, err)
		return strings.Count(got, `"tools/call"`)
	}
	assert.Equal(t, 1, calls())
	assert.Equal(t, 2, calls())
	_, err := ask(t.Context(), s, "die")
	require.EqualError(t, err, "the server's program has ended (exit status 3): "+
		"Traceback:\n  at [address]\nKeyError: 'moon'")
	got, err := ask(t.Context(), s, "told")
	require.NoError(t, err)
	assert.Contains(t, got, "opened again")
	assert.Equal(t, 2, calls())
	s.End()
	programs, _ := mcptool.Open(k)
	assert.Zero(t, programs)
}

// A program may write a log between its messages. It breaks nothing, and a failure shows it.
func TestLinesOfAProgramBesidesItsMessages(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	program := itself(t).Command
	e := tool.Endpoint{Command: append([]string{"sh", "-c", "" +
		`printf '\357\273\277Starting\n[INFO] "a"\n{"level":30}\n\n'; ` +
		`exec "$0" "$@"`}, program...)}
	s := k.Session(e)
	defer s.End()
	for range 2 {
		got, err := ask(t.Context(), s, "garble")
		require.NoError(t, err)
		assert.NotContains(t, got, "opened again")
	}
	_, err := k.Discover(t.Context(), tool.Endpoint{Command: []string{"sh", "-c", "echo usage: a server NAME; exit 1"}})
	require.EqualError(t, err, "the server's program has ended (exit status 1): usage: a server NAME")
	_, err = k.Discover(t.Context(), tool.Endpoint{Command: []string{"sh", "-c",
		"echo Error: no key >&2; seq 9000 >&2; echo at last >&2; exit 1"}})
	require.ErrorContains(t, err, "Error: no key\n1\n2\n")
	require.ErrorContains(t, err, "\n9000\nat last")
	assert.Less(t, len(err.Error()), tool.EnoughText+100)
}

// A call that ends without an answer leaves the session to the others. The next call pings the server.
func TestASilentCallDoesNotEndASession(t *testing.T) {
	s := (&mcptool.Kind{Client: http.DefaultClient}).Session(itself(t))
	defer s.End()
	_, err := ask(t.Context(), s, "told")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = ask(ctx, s, "mute")
	require.EqualError(t, err, "the server did not respond in time")
	got, err := ask(t.Context(), s, "told")
	require.NoError(t, err)
	assert.NotContains(t, got, "opened again")
	assert.Contains(t, got, `"ping"`)
}

// Idle sessions make room for others; where all have running calls, calls wait.
func TestOpenSessionsAreBounded(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	mcptool.Bound(k, 2, 0)
	var sessions []tool.Session
	for range 5 {
		s := k.Session(itself(t))
		defer s.End()
		sessions = append(sessions, s)
		_, err := ask(t.Context(), s, "told")
		require.NoError(t, err)
		programs, _ := mcptool.Open(k)
		assert.LessOrEqual(t, programs, 2)
	}
	got, err := ask(t.Context(), sessions[0], "told")
	require.NoError(t, err)
	assert.Contains(t, got, "opened again", "it made room for another one")

	working, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, s := range sessions[:2] {
		all.Go(func() { _, _ = ask(working, s, "mute") })
	}
	require.Eventually(t, func() bool { // both are at work
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := ask(ctx, sessions[4], "told")
		return err != nil && strings.Contains(err.Error(), "too many sessions")
	}, time.Minute, time.Millisecond)
	all.Go(func() {
		got, err := ask(t.Context(), sessions[4], "told")
		assert.NoError(t, err)
		assert.Contains(t, got, "tools/call")
	})
	stop()
	all.Wait()
}

// An organization whose servers never answer leaves sessions to others, and does not end their idle ones.
func TestSessionsOfAnOrganizationLeaveOthersRoom(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	mcptool.Divide(k, share.Limits{All: 4, Reserve: 2, Organization: 3, User: 2}, share.Limits{})
	of := func(organization, user string) context.Context {
		return share.With(t.Context(), share.Holder{Organization: organization, User: user})
	}
	hogging, stop := context.WithCancel(of("a", "hog"))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 8 { // two are at work, the others wait
		all.Go(func() {
			s := k.Session(itself(t))
			defer s.End()
			_, _ = ask(hogging, s, "mute")
		})
	}
	require.Eventually(t, func() bool {
		programs, _ := mcptool.Open(k)
		return programs == 2 && mcptool.Waiting(k) == 6
	}, time.Minute, time.Millisecond)
	for _, ctx := range []context.Context{of("a", "colleague"), of("b", "u")} {
		s := k.Session(itself(t))
		defer s.End()
		_, err := ask(ctx, s, "told")
		require.NoError(t, err)
		again, err := ask(ctx, s, "told")
		require.NoError(t, err)
		assert.NotContains(t, again, "opened again")
	}
}

// A program has time to end by itself. All processes that it has started end with it, even those that ignore SIGTERM.
func TestAProgramEndsWithAllThatItHasStarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	last := filepath.Join(t.TempDir(), "last")
	program, err := os.Executable()
	require.NoError(t, err)
	s := (&mcptool.Kind{Client: http.DefaultClient}).Session(tool.Endpoint{Command: []string{"sh", "-c", "" +
		`trap "" TERM; "$0" ` + asChild + ` "$1" </dev/null & "$0" ` + asProgram + `; sleep 0.2; echo done > "$2"`,
		program, l.Addr().String(), last}})
	_, err = ask(t.Context(), s, "told")
	require.NoError(t, err)
	child, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = child.Close() }()
	s.End()
	assert.FileExists(t, last, "it ended by itself")
	require.NoError(t, child.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = child.Read(make([]byte, 1))
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "its child lives")
}

// Nothing of a session is left once it has ended, also with a server that hangs.
func TestNothingOutlivesASession(t *testing.T) {
	server := newRooms(t, nil)
	before := runtime.NumGoroutine()
	k := &mcptool.Kind{Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for _, e := range []tool.Endpoint{itself(t), {URL: server.URL}} {
		for _, last := range []string{"told", "count", "die", "mute"} {
			s := k.Session(e)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			_, _ = ask(ctx, s, "told")
			_, _ = ask(ctx, s, last)
			cancel()
			s.End()
			programs, connections := mcptool.Open(k)
			assert.Zero(t, programs+connections)
		}
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, time.Minute, time.Millisecond)
}

func TestARefusalOfHTTPIsShown(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Access is only allowed at localhost:8931, not at 127.0.0.1:1234", http.StatusForbidden)
	}))
	defer web.Close()
	_, err := (&mcptool.Kind{Client: web.Client()}).Discover(t.Context(), tool.Endpoint{URL: web.URL})
	require.EqualError(t, err, "the server answered 403: Access is only allowed at localhost:8931, not at [address]")
}

// A server of the transport before streamable HTTP works as well.
func TestAServerOfTheOlderTransport(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	var calls atomic.Int64
	mcp.AddTool(s, &mcp.Tool{Name: "count"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(calls.Add(1))), nil, nil
		})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil))
	defer web.Close()
	defer web.CloseClientConnections()
	k := &mcptool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{URL: web.URL + "/sse"}
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	require.Len(t, found, 1)
	session := k.Session(e)
	defer session.End()
	for n := range 3 {
		got, err := ask(t.Context(), session, "count")
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(n+1), got)
	}
}

// newestAlone is a server of the newest version alone. lists counts how often its tools were listed.
func newestAlone(t *testing.T, handler http.Handler) (address string, lists *atomic.Int64) {
	t.Helper()
	lists = &atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"initialize"`):
			http.Error(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version"}}`,
				http.StatusBadRequest)
			return
		case strings.Contains(string(body), `"tools/list"`):
			lists.Add(1)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL, lists
}

// A server may speak only the newest version of the protocol, which has no sessions. It may want some arguments as
// headers, too: its tools are listed for that, once, where the tool has such an argument.
func TestAServerOfTheNewestVersionAlone(t *testing.T) {
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	s := mcp.NewServer(&mcp.Implementation{Name: "new", Version: "1"}, nil)
	for name, takes := range map[string]string{"say": schema, "plain": `{"type":"object"}`} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(takes)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text("hello " + string(r.Params.Arguments)), nil
			})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true})
	address, lists := newestAlone(t, handler)
	session := (&mcptool.Kind{Client: http.DefaultClient}).Session(tool.Endpoint{URL: address})
	defer session.End()
	for _, c := range []struct {
		name, schema string
		lists        int64 // so far
	}{{"plain", `{"type":"object"}`, 0}, {"say", schema, 1}, {"say", schema, 1}} {
		got, err := session.Call(t.Context(),
			tool.Definition{Binding: json.RawMessage(`{"name":"` + c.name + `"}`), Spec: tool.Spec{
				Parameters: json.RawMessage(c.schema)}},
			tool.Invocation{Arguments: json.RawMessage(`{"region":"Ås"}`), Resumed: true})
		require.NoError(t, err)
		assert.Equal(t, `hello {"region":"Ås"}`, got.Text)
		assert.Equal(t, c.lists, lists.Load())
	}
}

// A list that a call needs leaves it its own limit.
func TestAListThatACallNeedsIsNotPartOfItsResult(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`
	large := strings.Repeat("x", 11<<20)
	address, _ := scripted(t, map[string]func(json.RawMessage) string{
		"server/discover": always(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`),
		"tools/list":      always(strings.Replace(tools(schema), "acts", large, 1)),
		"tools/call":      always(`{"resultType":"complete","content":[{"type":"text","text":"` + large + `"}]}`),
	})
	to, err := url.Parse(address)
	require.NoError(t, err)
	address, _ = newestAlone(t, httputil.NewSingleHostReverseProxy(to))
	got, err := (&mcptool.Kind{Client: http.DefaultClient}).Call(t.Context(), tool.Endpoint{URL: address},
		tool.Definition{Binding: json.RawMessage(`{"name":"act"}`), Spec: tool.Spec{Parameters: []byte(schema)}},
		tool.Invocation{Arguments: json.RawMessage(`{"a":"b"}`)})
	require.NoError(t, err)
	assert.Len(t, got.Text, len(large))
}

// A server of the older transport may not redirect its client to another server.
func TestAnOlderServerLeadsNowhereElse(t *testing.T) {
	var stray atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stray.Add(1) }))
	defer other.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", other.URL)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	_, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: web.URL})
	require.EqualError(t, err, "the server answered 405")
	assert.Zero(t, stray.Load())
}
