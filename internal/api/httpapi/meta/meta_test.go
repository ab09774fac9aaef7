package meta_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

func TestDocsWorkOffline(t *testing.T) {
	e := httpapitest.New(t)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/", nil))
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "/api/v1/openapi.json")
	assert.NotContains(t, w.Body.String(), "https://unpkg.com")
	for _, asset := range []string{"swagger-ui-bundle.js", "swagger-ui.css"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/"+asset, nil))
		assert.Equal(t, http.StatusOK, w.Code, asset)
		assert.Greater(t, w.Body.Len(), 10_000, asset)
	}
}

// Numbers about the process are for its operator, with the key. To be on the same machine is not enough: behind a proxy
// there every caller is. Any caller can write the other data of a request.
func TestNumbersAreForTheOperatorOnThisMachine(t *testing.T) {
	e := httpapitest.New(t)
	admin := e.Send("POST", "/api-keys", `{"name":"k","level":"admin"}`)
	require.Equal(t, http.StatusCreated, admin.Code, admin.Body)
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal(admin.Body.Bytes(), &made))
	forged := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "Forwarded": {"for=127.0.0.1"}}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/cmdline"} {
		for name, c := range map[string]struct {
			from, host, key string
			header          http.Header
			status          int
		}{
			"the operator":                {"127.0.0.1:1", "127.0.0.1:8080", e.Key, nil, 200},
			"the operator, by IPv6":       {"[::1]:1", "localhost", e.Key, nil, 200},
			"without a key":               {"127.0.0.1:1", "127.0.0.1:8080", "", nil, 401},
			"with a key that is none":     {"127.0.0.1:1", "127.0.0.1:8080", "ap_00000000_x", nil, 401},
			"through a proxy here":        {"127.0.0.1:1", "api.example.com", "", forged, 401},
			"an admin":                    {"127.0.0.1:1", "127.0.0.1:8080", made.Key, nil, 403},
			"the operator from elsewhere": {"192.0.2.1:1", "127.0.0.1:8080", e.Key, forged, 404},
			"somebody from elsewhere":     {"192.0.2.1:1", "127.0.0.1:8080", "", forged, 404},
		} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			for k, v := range c.header {
				r.Header[k] = v
			}
			r.Header.Set("Authorization", "Bearer "+c.key)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			assert.Equal(t, c.status, w.Code, "%s: %s", path, name)
		}
	}
}

// From elsewhere an operator's key reads the metrics where the key travels encrypted, and never the profiles.
func TestMetricsAreReadFromElsewhereOverTLS(t *testing.T) {
	behind := httpapitest.New(t, func(c *service.Config) { c.PublicURL = "https://api.example.com" })
	plain := httpapitest.New(t)
	for name, c := range map[string]struct {
		e         httpapitest.API
		path, key string
		tls       bool
		status    int
	}{
		"by TLS of this process":  {plain, "/metrics", plain.Key, true, 200},
		"by TLS of a proxy":       {behind, "/metrics", behind.Key, false, 200},
		"in the clear":            {plain, "/metrics", plain.Key, false, 404},
		"without a key":           {behind, "/metrics", "", true, 401},
		"with another's key":      {behind, "/metrics", plain.Key, true, 401},
		"profiles by TLS":         {plain, "/debug/pprof/", plain.Key, true, 404},
		"profiles behind a proxy": {behind, "/debug/pprof/", behind.Key, false, 404},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if r.RemoteAddr = "192.0.2.1:1"; c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		r.Header.Set("Authorization", "Bearer "+c.key)
		w := httptest.NewRecorder()
		c.e.ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, name)
	}
}

func TestHealthAnswersAtTheRootToo(t *testing.T) {
	e := httpapitest.New(t)
	answer := func(path string) string {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, http.StatusOK, w.Code, path)
		return w.Body.String()
	}
	assert.JSONEq(t, answer("/api/v1/healthz"), answer("/healthz"))
}

// The page of the documentation has no inline script, so that its policy need not allow any.
func TestTheDocumentationFitsItsPolicy(t *testing.T) {
	e := httpapitest.New(t)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/", nil))
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self';")
	assert.Contains(
		t,
		w.Header().Get("Content-Security-Policy"),
		"connect-src 'self' http://localhost;",
		"the address that requests are tried at",
	)
	assert.NotRegexp(t, regexp.MustCompile(`(?i)<script>|\son[a-z]+=|javascript:`), w.Body.String())
	assert.Contains(t, w.Body.String(), `<script src="/docs/start.js"></script>`)
}
