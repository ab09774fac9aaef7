//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// between is a proxy to a service. Some requests fail there, and it counts the requests.
type between struct {
	*httptest.Server
	mu    sync.Mutex
	came  map[string]int                                // by method and path
	wrong func(http.ResponseWriter, *http.Request) bool // whether it has answered in the service's stead
}

func newBetween(t *testing.T, p *program) *between {
	t.Helper()
	to, err := url.Parse(p.url)
	require.NoError(t, err)
	b := &between{came: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.came[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/api/v1")]++
		wrong := b.wrong
		b.mu.Unlock()
		if wrong == nil || !wrong(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// goesWrong has requests answered by wrong from now on, where it answers them; by the service again without.
func (b *between) goesWrong(wrong func(http.ResponseWriter, *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = wrong
}

// times is how often a path was requested.
func (b *between) times(method, path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.came[method+" "+path]
}

// total is how many requests of a method came.
func (b *between) total(method string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for what, times := range b.came {
		if strings.HasPrefix(what, method+" ") {
			n += times
		}
	}
	return n
}

// refuses answers requests of a method with a path of this suffix with a status.
func refuses(method, suffix string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":"error","code":"unavailable","detail":"Not now.","request_id":"r-%d"}`, status)
		return true
	}
}

// signedInThrough opens a tab on the way to a service and signs in.
func signedInThrough(t *testing.T, b *between, p *program, at string) *page {
	t.Helper()
	tab := open(t, b.URL)
	tab.signIn(p.key)
	if at != "" {
		tab.visit(at)
	}
	return tab
}
