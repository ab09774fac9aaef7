package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// live is a server with one operation: a stream that writes the lines of a test. A key may have one stream open.
type live struct {
	httpapitest.API

	server *httptest.Server
	lines  chan string   // each is written as it comes; the stream ends when it is closed
	begun  chan struct{} // has an element for each stream that has begun
	ended  chan struct{} // has one for each that has ended
	err    error         // the error with which the next stream ends after its lines
	panics bool          // the next stream panics after its lines
}

func goLive(t *testing.T, start func(*httptest.Server), change func(*httpapi.Config)) *live {
	t.Helper()
	l := &live{lines: make(chan string), begun: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	limit := func(c *httpapi.Config) {
		c.Shares.Key, c.Stall = 1, patience
		change(c)
	}
	l.API = small(t, limit, func(s *httpapi.Server) {
		h := func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
			c.Run = "0123456789abcdef01234567"
			return s.Stream(r.Context(), w, c, httpapi.Stream{
				ContentType: "application/x-ndjson", Of: lifecycle.Whose{Agent: "a"}, Follow: l.follow,
				Final: func(out *httpapi.Sink) { _ = out.Line("final") },
				Short: func(out *httpapi.Sink) { _ = out.Line("short") },
			})
		}
		s.Handle("GET", "/stream", tenant.LevelRead, h)
		s.Handle("POST", "/stream", tenant.LevelRead, h)
	})
	l.server = httptest.NewUnstartedServer(l.API)
	start(l.server)
	t.Cleanup(l.server.CloseClientConnections)
	return l
}

func (l *live) follow(ctx context.Context, out *httpapi.Sink) error {
	defer func() { l.ended <- struct{}{} }()
	l.begun <- struct{}{}
	for {
		select {
		case line, more := <-l.lines:
			switch {
			case !more && l.panics:
				panic("a bug")
			case !more:
				return l.err
			}
			if err := out.Line(line); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open opens the stream and waits until it has begun.
func (l *live) open(t *testing.T) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, l.server.URL+httpapi.Base+"/stream", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+l.Key)
	w, err := l.server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Body.Close() })
	require.Equal(t, http.StatusOK, w.StatusCode)
	received(t, l.begun)
	return w
}

func received(t *testing.T, from <-chan struct{}) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		require.FailNow(t, "it does not come")
	}
}

// readLine reads a line of the stream.
func readLine(t *testing.T, from io.Reader, line string) {
	t.Helper()
	b := make([]byte, len(line)+3)
	_, err := io.ReadFull(from, b)
	require.NoError(t, err)
	assert.Equal(t, `"`+line+"\"\n", string(b))
}

// isFree checks that the stream has released its slot: the key may have one.
func (l *live) isFree(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return l.OpenStreams() == 0 }, patience, time.Millisecond)
	l.lines, l.err, l.panics = make(chan string), nil, false
	close(l.lines)
	free := func() bool { return get(l.API, "/stream").Code == http.StatusOK }
	require.Eventually(t, free, patience, time.Millisecond)
}

func plain(s *httptest.Server) { s.Start() }

func http2(s *httptest.Server) {
	s.EnableHTTP2 = true
	s.StartTLS()
}

// A stream is an ordinary answer over both versions of HTTP. Its silence may last longer than a client may stall.
func TestAStreamIsSilentForLongerThanAStall(t *testing.T) {
	for protocol, start := range map[string]func(*httptest.Server){"HTTP/1.1": plain, "HTTP/2.0": http2} {
		t.Run(protocol, func(t *testing.T) {
			const stall = 200 * time.Millisecond
			l := goLive(t, start, func(c *httpapi.Config) { c.Stall = stall })
			w := l.open(t)
			assert.Equal(t, protocol, w.Proto)
			assert.False(t, w.Close, "its connection can be used again")
			require.Never(t, func() bool { return l.OpenStreams() == 0 }, 3*stall, stall/10)
			l.lines <- "one"
			readLine(t, w.Body, "one")
			close(l.lines)
			rest, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			assert.Empty(t, rest)
			l.isFree(t)
		})
	}
}

func TestAStreamEndsWithItsClient(t *testing.T) {
	for protocol, start := range map[string]func(*httptest.Server){"HTTP/1.1": plain, "HTTP/2.0": http2} {
		t.Run(protocol, func(t *testing.T) {
			l := goLive(t, start, func(*httpapi.Config) {})
			require.NoError(t, l.open(t).Body.Close())
			received(t, l.ended)
			l.isFree(t)
			assert.Empty(t, l.Written.String())
		})
	}
}

// The same for requests with a body, and of older versions of HTTP.
func TestAStreamEndsWithItsClientForAnyRequest(t *testing.T) {
	const key = "Host: h\r\nAuthorization: Bearer KEY\r\n"
	for name, head := range map[string]string{
		"a body":      "GET /api/v1/stream HTTP/1.1\r\n" + key + "Content-Length: 1\r\n\r\nx",
		"HTTP/1.0":    "GET /api/v1/stream HTTP/1.0\r\n" + key + "\r\n",
		"only a head": "HEAD /api/v1/stream HTTP/1.1\r\n" + key + "\r\n",
		"POST":        "POST /api/v1/stream HTTP/1.1\r\n" + key + "Content-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := goLive(t, plain, func(*httpapi.Config) {})
			c := dialAndWrite(t, l.server, strings.ReplaceAll(head, "KEY", l.Key))
			received(t, l.begun)
			_ = c.Close()
			received(t, l.ended)
			l.isFree(t)
		})
	}
}

// A change of rights ends a silent stream, long before its right is checked without a change.
func TestASilentStreamEndsWithItsRight(t *testing.T) {
	for name, by := range map[string]func(p tenant.Principal) tenant.Principal{
		"by its organization": func(p tenant.Principal) tenant.Principal { return p },
		"by an operator":      func(tenant.Principal) tenant.Principal { return tenant.Platform() },
	} {
		t.Run(name, func(t *testing.T) {
			l := goLive(t, plain, func(*httpapi.Config) {})
			w := l.open(t)
			p, err := l.Tenants.Authenticate(t.Context(), l.Key)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, l.Tenants.RevokeKey(t.Context(), tenant.Platform(), record.System(), p.Key))
			l.Tenants.Change(by(p))
			rest, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			assert.Equal(t, "\"short\"\n", string(rest))
			assert.Less(t, time.Since(began), 15*time.Second, "after 20 s it is checked anyway")
			require.Eventually(t, func() bool { return l.OpenStreams() == 0 }, patience, time.Millisecond)
			assert.Empty(t, l.Written.String())
		})
	}
}

func TestASilentStreamEndsWhenItsKeyExpires(t *testing.T) {
	l := goLive(t, plain, func(*httpapi.Config) {})
	w := l.open(t)
	p, err := l.Tenants.Authenticate(t.Context(), l.Key)
	require.NoError(t, err)
	soon := time.Now().Add(time.Second)
	_, err = l.Tenants.EditKey(
		t.Context(), tenant.Platform(), record.System(), p.Key, 0, tenant.KeyEdit{ExpiresAt: &soon})
	require.NoError(t, err)
	began := time.Now()
	l.Tenants.Change(p)
	_, err = io.ReadAll(w.Body)
	require.NoError(t, err)
	assert.Less(t, time.Since(began), 15*time.Second, "after 20 s it is checked anyway")
}

func TestAStopEndsStreamsOfConnections(t *testing.T) {
	for protocol, start := range map[string]func(*httptest.Server){"HTTP/1.1": plain, "HTTP/2.0": http2} {
		t.Run(protocol, func(t *testing.T) {
			l := goLive(t, start, func(*httpapi.Config) {})
			w := l.open(t)
			l.Stop()
			received(t, l.ended)
			rest, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			assert.Equal(t, "\"final\"\n", string(rest))
			assert.Zero(t, l.OpenStreams())
		})
	}
}

// A stream that fails logs why and releases its slot. After a panic its answer is not whole.
func TestAStreamOfAConnectionFails(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(l *live)
		rest   string
		logged string
	}{
		"an error": {func(l *live) { l.err = errors.New("no such luck") }, "\"short\"\n", "no such luck"},
		"a panic":  {func(l *live) { l.panics = true }, "", `panic="a bug"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := goLive(t, plain, func(*httpapi.Config) {})
			c.set(l)
			w := l.open(t)
			close(l.lines)
			rest, err := io.ReadAll(w.Body)
			assert.Equal(t, c.rest, string(rest))
			assert.Equal(t, !l.panics, err == nil, "the answer is whole: %v", err)
			received(t, l.ended)
			l.isFree(t)
			assert.Contains(t, l.Written.String(), c.logged)
		})
	}
}

// stuck makes a stream write more than its client, which reads nothing, and all buffers have room for.
func stuck(t *testing.T, l *live) {
	t.Helper()
	c := dialAndWrite(t, l.server, l.Head("GET", "/api/v1/stream", ""))
	received(t, l.begun)
	head, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, head.StatusCode)
	l.lines <- strings.Repeat("x", 32<<20)
}

// A client that reads nothing does not delay a stop.
func TestAStopWaitsForNoClientOfAStream(t *testing.T) {
	l := goLive(t, plain, func(*httpapi.Config) {})
	stuck(t, l)
	began := time.Now()
	l.Stop()
	received(t, l.ended)
	assert.Less(t, time.Since(began), patience/2, "a stall may last longer")
}

// A client that reads nothing is cut off.
func TestAStreamWaitsForItsClientAWhile(t *testing.T) {
	l := goLive(t, plain, func(c *httpapi.Config) { c.Stall = time.Second })
	stuck(t, l)
	received(t, l.ended)
	l.isFree(t)
}

// The end of a stream is logged with the time that it took.
func TestAStreamIsNoted(t *testing.T) {
	answered := make(chan struct{}, 10)
	l := goLive(t, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				answered <- struct{}{}
			}
		}
		s.Start()
	}, func(*httpapi.Config) {})
	var b bytes.Buffer
	*l.Log = *slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := l.open(t)
	time.Sleep(100 * time.Millisecond) // the time that is logged
	close(l.lines)
	_, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	received(t, answered)
	var line struct {
		Route  string `json:"route"`
		Status int    `json:"status"`
		MS     int    `json:"ms"`
		OwnMS  int    `json:"own_ms"`
		Run    string `json:"run_id"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), b.String())
	assert.Equal(t, "/api/v1/stream", line.Route)
	assert.Equal(t, http.StatusOK, line.Status)
	assert.Equal(t, "0123456789abcdef01234567", line.Run)
	assert.GreaterOrEqual(t, line.MS, 100)
	assert.Less(t, line.OwnMS, line.MS)
}
