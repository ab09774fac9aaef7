// Package recording plays recorded conversations with servers of others, without those servers.
//
// A conversation is a file of an adapter's testdata. It is replayed byte for byte, and our requests must equal the
// recorded ones: a change on either side shows in a file. The recordings are made with the mock of providers that `make
// peers` uses. `make record` makes them again.
//
// Only tests import it. It imports the standard library and testify.
package recording

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Folder is the folder of an adapter's recordings, relative to the adapter's.
const Folder = "testdata/recordings"

// Exchange is one request with its response.
type Exchange struct {
	Path    string              `json:"path"`
	Request json.RawMessage     `json:"request"`
	Status  int                 `json:"status"`
	Header  map[string][]string `json:"header"`
	Text    string              `json:"text,omitempty"` // of a text response
	Bytes   []byte              `json:"bytes,omitempty"`
	Cut     bool                `json:"cut,omitempty"` // the connection ended before the response did
}

// Conversation is a recorded conversation. Run has it with the server at an address, and checks its outcome.
type Conversation struct {
	Name string
	Run  func(t *testing.T, address string)
}

// All returns the exchanges of all recordings.
func All(t testing.TB) (all []Exchange) {
	files, err := filepath.Glob(Folder + "/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		all = append(all, read(t, file)...)
	}
	return all
}

func read(t testing.TB, file string) (exchanges []Exchange) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err, "make record writes it")
	require.NoError(t, json.Unmarshal(raw, &exchanges))
	return exchanges
}

// Play replays an adapter's recordings. Each conversation must have exactly one.
func Play(t *testing.T, conversations []Conversation) {
	files, err := filepath.Glob(Folder + "/*.json")
	require.NoError(t, err)
	var claimed []string
	for _, c := range conversations {
		file := filepath.Join(Folder, c.Name+".json")
		claimed = append(claimed, file)
		t.Run(c.Name, func(t *testing.T) {
			p := &player{t: t, left: read(t, file)}
			server := httptest.NewServer(p)
			defer server.Close()
			c.Run(t, server.URL)
			assert.Empty(t, p.left, "so many exchanges were recorded and not asked for")
		})
	}
	assert.ElementsMatch(t, claimed, files, "a recording that no test replays proves nothing")
}

// player answers with the recorded responses.
type player struct {
	t    *testing.T
	mu   sync.Mutex
	left []Exchange
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if !assert.NoError(p.t, err) || !assert.NotEmpty(p.t, p.left, "more is asked than was recorded") {
		panic(http.ErrAbortHandler)
	}
	next := p.left[0]
	p.left = p.left[1:]
	assert.Equal(p.t, next.Path, r.URL.EscapedPath())
	assert.JSONEq(p.t, string(next.Request), string(body), "we send something else than when this was recorded")
	for name, values := range next.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(next.Status)
	_, _ = io.WriteString(w, next.Text)
	_, _ = w.Write(next.Bytes)
	if next.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
