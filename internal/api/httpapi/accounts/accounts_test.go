package accounts_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
)

// sent is the answer of an operation that must succeed.
func sent(t *testing.T, e httpapitest.API, method, path, body string) map[string]any {
	t.Helper()
	w := e.Send(method, path, body)
	require.Less(t, w.Code, 300, w.Body)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

// A member that is null goes back to its default; one that is left out stays.
func TestNullGoesBackToTheDefault(t *testing.T) {
	e := httpapitest.New(t)
	user := sent(
		t, e, "POST", "/users", `{"email":"a@example.com","concurrency_cap":3,"budget":{"period":"day","max_runs":2}}`,
	)
	path := "/users/" + user["user_id"].(string)
	user = sent(t, e, "PATCH", path, `{"name":"n"}`)
	assert.InEpsilon(t, 3, user["concurrency_cap"], 0)
	assert.NotNil(t, user["budget"])
	user = sent(t, e, "PATCH", path, `{"concurrency_cap":null,"budget":null}`)
	assert.Nil(t, user["concurrency_cap"])
	assert.Nil(t, user["budget"])
	assert.Equal(t, "n", user["name"])

	before := sent(t, e, "GET", "/organization", "")
	changed := sent(
		t, e, "PATCH", "/organization", `{"caps":{"user":5},"rate_limit":{"burst":6},"run_retention_days":7}`,
	)
	assert.NotEqual(t, before["caps"], changed["caps"])
	assert.InEpsilon(t, 7, changed["run_retention_days"], 0)
	changed = sent(
		t, e, "PATCH", "/organization", `{"caps":{"user":null},"rate_limit":{"burst":null},"run_retention_days":null}`,
	)
	for _, member := range []string{"caps", "rate_limit", "run_retention_days"} {
		assert.Equal(t, before[member], changed[member], member)
	}
}

// A caller that is not an operator names no organization except its own.
func TestOperatorsAloneNameAnOrganization(t *testing.T) {
	e := httpapitest.New(t)
	other := sent(t, e, "POST", "/organizations", `{"name":"other"}`)["organization_id"].(string)
	own := sent(t, e, "GET", "/organization", "")["organization_id"].(string)
	admin := e.As(sent(t, e, "POST", "/api-keys", `{"name":"k","level":"admin"}`)["key"].(string))
	for name, status := range map[string]struct{ operator, admin int }{
		`"` + other + `"`:            {http.StatusCreated, http.StatusForbidden},
		`"` + own + `"`:              {http.StatusCreated, http.StatusCreated},
		`null`:                       {http.StatusCreated, http.StatusForbidden},
		`""`:                         {http.StatusBadRequest, http.StatusBadRequest},
		`"x"`:                        {http.StatusBadRequest, http.StatusBadRequest},
		`"0123456789abcdef01234567"`: {http.StatusNotFound, http.StatusForbidden},
	} {
		body := func(who string) string { return `{"email":"` + who + `@example.com","organization_id":` + name + `}` }
		assert.Equal(t, status.operator, e.Send("POST", "/users", body("operator")).Code, name)
		assert.Equal(t, status.admin, admin.Send("POST", "/users", body("admin")).Code, name)
	}
}

func TestMeDescribesTheKey(t *testing.T) {
	e := httpapitest.New(t)
	e.Begin(t)
	made := sent(t, e, "POST", "/api-keys", `{"name":"k","level":"read","budget":{"period":"day","max_runs":2}}`)
	me := sent(t, e.As(made["key"].(string)), "GET", "/me", "")
	assert.Equal(t, "read", me["level"])
	assert.Equal(t, made["api_key_id"], me["api_key"].(map[string]any)["api_key_id"])
	assert.InEpsilon(t, 1, me["activity"].(map[string]any)["active_runs_of_organization"], 0)
	require.Len(t, me["budgets"], 1)
	assert.Equal(t, "api_key", me["budgets"].([]any)[0].(map[string]any)["kind"])
}
