package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/httpapi"
)

// Every answer says how browsers are to treat it, whether it is a page, data, a stream or a refusal.
func TestEveryAnswerHasItsSecurityHeaders(t *testing.T) {
	e := newEdge(t)
	kind, form := chatForm(e.agent, "message", "x", "wait", "false")
	for _, c := range []struct {
		method, path, key string
		status            int
	}{
		{"GET", "/api/v1/healthz", "none", 200}, {"GET", "/api/v1/openapi.json", "none", 200}, {"GET", "/api/v1/me", "none", 401},
		{"GET", "/api/v1/me", "", 200}, {"GET", "/api/v1/agents/" + e.agent, "", 200}, {"GET", "/api/v1/nothing", "", 404}, {"PUT", "/api/v1/me", "", 405},
		{"POST", "/api/v1/chat", "", 202}, {"POST", "/api/v1/agents", "", 400}, {"POST", "/api/v1/mcp", "", 400}, {"POST", "/api/v1/a2a/" + e.agent, "", 400},
		{"GET", "/api/v1/runs/0123456789abcdef01234567/stream", "", 404}, {"GET", "/docs", "none", 301}, {"GET", "/docs/", "none", 200},
		{"GET", "/docs/swagger-ui-bundle.js", "none", 200}, {"GET", "/docs/start.js", "none", 200}, {"GET", "/docs/nothing.js", "none", 404}, {"GET", "/", "none", 404},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(string(form)))
		r.Header.Set("Content-Type", kind)
		if c.key != "" {
			r.Header.Set("Authorization", c.key)
		}
		w := e.do(r)
		h, what := w.Header(), c.method+" "+c.path
		assert.Equal(t, c.status, w.Code, what)
		assert.Equal(t, []string{"nosniff"}, h["X-Content-Type-Options"], what)
		assert.Equal(t, []string{"no-referrer"}, h["Referrer-Policy"], what)
		assert.Equal(t, []string{"DENY"}, h["X-Frame-Options"], what)
		policy := h.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'", what)
		assert.Contains(t, policy, "frame-ancestors 'none'", what)
		assert.Len(t, h["Content-Security-Policy"], 1, what)
		if strings.HasPrefix(c.path, httpapi.Base) {
			assert.Equal(t, []string{"no-store"}, h["Cache-Control"], what)
			assert.NotContains(t, policy, "script-src", what)
		}
	}
}

// Numbers about the process are for its operator, who shows the key: that a caller is on the same machine, a proxy
// there makes true of everybody, and what else a request says, anybody may write.
func TestNumbersAreForTheOperatorOnThisMachine(t *testing.T) {
	e := newEdge(t)
	admin := e.send("POST", "/api-keys", `{"name":"k","level":"admin"}`)
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
			"the operator":                {"127.0.0.1:1", "127.0.0.1:8080", e.key, nil, 200},
			"the operator, by IPv6":       {"[::1]:1", "localhost", e.key, nil, 200},
			"without a key":               {"127.0.0.1:1", "127.0.0.1:8080", "", nil, 401},
			"with a key that is none":     {"127.0.0.1:1", "127.0.0.1:8080", "ap_00000000_x", nil, 401},
			"through a proxy here":        {"127.0.0.1:1", "api.example.com", "", forged, 401},
			"an admin":                    {"127.0.0.1:1", "127.0.0.1:8080", made.Key, nil, 403},
			"the operator from elsewhere": {"192.0.2.1:1", "127.0.0.1:8080", e.key, forged, 404},
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

// The page of the documentation runs no script that stands in it, so that its policy need not allow any.
func TestTheDocumentationFitsItsPolicy(t *testing.T) {
	e := newEdge(t)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/", nil))
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self';")
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "connect-src 'self' http://localhost;", "the address that requests are tried at")
	assert.NotRegexp(t, regexp.MustCompile(`(?i)<script>|\son[a-z]+=|javascript:`), w.Body.String())
	assert.Contains(t, w.Body.String(), `<script src="/docs/start.js"></script>`)
}
