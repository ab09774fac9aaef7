package httpapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// An alarm counts log lines of level ERROR: a client that hangs up must not write one.
func TestAClientThatHangsUpIsNotAnError(t *testing.T) {
	e := httpapitest.New(t)
	var log bytes.Buffer
	e.Log = slog.New(slog.NewJSONHandler(&log, nil))
	contentType, form := e.Form("message", "hello", "wait", "false")
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(form))
	r.Header.Set("Content-Type", contentType)
	accepted := e.Do(r)
	require.Equal(t, http.StatusAccepted, accepted.Code, accepted.Body)

	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	e.Do(
		httptest.NewRequestWithContext(
			ctx, http.MethodGet, httpapi.Base+"/runs/"+accepted.Header().Get("X-Agent-Run-Id")+"?wait_ms=20000", nil,
		),
	)
	assert.Contains(t, log.String(), "a request was given up")
	assert.NotContains(t, log.String(), "ERROR")
}

func FuzzBearerHeader(f *testing.F) {
	e := httpapitest.Shared(f)
	for _, s := range []string{
		"Bearer " + e.Key, "bearer " + e.Key, "Bearer", "Basic x", "Bearer rt_e30.e30", "Bearer rt_",
		"Bearer ap_00000000_", "", "Bearer \x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/me", nil)
		r.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		httpapitest.Sane(t, w)
		if w.Code == http.StatusOK && !strings.Contains(header, e.Key) {
			t.Fatalf("%q was let in", header)
		}
	})
}

func FuzzJSONBodies(f *testing.F) {
	e := httpapitest.Shared(f)
	routes := []string{
		"POST /runs/0123456789abcdef01234567/resume",
		"POST /runs/0123456789abcdef01234567/followups",
		"POST /runs/0123456789abcdef01234567/cancel",
		"POST /runs/cancel",
		"POST /agents",
		"PATCH /agents/" + e.Agent,
		"POST /users",
		"POST /api-keys",
		"POST /organizations",
		"PATCH /organization",
		"POST /webhooks/test",
		"POST /files",
	}
	for i := range routes {
		for _, body := range []string{
			`{}`, `null`, `[]`, `{"name":"a","model":{"provider":"demo"},"limits":{"max_steps":3}}`,
			`{"decisions":[{"interrupt_id":"x","decision":"edit","arguments":{}}]}`,
			`{"filter":{},"confirm_count":9}`, `{"email":"a@b.c","organization_id":null}`, "{\"name\":\"\xff\"}",
		} {
			f.Add(i, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		method, path, _ := strings.Cut(routes[uint(route)%uint(len(routes))], " ")
		r := httptest.NewRequest(method, httpapi.Base+path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		httpapitest.Sane(t, e.Do(r))
	})
}

func FuzzIdsAndCursors(f *testing.F) {
	e := httpapitest.Shared(f)
	for _, s := range []string{
		"", "c", "0123456789abcdef01234567", "../x", "a/b", "YzE6eA", "YzE6NQ", "%00", "ü",
		strings.Repeat("x", 300), "?", "#",
	} {
		f.Add(s, s)
	}
	paths := []string{
		"/runs/",
		"/chats/",
		"/agents/",
		"/users/",
		"/api-keys/",
		"/files/",
		"/organizations/",
		"/toolkits/",
	}
	f.Fuzz(func(t *testing.T, id, cursor string) {
		for _, path := range append(paths, "/runs?cursor=") {
			r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs", nil)
			r.URL.Path, r.URL.RawQuery = httpapi.Base+path+id, "limit=5&cursor="+strings.Map(safe, cursor)
			if strings.Contains(path, "?") {
				r.URL.Path = httpapi.Base + "/runs"
			}
			httpapitest.Sane(t, e.Do(r))
		}
	})
}

func safe(r rune) rune {
	if r <= ' ' || r > '~' || r == '&' || r == '#' || r == ';' || r == '%' {
		return -1
	}
	return r
}
