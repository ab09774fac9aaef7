//go:build integration

package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
	"agentplatform/internal/text/reader"
)

// Stories of documents that need a deployment: bytes that no function carries, functions that end, an index in another
// service.

func (w world) post(t testing.TB, path string, body any) reply {
	t.Helper()
	b, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+path, bytes.NewReader(b))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return w.do(t, r)
}

type fields = map[string]any

// base makes a knowledge base and returns its path.
func (w world) base(t testing.TB, body fields) string {
	t.Helper()
	body["name"] = "base"
	a := w.post(t, "/knowledge-bases", body)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	return "/knowledge-bases/" + a.text("knowledge_base_id")
}

// document adds a document and returns its path.
func (w world) document(t testing.TB, base string, body fields) string {
	t.Helper()
	a := w.post(t, base+"/documents", body)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	return base + "/documents/" + a.text("document_id")
}

// ready waits until a document is found.
func (w world) ready(t testing.TB, document string) reply {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		a := w.get(t, document+"?wait_ms=5000")
		if a.text("status") == "ready" {
			return a
		}
		require.NotEqual(t, "failed", a.text("status"), a.raw)
		require.True(t, time.Now().Before(end), a.raw)
	}
}

// hits searches and returns how many chunks are found.
func (w world) hits(t testing.TB, query string) int {
	t.Helper()
	a := w.post(t, "/search", fields{"query": query})
	require.Equal(t, http.StatusOK, a.status, a.raw)
	hits, _ := a.body["hits"].([]any)
	return len(hits)
}

// announced sends a file straight to the bucket and returns its id.
func (w world) announced(t testing.TB, about fields, content string) string {
	t.Helper()
	about["size"] = len(content)
	a := w.post(t, "/files", about)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	up, _ := a.body["upload"].(map[string]any)
	address, _ := up["url"].(string)
	require.Contains(t, address, "X-Amz-Signature")
	assert.Equal(t, http.StatusNotFound, w.get(t, "/files/"+a.text("file_id")).status, "it is not here yet")
	send, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader(content))
	require.NoError(t, err)
	headers, _ := up["headers"].(map[string]any)
	for name, value := range headers {
		text, _ := value.(string)
		send.Header.Set(name, text)
	}
	sent, err := http.DefaultClient.Do(send)
	require.NoError(t, err)
	require.NoError(t, sent.Body.Close())
	require.Equal(t, http.StatusOK, sent.StatusCode)
	return a.text("file_id")
}

// redirected requests bytes, follows the redirect to the bucket, and returns the content from there. Both have the same
// host name here, so the client would send the API key, too. The function leaves it out itself.
func (w world) redirected(t testing.TB, path string) (content string, header http.Header) {
	t.Helper()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
	require.NoError(t, err)
	ask.Header.Set("Authorization", "Bearer "+w.Key)
	staying := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	there, err := staying.Do(ask)
	require.NoError(t, err)
	require.NoError(t, there.Body.Close())
	require.Equal(t, http.StatusTemporaryRedirect, there.StatusCode)
	got, err := http.Get(there.Header.Get("Location")) //nolint:noctx // a test
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return string(raw), got.Header
}

func aLargeDocumentComesAndGoesByTheBucket(t *testing.T, w world) {
	content := strings.Repeat("0123456789abcdef swordfish\n", 170_000) // 4.4 MiB, more than a function takes
	file := w.announced(t, fields{"name": "large.txt", "content_type": "text/plain", "purpose": "document"}, content)
	base := w.base(t, fields{"chunking": fields{"size": 1000, "overlap": 0}})
	document := w.document(t, base, fields{"file_id": file})
	assert.EqualValues(t, len(content), w.ready(t, document).body["size"])
	assert.NotZero(t, w.hits(t, "swordfish"))
	came, header := w.redirected(t, document+"/content")
	assert.Equal(t, content, came)
	assert.Equal(t, `attachment; filename=large.txt`, header.Get("Content-Disposition"))
	text, header := w.redirected(t, document+"/text")
	assert.Equal(t, strings.TrimSpace(content), strings.TrimSpace(text))
	assert.Equal(t, "text/plain; charset=utf-8", header.Get("Content-Type"))
}

// embedder is an embedding model that takes a while for a request. It counts the requests that the client gave up.
type embedder struct {
	takes     time.Duration
	givenUp   atomic.Int64
	requested chan struct{} // gets a value with a request, when it has none
}

func newEmbedder(t testing.TB, takes time.Duration) (*embedder, map[string]string) {
	t.Helper()
	e := &embedder{takes: takes, requested: make(chan struct{}, 1)}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, map[string]string{"OPENAI_BASE_URL": server.URL + "/v1", "EMBEDDING_MODELS": "openai/slow"}
}

func (e *embedder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(q.Input) > 1 { // chunks; otherwise it is a request for the dimensions
		select {
		case e.requested <- struct{}{}:
		default:
		}
		select {
		case <-time.After(e.takes):
		case <-r.Context().Done():
			e.givenUp.Add(1)
			return
		}
	}
	vectors := []any{}
	for n := range q.Input {
		vector := make([]float64, 64)
		vector[n%64] = 1
		vectors = append(vectors, fields{"index": n, "embedding": vector})
	}
	_ = json.NewEncoder(w).Encode(fields{"data": vectors, "usage": fields{"prompt_tokens": len(q.Input)}})
}

// words returns a text of n different words.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d ", i)
	}
	return b.String()
}

// aLongIngestionContinuesInAnotherFunction ingests for longer than a function may run. The ingestion ends, so each
// function continues where the one before stopped. Recorded embeddings are not requested again.
func aLongIngestionContinuesInAnotherFunction(t *testing.T, w world, model *embedder) {
	const pieces = 8
	base := w.base(t, fields{"chunking": fields{"size": 50, "overlap": 0}})
	w.ready(t, w.document(t, base, fields{"text": words(pieces * 64 * 50)}))
	assert.NotZero(t, model.givenUp.Load(), "nothing was handed over")
	assert.NotZero(t, w.hits(t, "word31"))
}

func theDocumentOfAKilledFunction(t *testing.T, w world, model *embedder) {
	for len(model.requested) > 0 {
		<-model.requested
	}
	base := w.base(t, fields{"chunking": fields{"size": 50, "overlap": 0}})
	document := w.document(t, base, fields{"text": "marlin " + words(4*64*50)})
	select {
	case <-model.requested:
	case <-time.After(time.Minute):
		t.Fatal("nobody ingests")
	}
	killed := w.processes("IngestFunctionName")
	require.NotEmpty(t, killed)
	for _, pid := range killed {
		kill(t, pid)
	}
	w.ready(t, document)
	assert.NotZero(t, w.hits(t, "marlin"))
}

// anIndexThatWasEmptiedIsRestored follows the runbook.
func anIndexThatWasEmptiedIsRestored(t *testing.T, w world, operate func(...string) string) {
	base := w.base(t, fields{})
	document := w.document(t, base, fields{"text": "swordfish"})
	w.ready(t, document)
	require.Equal(t, 1, w.hits(t, "swordfish"))
	w.vectors.empty(t, w.deployment)
	assert.Zero(t, w.hits(t, "swordfish"))
	state := func() string {
		index, _ := w.get(t, base).body["index"].(map[string]any)
		text, _ := index["state"].(string)
		return text
	}
	assert.Contains(t, operate("restore", "index"), "add -do")
	assert.Equal(t, "ready", state())
	assert.Contains(t, operate("-do", "restore", "index"), "will be put into the index again")
	require.Eventually(t, func() bool { return state() == "ready" && w.hits(t, "swordfish") == 1 }, 2*time.Minute,
		200*time.Millisecond)

	_, id, _ := strings.Cut(document, "/documents/")
	assert.Contains(t, operate("show", id), `"status": "ready"`)
	assert.Contains(t, operate("-do", "nudge", id), "document "+id+" is ready")
}

// kill ends a process. It may already have ended.
func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		require.ErrorIs(t, err, syscall.ESRCH)
	}
}

func aFileIsReadByAFunctionWithoutRights(t *testing.T, w world) {
	pdf, err := os.ReadFile("../../internal/text/extract/testdata/standard-font.pdf")
	require.NoError(t, err)
	file := w.announced(t, fields{"name": "terms.pdf", "content_type": "application/pdf"}, string(pdf))
	run := w.begin(t, w.agent(t), "message", "what are the terms?", "file_ids", file)
	w.await(t, run, "completed", 3*time.Minute) // the first PDF of a process is slow
	assert.NotEmpty(t, w.processes("ReaderFunctionName"), "the worker asked for it")

	stored, err := w.store().File(t.Context(), record.System(), file)
	require.NoError(t, err)
	signed, err := s3.NewPresignClient(s3.NewFromConfig(w.account, func(o *s3.Options) { o.UsePathStyle = true })).
		PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(w.outputs["Bucket"]),
			Key: aws.String(stored.Value.BlobPrefix())})
	require.NoError(t, err)
	ask, err := json.Marshal(reader.TextRequest{URL: signed.URL, ContentType: "application/pdf", Name: "terms.pdf"})
	require.NoError(t, err)
	out, err := lambda.NewFromConfig(w.account).Invoke(t.Context(),
		&lambda.InvokeInput{FunctionName: aws.String(w.outputs["ReaderFunctionName"]), Payload: ask})
	require.NoError(t, err)
	assert.Nil(t, out.FunctionError, string(out.Payload))
	assert.Contains(t, string(out.Payload), "Terms of delivery")
}
