package httpapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

// patience is how long a test waits for an event that must come.
const patience = 2 * time.Minute

// served is the API behind a real server: only connections have deadlines.
func served(t *testing.T, e httpapitest.API) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s
}

// dialAndWrite opens a connection and sends a text on it.
func dialAndWrite(t *testing.T, s *httptest.Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// A body that does not come has its connection closed, for every sender and every path.
func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	e := httpapitest.New(t)
	e.Stall = 5 * time.Second // an answer has twice that, on however busy a machine
	s := served(t, e)
	const (
		known   = "Content-Type: application/json\r\nContent-Length: 1000\r\n"
		chunked = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
		form    = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n"
		part    = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
	)
	keyless := e.As("none")
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"without a key":           {keyless.Head("POST", "/api/v1/agents", known), 401},
		"without a key, chunked":  {keyless.Head("POST", "/api/v1/agents", chunked) + "5\r\n{\"a\":", 401},
		"without a key, a form":   {keyless.Head("POST", "/api/v1/chat", form) + "--b", 401},
		"without a key, no route": {keyless.Head("POST", "/api/v1/nothing", known), 401},
		"without a key, open":     {keyless.Head("POST", "/healthz", known), 405},
		"without a key, health":   {keyless.Head("GET", "/api/v1/healthz", known), 200},
		"without a key, docs":     {keyless.Head("GET", "/docs/", known), 200},
		"JSON":                    {e.Head("POST", "/api/v1/agents", known) + `{"name"`, 400},
		"JSON, chunked":           {e.Head("PATCH", "/api/v1/agents/"+e.Agent, chunked) + "5\r\n{\"a\":", 400},
		"a form":                  {e.Head("POST", "/api/v1/chat", form) + "--b\r\n", 400},
		"a file's form":           {e.Head("POST", "/api/v1/files", form) + part + "abc", 400},
		"a protocol":              {e.Head("POST", "/api/v1/a2a/"+e.Agent, known), 200},
		"a method that is not":    {e.Head("PUT", "/api/v1/agents", known), 405},
		"a body that nobody asks": {e.Head("GET", "/api/v1/agents", known), 200},
		"a malformed id":          {e.Head("PATCH", "/api/v1/agents/x", known), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := dialAndWrite(t, s, c.text)
			r := bufio.NewReader(connection)
			answer, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			assert.Equal(t, c.status, answer.StatusCode)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			_, err = r.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection stays open")
		})
	}
}

// A request without a key is answered before its body has come.
func TestAKeyComesBeforeABody(t *testing.T) {
	e := httpapitest.New(t)
	e.Stall = time.Hour
	s := served(t, e)
	for _, path := range []string{"/agents", "/chat", "/files", "/mcp", "/a2a/" + e.Agent} {
		r := bufio.NewReader(
			dialAndWrite(t, s, "POST "+httpapi.Base+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"),
		)
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err, path)
		assert.Equal(t, http.StatusUnauthorized, answer.StatusCode, path)
		assert.True(t, answer.Close, path)
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err, "%s: the connection stays open", path)
	}
}

// The time of a slow answer does not count as time of a slow body.
func TestABodyThatCameSetsNoDeadline(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) {
		c.Stall, c.ObserveWindow = 2*time.Second, 5*time.Second
	})
	s := served(t, e)
	kind, form := e.Form("message", "hello")
	for range 2 { // on one connection
		r, err := http.NewRequest(http.MethodPost, s.URL+httpapi.Base+"/chat", strings.NewReader(string(form)))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+e.Key)
		r.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		assert.Equal(t, http.StatusAccepted, answer.StatusCode)
	}
}

// A body that is announced and does not come takes no room.
func TestAnAnnouncedBodyTakesNoRoom(t *testing.T) {
	e := httpapitest.New(t)
	s := served(t, e)
	head := e.Head("POST", "/api/v1/agents", "Content-Type: application/json\r\nContent-Length: 1048576\r\n")
	for range 80 {
		dialAndWrite(t, s, head+`{"name":`)
	}
	agent := strings.Replace(padded(mib), `"query"`, `"name"`, 1)
	assert.Equal(t, http.StatusCreated, e.Send("POST", "/agents", agent).Code)
}

// An answer that its client does not read is given up after a while, for every client.
func TestAnAnswerThatIsNotTakenIsGivenUp(t *testing.T) {
	e := httpapitest.New(t)
	e.Stall = 50 * time.Millisecond
	closed := make(chan struct{})
	s := httptest.NewUnstartedServer(e)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	dialAndWrite(
		t, s, strings.Repeat("GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n", 60),
	) // more than any buffer between takes
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("the connection stays open")
	}
}

// limited is the API behind the server that programs use.
func limited(t *testing.T, e httpapitest.API) *httptest.Server {
	t.Helper()
	s := &httptest.Server{Config: e.HTTP()}
	var err error
	s.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	return s
}

func TestStreamsAreLimited(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) {
		c.Streams, c.Shares = 3, httpapi.Shares{Organization: 3, User: 3, Key: 2}
	})
	s := limited(t, e)
	kind, form := e.Form("message", "x", "wait", "false")
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(string(form)))
	r.Header.Set("Content-Type", kind)
	run := e.Do(r).Header().Get("X-Agent-Run-Id")
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal(e.Send("POST", "/api-keys", `{"name":"k","level":"run"}`).Body.Bytes(), &made))
	other := e.As(made.Key)
	open := func(e httpapitest.API) (net.Conn, *http.Response) {
		c := dialAndWrite(t, s, e.Head("GET", "/api/v1/runs/"+run+"/stream", ""))
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		return c, answer
	}
	first, answer := open(e)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, answer = open(e)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, answer = open(e)
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	_, answer = open(other)
	require.Equal(t, http.StatusOK, answer.StatusCode, "another key has places of its own")
	_, answer = open(other)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))

	kind, form = e.Form("message", "streamed", "streaming", "true")
	r = httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(string(form)))
	r.Header.Set("Content-Type", kind)
	require.Equal(t, http.StatusTooManyRequests, e.Do(r).Code)
	assert.NotContains(t, e.Send("GET", "/chats", "").Body.String(), "streamed", "a refusal starts nothing")

	_ = first.Close()
	require.Eventually(t, func() bool {
		c, answer := open(e)
		if answer.StatusCode != http.StatusOK {
			_ = c.Close()
		}
		return answer.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond, "a place is given back")
}

// A key that has all streams of the process is not refused for its own limit.
func TestTheLimitOfTheProcessIsNotThatOfAKey(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) {
		c.Streams, c.Shares = 1, httpapi.Shares{Organization: 5, User: 5, Key: 5}
	})
	s := limited(t, e)
	run := e.Chat("message", "x", "wait", "false").Header().Get("X-Agent-Run-Id")
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		c := dialAndWrite(t, s, e.Head("GET", "/api/v1/runs/"+run+"/stream", ""))
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, want, answer.StatusCode)
	}
}

func TestConnectionsWithoutAKeyAreLimited(t *testing.T) {
	const address = 20 // more than a user would have of 40
	e := httpapitest.New(t, func(c *service.Config) { c.AnonymousConnections, c.Connections = address, 2*address })
	s := httptest.NewUnstartedServer(nil)
	s.Config = e.HTTP()
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	for range 10 { // with a key they do not count, and stay open
		answer, err := http.ReadResponse(bufio.NewReader(dialAndWrite(t, s, e.Head("GET", "/api/v1/me", ""))), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
	var silent []net.Conn
	for range address {
		silent = append(silent, dialAndWrite(t, s, "GET /docs/ HTTP/1.1\r\n"))
	}
	_, err := io.WriteString(silent[address-1], "Host: x\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(silent[address-1]), nil)
	require.NoError(t, err, "it has a place")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	over, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, over.SetReadDeadline(time.Now().Add(patience)))
	_, err = over.Read(make([]byte, 1))
	var late net.Error
	require.Error(t, err)
	require.False(t, errors.As(err, &late) && late.Timeout(), "it stays open")
	_ = silent[0].Close()
	require.Eventually(t, func() bool {
		answer, err := http.Get(s.URL + httpapi.Base + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond, "a place is given back")
}
