//go:build peers

package recording

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept has the response headers that adapters read.
var kept = []string{"Content-Type", "Retry-After", "X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Amzn-Errortype"}

// recorder is a proxy in front of a provider that records requests and responses.
type recorder struct {
	provider  *url.URL
	mu        sync.Mutex
	exchanges []Exchange
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	onward := r.Clone(r.Context())
	onward.RequestURI, onward.Host = "", rec.provider.Host
	onward.URL.Scheme, onward.URL.Host = rec.provider.Scheme, rec.provider.Host
	onward.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := http.DefaultTransport.RoundTrip(onward)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	got, cut := io.ReadAll(answer.Body)
	e := Exchange{Path: r.URL.EscapedPath(), Request: body, Status: answer.StatusCode, Header: map[string][]string{},
		Cut: cut != nil}
	for _, name := range kept {
		if values := answer.Header.Values(name); len(values) > 0 {
			e.Header[name] = values
			w.Header()[name] = values
		}
	}
	if json.Valid(got) || bytes.HasPrefix(got, []byte("data:")) || bytes.HasPrefix(got, []byte("event:")) {
		e.Text = string(got)
	} else {
		e.Bytes = got
	}
	rec.mu.Lock()
	rec.exchanges = append(rec.exchanges, e)
	rec.mu.Unlock()
	w.WriteHeader(e.Status)
	_, _ = w.Write(got)
	if e.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Make has the conversations with a server, and writes their files.
func Make(t *testing.T, provider string, conversations []Conversation) {
	at, err := url.Parse(provider)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(Folder))
	require.NoError(t, os.MkdirAll(Folder, 0o755))
	for _, c := range conversations {
		rec := &recorder{provider: at}
		server := httptest.NewServer(rec)
		c.Run(t, server.URL)
		server.Close()
		raw, err := json.MarshalIndent(rec.exchanges, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(Folder, c.Name+".json"), append(raw, '\n'), 0o644))
	}
}

// Anew reports whether recordings are written again instead of played.
func Anew() bool { return *anew }

var anew = flag.Bool("record", false, "write the recordings of conversations anew")
