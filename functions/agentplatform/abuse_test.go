//go:build !race

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// abused starts a process with the default limits, and the settings of a test.
func abused(t *testing.T, environ ...string) *program {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("memory and descriptors are read from /proc")
	}
	p := built(t)
	p.environ = environ
	p.start()
	t.Cleanup(p.stop)
	return p
}

// dial opens a connection and writes request to it.
func (p *program) dial(request string) (net.Conn, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimSuffix(p.url, "/api/v1"), "http://"))
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(c, request)
	return c, err
}

// atOnce is far more than the time of a small request on a busy machine, some milliseconds. It is less than that of a
// request that waits for a client which neither sends nor reads: the service closes such a connection after 10 s, or
// 30.
const atOnce = 8 * time.Second

// answers is the slowest response of several small requests.
func (p *program) answers() (slowest time.Duration) {
	for range 20 {
		began := time.Now()
		status, _, err := p.call(p.t.Context(), "GET", "/me", "", nil)
		require.NoError(p.t, err)
		require.Equal(p.t, http.StatusOK, status)
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}

// Thousands of clients that never read their stream use bounded memory, do not delay other clients, and leave nothing
// behind.
func TestStalledReadersUseBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	p := abused(t, "STREAMS=20000")
	agent := p.make("/agents", `{"name":"a"}`)["agent_id"].(string)
	status, run, err := p.post(t.Context(), "agent_id", agent, "message", "/stream 3000 5ms", "wait", "false")
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, status)
	const readers = 5000
	memory, descriptors := p.memory(), p.descriptors()
	request := fmt.Sprintf("GET /api/v1/runs/%s/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: "+
		"text/event-stream\r\n\r\n", run["run_id"], p.key)
	connections := make([]net.Conn, readers)
	var opening sync.WaitGroup
	for worker := range 50 {
		opening.Go(func() {
			for n := worker; n < readers; n += 50 {
				c, err := p.dial(request)
				if !assert.NoError(t, err) {
					return
				}
				_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
				begun := make([]byte, len("HTTP/1.1 200")) // nothing more is read
				_, err = io.ReadFull(c, begun)
				assert.NoError(t, err)
				assert.Equal(t, "HTTP/1.1 200", string(begun))
				connections[n] = c
			}
		})
	}
	opening.Wait()
	require.False(t, t.Failed())
	slowest, held := p.answers(), p.memory()
	t.Logf("%d readers: %d MB more, others are answered within %s", readers, held-memory,
		slowest.Round(time.Millisecond))
	assert.Less(t, held-memory, readers*160>>10,
		"MB: each costs a connection's buffers and two goroutines, and nothing that grows with the stream")
	assert.Less(t, slowest, atOnce)
	for _, c := range connections {
		_ = c.Close()
	}
	assert.Eventually(t, func() bool { return p.descriptors() <= descriptors+20 }, time.Minute, 50*time.Millisecond,
		"descriptors stay open")
	p.make("/runs/"+run["run_id"].(string)+"/cancel", `{}`)
}

// Requests that are too large are refused before their bytes are kept in memory.
func TestTooLargeRequestsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	p := abused(t)
	agent := p.make("/agents", `{"name":"a"}`)["agent_id"].(string)
	before, worst := p.memory(), 0
	send := func(name, path, contentType string, body io.Reader, length int64) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, body)
		require.NoError(t, err)
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+p.key)
		r.Header.Set("Content-Type", contentType)
		response, err := http.DefaultClient.Do(r)
		worst = max(worst, p.memory()-before)
		if err != nil {
			return 0 // the connection was closed while the body was sent
		}
		defer func() { _ = response.Body.Close() }()
		t.Logf("%s: %d", name, response.StatusCode)
		return response.StatusCode
	}
	const gigabyte = 1 << 30
	head := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x.bin\"\r\n\r\n"
	refused := []int{0, http.StatusRequestEntityTooLarge, http.StatusBadRequest}
	assert.Contains(t, refused, send("1 GB, announced", "/files", "multipart/form-data; boundary=b",
		io.MultiReader(strings.NewReader(head), &endless{gigabyte}), gigabyte+int64(len(head))))
	assert.Contains(t, refused, send("1 GB, in chunks", "/files", "multipart/form-data; boundary=b",
		io.MultiReader(strings.NewReader(head), &endless{gigabyte}), -1))
	assert.Contains(t, refused,
		send("1 GB as JSON", "/agents", "application/json",
			io.MultiReader(strings.NewReader(`{"name":"`), &endless{gigabyte}), -1))

	var parts bytes.Buffer
	w := multipart.NewWriter(&parts)
	_ = w.WriteField("agent_id", agent)
	_ = w.WriteField("message", "hello")
	for n := range 10_000 {
		_ = w.WriteField(fmt.Sprint("more", n), "x")
	}
	_ = w.Close()
	assert.Contains(t, refused, send("10,000 parts", "/chat", w.FormDataContentType(), &parts, int64(parts.Len())))

	// Request headers: one that is too long, and many that never end.
	c, err := p.dial("GET /api/v1/me HTTP/1.1\r\nHost: x\r\n" +
		strings.Repeat("X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 1000))
	if err == nil { // otherwise it was closed while it wrote
		line, _ := bufio.NewReader(c).ReadString('\n')
		assert.Contains(t, []string{"", "HTTP/1.1 431 Request Header Fields Too Large\r\n"}, line)
		_ = c.Close()
	}
	descriptors := p.descriptors()
	var slow []net.Conn
	for range 1000 {
		c, err := p.dial("GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		require.NoError(t, err)
		slow = append(slow, c)
	}
	assert.Less(t, p.answers(), atOnce, "beside a thousand heads that do not end")
	worst = max(worst, p.memory()-before)
	assert.Eventually(t, func() bool { return p.descriptors() <= descriptors+20 }, time.Minute, 50*time.Millisecond,
		"heads that do not end are waited for")
	for _, c := range slow {
		_ = c.Close()
	}
	assert.Less(t, worst, 100, "MB more than before")
	t.Logf("at most %d MB more than before", worst)
	status, _, err := p.post(t.Context(), "agent_id", agent, "message", "hello")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status, "and all is well")
}
