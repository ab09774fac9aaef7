package agents_test

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

type object = map[string]any

func read(t *testing.T, w *httptest.ResponseRecorder, status int) object {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	var answer object
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

// An edit is a merge patch for a version. A member that is null goes back to its default; an absent member stays. An
// edit of an agent that has changed meanwhile is refused.
func TestAnEditIsAMergePatch(t *testing.T) {
	e := httpapitest.New(t)
	made := e.Send(
		"POST",
		"/agents",
		`{"name":"a","limits":{"max_steps":3,"max_tokens":9},"budget":{"period":"day","max_runs":2}}`,
	)
	agent := read(t, made, http.StatusCreated)
	edit := func(match, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(
			http.MethodPatch, httpapi.Base+"/agents/"+agent["agent_id"].(string), strings.NewReader(body),
		)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("If-Match", match)
		return e.Do(r)
	}
	tag := made.Header().Get("ETag")
	edited := read(t, edit(tag, `{"limits":{"max_steps":null},"budget":null}`), http.StatusOK)
	assert.InEpsilon(t, 9, edited["limits"].(object)["max_tokens"], 0)
	assert.NotEqual(t, 3.0, edited["limits"].(object)["max_steps"])
	assert.Nil(t, edited["budget"])
	assert.InEpsilon(t, 2, edited["version"], 0)
	for _, stale := range []string{tag, `"x"`, `"-1"`} {
		read(t, edit(stale, `{"name":"b"}`), http.StatusPreconditionFailed)
	}
	assert.Equal(t, "b", read(t, edit("*", `{"name":"b"}`), http.StatusOK)["name"])
}

// An exported agent is imported as a new one like it.
func TestAnAgentIsCopied(t *testing.T) {
	e := httpapitest.New(t)
	document := e.Send("GET", "/agents/"+e.Agent+"/export", "")
	read(t, document, http.StatusOK)
	imported := read(t, e.Send("POST", "/agents/import", document.Body.String()), http.StatusCreated)
	copied := read(t, e.Send("POST", "/agents/"+e.Agent+"/duplicate", ""), http.StatusCreated)
	assert.Equal(t, "Demo", imported["name"])
	assert.Equal(t, "Demo (copy)", copied["name"])
	assert.NotEqual(t, imported["agent_id"], copied["agent_id"])
	later := strings.Replace(document.Body.String(), `"format_version":1`, `"format_version":2`, 1)
	assert.Contains(t, e.Send("POST", "/agents/import", later).Body.String(), "body.format_version")
}

// Copies keep the visibility of chats, and versions show it. A document without it means organization.
func TestTheCopiesOfAnAgentKeepWhoSeesItsChats(t *testing.T) {
	e := httpapitest.New(t)
	path := "/agents/" + e.Agent
	for _, shows := range []string{"organization", "own"} {
		read(t, e.Send("PATCH", path, `{"chat_visibility":"`+shows+`"}`), http.StatusOK)
		document := e.Send("GET", path+"/export", "")
		assert.Equal(t, shows, read(t, document, http.StatusOK)["agent"].(object)["chat_visibility"])
		imported := read(t, e.Send("POST", "/agents/import", document.Body.String()), http.StatusCreated)
		assert.Equal(t, shows, imported["chat_visibility"])
		unnamed := strings.Replace(document.Body.String(), `"chat_visibility":"`+shows+`",`, "", 1)
		require.NotContains(t, unnamed, "chat_visibility")
		imported = read(t, e.Send("POST", "/agents/import", unnamed), http.StatusCreated)
		assert.Equal(t, "organization", imported["chat_visibility"])
		copied := read(t, e.Send("POST", path+"/duplicate", ""), http.StatusCreated)
		assert.Equal(t, shows, copied["chat_visibility"])
	}
	var shown []any
	for _, v := range read(t, e.Send("GET", path+"/versions", ""), http.StatusOK)["versions"].([]any) {
		shown = append(shown, v.(object)["chat_visibility"])
	}
	assert.Equal(t, []any{"own", "organization", "organization"}, shown)
}

// The built-in toolkit is the first row of all lists, and an agent has its tools by default.
func TestTheBuiltInToolkitIsListedFirst(t *testing.T) {
	e := httpapitest.New(t)
	first := read(t, e.Send("GET", "/toolkits?limit=1", ""), http.StatusOK)["toolkits"].([]any)[0].(object)
	assert.Equal(t, "builtin", first["kind"])
	tools := read(t, e.Send("GET", "/toolkits/"+first["toolkit_id"].(string)+"/tools", ""), http.StatusOK)
	assert.NotEmpty(t, tools["tools"])
	w := e.Send("POST", "/toolkits", `{"kind":"http","name":"t","credentials":{"type":"bearer","tokn":"x"}}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "body.credentials")
}

// The tools of an agent's runs are listed in pages, by name, or one of them alone.
func TestTheToolsOfAnAgentArePaged(t *testing.T) {
	e := httpapitest.New(t)
	path := "/agents/" + e.Agent + "/tools"
	all := read(t, e.Send("GET", path, ""), http.StatusOK)
	require.Nil(t, all["next_cursor"])
	require.Greater(t, len(all["tools"].([]any)), 2)
	var seen []any
	for cursor := ""; ; {
		page := read(t, e.Send("GET", path+"?limit=2"+cursor, ""), http.StatusOK)
		seen = append(seen, page["tools"].([]any)...)
		if page["next_cursor"] == nil {
			break
		}
		cursor = "&cursor=" + page["next_cursor"].(string)
	}
	assert.Equal(t, all["tools"], seen)
	one := read(t, e.Send("GET", path+"?name=echo", ""), http.StatusOK)["tools"].([]any)
	require.Len(t, one, 1)
	assert.Equal(t, "echo", one[0].(object)["name"])
	assert.Empty(t, read(t, e.Send("GET", path+"?name=other", ""), http.StatusOK)["tools"])
}

// Only managers see that approvers are missing: this reads all users, once for both versions.
func TestUsersAreReadForManagersAlone(t *testing.T) {
	e := httpapitest.New(t)
	const users = 150
	var user object
	for n := range users {
		user = read(t, e.Send("POST", "/users", fmt.Sprintf(`{"email":"u%d@example.com","role":"manager"}`, n)), 201)
	}
	group := read(t, e.Send("POST", "/groups", `{"name":"empty"}`), http.StatusCreated)["group_id"]
	agent := read(t, e.Send("POST", "/agents", fmt.Sprintf(`{"name":"a","approver_group_ids":[%q]}`, group)), 201)
	path := "/agents/" + agent["agent_id"].(string)
	patch := httptest.NewRequest(http.MethodPatch, httpapi.Base+path, strings.NewReader(`{"name":"b","publish":false}`))
	patch.Header.Set("Content-Type", "application/json")
	read(t, e.Do(patch), http.StatusOK)
	for level, problems := range map[string]int{"read": 0, "run": 0, "manage": 2} {
		key := read(t, e.Send("POST", "/api-keys",
			fmt.Sprintf(`{"name":"k","user_id":%q,"level":%q}`, user["user_id"], level)), http.StatusCreated)
		before := e.Items.Items.Load()
		list, _ := read(t, e.As(key["key"].(string)).Send("GET", path, ""), http.StatusOK)["problems"].([]any)
		assert.Len(t, list, problems, level)
		assert.Equal(t, problems/2, int(e.Items.Items.Load()-before)/users, level)
	}
}
