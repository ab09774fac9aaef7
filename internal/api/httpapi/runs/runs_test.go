package runs_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
)

func FuzzChatForm(f *testing.F) {
	e := httpapitest.Shared(f)
	for _, pairs := range [][]string{
		{"message", "x"},
		{"message", "x", "wait", "false"},
		{"message", "x", "metadata", `{"a":"b"}`},
		{"message", "x", "idempotency_key", "k"},
		{"message", "x", "chat_id", "c", "on_conflict", "enqueue"},
		{"message", "x", "callback_url", "https://example.com"},
		{"message", "x", "file_ids", "a,b"},
	} {
		kind, body := e.Form(pairs...)
		f.Add(kind, body)
	}
	f.Add(
		"multipart/form-data; boundary=b",
		[]byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nabc\r\n--b--"),
	)
	f.Add("multipart/form-data; boundary=\"\"", []byte("--"))
	f.Add("application/json", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if bytes.Contains(body, []byte("streaming")) {
			return // a stream of a run that no worker takes never ends
		}
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		httpapitest.Sane(t, e.Do(r))
	})
}

func FuzzCallbackURL(f *testing.F) {
	e := httpapitest.Shared(f)
	for _, s := range []string{
		"https://example.com/", "http://x", "https://127.0.0.1/", "https://0x7f.1/", "https://[::1]/",
		"https://a@b/", "//x", "https://", "https://ex ample/", "https://例え.jp/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, u string) {
		kind, body := e.Form("message", "x", "wait", "false", "callback_url", u)
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := e.Do(r)
		httpapitest.Sane(t, w)
		if w.Code == http.StatusAccepted && u != "" && !strings.HasPrefix(strings.ToLower(u), "https://") {
			t.Fatalf("%q was accepted", u)
		}
	})
}

func TestAParkedMessageThatCannotBeReadIsNotOneThatIsNotThere(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t, "chat_id", "c", "on_conflict", "enqueue").RunID
	parked := e.Begin(t, "chat_id", "c", "on_conflict", "enqueue").Parked.ParkedID
	get := func() *httptest.ResponseRecorder {
		return e.Do(httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs/"+run, nil))
	}
	assert.Contains(t, get().Body.String(), parked)
	e.Items.Break("run/" + parked + "/input")
	assert.Equal(t, http.StatusInternalServerError, get().Code)
	assert.Contains(t, e.Written.String(), "an item that cannot be read")
}

// A retry of a message whose run has failed is answered as the first request, and the document has its headers.
func TestARetryIsAnsweredWithTheFailureOfItsRun(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t, "idempotency_key", "k").RunID
	e.End(t, run, lifecycle.Fail{Work: lifecycle.Work{Attempt: 1}, Error: "no luck"})
	w := e.Chat("message", "m", "idempotency_key", "k")
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Equal(t, []string{"true", run}, []string{w.Header().Get("Idempotent-Replayed"),
		w.Header().Get("X-Agent-Run-Id")})
	assert.Contains(t, w.Body.String(), `"code":"run_failed"`)
}

// breaking breaks a table when something is written.
type breaking struct {
	*httptest.ResponseRecorder

	when string
	then func()
}

func (b breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(b.when)) {
		b.then()
	}
	return b.ResponseRecorder.Write(p)
}

func TestAStreamThatFailsIsLogged(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t).RunID
	r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs/"+run+"/stream", nil)
	r.Header.Set("Authorization", "Bearer "+e.Key)
	w := breaking{httptest.NewRecorder(), "event: init", func() { // the next change cannot be read
		e.Items.Break("run/")
		e.Executor.Notifier.Notify(run)
	}}
	e.ServeHTTP(w, r)
	assert.Equal(t, http.StatusOK, w.Code, "it had begun")
	assert.Contains(t, e.Written.String(), "a stream failed")
	assert.Contains(t, e.Written.String(), run)
	assert.Contains(t, e.Written.String(), "an item that cannot be read")
}
