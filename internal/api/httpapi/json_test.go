package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// sent is the answer to a body of JSON.
func sent(t *testing.T, e httpapitest.API, method, path, body string) (int, map[string]any) {
	t.Helper()
	w := e.Send(method, path, body)
	httpapitest.Sane(t, w)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%s", w.Body)
	return w.Code, answer
}

// faults are the places that a refusal names.
func faults(answer map[string]any) (locations []string) {
	list, _ := answer["errors"].([]any)
	for _, one := range list {
		locations = append(locations, fmt.Sprint(one.(map[string]any)["location"]))
	}
	return locations
}

// A body is one value: a reader that takes the first one drops the next.
func TestNothingFollowsABody(t *testing.T) {
	for _, more := range []string{`{}`, `[]`, `1`, `null`, "\n{\"name\":\"y\"}", `x`} {
		for _, body := range []string{`{"name":"x"}`, `[]`, `1`} {
			assert.Error(t, httpapi.CheckJSON("body", []byte(body+" "+more)), body+more)
		}
	}
	for _, body := range []string{`{"name":["x",{}]}`, " [1] \n", `"x"`, `null`} {
		assert.NoError(t, httpapi.CheckJSON("body", []byte(body)), body)
	}
}

// The name of a member is compared letter by letter: a name that differs in case is unknown, and changes nothing.
func TestANameInAnotherCaseIsAnotherName(t *testing.T) {
	e := httpapitest.New(t)
	status, group := sent(t, e, "POST", "/groups", `{"name":"x","Name":"y","NAME":"z"}`)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "x", group["name"])
	status, _ = sent(t, e, "POST", "/groups", `{"NAME":"x"}`)
	assert.Equal(t, http.StatusBadRequest, status)
	status, key := sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read","LEVEL":"operator"}`)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "read", key["level"])
	status, agent := sent(
		t,
		e,
		"POST",
		"/agents",
		`{"name":"a","approval":{"mode":"always","Mode":"never"},"limits":{"Max_Steps":1},`+
			`"budget":{"period":"day","max_runs":2,"Max_Runs":9}}`,
	)
	assert.Equal(t, http.StatusCreated, status)
	assert.Equal(t, "always", agent["approval"].(map[string]any)["mode"])
	assert.NotEqual(t, 1.0, agent["limits"].(map[string]any)["max_steps"])
	assert.InEpsilon(t, 2, agent["budget"].(map[string]any)["max_runs"], 0)
	status, user := sent(
		t, e, "POST", "/users", `{"email":"a@example.com","budget":{"period":"day","max_runs":2,"MAX_RUNS":9}}`,
	)
	assert.Equal(t, http.StatusCreated, status)
	assert.InEpsilon(t, 2, user["budget"].(map[string]any)["max_runs"], 0)
	status, answer := sent(
		t, e, "POST", "/a2a/"+e.Agent, `{"jsonrpc":"2.0","id":1,"Method":"tasks/get","method":"nothing"}`,
	)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, fmt.Sprint(answer["error"]), "there is no method nothing")
}

// A wrong type is a 400 that names the member, in words of JSON.
func TestAWrongTypeIsNamed(t *testing.T) {
	e := httpapitest.New(t)
	for _, c := range []struct{ method, path, body, location string }{
		{"POST", "/agents", `{"name":"a","budget":5}`, "body.budget"},
		{"POST", "/agents", `{"name":"a","budget":{"period":"day","max_runs":"1"}}`, "body.budget.max_runs"},
		{"POST", "/agents", `{"name":"a","metadata":1}`, "body.metadata"},
		{"POST", "/users", `{"email":"b@a.c","budget":{"period":"day","max_runs":"1"}}`, "body.budget.max_runs"},
		{"PATCH", "/organization", `{"budget":{"period":"day","max_tokens":1.5}}`, "body.budget.max_tokens"},
		{"POST", "/runs/cancel", `{"filter":{},"confirm_count":1e30}`, "body.confirm_count"},
		{"POST", "/runs/cancel", `{"filter":{"chat_id":null},"confirm_count":0}`, "body.filter.chat_id"},
		{"POST", "/runs/cancel", `{"filter":{"chat_id":"x y"},"confirm_count":0}`, "body.filter.chat_id"},
		{"POST", "/runs/cancel", `{"filter":{"agent_id":"xx"},"confirm_count":0}`, "body.filter.agent_id"},
		{"POST", "/runs/cancel", `{"filter":{"user_id":""},"confirm_count":0}`, "body.filter.user_id"},
	} {
		status, answer := sent(t, e, c.method, c.path, c.body)
		assert.Equal(t, http.StatusBadRequest, status, c.body)
		assert.Contains(t, faults(answer), c.location, "%s: %v", c.body, answer)
		assert.NotContains(t, fmt.Sprint(answer), "Go", c.body)
	}
	kind, form := e.Form("message", "x", "metadata", `{"a":null}`)
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(string(form)))
	r.Header.Set("Content-Type", kind)
	assert.Equal(t, http.StatusBadRequest, e.Do(r).Code)
}
