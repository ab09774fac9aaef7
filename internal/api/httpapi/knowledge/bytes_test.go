package knowledge_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// library is the API with a knowledge base. Its documents are ingested when a test starts that.
type library struct {
	httpapitest.API

	t         testing.TB
	ingester  *ingest.Ingester
	documents string // the path of those of the base
}

func libraryOver(t *testing.T, blobs blob.Store, change ...func(*service.Config)) library {
	l := library{t: t, ingester: &ingest.Ingester{
		Log: slog.New(slog.DiscardHandler), Deadline: time.Hour, Extract: plain,
	}}
	l.API = httpapitest.Over(t, blobs, append(change, func(c *service.Config) {
		l.ingester.Knowledge = c.Knowledge
	})...)
	l.documents = "/knowledge-bases/" + baseOf(t, l.API, "builtin") + "/documents"
	return l
}

// plain reads plain text.
func plain(ctx context.Context, _ string, f extract.File) (document.Text, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return document.Text{}, err
	}
	b, err := io.ReadAll(r)
	return document.Text{Body: string(b)}, err
}

// add adds a document, and returns its id.
func (l library) add(body string) string {
	l.t.Helper()
	w := l.Send("POST", l.documents, body)
	require.Equal(l.t, http.StatusCreated, w.Code, w.Body)
	return idOf(l.t, w)
}

func (l library) ingest(id string) {
	l.t.Helper()
	_, err := l.ingester.Handle(l.t.Context(), id)
	require.NoError(l.t, err)
}

func (l library) get(id, what string) *httptest.ResponseRecorder {
	return l.Send("GET", l.documents+"/"+id+what, "")
}

// member is the same as a new user without groups reaches it.
func (l library) member(role, level string) library {
	l.t.Helper()
	user := ask[object](l.t, l.API, http.StatusCreated, "POST", "/users",
		fmt.Sprintf(`{"email":"m@example.com","role":%q}`, role))
	key := ask[object](l.t, l.API, http.StatusCreated, "POST", "/api-keys",
		fmt.Sprintf(`{"name":"k","user_id":%q,"level":%q}`, user["user_id"], level))
	l.API = l.As(key["key"].(string))
	return l
}

// refused checks an error, which must not reveal where the bytes are.
func refused(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	httpapitest.Sane(t, w)
	assert.Equal(t, status, w.Code, w.Body)
	assert.Contains(t, w.Body.String(), fmt.Sprintf(`"code":%q`, code))
	assert.Empty(t, w.Header().Get("Location"))
	assert.NotContains(t, w.Body.String(), "bucket.test")
}

// A store that clients do not reach is read through the API.
func TestWhatADocumentHasIsSent(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	id := l.add(`{"text":"twenty-six días"}`)
	w := l.get(id, "/content")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, "twenty-six días", w.Body.String())
	h := w.Header()
	assert.Equal(t, []string{"16", "text/plain; charset=utf-8", "attachment; filename=document", "nosniff", "no-store"},
		[]string{h.Get("Content-Length"), h.Get("Content-Type"), h.Get("Content-Disposition"),
			h.Get("X-Content-Type-Options"), h.Get("Cache-Control")})

	refused(t, l.get(id, "/text"), http.StatusNotFound, "not_found") // it has none yet
	l.ingest(id)
	w = l.get(id, "/text")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, "twenty-six días", w.Body.String())
	h = w.Header()
	assert.Equal(t, []string{"16", "text/plain; charset=utf-8", "", "nosniff", "no-store"},
		[]string{h.Get("Content-Length"), h.Get("Content-Type"), h.Get("Content-Disposition"),
			h.Get("X-Content-Type-Options"), h.Get("Cache-Control")})
}

// Clients read the bytes from a store that they can reach: a function's answers are limited in size.
func TestWhatADocumentHasIsReadDirectly(t *testing.T) {
	var bucket httpapitest.Bucket
	l := libraryOver(t, &bucket)
	id := l.add(`{"text":"twenty-six días"}`)
	bytes, kind, disposition := bucket.Follow(t, l.get(id, "/content"))
	assert.Equal(t, []string{"twenty-six días", "text/plain; charset=utf-8", "attachment; filename=document"},
		[]string{bytes, kind, disposition})

	refused(t, l.get(id, "/text"), http.StatusNotFound, "not_found") // it has none yet
	l.ingest(id)
	bytes, kind, disposition = bucket.Follow(t, l.get(id, "/text"))
	assert.Equal(t, []string{"twenty-six días", "text/plain; charset=utf-8", ""}, []string{bytes, kind, disposition})
}

// No address is given for a missing document, or for one of others.
func TestNoAddressWithoutTheRight(t *testing.T) {
	var bucket httpapitest.Bucket
	l := libraryOver(t, &bucket)
	group := ask[object](t, l.API, http.StatusCreated, "POST", "/groups", `{"name":"g"}`)["group_id"]
	open, closed := l.add(`{"text":"open"}`), l.add(fmt.Sprintf(`{"text":"closed","group_ids":[%q]}`, group))
	fetched := l.add(`{"url":"https://example.com/a"}`)
	refused(t, l.get(fetched, "/content"), http.StatusNotFound, "not_found")
	l.ingest(open)
	l.ingest(closed)
	reader := l.member("member", "read")
	for _, what := range []string{"/content", "/text"} {
		assert.Equal(t, http.StatusTemporaryRedirect, reader.get(open, what).Code)
		assert.Equal(t, http.StatusTemporaryRedirect, l.get(closed, what).Code)
		refused(t, reader.get(closed, what), http.StatusForbidden, "insufficient_permission")
		nobody := l.As("sk_nobody").Send("GET", l.documents+"/"+open+what, "")
		refused(t, nobody, http.StatusUnauthorized, "invalid_api_key")
	}
	ask[object](t, l.API, http.StatusNoContent, "DELETE", l.documents+"/"+open, "")
	for _, what := range []string{"/content", "/text"} {
		refused(t, l.get(open, what), http.StatusNotFound, "not_found")
	}
}

// Bytes that do not become a document are deleted with the answer.
func TestNothingRemainsOfARefusedDocument(t *testing.T) {
	blobs := &memblob.Store{}
	l := libraryOver(t, blobs)
	l.ingester.Ingesting = 1
	l.add(`{"text":"the one that may be in ingestion"}`)
	before := blobs.Keys()
	w := l.Send("POST", l.documents, `{"text":"one too many"}`)
	refused(t, w, http.StatusTooManyRequests, "share_exceeded")
	w = l.Send("POST", l.documents, `{"text":"the one that may be in ingestion"}`)
	assert.Contains(t, w.Body.String(), `"duplicate":true`)
	assert.Equal(t, before, blobs.Keys())
	part := func(what, text string) string {
		return "--b\r\nContent-Disposition: form-data; name=" + what + "\r\n\r\n" + text + "\r\n"
	}
	two := part("file; filename=a", "a") + part("file; filename=b", "b")
	for name, more := range map[string]string{
		"too many": "", "a bad language": part("language", "xx-no"), "an unknown field": part("nothing", "x"),
	} {
		w = l.Post(l.documents, "multipart/form-data; boundary=b", []byte(two+more+"--b--\r\n"))
		assert.GreaterOrEqual(t, w.Code, http.StatusBadRequest, "%s: %s", name, w.Body)
		assert.Equal(t, before, blobs.Keys(), name)
	}
}
