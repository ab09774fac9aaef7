package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// Every answer has the security headers for browsers, whether it is a page, data, a stream or a refusal.
func TestEveryAnswerHasItsSecurityHeaders(t *testing.T) {
	e := httpapitest.New(t)
	kind, form := e.Form("message", "x", "wait", "false")
	for _, c := range []struct {
		method, path, key string
		status            int
	}{
		{"GET", "/api/v1/healthz", "none", 200},
		{"GET", "/api/v1/openapi.json", "none", 200},
		{"GET", "/api/v1/me", "none", 401},
		{"GET", "/api/v1/me", "", 200},
		{"GET", "/api/v1/agents/" + e.Agent, "", 200},
		{"GET", "/api/v1/nothing", "", 404},
		{"PUT", "/api/v1/me", "", 405},
		{"POST", "/api/v1/chat", "", 202},
		{"POST", "/api/v1/agents", "", 400},
		{"POST", "/api/v1/mcp", "", 400},
		{"POST", "/api/v1/a2a/" + e.Agent, "", 400},
		{"GET", "/api/v1/runs/0123456789abcdef01234567/stream", "", 404},
		{"GET", "/docs", "none", 301},
		{"GET", "/docs/", "none", 200},
		{"GET", "/docs/swagger-ui-bundle.js", "none", 200},
		{"GET", "/docs/start.js", "none", 200},
		{"GET", "/docs/nothing.js", "none", 404},
		{"GET", "/", "none", 404},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(string(form)))
		r.Header.Set("Content-Type", kind)
		if c.key != "" {
			r.Header.Set("Authorization", c.key)
		}
		w := e.Do(r)
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
