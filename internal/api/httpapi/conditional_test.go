package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/org/tenant"
)

// A handler does not set the status or the ETag of an answer, even if it tries.
func TestAHandlerCannotSetStatusOrETag(t *testing.T) {
	e := small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		r := httpapi.Routes{Server: s, Read: tenant.LevelRead}
		httpapi.Route(r, "GET /things", "get", "",
			func(context.Context, tenant.Principal, *struct{}) (*httpapi.Answer[string], error) {
				return &httpapi.Answer[string]{Status: http.StatusTeapot, ETag: `"mine"`, Body: "a"}, nil
			}, httpapi.Accepted)
	})
	w := e.Do(httptest.NewRequest(http.MethodGet, httpapi.Base+"/things", nil))
	tag, err := httpapi.TagOf(0, "a")
	require.NoError(t, err)
	assert.Equal(t, []any{http.StatusAccepted, tag}, []any{w.Code, w.Header().Get("ETag")})
}

// An answer to a read has an ETag that changes with its content; a client that has this content receives no body. An
// answer to a change always has its body.
func TestEveryReadIsConditional(t *testing.T) {
	body, version := []string{"a"}, int64(0)
	e := small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		for _, method := range []string{"GET", "POST"} {
			r := httpapi.Routes{Server: s, Read: tenant.LevelRead, Write: tenant.LevelRead}
			httpapi.Route(r, method+" /things", strings.ToLower(method), "",
				func(context.Context, tenant.Principal, *struct{}) (*httpapi.Answer[[]string], error) {
					return httpapi.Versioned(version, body), nil
				})
		}
	})
	ask := func(method string, known ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, httpapi.Base+"/things", nil)
		for _, tag := range known {
			r.Header.Add("If-None-Match", tag)
		}
		return e.Do(r)
	}
	tags := map[string]bool{}
	for _, change := range []func(){
		func() {}, func() { body = []string{"b"} }, func() { version = 3 }, func() { version = 4 },
	} {
		change()
		first := ask("GET")
		tag := first.Header().Get("ETag")
		require.Equal(t, http.StatusOK, first.Code)
		assert.NotContains(t, tags, tag)
		tags[tag] = true
		for _, known := range [][]string{{tag}, {"W/" + tag}, {`"x", ` + tag}, {`"x"`, tag}, {"*"}} {
			w := ask("GET", known...)
			assert.Equal(t, http.StatusNotModified, w.Code, known)
			assert.Empty(t, w.Body.String())
			assert.Equal(t, tag, w.Header().Get("ETag"))
		}
		assert.Equal(t, http.StatusOK, ask("GET", `"x"`, "").Code)
		assert.Equal(t, http.StatusOK, ask("POST", tag).Code)
		match := httpapi.Match{IfMatch: tag}.Precondition()
		if version > 0 {
			assert.EqualValues(t, version, match)
		} else {
			assert.EqualValues(t, -1, match)
		}
	}
	assert.EqualValues(t, 3, httpapi.Match{IfMatch: `"3"`}.Precondition(), "as it was before")
}

// The document describes it at every operation that reads JSON.
func TestTheDocumentHasConditionalReads(t *testing.T) {
	e := httpapitest.New(t)
	document, err := e.Document()
	require.NoError(t, err)
	var d struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Responses  map[string]struct{ Headers, Content map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal(document, &d))
	reads := 0
	for path, methods := range d.Paths {
		get, there := methods["get"]
		_, json := get.Responses["200"].Content["application/json"]
		_, bytes := get.Responses["200"].Content["*/*"]                              // a file, or how to send one
		if !there || !json || bytes || strings.HasSuffix(path, "/agent-card.json") { // which is its protocol's
			continue
		}
		reads++
		n := 0
		for _, p := range get.Parameters {
			if p.Name == "If-None-Match" {
				n++
			}
		}
		assert.Equal(t, 1, n, path)
		assert.Contains(t, get.Responses, "304", path)
		assert.Contains(t, get.Responses["200"].Headers, "ETag", path)
	}
	assert.Greater(t, reads, 45)
}
