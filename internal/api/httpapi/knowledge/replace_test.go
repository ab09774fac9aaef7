package knowledge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/store/blob/memblob"
)

// put sends content for a document; headers are pairs.
func (l library) put(id, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPut, httpapi.Base+l.documents+"/"+id+"/content", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return l.Do(r)
}

// The content of a document is replaced; everything else of it stays.
func TestTheContentOfADocumentIsReplaced(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	id := l.add(`{"title":"Prices","text":"four euros","metadata":{"year":2026}}`)
	l.ingest(id)
	tag := l.get(id, "").Header().Get("ETag")

	body, kind := form(t, "file:new.txt", "five euros")
	w := l.put(id, body, "Content-Type", kind, "If-Match", tag)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	assert.Equal(t, []string{id, "pending", "Prices", "2026", "upload", "new.txt", "10", "1"}, []string{
		at(t, w, "document_id"), at(t, w, "status"), at(t, w, "title"), at(t, w, "metadata.year"),
		at(t, w, "source.kind"), at(t, w, "source.name"), at(t, w, "size"), at(t, w, "version"),
	})
	assert.Equal(t, l.get(id, "").Header().Get("ETag"), w.Header().Get("ETag"))
	assert.Equal(t, "five euros", l.get(id, "/content").Body.String(), "from the answer on")
	assert.Equal(t, "four euros", l.get(id, "/text").Body.String(), "until the new text is ready")
	l.ingest(id)
	assert.Equal(t, "five euros", l.get(id, "/text").Body.String())
	assert.Equal(t, "2", at(t, l.get(id, ""), "version"))

	body, kind = form(t, "file:new.txt", "five euros")
	w = l.put(id, body, "Content-Type", kind)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, []string{"ready", "upload", "2"},
		[]string{at(t, w, "status"), at(t, w, "source.kind"), at(t, w, "version")})
	refused(t, l.put(id, `{"text":"six"}`, "If-Match", tag), http.StatusPreconditionFailed, "precondition_failed")

	file := ask[object](t, l.API, http.StatusCreated, "POST", "/files", `{"name":"a.txt","content_type":"text/plain"}`)
	path := httpapi.Base + "/files/" + file["file_id"].(string) + "/content"
	require.Equal(t, http.StatusOK, l.Do(httptest.NewRequest(http.MethodPut, path, strings.NewReader("six"))).Code)
	w = l.put(id, fmt.Sprintf(`{"file_id":%q}`, file["file_id"]))
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	assert.Equal(t, []string{"file", "a.txt", "3"},
		[]string{at(t, w, "source.kind"), at(t, w, "source.name"), at(t, w, "size")})

	w = l.put(id, `{"url":"https://example.com/a"}`)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	assert.Equal(t, []string{"url", "3"}, []string{at(t, w, "source.kind"), at(t, w, "size")})
	assert.Equal(t, "six", l.get(id, "/content").Body.String(), "until the address has been fetched")
	assert.Equal(t, "five euros", l.get(id, "/text").Body.String())
	assert.Equal(t, 1, l.count())
}

// A refused request changes nothing, and leaves nothing.
func TestContentThatIsRefusedReplacesNothing(t *testing.T) {
	blobs := &memblob.Store{}
	l := libraryOver(t, blobs)
	id := l.add(`{"text":"four euros"}`)
	l.ingest(id)
	before := blobs.Keys()
	tag := l.get(id, "").Header().Get("ETag")
	for body, field := range map[string]string{
		`{}`:                                 "body",
		`{"text":"x","url":"https://a/"}`:    "body",
		`{"text":"x","title":"t"}`:           "body.title",
		`{"text":"x","metadata":{"a":1}}`:    "body.metadata",
		`{"url":"http://127.0.0.1/"}`:        "body.url",
		`{"url":"nonsense"}`:                 "body.url",
		`{"file_id":"0123456789abcdef0123"}`: "body.file_id",
	} {
		w := l.put(id, body)
		require.GreaterOrEqual(t, w.Code, 400, body)
		assert.Equal(t, field, at(t, w, "errors.0.location"), w.Body)
	}
	for _, c := range []struct {
		field string
		parts []string
	}{
		{"file", nil},
		{"file", []string{"file:a", "a", "file:b", "b"}},
		{"title", []string{"file:a", "a", "title", "t"}},
	} {
		body, kind := form(t, c.parts...)
		wrong(t, l.put(id, body, "Content-Type", kind), c.field)
	}
	nobody := l.member("member", "read")
	refused(t, nobody.put(id, `{"text":"x"}`), http.StatusForbidden, "insufficient_permission")
	for _, other := range []string{"0123456789abcdef01234567", "x"} {
		refused(t, l.put(other, `{"text":"x"}`), http.StatusNotFound, "not_found")
	}
	l.ingester.Ingesting = 1
	l.add(`{"text":"the one that may be in ingestion"}`)
	refused(t, l.put(id, `{"text":"one too many"}`), http.StatusTooManyRequests, "share_exceeded")
	assert.Len(t, blobs.Keys(), len(before)+1)
	assert.Equal(t, tag, l.get(id, "").Header().Get("ETag"))
}
