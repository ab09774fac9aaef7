package providerhttp_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/providerhttp"
)

// A provider may bill a request that it has read, even if it then closes the connection. net/http may send a request
// again once for each connection that it keeps.
func TestARequestThatWasReadIsNotSentAgain(t *testing.T) {
	const kept = 10
	var together sync.WaitGroup
	together.Add(kept)
	var closes atomic.Bool
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		assert.JSONEq(t, `{"n":1}`, string(body))
		if closes.Load() {
			panic(http.ErrAbortHandler)
		}
		together.Done()
		together.Wait() // so that each request has a connection of its own
	}))
	defer server.Close()
	e := providerhttp.Endpoint{URL: server.URL, Client: providerhttp.Client()}
	post := func() (sent func() bool, err error) {
		ctx, sent := providerhttp.Sending(t.Context())
		answer, err := e.Post(ctx, []byte(`{"n":1}`), "application/json")
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		return sent, err
	}
	var first sync.WaitGroup
	for range kept {
		first.Go(func() {
			_, err := post()
			assert.NoError(t, err)
		})
	}
	first.Wait()
	closes.Store(true)
	sent, err := post()
	require.Error(t, err)
	assert.True(t, sent(), "it counts as one that the provider may have worked on")
	assert.EqualValues(t, kept+1, requests.Load())
}

// llama.cpp's server closes connections that it has kept. A request that is written at that moment fails, and the next
// one arrives; the server reads no request twice.
func TestTheAttemptAfterOneOnAClosedConnectionArrives(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
	}))
	closed := make(chan struct{}, 10)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	e := providerhttp.Endpoint{URL: server.URL, Client: providerhttp.Client()}
	for n := range 5 {
		answer, err := e.Post(t.Context(), []byte(`{"n":1}`), "application/json")
		if err != nil {
			answer, err = e.Post(t.Context(), []byte(`{"n":1}`), "application/json")
		}
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, answer.Body)
		require.NoError(t, answer.Body.Close())
		assert.EqualValues(t, n+1, requests.Load())
		server.CloseClientConnections()
		<-closed
	}
}
