package service_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestTheDocumentIsTheOneThatIsCommitted(t *testing.T) {
	document, err := httpapitest.New(t, func(c *service.Config) { c.PublicURL = "https://agents.test" }).Document()
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, document, "", "  "))
	pretty.WriteByte('\n')
	const file = "openapi.golden.json"
	if *update {
		require.NoError(t, os.WriteFile(file, pretty.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), pretty.String(), "run make golden if this is meant")
}

func TestEveryRouteNeedsAKeyButTheOpenOnes(t *testing.T) {
	e := httpapitest.New(t)
	document, err := e.Document()
	require.NoError(t, err)
	var d struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(document, &d))
	var patterns []string
	for path, operations := range d.Paths {
		for method := range operations {
			patterns = append(patterns, strings.ToUpper(method)+" "+path)
		}
	}
	sort.Strings(patterns)
	require.Greater(t, len(patterns), 100)
	for _, p := range patterns {
		method, path, _ := strings.Cut(p, " ")
		r := httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "").Replace(path), nil)
		r.Header.Set("Authorization", "none")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if path == httpapi.Base+"/healthz" {
			assert.Equal(t, http.StatusOK, w.Code)
			continue
		}
		assert.Equal(t, http.StatusUnauthorized, w.Code, p)
	}
}

// A query parameter that names a thing is refused at all endpoints where nothing can have its value. The refusal names
// the parameter.
func TestParametersThatNameThingsAreIdentifiers(t *testing.T) {
	e := httpapitest.New(t)
	document, err := e.Document()
	require.NoError(t, err)
	var d struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	require.NoError(t, json.Unmarshal(document, &d))
	seen := 0
	for path, of := range d.Paths {
		for _, p := range of["get"].Parameters {
			// A subject of the audit log may be of any kind.
			if p.In != "query" || p.Name != "id" && !strings.HasSuffix(p.Name, "_id") || p.Name == "subject_id" {
				continue
			}
			seen++
			at := strings.TrimPrefix(strings.NewReplacer("{", "", "}", "").Replace(path), httpapi.Base)
			for value, refused := range map[string]bool{
				"x*": true, strings.Repeat("A", 23) + "!": true, strings.Repeat("a", 24): false, "": false,
			} {
				w := e.Send("GET", at+"?"+p.Name+"="+value, "")
				names := strings.Contains(w.Body.String(), `"query.`+p.Name+`"`)
				assert.Equal(t, refused, w.Code == http.StatusBadRequest && names && strings.Contains(
					w.Body.String(), "identifier"), "%s?%s=%s: %d %s", at, p.Name, value, w.Code, w.Body)
			}
		}
	}
	assert.Greater(t, seen, 15)
}

func TestPathThatIsNotCleanIsNotFound(t *testing.T) {
	e := httpapitest.New(t)
	for _, path := range []string{"/runs//steps", "/runs/./steps", "/runs/x/../y", "//runs", "/agents//"} {
		w := e.Do(httptest.NewRequest(http.MethodGet, httpapi.Base+path, nil))
		httpapitest.Sane(t, w)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
	w := e.Do(httptest.NewRequest(http.MethodGet, httpapi.Base+"/chats/a%2F%2Fb", nil))
	assert.Contains(t, w.Body.String(), "a//b", "an id with slashes is a name like any other")
}
