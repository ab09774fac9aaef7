package accounts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// people are the callers of a test: each has a key of an own user, apart from the operator.
func people(t *testing.T, e httpapitest.API) map[string]httpapitest.API {
	t.Helper()
	all := map[string]httpapitest.API{"operator": e}
	for name, as := range map[string]struct{ role, level string }{
		"admin": {"admin", "admin"}, "manager": {"manager", "manage"}, "member": {"member", "run"},
		"manager's reading key": {"manager", "read"},
	} {
		user := sent(t, e, "POST", "/users", fmt.Sprintf(`{"email":"%x@example.com","role":%q}`, name, as.role))
		key := sent(t, e, "POST", "/api-keys",
			fmt.Sprintf(`{"name":"k","user_id":%q,"level":%q}`, user["user_id"], as.level))
		all[name] = e.As(key["key"].(string))
	}
	return all
}

// changedLast are the members that the newest entry of the audit log names.
func changedLast(t *testing.T, e httpapitest.API) any {
	t.Helper()
	return sent(t, e, "GET", "/audit-log?limit=1", "")["entries"].([]any)[0].(map[string]any)["changed"]
}

func TestWhoSetsWhoSeesChats(t *testing.T) {
	e := httpapitest.New(t)
	who := people(t, e)
	agent := "/agents/" + sent(t, e, "POST", "/agents", `{"name":"a"}`)["agent_id"].(string)
	key := "/api-keys/" + sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read"}`)["api_key_id"].(string)
	for _, c := range []struct {
		request, was, body, may string // was: the body of an earlier request, which the operator sends
		shows, needs            string
	}{
		{"PATCH /organization", `{"chat_visibility":"organization"}`, `{"chat_visibility":"own"}`,
			"operator admin", `"chat_visibility":"own"`, "admin"},
		{"PATCH /organization", `{"chat_visibility":"own"}`, `{"chat_visibility":"organization"}`,
			"operator admin", `"chat_visibility":"organization"`, "admin"},
		{"POST /organizations", "", `{"name":"n","chat_visibility":"own"}`, "operator", `"chat_visibility":"own"`,
			"operator"},
		{"POST /agents", "", `{"name":"b","chat_visibility":"own"}`, "operator admin manager",
			`"chat_visibility":"own"`, "manage"},
		{"PATCH " + agent, `{"chat_visibility":"organization"}`, `{"chat_visibility":"own"}`,
			"operator admin manager", `"chat_visibility":"own"`, "manage"},
		{"PATCH " + agent, `{"chat_visibility":"own"}`, `{"description":"d"}`, "operator admin manager",
			`"chat_visibility":"own"`, "manage"},
		{"PATCH " + agent, `{"chat_visibility":"own"}`, `{"chat_visibility":"organization"}`, "operator admin",
			`"chat_visibility":"organization"`, "admin"},
		{"PATCH " + agent, `{"chat_visibility":"own"}`, `{"chat_visibility":null}`, "operator admin",
			`"chat_visibility":"organization"`, "admin"}, // the default of an agent
		{"PATCH /organization", `{"chat_visibility":"own"}`, `{"chat_visibility":null}`, "operator admin",
			`"chat_visibility":"own"`, "admin"}, // nothing is named
		{"POST /api-keys", "", `{"name":"k","level":"read","sees":"organization"}`, "operator admin",
			`"sees":"organization"`, "admin"},
		{"PATCH " + key, `{"sees":"own"}`, `{"sees":"organization"}`, "operator admin", `"sees":"organization"`,
			"admin"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		for name, caller := range who {
			if c.was != "" {
				sent(t, e, method, path, c.was)
			}
			w := caller.Send(method, path, c.body)
			what := name + ": " + c.request + " " + c.body
			if strings.Contains(" "+c.may+" ", " "+name+" ") {
				assert.Less(t, w.Code, 300, "%s: %s", what, w.Body)
				assert.Contains(t, w.Body.String(), c.shows, what)
				continue
			}
			assert.Equal(t, http.StatusForbidden, w.Code, "%s: %s", what, w.Body)
			var refusal map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &refusal), what)
			if name == "manager" || c.needs != "admin" {
				assert.Equal(t, c.needs, refusal["level_needed"], what)
			}
		}
	}
}

func TestAWrongVisibilityNamesItsField(t *testing.T) {
	e := httpapitest.New(t)
	key := func(level string) string {
		made := sent(t, e, "POST", "/api-keys", `{"name":"k","level":"`+level+`"}`)
		return "PATCH /api-keys/" + made["api_key_id"].(string)
	}
	operator := sent(t, e, "GET", "/me", "")["api_key"].(map[string]any)["api_key_id"].(string)
	for _, c := range []struct{ request, body, field string }{
		{"PATCH /organization", `{"chat_visibility":"all"}`, "body.chat_visibility"},
		{"PATCH /organization", `{"chat_visibility":""}`, "body.chat_visibility"},
		{"POST /organizations", `{"name":"n","chat_visibility":"all"}`, "body.chat_visibility"},
		{"POST /agents", `{"name":"n","chat_visibility":"all"}`, "body.chat_visibility"},
		{"PATCH /agents/" + e.Agent, `{"chat_visibility":""}`, "body.chat_visibility"},
		{"POST /agents/import", `{"format":"agent-platform/agent","format_version":1,"toolkits":[],"agent":` +
			`{"name":"n","chat_visibility":"all"}}`, "body.agent.chat_visibility"},
		{"POST /api-keys", `{"name":"k","level":"read","sees":"all"}`, "body.sees"},
		{"POST /api-keys", `{"name":"k","level":"manage","sees":"organization"}`, "body.sees"},
		{"POST /api-keys", `{"name":"k","level":"admin","sees":"organization"}`, "body.sees"},
		{"POST /api-keys", `{"name":"k","level":"operator","sees":"organization"}`, "body.sees"},
		{key("manage"), `{"sees":"organization"}`, "body.sees"},
		{"PATCH /api-keys/" + operator, `{"sees":"organization"}`, "body.sees"},
		{key("run"), `{"sees":""}`, "body.sees"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		w := e.Send(method, path, c.body)
		assert.Equal(t, http.StatusBadRequest, w.Code, "%s %s: %s", c.request, c.body, w.Body)
		assert.Contains(t, w.Body.String(), `"`+c.field+`"`, "%s %s", c.request, c.body)
	}
}

// Resources from before there were visibilities show the visibility that they have in effect. An edit with that value
// changes nothing.
func TestWhatStoresNoVisibilityShowsIt(t *testing.T) {
	var store *record.Store
	e := httpapitest.New(t, func(c *service.Config) { store = c.Store })
	id := sent(t, e, "GET", "/organization", "")["organization_id"].(string)
	_, err := record.Change(t.Context(), store, record.System(), id, 0,
		func(o *catalog.Organization, _ *record.Tx) error {
			o.ChatVisibility, o.ListedByUser = "", false
			return nil
		})
	require.NoError(t, err)
	key := "/api-keys/" + sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read"}`)["api_key_id"].(string)
	for path, c := range map[string]struct{ member, shows, other string }{
		"/organization":      {"chat_visibility", "organization", "own"},
		"/agents/" + e.Agent: {"chat_visibility", "organization", "own"},
		key:                  {"sees", "own", "organization"},
	} {
		assert.Equal(t, c.shows, sent(t, e, "GET", path, "")[c.member], path)
		for value, changed := range map[string]bool{c.shows: false, c.other: true} {
			made := sent(t, e, "PATCH", path, fmt.Sprintf(`{"%s":"%s"}`, c.member, value))
			assert.Equal(t, value, made[c.member], path)
			if names, _ := changedLast(t, e).([]any); changed {
				assert.Contains(t, names, c.member, "%s to %s", path, value)
			} else {
				assert.NotContains(t, names, c.member, "%s to %s", path, value)
			}
			sent(t, e, "PATCH", path, fmt.Sprintf(`{"%s":"%s"}`, c.member, c.shows))
		}
	}
}

// A new organization has the visibility of new ones, unless its creation names another one.
func TestNewOrganizationsHaveAVisibility(t *testing.T) {
	e := httpapitest.New(t)
	for body, want := range map[string]string{
		`{"name":"n"}`:                                  string(catalog.SeesOwn),
		`{"name":"n","chat_visibility":"own"}`:          "own",
		`{"name":"n","chat_visibility":"organization"}`: "organization",
	} {
		made := sent(t, e, "POST", "/organizations", body)
		assert.Equal(t, want, made["chat_visibility"], body)
		assert.NotContains(t, made, "listed_by_user", "it is the service's own")
	}
}

// A rotation does not change the visibility of a key.
func TestAKeyKeepsWhatItSees(t *testing.T) {
	e := httpapitest.New(t)
	made := sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read","sees":"organization"}`)
	path := "/api-keys/" + made["api_key_id"].(string)
	assert.Equal(t, "organization", sent(t, e, "PATCH", path, `{"name":"m"}`)["sees"])
	assert.Equal(t, "organization", sent(t, e, "POST", path+"/rotate", "")["sees"])
	for _, k := range sent(t, e, "GET", "/api-keys", "")["api_keys"].([]any) {
		k := k.(map[string]any)
		want := map[bool]string{true: "organization", false: "own"}[k["api_key_id"] == made["api_key_id"]]
		assert.Equal(t, want, k["sees"], k["name"])
	}
}

// /me shows which chats its key sees in its organization.
func TestMeShowsWhatAKeySees(t *testing.T) {
	e := httpapitest.New(t)
	who := people(t, e)
	watches := sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read","sees":"organization"}`)
	who["monitor"] = e.As(watches["key"].(string))
	for _, of := range []string{"own", "organization"} {
		sent(t, e, "PATCH", "/organization", `{"chat_visibility":"`+of+`"}`)
		for name, want := range map[string]string{
			"operator": "organization", "admin": "organization", "manager": "organization", "monitor": "organization",
			"member": of, "manager's reading key": of,
		} {
			assert.Equal(t, want, sent(t, who[name], "GET", "/me", "")["sees"], "%s in %s", name, of)
		}
	}
	user := sent(t, e, "POST", "/users", `{"email":"alone@example.com","role":"member","organization_id":null}`)
	alone := sent(t, e, "POST", "/api-keys",
		fmt.Sprintf(`{"name":"k","user_id":%q,"organization_id":null}`, user["user_id"]))
	assert.Equal(t, "organization", sent(t, e.As(alone["key"].(string)), "GET", "/me", "")["sees"], "in none")
}
