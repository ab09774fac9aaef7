package lambdabroker_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/wiring/broker"
	"agentplatform/internal/wiring/broker/lambdabroker"
)

// line invokes a function named "broker" at an address.
func line(address string) broker.Invoker {
	return lambdabroker.New(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &address,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, "broker")
}

// served is a server in place of Lambda, and the number of its requests.
func served(t *testing.T, h http.HandlerFunc) (broker.Invoker, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return line(s.URL), &calls
}

// A model behind an invocation keeps the contract of all models.
func TestContract(t *testing.T) {
	b := &broker.Broker{Log: slog.New(slog.DiscardHandler), Embeddings: map[string]embedding.Model{
		embedding.Builtin: builtinembedding.New(),
	}}
	l, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /2015-03-31/functions/broker/invocations", r.Method+" "+r.URL.Path)
		assert.Equal(t, "RequestResponse", r.Header.Get("X-Amz-Invocation-Type"))
		ask, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		answer, err := b.Invoke(r.Context(), ask)
		assert.NoError(t, err)
		_, _ = w.Write(answer)
	})
	embeddingtest.Run(t, embeddingtest.Harness{
		Model: &broker.Embedding{Client: &broker.Client{Broker: l}, Provider: embedding.Builtin},
		Name:  "lexical-1", Dimensions: 256,
	})
}

// No ask is invoked twice. Only a call that Lambda has not begun is reported as such.
func TestAnAskIsInvokedOnce(t *testing.T) {
	const id = "0123456789abcdef01234567"
	for name, c := range map[string]struct {
		answer     http.HandlerFunc
		notInvoked bool
	}{
		"no concurrency": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"Reason":"ConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}`)
		}, true},
		"a fault of Lambda": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", "ServiceException")
			w.WriteHeader(http.StatusInternalServerError)
		}, false},
		"no right": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
			w.WriteHeader(http.StatusForbidden)
		}, false},
		"a function that died": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			_, _ = io.WriteString(w, `{"errorType":"Sandbox.Timedout","errorMessage":"Task timed out"}`)
		}, false},
		"a connection that breaks": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
	} {
		l, calls := served(t, c.answer)
		_, err := l.Invoke(t.Context(), []byte(`{}`))
		require.Error(t, err, name)
		if c.notInvoked {
			require.ErrorIs(t, err, broker.ErrNotReceived, name)
		} else {
			require.NotErrorIs(t, err, broker.ErrNotReceived, name)
		}
		assert.EqualValues(t, 1, calls.Load(), name)
		_, err = (&broker.Client{Broker: l}).Browse(t.Context(), record.Of(id), id)
		assert.Equal(t, c.notInvoked, problem.Is(err, "unavailable"), "%s: %v", name, err)
	}
	s := httptest.NewServer(nil)
	s.Close()
	_, err := line(s.URL).Invoke(t.Context(), []byte(`{}`))
	require.ErrorIs(t, err, broker.ErrNotReceived, "there is no connection")
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	l, _ := served(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := l.Invoke(ctx, []byte(`{}`))
	require.ErrorIs(t, err, context.Canceled)
}
