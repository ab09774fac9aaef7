package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// A possible change of rights wakes waiters that hold a right: a change, an uncertain change, and one that panicked.
func TestAChangeIsPublishedUnlessItWasRefused(t *testing.T) {
	var does func() error
	e := small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		httpapi.Route(httpapi.Routes{Server: s, Write: tenant.LevelAdmin}, "POST /edit", "edit", "",
			func(context.Context, tenant.Principal, *struct{}) (*struct{}, error) { return nil, does() })
	})
	p, err := e.Tenants.Authenticate(t.Context(), e.Key)
	require.NoError(t, err)
	for what, c := range map[string]struct {
		does    func() error
		changes int64
	}{
		"done":      {func() error { return nil }, 1},
		"uncertain": {func() error { return errors.New("ours") }, 1},
		"a panic":   {func() error { panic("after the commit") }, 1},
		"refused":   {func() error { return problem.Missing("it") }, 0},
	} {
		does = c.does
		before := e.Tenants.Changes(p)
		e.Send("POST", "/edit", "")
		after := e.Tenants.Changes(p)
		assert.Equal(t, c.changes, after-before, what)
	}
}

// A handler is called only for callers with the level. All errors have the one shape, no matter where they come from.
func TestAHandlersErrorsBecomeAnswers(t *testing.T) {
	var fails error
	called := 0
	e := small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		s.Handle("", "/thing", tenant.LevelAdmin, func(http.ResponseWriter, *http.Request, *httpapi.Call) error {
			called++
			return fails
		})
		r := httpapi.Routes{Server: s, Write: tenant.LevelAdmin}
		httpapi.Route(r, "POST /other", "other", "",
			func(context.Context, tenant.Principal, *struct{}) (*struct{}, error) {
				called++
				return nil, fails
			})
		httpapi.Route(r, "GET /open", "open", "",
			func(context.Context, tenant.Principal, *struct{}) (*httpapi.Answer[string], error) {
				return httpapi.Body("open"), nil
			}, httpapi.Open)
	})
	for _, c := range []struct {
		fails  error
		status int
		code   string
	}{
		{errors.New("a secret of ours"), http.StatusInternalServerError, "internal"},
		{httpapi.ErrorOf(http.StatusMethodNotAllowed, "no"), http.StatusMethodNotAllowed, "method_not_allowed"},
		{httpapi.ErrorOf(http.StatusNotAcceptable, "no such type"), http.StatusNotAcceptable, "invalid_request"},
		{&http.MaxBytesError{Limit: 7}, http.StatusRequestEntityTooLarge, "payload_too_large"},
	} {
		fails = c.fails
		for _, path := range []string{"/thing", "/other"} {
			w := e.Send("POST", path, "")
			assert.Equal(t, c.status, w.Code, path)
			var body struct {
				Status, Code, Message string
				RequestID             string `json:"request_id"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			assert.Equal(t, "error", body.Status)
			assert.Equal(t, c.code, body.Code)
			assert.Equal(t, w.Header().Get("X-Request-Id"), body.RequestID)
			assert.NotContains(t, body.Message, "secret")
		}
	}
	assert.Contains(t, e.Written.String(), "a secret of ours")
	called = 0
	for _, path := range []string{"/thing", "/other"} {
		assert.Equal(t, http.StatusUnauthorized, e.As("none").Send("POST", path, "").Code)
	}
	assert.Zero(t, called)
	r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/open", nil)
	assert.Equal(t, http.StatusOK, e.As("none").Do(r).Code)
}
