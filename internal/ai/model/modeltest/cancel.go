package modeltest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// RunCancel checks that ending a call's context closes the connection to the provider. Otherwise the provider would
// continue and bill. Open makes the adapter for an address; kind is the content type of its streams.
func RunCancel(t *testing.T, kind string, open func(address string) model.Model) {
	t.Helper()
	begun, closed := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
		close(closed)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := open(server.URL).Converse(ctx,
			model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}, func(string) {})
		failed <- err
	}()
	<-begun
	cancel()
	select {
	case <-closed:
	case <-time.After(30 * time.Second): // a model's own limits are of minutes
		server.CloseClientConnections()
		require.Fail(t, "the connection stays open")
	}
	require.Error(t, <-failed)
}
