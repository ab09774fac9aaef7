package scenario

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// receiver is a webhook receiver over TLS, and a server of tools. A request's path names the behaviour; its last
// segment identifies the scenario.
type receiver struct {
	host   string
	caFile string
	url    string

	mu   sync.Mutex
	got  map[string][]push
	seen map[string]int

	tools map[string]*tools // by organization

	site *httptest.Server // of pages, without TLS
	page sync.Map         // by path: an http.HandlerFunc
}

type push struct {
	header http.Header
	raw    []byte
	body   object
	at     time.Time
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: map[string][]push{}, seen: map[string]int{}, tools: map[string]*tools{}}
	server := httptest.NewTLSServer(http.HandlerFunc(r.serve))
	t.Cleanup(server.Close)
	r.url, r.host = server.URL, strings.TrimPrefix(server.URL, "https://")
	r.site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		serve, there := r.page.Load(q.URL.Path)
		if !there {
			http.NotFound(w, q)
			return
		}
		serve.(http.HandlerFunc)(w, q)
	}))
	t.Cleanup(r.site.Close)
	r.page.Store("/v1/embeddings", http.HandlerFunc(embed))
	r.caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(r.caFile, block, 0o600))
	return r
}

// embed is an embedding model that reports ten tokens for each text, and knows only the length of texts.
func embed(w http.ResponseWriter, q *http.Request) {
	var request struct {
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	vectors := []object{}
	for n, text := range request.Input {
		vector := make([]float64, 64)
		vector[len(text)%64] = 1
		vectors = append(vectors, object{"index": n, "embedding": vector})
	}
	_ = json.NewEncoder(w).Encode(object{"data": vectors, "usage": object{"prompt_tokens": 10 * len(vectors)}})
}

func (r *receiver) serve(w http.ResponseWriter, q *http.Request) {
	if rest, ok := strings.CutPrefix(q.URL.Path, "/tools/"); ok {
		organization, name, _ := strings.Cut(rest, "/")
		r.mu.Lock()
		t := r.tools[organization]
		r.mu.Unlock()
		if t == nil {
			http.NotFound(w, q)
			return
		}
		t.serve(w, q, name)
		return
	}
	raw, _ := io.ReadAll(q.Body)
	p := push{header: q.Header.Clone(), raw: raw, at: time.Now()}
	_ = json.Unmarshal(raw, &p.body)
	r.mu.Lock()
	r.got[q.URL.Path] = append(r.got[q.URL.Path], p)
	r.seen[q.URL.Path]++
	n := r.seen[q.URL.Path]
	r.mu.Unlock()
	switch {
	case strings.HasPrefix(q.URL.Path, "/gone/"):
		w.WriteHeader(http.StatusGone)
	case strings.HasPrefix(q.URL.Path, "/redirect/"):
		http.Redirect(w, q, "https://169.254.169.254/", http.StatusFound)
	case strings.HasPrefix(q.URL.Path, "/flaky/") && n == 1:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(q.URL.Path, "/reset/") && n == 1:
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, "thank you")
}

// publish serves a page, and returns its address.
func (x *Actor) publish(name string, serve http.HandlerFunc) string {
	path := "/" + x.Organization + "/" + name
	x.receiver.page.Store(path, serve)
	return x.receiver.site.URL + path
}

// address returns the callback URL of a scenario.
func (x *Actor) address(behaviour string) string {
	return x.receiver.url + "/" + behaviour + "/" + x.Organization
}

func (x *Actor) pushes(behaviour string) []push {
	x.receiver.mu.Lock()
	defer x.receiver.mu.Unlock()
	return append([]push{}, x.receiver.got["/"+behaviour+"/"+x.Organization]...)
}

// awaitPushes waits until n webhook requests in the documented form have arrived.
func (x *Actor) awaitPushes(behaviour string, n int) []push {
	x.Helper()
	got := x.awaitPosts(behaviour, n)
	document, err := x.api()
	require.NoError(x, err)
	for _, p := range got {
		require.NoError(x, document.Webhook(fmt.Sprint(p.body["event"]), p.raw), string(p.raw))
	}
	return got
}

// awaitPosts waits until n webhook requests of any form have arrived.
func (x *Actor) awaitPosts(behaviour string, n int) []push {
	x.Helper()
	defer func() {
		if x.Failed() { // the service's own record of them
			x.Log(x.get("/webhooks/deliveries").raw)
		}
	}()
	x.eventually("the push", func() bool { return len(x.pushes(behaviour)) >= n })
	return x.pushes(behaviour)
}
