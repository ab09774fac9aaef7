package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/httpapi"
)

// sent is what comes of a body of JSON.
func (e edge) sent(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, httpapi.Base+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := e.do(r)
	sane(t, w)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%s", w.Body)
	return w.Code, answer
}

// faults are the places that a refusal names.
func faults(answer map[string]any) (places []string) {
	list, _ := answer["errors"].([]any)
	for _, one := range list {
		places = append(places, fmt.Sprint(one.(map[string]any)["location"]))
	}
	return places
}

// A member is what its name says letter by letter: one that differs in case is unknown, and changes nothing.
func TestANameInAnotherCaseIsAnotherName(t *testing.T) {
	e := newEdge(t)
	status, group := e.sent(t, "POST", "/groups", `{"name":"x","Name":"y","NAME":"z"}`)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "x", group["name"])
	status, _ = e.sent(t, "POST", "/groups", `{"NAME":"x"}`)
	assert.Equal(t, http.StatusBadRequest, status)
	status, key := e.sent(t, "POST", "/api-keys", `{"name":"k","level":"read","LEVEL":"operator"}`)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "read", key["level"])
	status, agent := e.sent(
		t,
		"POST",
		"/agents",
		`{"name":"a","approval":{"mode":"always","Mode":"never"},"limits":{"Max_Steps":1},"budget":{"period":"day","max_runs":2,"Max_Runs":9}}`,
	)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "always", agent["approval"].(map[string]any)["mode"])
	assert.NotEqual(t, 1.0, agent["limits"].(map[string]any)["max_steps"])
	assert.InEpsilon(t, 2, agent["budget"].(map[string]any)["max_runs"], 0)
	status, user := e.sent(
		t,
		"POST",
		"/users",
		`{"email":"a@example.com","budget":{"period":"day","max_runs":2,"MAX_RUNS":9}}`,
	)
	assert.Equal(t, http.StatusCreated, status)
	assert.InEpsilon(t, 2, user["budget"].(map[string]any)["max_runs"], 0)
	status, answer := e.sent(
		t,
		"POST",
		"/a2a/"+e.agent,
		`{"jsonrpc":"2.0","id":1,"Method":"tasks/get","method":"nothing"}`,
	)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, fmt.Sprint(answer["error"]), "there is no method nothing")
}

// A wrong type is a 400 that names the member, in words of JSON.
func TestAWrongTypeIsNamed(t *testing.T) {
	e := newEdge(t)
	for _, c := range []struct{ method, path, body, place string }{
		{"POST", "/agents", `{"name":"a","budget":5}`, "body.budget"},
		{"POST", "/agents", `{"name":"a","budget":{"period":"day","max_runs":"1"}}`, "body.budget.max_runs"},
		{"POST", "/agents", `{"name":"a","metadata":1}`, "body.metadata"},
		{"POST", "/users", `{"email":"b@example.com","budget":{"period":"day","max_runs":"1"}}`, "body.budget.max_runs"},
		{"PATCH", "/organization", `{"budget":{"period":"day","max_tokens":1.5}}`, "body.budget.max_tokens"},
		{"POST", "/runs/cancel", `{"filter":{},"confirm_count":1e30}`, "body.confirm_count"},
		{"POST", "/runs/cancel", `{"filter":{"chat_id":null},"confirm_count":0}`, "body.filter.chat_id"},
		{"POST", "/runs/cancel", `{"filter":{"chat_id":"x y"},"confirm_count":0}`, "body.filter.chat_id"},
		{"POST", "/runs/cancel", `{"filter":{"agent_id":"xx"},"confirm_count":0}`, "body.filter.agent_id"},
		{"POST", "/runs/cancel", `{"filter":{"user_id":""},"confirm_count":0}`, "body.filter.user_id"},
	} {
		status, answer := e.sent(t, c.method, c.path, c.body)
		assert.Equal(t, http.StatusBadRequest, status, c.body)
		assert.Contains(t, faults(answer), c.place, "%s: %v", c.body, answer)
		assert.NotContains(t, fmt.Sprint(answer), "Go", c.body)
	}
	kind, form := chatForm(e.agent, "message", "x", "metadata", `{"a":null}`)
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(string(form)))
	r.Header.Set("Content-Type", kind)
	assert.Equal(t, http.StatusBadRequest, e.do(r).Code)
}

// A form that just stops, and a part of which nobody can tell what it is, are malformed: nothing is lost without a
// word.
func TestAMalformedFormIsRefused(t *testing.T) {
	e := newEdge(t)
	whole := "--b\r\nContent-Disposition: form-data; name=\"agent_id\"\r\n\r\n" + e.agent + "\r\n--b\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nhello\r\n"
	for name, c := range map[string]struct {
		more   string
		status int
	}{
		"whole":                     {"--b--\r\n", http.StatusAccepted},
		"whole, without a line end": {"--b--", http.StatusAccepted},
		"no end":                    {"--b\r\n", http.StatusBadRequest},
		"no end, and no line end":   {"--b", http.StatusBadRequest},
		"a name that stays open":    {"--b\r\nContent-Disposition: form-data; name=\"title\r\n\r\nx\r\n--b--", http.StatusBadRequest},
		"a quote in a name":         {"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"b.txt\"\r\n\r\nx\r\n--b--", http.StatusBadRequest},
		"a name without quotes":     {"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=a b.txt\r\n\r\nx\r\n--b--", http.StatusBadRequest},
		"no disposition":            {"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--", http.StatusBadRequest},
		"another disposition":       {"--b\r\nContent-Disposition: attachment; name=\"f\"\r\n\r\nx\r\n--b--", http.StatusBadRequest},
	} {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(whole+c.more))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		w := e.do(r)
		assert.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
	}
}

// Who sends all of a request before looking at the answer finds the answer, though nobody wanted the body.
func TestARefusalReachesWhoSendsTheWholeBodyFirst(t *testing.T) {
	e := newEdge(t)
	e.MaxBody = 1 << 20
	s := served(t, e)
	keyless := e
	keyless.key = "none"
	file := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
	for name, c := range map[string]struct {
		who          edge
		path, before string
		kind         string
		status       int
	}{
		"without a key":   {keyless, "/agents", "", "application/json", http.StatusUnauthorized},
		"JSON":            {e, "/agents", `{"name":"`, "application/json", http.StatusRequestEntityTooLarge},
		"a form":          {e, "/chat", file, "multipart/form-data; boundary=b", http.StatusRequestEntityTooLarge},
		"a file":          {e, "/files", file, "multipart/form-data; boundary=b", http.StatusRequestEntityTooLarge},
		"a long message":  {e, "/chat", strings.Replace(file, "name=\"f\"; filename=\"f\"", "name=\"message\"", 1), "multipart/form-data; boundary=b", http.StatusBadRequest},
		"no such route":   {e, "/nothing", "", "application/json", http.StatusNotFound},
		"another method":  {e, "/agents/" + e.agent, "", "application/json", http.StatusMethodNotAllowed},
		"a malformed run": {e, "/runs/x/resume", "", "application/json", http.StatusNotFound},
	} {
		for _, chunked := range []bool{false, true} {
			const rest = 8 << 20
			head := fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", c.kind, len(c.before)+rest)
			if chunked {
				head = fmt.Sprintf("Content-Type: %s\r\nTransfer-Encoding: chunked\r\n", c.kind)
			}
			connection := say(t, s, c.who.head("POST", httpapi.Base+c.path, head))
			require.NoError(t, connection.SetDeadline(time.Now().Add(patience)))
			send(t, connection, c.before, chunked, name)
			for range rest >> 16 {
				send(t, connection, strings.Repeat("x", 1<<16), chunked, name)
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			require.NoError(t, err, name)
			assert.Equal(t, c.status, answer.StatusCode, name)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err, name)
			_ = connection.Close()
		}
	}
}

func send(t *testing.T, to net.Conn, text string, chunked bool, name string) {
	t.Helper()
	if chunked && text != "" {
		text = fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
	}
	_, err := io.WriteString(to, text)
	require.NoError(t, err, name)
}
