package service_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
)

// free are the objects in the samples whose members have any names.
var free = []string{
	"body.metadata", "body.filter.metadata", "body.request.headers", "body.output_schema", "body.request.parameters",
}

func strictAPI(t *testing.T) (httpapitest.API, *strings.Replacer) {
	e := httpapitest.New(t, func(c *service.Config) {
		c.Toolkits.Kinds["http"], c.Toolkits.Kinds["openapi"] = &httptool.Kind{}, &openapitool.Kind{}
	})
	return e, prepared(t, e, e.Send)
}

// An unknown member of a change of a resource, of a search and of a filter is refused with its name, at any place.
func TestUnknownMembersAreRefused(t *testing.T) {
	t.Parallel()
	e, ids := strictAPI(t)
	var seen []string
	for _, s := range samples {
		method, path, _ := strings.Cut(ids.Replace(s.operation), " ")
		if method != http.MethodPatch && path != "/search" && path != "/runs/cancel" {
			continue
		}
		var body any
		require.NoError(t, json.Unmarshal([]byte(ids.Replace(s.body)), &body))
		objects("body", body, func(at string, o map[string]any) {
			o["unknown.member"] = []any{1}
			raw, err := json.Marshal(body)
			require.NoError(t, err)
			delete(o, "unknown.member")
			if slices.ContainsFunc(free, func(prefix string) bool { return strings.HasPrefix(at, prefix) }) {
				seen = append(seen, at)
				return
			}
			w := e.Send(method, path, string(raw))
			require.Equal(t, http.StatusBadRequest, w.Code, "%s with %s: %s", s.operation, raw, w.Body)
			if at != "body.credentials" { // which are never repeated
				assert.Contains(t, w.Body.String(), fmt.Sprintf("%q", at+".unknown.member"), s.operation)
			}
		})
	}
	for _, prefix := range free {
		assert.Contains(t, seen, prefix)
	}
}

// objects calls visit with each object in a value, and its place.
func objects(at string, v any, visit func(at string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			objects(at+"."+name, v[name], visit)
		}
	case []any:
		for i, one := range v {
			objects(fmt.Sprintf("%s[%d]", at, i), one, visit)
		}
	}
}

// A resource that is sent back as it was read is accepted, and stays as it is, also with its read-only members.
func TestAResourceIsSentBackAsItWasRead(t *testing.T) {
	t.Parallel()
	e, ids := strictAPI(t)
	read := func(s sample) (path, body string) {
		path = ids.Replace(s.reads[0])
		w := e.Send(http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		if list, one := strings.CutSuffix(path, "/tools"); one { // there is no read of one tool
			var answer struct{ Tools []json.RawMessage }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			return list + "/tools/act", string(answer.Tools[0])
		}
		return path, w.Body.String()
	}
	w := e.Send(http.MethodPost, "/toolkits", `{"kind":"openapi","name":"n","document":`+petDocument+
		`,"include":["items","path:/items*"]}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var kit struct {
		ID string `json:"toolkit_id"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &kit))
	path := "/toolkits/" + kit.ID
	w = e.Send(http.MethodPatch, path, e.Send(http.MethodGet, path, "").Body.String())
	assert.Equal(t, http.StatusOK, w.Code, w.Body)

	var seen []string
	for _, s := range samples {
		if method, path, _ := strings.Cut(ids.Replace(s.operation), " "); method == http.MethodPatch {
			seen = append(seen, s.operation)
			w := e.Send(method, path, ids.Replace(s.body)) // so that it has everything
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			path, before := read(s)
			w = e.Send(method, path, before)
			require.Equal(t, http.StatusOK, w.Code, "%s with what it answers: %s\n%s", s.operation, before, w.Body)
			_, after := read(s)
			assert.JSONEq(t, unmoving(t, before), unmoving(t, after), s.operation)
		}
	}
	assert.Len(t, seen, 10, "%v", seen)
}

// A knowledge base that was made before its model had prefixes may be sent back, too. A model without the prefixes in
// the request gets the present ones.
func TestABaseOfOlderPrefixesIsSentBackAsItWasRead(t *testing.T) {
	t.Parallel()
	models := &knowledge.Models{Offered: []catalog.EmbeddingModel{{Provider: "p", Name: knowledge.Lexical}}}
	e := httpapitest.New(t, func(c *service.Config) {
		models.Providers = map[string]embedding.Model{"p": c.Knowledge.Models.Providers[embedding.Builtin]}
		c.Knowledge.Models = models
	})
	type base struct {
		ID    string         `json:"knowledge_base_id"`
		Model map[string]any `json:"embedding_model"`
		Index struct{ State string }
	}
	answered := func(w *httptest.ResponseRecorder) (b base, body string) {
		require.Less(t, w.Code, 300, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &b))
		return b, w.Body.String()
	}
	made, _ := answered(e.Send(http.MethodPost, "/knowledge-bases", `{"name":"b"}`))
	models.Offered[0].QueryPrefix = "q: "
	path := "/knowledge-bases/" + made.ID
	_, whole := answered(e.Send(http.MethodGet, path, ""))
	again, _ := answered(e.Send(http.MethodPatch, path, strings.Replace(whole, `"b"`, `"c"`, 1)))
	assert.Equal(t, []any{made.Model, "ready"}, []any{again.Model, again.Index.State})
	again, _ = answered(e.Send(http.MethodPatch, path, `{"embedding_model":{"provider":"p","name":"lexical-1"}}`))
	assert.Equal(t, "q: ", again.Model["query_prefix"])
}

// unmoving is a resource without the members that each edit changes.
func unmoving(t *testing.T, body string) string {
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	for _, name := range []string{"updated_at", "version", "published_version", "problems"} {
		delete(v, name)
	}
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
