package knowledge_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// narrow is a blob store with room for few bytes, so that a short file is too large for it.
type narrow struct{ memblob.Store }

const narrowRoom = 1000

func (s *narrow) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	return s.Store.Put(ctx, key, r, min(limit, narrowRoom))
}

// form is a form of pairs of names and values, and its content type; the name of a file stands after a colon.
func form(t testing.TB, pairs ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		field, name, isFile := strings.Cut(pairs[i], ":")
		create := w.CreateFormField
		if isFile {
			create = func(field string) (io.Writer, error) { return w.CreateFormFile(field, name) }
		}
		part, err := create(field)
		require.NoError(t, err)
		_, err = io.WriteString(part, pairs[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// send posts a form.
func (l library) send(pairs ...string) *httptest.ResponseRecorder {
	l.t.Helper()
	body, contentType := form(l.t, pairs...)
	return l.Post(l.documents, contentType, []byte(body))
}

// at is where an answer's member stands, as text; names of members and indices of lists, separated by dots.
func at(t testing.TB, w *httptest.ResponseRecorder, path string) string {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body)
	for name := range strings.SplitSeq(path, ".") {
		switch inside := v.(type) {
		case object:
			v = inside[name]
		case []any:
			var n int
			_, err := fmt.Sscan(name, &n)
			require.NoError(t, err)
			require.Less(t, n, len(inside), w.Body)
			v = inside[n]
		default:
			require.Fail(t, "there is no "+path, w.Body)
		}
	}
	return fmt.Sprint(v)
}

// wrong checks a refusal that names the field.
func wrong(t *testing.T, w *httptest.ResponseRecorder, field string) {
	t.Helper()
	httpapitest.Sane(t, w)
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	assert.Equal(t, field, at(t, w, "errors.0.location"), w.Body)
}

func (l library) count() int {
	l.t.Helper()
	return len(ask[struct{ Documents []any }](l.t, l.API, http.StatusOK, "GET", l.documents, "").Documents)
}

// A document of JSON has exactly one kind of content, and is well described. A refused request leaves nothing.
func TestADocumentIsOneOfThree(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	for body, field := range map[string]string{
		`{}`:                              "body",
		`{"title":"t"}`:                   "body",
		`{"text":"x","url":"https://a/"}`: "body",
		`{"text":"x","file_id":"0123456789abcdef01234567"}`:       "body",
		`{"text":"","url":"https://a/","file_id":"f"}`:            "body",
		`{"text":"x","metadata":{"a":[1]}}`:                       "body.metadata.a",
		`{"text":"x","metadata":{"a":null}}`:                      "body.metadata.a",
		`{"text":"x","metadata":{"a b":1}}`:                       "body.metadata",
		`{"text":"x","title":"` + strings.Repeat("t", 301) + `"}`: "body.title",
		`{"text":"x","group_ids":["0123456789abcdef01234567"]}`:   "body.group_ids[0]",
		`{"url":"http://127.0.0.1/"}`:                             "body.url",
	} {
		wrong(t, l.Send("POST", l.documents, body), field)
	}
	assert.Zero(t, l.count())
	w := l.Send("POST", "/knowledge-bases/0123456789abcdef01234567/documents", `{"text":"x"}`)
	refused(t, w, http.StatusNotFound, "not_found")
	refused(t, l.Send("POST", "/knowledge-bases/x/documents", `{"text":"x"}`), http.StatusNotFound, "not_found")
}

// A file that was sent before becomes a document if its bytes are there, and if the sender may read it.
func TestADocumentOfAFile(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	file := ask[object](t, l.API, http.StatusCreated, "POST", "/files", `{"name":"a.txt","content_type":"text/plain"}`)
	body := fmt.Sprintf(`{"file_id":%q}`, file["file_id"])
	wrong(t, l.Send("POST", l.documents, body), "body.file_id") // its bytes have not come
	w := l.Send("POST", l.documents, `{"file_id":"0123456789abcdef01234567"}`)
	refused(t, w, http.StatusNotFound, "not_found")
	assert.Equal(t, "body.file_id", at(t, w, "errors.0.location"))

	path := httpapi.Base + "/files/" + file["file_id"].(string) + "/content"
	r := httptest.NewRequest(http.MethodPut, path, strings.NewReader("abc"))
	require.Equal(t, http.StatusOK, l.Do(r).Code)

	group := ask[object](t, l.API, http.StatusCreated, "POST", "/groups", `{"name":"g"}`)["group_id"]
	ask[object](t, l.API, http.StatusOK, "PATCH", "/agents/"+l.Agent, fmt.Sprintf(`{"group_ids":[%q]}`, group))
	l.Begin(t, "file_ids", file["file_id"].(string)) // of an agent for members of the group
	w = l.member("manager", "manage").Send("POST", l.documents, body)
	refused(t, w, http.StatusForbidden, "insufficient_permission")
	assert.Zero(t, l.count())
	w = l.Send("POST", l.documents, body)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	assert.Equal(t, []string{"file", "a.txt", "a.txt", "text/plain", "3"}, []string{at(t, w, "source.kind"),
		at(t, w, "source.name"), at(t, w, "title"), at(t, w, "content_type"), at(t, w, "size")})
}

// The fields of a form hold for all its files, before or after them.
func TestAFormHasDocuments(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	w := l.send("file:one.txt", "1", "metadata", `{"a":true}`, "file:two.txt", "2", "title", "T")
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	for n, name := range []string{"one.txt", "two.txt"} {
		prefix := fmt.Sprint("documents.", n, ".")
		assert.Equal(t, []string{name, "T", "true", "upload"}, []string{at(t, w, prefix+"source.name"),
			at(t, w, prefix+"title"), at(t, w, prefix+"metadata.a"), at(t, w, prefix+"source.kind")})
	}
	one := l.send("file:three.txt", "3")
	require.Equal(t, http.StatusCreated, one.Code)
	assert.NotContains(t, one.Body.String(), `"documents"`, "one file is one document")
	assert.NotEmpty(t, one.Header().Get("ETag"))

	var many []string
	for n := range 21 {
		many = append(many, fmt.Sprintf("file:%d.txt", n), fmt.Sprint("text ", n))
	}
	for field, form := range map[string][]string{
		"file":         {"title", "x"},
		"metadata":     {"file:a.txt", "a", "metadata", "{"},
		"metadata.a":   {"file:a.txt", "a", "metadata", `{"a":{}}`},
		"title":        {"file:a.txt", "a", "title", strings.Repeat("t", 301)},
		"group_ids[0]": {"file:a.txt", "a", "group_ids", "0123456789abcdef01234567"},
		"more":         {"file:a.txt", "a", "more", strings.Repeat("t", 64<<10+1)},
	} {
		wrong(t, l.send(form...), field)
	}
	wrong(t, l.send(many...), "file")
	assert.Equal(t, 3, l.count(), "a form that is refused leaves nothing")
}

// A file that cannot be a document does not hinder the others of its form.
func TestAFileIsRefusedBesideOthers(t *testing.T) {
	l := libraryOver(t, &narrow{})
	huge := strings.Repeat("x", 2*narrowRoom)
	w := l.send("file:one.txt", "1", "file:huge.txt", huge, "file:two.txt", "2")
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	assert.Equal(t, []string{"one.txt", "huge.txt", "payload_too_large", "two.txt", "1"},
		[]string{at(t, w, "documents.0.source.name"), at(t, w, "documents.1.name"), at(t, w, "documents.1.error.code"),
			at(t, w, "documents.2.source.name"), at(t, w, "documents.2.size")})
	assert.Equal(t, 2, l.count())

	refused(t, l.send("file:huge.txt", huge), http.StatusRequestEntityTooLarge, "payload_too_large")
	w = l.send("file:huge.txt", huge, "file:another.txt", huge+"y")
	wrong(t, w, "file")
	assert.Equal(t, "another.txt", at(t, w, "documents.1.name"), "it says why of each")
	assert.Equal(t, 2, l.count())
}

// The files that do not fit a base any more are refused; those before are documents.
func TestABaseIsFullInTheMiddleOfAForm(t *testing.T) {
	l := libraryOver(t, &memblob.Store{}, func(c *service.Config) { c.Knowledge.Documents = 1 })
	w := l.send("file:one.txt", "1", "file:two.txt", "2")
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	assert.Equal(t, []string{"one.txt", "two.txt", "invalid_request"}, []string{at(t, w, "documents.0.source.name"),
		at(t, w, "documents.1.name"), at(t, w, "documents.1.error.code")})
	wrong(t, l.send("file:three.txt", "3"), "body")
	assert.Equal(t, 1, l.count())
}

// The same bytes for the same groups are one document.
func TestTheSameContentIsOneDocument(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	id := l.add(`{"text":"the same","title":"first"}`)
	w := l.Send("POST", l.documents, `{"text":"the same","title":"second"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, []string{id, "true", "first"},
		[]string{at(t, w, "document_id"), at(t, w, "duplicate"), at(t, w, "title")})
	w = l.send("file:a.txt", "another", "file:b.txt", "the same", "file:c.txt", "another")
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	assert.Equal(t, []string{"<nil>", id, "true", at(t, w, "documents.0.document_id"), "true"}, []string{
		at(t, w, "documents.0.duplicate"), at(t, w, "documents.1.document_id"), at(t, w, "documents.1.duplicate"),
		at(t, w, "documents.2.document_id"), at(t, w, "documents.2.duplicate"),
	})
	assert.Equal(t, 2, l.count())
	group := ask[object](t, l.API, http.StatusCreated, "POST", "/groups", `{"name":"g"}`)["group_id"]
	l.add(fmt.Sprintf(`{"text":"the same","group_ids":[%q]}`, group))
}

// Cursors are those of pages of the same list.
func TestPagesOfDocumentsAndChunks(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	long := l.add(fmt.Sprintf(`{"text":%q}`, strings.Repeat("A sentence has some words. ", 200)))
	l.add(`{"text":"another"}`)
	l.ingest(long)
	for path, list := range map[string]string{
		l.documents: "documents", l.documents + "/" + long + "/chunks": "chunks",
	} {
		var seen []string
		next := ""
		for range 20 {
			w := l.Send("GET", path+"?limit=1&cursor="+next, "")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			seen = append(seen, at(t, w, list+".0"))
			assert.NotContains(t, seen[:len(seen)-1], seen[len(seen)-1], "a row of another page")
			if next = at(t, w, "next_cursor"); next == "<nil>" {
				break
			}
		}
		assert.Equal(t, "<nil>", next, "%s has no end", list)
		assert.Greater(t, len(seen), 1)
		wrong(t, l.Send("GET", path+"?cursor=nonsense", ""), "query.cursor")
		wrong(t, l.Send("GET", path+"?limit=101", ""), "query.limit")
	}
	for _, position := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte("c1:" + position))
		wrong(t, l.get(long, "/chunks?cursor="+cursor), "query.cursor")
	}
	behind := base64.RawURLEncoding.EncodeToString([]byte("c1:1000000"))
	assert.Contains(t, l.get(long, "/chunks?cursor="+behind).Body.String(), `"chunks":[]`)
	wrong(t, l.Send("GET", l.documents+"?status=new", ""), "query.status")
}

// An edit of metadata is a merge patch: absent members stay, and null removes a member.
func TestMetadataIsMerged(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	path := l.documents + "/" + l.add(`{"text":"x","metadata":{"a":1,"b":"two","c":true}}`)
	for _, c := range []struct{ patch, want string }{
		{`{"title":"t"}`, `{"a":1,"b":"two","c":true}`},
		{`{"metadata":{}}`, `{"a":1,"b":"two","c":true}`},
		{`{"metadata":{"a":null,"b":2,"d":"new","e":null}}`, `{"b":2,"c":true,"d":"new"}`},
		{`{"metadata":null}`, `{}`},
		{`{"metadata":{"f":0.5}}`, `{"f":0.5}`},
	} {
		w := l.Send("PATCH", path, c.patch)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var d struct{ Metadata json.RawMessage }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
		assert.JSONEq(t, c.want, string(d.Metadata), c.patch)
	}
	for patch, field := range map[string]string{
		`{"metadata":{"f":[]}}`:    "body.metadata.f",
		`{"metadata":{"f":{}}}`:    "body.metadata.f",
		`{"metadata":{"g h":"x"}}`: "body.metadata",
		`{"title":""}`:             "body.title",
		`{"metadata":{"f":"` + strings.Repeat("x", 257) + `"}}`: "body.metadata.f",
	} {
		wrong(t, l.Send("PATCH", path, patch), field)
	}
	assert.Equal(t, "0.5", at(t, l.Send("GET", path, ""), "metadata.f"), "what was refused changed nothing")
}

// The ETag moves with every change. A client with the present ETag receives no body, and changes only the version that
// it has read.
func TestADocumentHasAnETag(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	id := l.add(`{"text":"x"}`)
	path := httpapi.Base + l.documents + "/" + id
	do := func(method, header, tag, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(header, tag)
		return l.Do(r)
	}
	first := l.get(id, "").Header().Get("ETag")
	require.NotEmpty(t, first)
	for _, known := range []string{first, "W/" + first, `"other", ` + first} {
		w := do("GET", "If-None-Match", known, "")
		assert.Equal(t, http.StatusNotModified, w.Code, known)
		assert.Equal(t, first, w.Header().Get("ETag"))
		assert.Empty(t, w.Body.String())
	}
	assert.Equal(t, http.StatusOK, do("GET", "If-None-Match", `"other"`, "").Code)

	w := do("PATCH", "If-Match", first, `{"title":"t"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	second := w.Header().Get("ETag")
	assert.NotEqual(t, first, second)
	refused(t, do("PATCH", "If-Match", first, `{"title":"u"}`), http.StatusPreconditionFailed, "precondition_failed")
	w = do("GET", "If-None-Match", first, "")
	assert.Equal(t, []any{http.StatusOK, second, "t"}, []any{w.Code, w.Header().Get("ETag"), at(t, w, "title")})
	l.ingest(id)
	w = do("GET", "If-None-Match", second, "")
	assert.Equal(t, []any{http.StatusOK, "ready"}, []any{w.Code, at(t, w, "status")})
}

func TestNullRemovesADescription(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	base := strings.TrimSuffix(l.documents, "/documents")
	assert.Equal(t, "d", at(t, l.Send("PATCH", base, `{"description":"d"}`), "description"))
	assert.Empty(t, at(t, l.Send("PATCH", base, `{"description":null}`), "description"))
}

// Bases and documents have a language, which is set and shown.
func TestALanguageIsSetAndShown(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	base := strings.TrimSuffix(l.documents, "/documents")
	assert.Equal(t, "auto", at(t, l.Send("GET", base, ""), "language"))
	made := l.Send("POST", "/knowledge-bases", `{"name":"b","language":"de"}`)
	assert.Equal(t, "de", at(t, made, "language"))
	assert.Equal(t, "de", at(t, made, "index.settings.language"))
	assert.Equal(t, "sv", at(t, l.Send("PATCH", base, `{"language":"sv"}`), "language"))
	assert.Equal(t, "auto", at(t, l.Send("PATCH", base, `{"language":"auto"}`), "language"))

	id := l.add(`{"title":"t","text":"Preisliste","language":"de"}`)
	assert.Equal(t, "de", at(t, l.get(id, ""), "language"))
	l.ingest(id)
	assert.Equal(t, "de", at(t, l.get(id, ""), "language"))
	assert.Equal(t, "nl", at(t, l.Send("PATCH", l.documents+"/"+id, `{"language":"nl"}`), "language"))
	form := l.send("file:a.txt", "Schrauben", "language", "de")
	assert.Equal(t, "de", at(t, form, "language"))

	for _, w := range []*httptest.ResponseRecorder{
		l.Send("POST", "/knowledge-bases", `{"name":"b","language":"xx"}`),
		l.Send("PATCH", base, `{"language":"deutsch"}`),
		l.Send("POST", l.documents, `{"title":"t","text":"x","language":"zz"}`),
		l.Send("PATCH", l.documents+"/"+id, `{"language":""}`),
	} {
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, w.Code)
		assert.Contains(t, w.Body.String(), "language")
	}
	w := l.send("file:b.txt", "Muttern", "language", "zz")
	assert.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	assert.Contains(t, w.Body.String(), "language")
}

func TestADocumentHasTheWarningsOfItsText(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	warnings := func(id string) string {
		var d struct{ Warnings json.RawMessage }
		require.NoError(t, json.Unmarshal(l.get(id, "").Body.Bytes(), &d))
		return string(d.Warnings)
	}
	id := l.add(`{"text":"all of it"}`)
	assert.Equal(t, "[]", warnings(id))
	l.ingest(id)
	assert.Equal(t, "[]", warnings(id))
	l.ingester.Extract = func(context.Context, string, extract.File) (document.Text, error) {
		return document.Text{Body: "half of it", Warnings: []document.Warning{
			{Code: document.UnmappedGlyphs, Pages: []int{1, 3}, Count: 2},
			{Code: document.PagesWithoutText, Pages: []int{4}, Count: 1},
		}}, nil
	}
	id = l.add(`{"text":"half"}`)
	l.ingest(id)
	shown := regexp.MustCompile(`"message":"[^"]*OCR[^"]*"`).ReplaceAllString(warnings(id), `"message":"OCR"`)
	assert.JSONEq(t, `[{"code":"unmapped_glyphs","message":"OCR","pages":[1,3],"count":2},`+
		`{"code":"pages_without_text","message":"OCR","pages":[4],"count":1}]`, shown)
	require.Equal(t, http.StatusAccepted, l.Send("POST", l.documents+"/"+id+"/reprocess", "").Code)
	l.ingester.Extract = plain
	l.ingest(id)
	assert.Equal(t, "[]", warnings(id), "the text is whole now")
}
