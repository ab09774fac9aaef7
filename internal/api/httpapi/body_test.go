package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/run/files"
)

// jsonRoutes are routes of each kind that take JSON.
func jsonRoutes(e httpapitest.API) []string {
	return []string{
		"POST /agents",
		"PATCH /agents/" + e.Agent,
		"POST /users",
		"POST /toolkits",
		"POST /runs/cancel",
		"POST /files",
		"POST /webhooks/test",
		"PATCH /organization",
		"POST /runs/0123456789abcdef01234567/resume",
	}
}

// refusedAt is the place of the fault in a refusal.
func refusedAt(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	var body struct {
		Code   string
		Errors []struct{ Location string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Equal(t, "invalid_request", body.Code)
	require.NotEmpty(t, body.Errors)
	return body.Errors[0].Location
}

// deep is a value below so many members, one in another.
func deep(levels int) string {
	return strings.Repeat(`{"a":`, levels) + `1` + strings.Repeat(`}`, levels)
}

// lists are so many lists, one in another.
func lists(levels int) string { return strings.Repeat(`[`, levels) + strings.Repeat(`]`, levels) }

func TestJSONIsCheckedBeforeAnythingReadsIt(t *testing.T) {
	long := strings.Repeat("x", 2000)
	e := httpapitest.New(t)
	for name, c := range map[string]struct{ body, at string }{
		"a repeated member":             {`{"name":"a","name":"b"}`, "body.name"},
		"a repeated member, spelled":    {`{"name":"a","\u006eame":"b"}`, "body.name"},
		"a repeated member, nested":     {`{"x":[{"y":{"z":1,"z":2}}]}`, "body.x[0].y.z"},
		"a repeated member, unknown":    {`{"whatever":1,"whatever":1}`, "body.whatever"},
		"bytes that are not UTF-8":      {"{\"x\":\"\xff\"}", "body.x"},
		"a name that is not UTF-8":      {"{\"\xff\":1}", "body"},
		"half of a surrogate pair":      {`{"x":{"y":"\ud800"}}`, "body.x.y"},
		"something after it":            {`{} {}`, "body"},
		"no end":                        {`{"x":{"y":`, "body.x.y"},
		"too deep, objects":             {deep(65), "body" + strings.Repeat(".a", 64)},
		"too deep, arrays":              {`{"x":` + lists(5000) + `}`, "body.x" + strings.Repeat("[0]", 63)},
		"too many values":               {`{"x":[` + strings.Repeat(`0,`, 300_000) + `0]}`, "body"},
		"names as long as they may not": {`{"` + long + `":1,"` + long + `":1}`, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, route := range jsonRoutes(e) {
				method, path, _ := strings.Cut(route, " ")
				w := e.Send(method, path, c.body)
				at := refusedAt(t, w)
				assert.True(
					t, at == c.at || c.at == "body" && strings.HasPrefix(at, "body"), "%s: refused at %s", route, at,
				)
				assert.Less(t, w.Body.Len(), 4096, "an answer is not as long as what it refuses")
			}
		})
	}
	w := e.Send("POST", "/agents", `{"name":"a","nobody knows":{"this":1},"x":[1,1]}`)
	assert.Equal(t, http.StatusCreated, w.Code, "unknown members are ignored: %s", w.Body)
	assert.Equal(
		t,
		http.StatusCreated,
		e.Send("POST", "/agents", `{"name":"a","x":`+lists(63)+`}`).Code,
		"as deep as may be",
	)
}

// work is how many bytes are allocated on the way. It measures the server's work for a body, and a busy machine does
// not change it.
func work(do func()) uint64 {
	var before, after runtime.MemStats
	do() // allocations that are made once
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// nested is a body of about this many bytes, as deep as may be.
func nested(size int) string {
	var b strings.Builder
	b.WriteString(`{"name":"a","output_schema":{"type":"object"`)
	branch := strings.Repeat(`{"p":`, 60) + `{"q":"x"}` + strings.Repeat(`}`, 60)
	for n := 0; b.Len() < size; n++ {
		b.WriteString(
			`,"x` + strings.Repeat("y", n%7) + string(rune('a'+n%26)) + strings.Repeat("z", n/26) + `":` + branch,
		)
	}
	b.WriteString(`}}`)
	return b.String()
}

func TestTheWorkOfABodyGrowsLikeIt(t *testing.T) {
	e := httpapitest.New(t)
	for _, route := range []string{"POST /agents", "PATCH /agents/" + e.Agent} {
		method, path, _ := strings.Cut(route, " ")
		once := work(func() { httpapitest.Sane(t, e.Send(method, path, nested(64<<10))) })
		twice := work(func() { httpapitest.Sane(t, e.Send(method, path, nested(128<<10))) })
		t.Logf("%s: %d KB and %d KB", route, once>>10, twice>>10)
		assert.Less(t, twice, 3*once, route)
		assert.Less(t, once, uint64(64<<10)*400, "%s: bytes allocated", route)
	}
	once := work(func() { e.Send("POST", "/agents", deep(2000)) })
	twice := work(func() { e.Send("POST", "/agents", deep(4000)) })
	assert.Less(t, twice, 3*once, "what is too deep")
}

func TestARefusalOfManyFaultsNamesAFew(t *testing.T) {
	w := httpapitest.New(t).Send("POST", "/agents", `{"name":"a","toolkit_ids":[`+strings.Repeat(`0,`, 50_000)+`0]}`)
	assert.Equal(t, "body.toolkit_ids[0]", refusedAt(t, w))
	assert.Less(t, w.Body.Len(), 16<<10)
}

// A client that waits for a go-ahead (Expect) with a body that is too long is refused, and receives no go-ahead.
func TestABodyThatIsTooLongIsNotAskedFor(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.MaxBody = files.MaxSize + 2 })
	server := httptest.NewServer(e)
	defer server.Close()
	content := func(about string) string { return "PUT /files/" + announced(t, e, about) + "/content" }
	const form = "multipart/form-data; boundary=b"
	for route, of := range map[string]struct {
		kind   string
		length int
		status string
	}{
		"POST /chat": {form, 99_000_000, "413"}, "POST /files": {form, 99_000_000, "413"},
		"POST /runs/" + e.Agent + "/followups": {"application/json", 99_000_000, "413"},
		"POST /responses":                      {"application/json", 99_000_000, "413"},
		content(`{"name":"a"}`):                {"text/plain", files.MaxSize + 1, "413"},
		content(`{"name":"a","size":5}`):       {"text/plain", 6, "400"},
	} {
		method, path, _ := strings.Cut(route, " ")
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(c, e.Head(method, httpapi.Base+path, fmt.Sprintf(
			"Expect: 100-continue\r\nContent-Type: %s\r\nContent-Length: %d\r\n", of.kind, of.length)))
		require.NoError(t, err)
		answer, err := io.ReadAll(c)
		require.NoError(t, err, path)
		assert.Contains(t, string(answer[:12]), "HTTP/1.1 "+of.status, path)
		assert.NotContains(t, string(answer), "100 Continue", path)
		require.NoError(t, c.Close())
	}
}

// announced is the id of a file whose bytes have not come.
func announced(t *testing.T, e httpapitest.API, about string) string {
	w := e.Send("POST", "/files", about)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var f struct {
		FileID string `json:"file_id"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &f))
	return f.FileID
}

// A compressed body is refused by its header: it was bad JSON, a form that broke off, or a file of other bytes.
func TestACompressedBodyIsRefusedByItsHeader(t *testing.T) {
	e := httpapitest.New(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(`{"name":"a"}`))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	id := announced(t, e, `{"name":"a"}`)
	send := func(route, body string, codings ...string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(route, " ")
		r := httptest.NewRequest(method, httpapi.Base+path, strings.NewReader(body))
		r.Header["Content-Encoding"] = codings
		return e.Do(r)
	}
	for _, route := range []string{
		"POST /agents", "POST /chat", "POST /files", "PUT /files/" + id + "/content", "POST /responses", "POST /mcp",
	} {
		for _, codings := range [][]string{{"gzip"}, {"identity, gzip"}, {"identity", "br"}, {" GZip "}, {"zstd"},
			{"aws-chunked"}, {"utf-8,,X-Gzip"}} {
			w := send(route, packed.String(), codings...)
			assert.Equal(t, http.StatusBadRequest, w.Code, route)
			assert.Contains(t, w.Body.String(), `"location":"header.Content-Encoding"`, route)
			assert.Contains(t, w.Body.String(), strings.TrimSpace(codings[len(codings)-1]), route)
		}
	}
	for _, plain := range []string{"Identity", "", " ", "identity,", ",", "none", "utf-8", "UTF-8, identity"} {
		assert.Equal(t, http.StatusCreated, send("POST /agents", `{"name":"a"}`, plain).Code, plain)
	}
	assert.Equal(t, http.StatusOK, send("GET /agents", "", "gzip").Code, "there is no body")
}
