package modeltest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// RunSpent checks that a failed call returns the usage that its provider reported until then. begun is the beginning of
// a stream: it reports 1000 tokens of input and 7 of output, and then has a text. ends are continuations of the stream,
// by their fault. kind is the stream's content type.
func RunSpent(
	t *testing.T, kind string, open func(address string) model.Model, begun []byte, ends map[string][]byte,
) {
	t.Helper()
	request := model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}
	serve := func(t *testing.T, end func(w http.ResponseWriter, r *http.Request)) model.Model {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(begun)
			w.(http.Flusher).Flush()
			end(w, r)
		}))
		t.Cleanup(server.Close)
		return open(server.URL)
	}
	check := func(t *testing.T, reply model.Reply, err error) {
		t.Helper()
		require.Error(t, err)
		assert.EqualValues(t, 1000, reply.InputTokens)
		assert.EqualValues(t, 7, reply.OutputTokens)
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			m := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(end) })
			reply, err := m.Converse(t.Context(), request, func(string) {})
			check(t, reply, err)
		})
	}
	t.Run("the connection breaks", func(t *testing.T) {
		m := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		reply, err := m.Converse(t.Context(), request, func(string) {})
		check(t, reply, err)
	})
	t.Run("the caller cancels", func(t *testing.T) {
		m := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reply, err := m.Converse(ctx, request, func(string) { cancel() })
		check(t, reply, err)
	})
	t.Run("nothing was reported", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer server.Close()
		reply, err := open(server.URL).Converse(t.Context(), request, func(string) {})
		require.Error(t, err)
		assert.Zero(t, reply)
	})
}
