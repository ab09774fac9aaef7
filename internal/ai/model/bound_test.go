package model

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEndlessOrSilentResponseFails(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/short":
			_, _ = io.WriteString(w, "hello")
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/silent":
			_, _ = io.WriteString(w, "hel")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(released)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		path    string
		silence time.Duration
		want    error
	}{
		{"/short", time.Minute, nil},
		{"/endless", time.Minute, errEndless},
		{"/silent", 50 * time.Millisecond, errSilent},
	} {
		answer, err := server.Client().Get(server.URL + c.path)
		require.NoError(t, err)
		body := bound(answer.Body, 1<<20, c.silence)
		text, err := io.ReadAll(body)
		require.ErrorIs(t, err, c.want, c.path)
		require.NoError(t, body.Close())
		assert.LessOrEqual(t, len(text), 1<<20)
	}
	<-released // the connection to the provider is closed as well
}
