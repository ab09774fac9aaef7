package protocol_test

import (
	"context"
	"io"
	"net"
	"net/http"
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

// pipes is a network in memory, whose time is that of a test.
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

// Where functions are not told that their client has gone, whatever ends their requests is no word of it; a stop of the
// server is none, either, and clients of earlier versions have only closed a connection.
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
		for told, meta := range map[string]string{"alone": "", "in a stream": `"progressToken":1`} {
			t.Run(name+" "+told, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := httpapitest.New(t, func(s *service.Config) {
						s.MaxStream = c.maxStream
						s.ObserveWindow = time.Minute
					})
					leave := begins(t, e, c.version, meta)
					if c.stops {
						e.Stop()
					}
					leave()
					time.Sleep(2 * time.Minute) // of the test: whatever waits for the run ends
					assert.Contains(t, e.Send("GET", "/runs", "").Body.String(), `"status":"`+c.status+`"`)
				})
			})
		}
	}
}

// begins has a client begin a run that it waits for, and returns what has the client leave.
func begins(t *testing.T, e httpapitest.API, version, meta string) (leave func()) {
	t.Helper()
	if version >= "2026-07-28" {
		meta = strings.TrimPrefix(meta+`,"io.modelcontextprotocol/protocolVersion":"`+version+`",
			"io.modelcontextprotocol/clientCapabilities":{},
			"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}`, ",")
	}
	ctx, leave := context.WithCancel(t.Context())
	call := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Demo",
		"arguments":{"message":"x"},"_meta":{` + meta + `}}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+httpapi.Base+"/mcp", call)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Authorization": "Bearer " + e.Key, "Content-Type": "application/json", "Mcp-Protocol-Version": version,
		"Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call", "Mcp-Name": "Demo",
	} {
		r.Header.Set(name, value)
	}
	client := served(t, e)
	go func() {
		if a, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, a.Body)
			_ = a.Body.Close()
		}
	}()
	synctest.Wait()
	return leave
}
