package protocol_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

// pipes is a network in memory. Its time is that of a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- theirs
	return ours, nil
}

// served serves a handler to clients that have connections until the test ends.
func served(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	network := pipes(make(chan net.Conn))
	transport := &http.Transport{DialContext: network.dial}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(network) }()
	t.Cleanup(func() {
		close(network)
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return &http.Client{Transport: transport}
}

// Functions receive no signal when their client goes away, so the end of their requests does not mean that it left. Nor
// does a stop of the server. Clients of earlier versions have only closed a connection.
func TestOnlyAClientThatLeavesCancelsItsRun(t *testing.T) {
	const current, earlier = "2026-07-28", "2025-11-25"
	for name, c := range map[string]struct {
		version, status string
		maxStream       time.Duration
		stops           bool
	}{
		"it leaves":              {current, "cancelled", 0, false},
		"it leaves after a stop": {current, "queued", 0, true},
		"it leaves a function":   {current, "queued", 14 * time.Minute, false},
		"of an earlier version":  {earlier, "queued", 0, false},
	} {
		for form, meta := range map[string]string{"alone": "", "in a stream": `"progressToken":1`} {
			t.Run(name+" "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := httpapitest.New(t, func(s *service.Config) {
						s.MaxStream = c.maxStream
						s.ObserveWindow = time.Minute
					})
					leave, _ := begins(t, e, c.version, "", meta)
					if c.stops {
						e.Stop()
					}
					leave()
					time.Sleep(2 * time.Minute) // of the test: everything that waits for the run ends
					assert.Contains(t, e.Send("GET", "/runs", "").Body.String(), `"status":"`+c.status+`"`)
				})
			})
		}
	}
}

// A client of a version before 2026-07-28 cancels a call by a notification, in another request of its session.
func TestACallThatIsGivenUpIsCancelled(t *testing.T) {
	for name, c := range map[string]struct{ session, id, other, status string }{
		"its own":               {"s", "1", "", "cancelled"},
		"of another session":    {"z", "1", "", "queued"},
		"of no session":         {"", "1", "", "queued"},
		"another call":          {"s", "2", "", "queued"},
		"another kind of id":    {"s", `"1"`, "", "queued"},
		"of another key":        {"s", "1", "key", "queued"},
		"without an id":         {"s", "null", "", "queued"},
		"with an id of no kind": {"s", "{}", "", "queued"},
	} {
		for form, meta := range map[string]string{
			"alone": "", "in a stream": `"progressToken":1`, "in a batch": "",
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := httpapitest.New(t, func(s *service.Config) { s.ObserveWindow = time.Minute })
					session := mcpOf(e, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{
						"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
						"", "").Header().Get("Mcp-Session-Id")
					require.NotEmpty(t, session)
					version, giveUp := "2025-11-25",
						`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+c.id+`}}`
					if form == "in a batch" {
						version, giveUp = "2025-03-26", "["+giveUp+"]"
					}
					leave, answer := begins(t, e, version, session, meta)
					defer leave()
					r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(giveUp))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json, text/event-stream")
					r.Header.Set("Mcp-Session-Id", strings.NewReplacer("s", session).Replace(c.session))
					r.Header.Set("Authorization", "Bearer "+e.Key)
					if c.other != "" {
						r.Header.Set("Authorization", "Bearer "+anotherKey(t, e))
					}
					w := httptest.NewRecorder()
					e.ServeHTTP(w, r)
					assert.Equal(t, http.StatusAccepted, w.Code, w.Body)
					synctest.Wait()
					assert.Contains(t, e.Send("GET", "/runs", "").Body.String(), `"status":"`+c.status+`"`)
					time.Sleep(2 * time.Minute) // of the test: all waits end
					synctest.Wait()
					assert.Equal(t, c.status == "cancelled",
						strings.Contains(answer.String(), "the call was given up"), answer)
				})
			})
		}
	}
}

// anotherKey makes a key of the same user.
func anotherKey(t *testing.T, e httpapitest.API) string {
	t.Helper()
	var made struct{ Key string }
	w := e.Send("POST", "/api-keys", `{"name":"other","level":"run"}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	require.NotEmpty(t, made.Key)
	return made.Key
}

// begins makes a client begin a run and wait for it. It returns a function that makes the client leave, and the answer
// once it has come.
func begins(t *testing.T, e httpapitest.API, version, session, meta string) (leave func(), answer *bytes.Buffer) {
	t.Helper()
	if version >= "2026-07-28" {
		meta = strings.TrimPrefix(meta+`,"io.modelcontextprotocol/protocolVersion":"`+version+`",
			"io.modelcontextprotocol/clientCapabilities":{},
			"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}`, ",")
	}
	ctx, leave := context.WithCancel(t.Context())
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Demo",
		"arguments":{"message":"x"},"_meta":{` + meta + `}}}`
	if version == "2025-03-26" { // the last one that has batches
		call = "[" + call + "]"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+httpapi.Base+"/mcp",
		strings.NewReader(call))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Authorization": "Bearer " + e.Key, "Content-Type": "application/json", "Mcp-Protocol-Version": version,
		"Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call", "Mcp-Name": "Demo",
		"Mcp-Session-Id": session,
	} {
		r.Header.Set(name, value)
	}
	client, answer := served(t, e), &bytes.Buffer{}
	go func() {
		if a, err := client.Do(r); err == nil {
			_, _ = io.Copy(answer, a.Body)
			_ = a.Body.Close()
		}
	}()
	synctest.Wait()
	return leave, answer
}
