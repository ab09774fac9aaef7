package files_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/store/blob"
)

func do(e httpapitest.API, method, path, accept, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, httpapi.Base+path, strings.NewReader(body))
	r.Header.Set("Accept", accept)
	return e.Do(r)
}

// A file that is announced is sent to the address that the announcement named, once, and is read as it was sent.
func TestAFileIsAnnouncedSentAndRead(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("POST", "/files", `{"name":"a b.txt","content_type":"text/plain"}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var made struct {
		FileID string `json:"file_id"`
		Upload struct{ Method, URL string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	path, ours := strings.CutPrefix(made.Upload.URL, "http://localhost"+httpapi.Base)
	require.True(t, ours, made.Upload.URL)
	for _, want := range []int{http.StatusOK, http.StatusConflict} {
		assert.Equal(t, want, do(e, made.Upload.Method, path, "", "some bytes").Code)
	}
	w = do(e, "GET", "/files/"+made.FileID, "", "")
	assert.Equal(t, "some bytes", w.Body.String())
	assert.Equal(t, `attachment; filename="a b.txt"`, w.Header().Get("Content-Disposition"))
	assert.Equal(t, "10", w.Header().Get("Content-Length"))
	assert.Contains(t, do(e, "GET", "/files/"+made.FileID, "application/json", "").Body.String(), `"size":10`)
}

// Where clients reach the blob store, they send and read the bytes there, once the reader's right is checked.
func TestAFileIsSentAndReadDirectly(t *testing.T) {
	var bucket httpapitest.Bucket
	e := httpapitest.Over(t, &bucket)
	w := e.Send("POST", "/files", `{"name":"a b.txt","content_type":"text/plain","size":10}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var made struct {
		FileID string `json:"file_id"`
		Upload struct{ URL string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	assert.Equal(t, http.StatusNotFound, do(e, "GET", "/files/"+made.FileID, "", "").Code, "nothing has been sent")
	key := strings.TrimPrefix(made.Upload.URL, "https://bucket.test/")
	require.NoError(t, blob.PutBytes(t.Context(), &bucket, key, []byte("some bytes")))
	bytes, kind, disposition := bucket.Follow(t, do(e, "GET", "/files/"+made.FileID, "", ""))
	assert.Equal(t, []string{"some bytes", "text/plain", `attachment; filename="a b.txt"`},
		[]string{bytes, kind, disposition})
	assert.Contains(t, do(e, "GET", "/files/"+made.FileID, "application/json", "").Body.String(), `"uploaded":true`)
}

// A deleted file has an entry in the audit log. A file of a refused message has none.
func TestADeletedFileIsInTheAuditLog(t *testing.T) {
	e := httpapitest.New(t)
	var made struct {
		FileID string `json:"file_id"`
	}
	w := e.Send("POST", "/files", `{"name":"a.txt"}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	require.Equal(t, http.StatusNoContent, e.Send("DELETE", "/files/"+made.FileID, "").Code)
	log := e.Send("GET", "/audit-log?kind=file", "").Body.String()
	assert.Contains(t, log, `"operation":"delete-file"`)
	assert.Contains(t, log, `"id":"`+made.FileID+`"`)
	kind, form := e.Form("message", "x", "files", "x", "chat_id", "a b") // refused, with its file
	require.Equal(t, http.StatusBadRequest, e.Post("/chat", kind, form).Code)
	assert.Equal(t, log, e.Send("GET", "/audit-log?kind=file", "").Body.String())
}

func TestAnInvalidFileIsRefused(t *testing.T) {
	e := httpapitest.New(t)
	for _, body := range []string{
		`{}`, `{"name":"a","size":-1}`, `{"name":"a","size":1000000000}`, `{"name":"a","content_type":"x"}`,
	} {
		assert.Equal(t, http.StatusBadRequest, e.Send("POST", "/files", body).Code, body)
	}
	nothing := httptest.NewRequest(http.MethodPost, httpapi.Base+"/files", http.NoBody)
	nothing.Header.Set("Content-Type", "application/json")
	assert.Equal(t, http.StatusBadRequest, e.Do(nothing).Code)
	kind, form := e.Form("message", "x")
	w := e.Post("/files", kind, form)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), `"location":"file"`)
	form = []byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nabc\r\n--b--")
	w = e.Post("/files", "multipart/form-data; boundary=b", form)
	assert.Equal(t, http.StatusCreated, w.Code)
	assert.Contains(t, w.Body.String(), `"size":3`)
	assert.Equal(t, http.StatusNotFound, do(e, "GET", "/files/x", "", "").Code)
	assert.Equal(t, http.StatusNotFound, do(e, "PUT", "/files/0123456789abcdef01234567/content", "", "x").Code)
}
