package providerhttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/providerhttp"
)

// A server may close a connection at the moment at which the next request is sent.
func TestARequestOnAClosedConnectionIsSentAgain(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	var requests atomic.Int64
	serve := func(c net.Conn) { // it answers the first request of each connection, and closes that with the second
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for range 2 {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			assert.Equal(t, `{"n":1}`, string(body))
			assert.NotContains(t, r.Header, "Idempotency-Key")
			if requests.Add(1) != 2 {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			return
		}
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	e := providerhttp.Endpoint{URL: "http://" + listener.Addr().String(), Client: providerhttp.Client()}
	for range 2 {
		answer, err := e.Post(t.Context(), []byte(`{"n":1}`), "application/json")
		require.NoError(t, err)
		got, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		assert.Equal(t, "ok", string(got))
		require.NoError(t, answer.Body.Close())
	}
	assert.EqualValues(t, 3, requests.Load())
}
