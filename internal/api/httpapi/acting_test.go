package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// The header names exactly one organization. A refusal of the header counts against the key all the same.
func TestTheHeaderNamesOneOrganization(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("POST", "/organizations", `{"name":"other","rate_limit":{"requests_per_minute":7}}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var other struct {
		ID string `json:"organization_id"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &other))
	admin := e.Send("POST", "/api-keys", `{"name":"k","level":"admin"}`)
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal(admin.Body.Bytes(), &made))
	ask := func(e httpapitest.API, path string, named ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, httpapi.Base+path, nil)
		r.Header["X-Organization"] = named
		return e.Do(r)
	}
	for name, c := range map[string]struct {
		named           []string
		operator, admin int
	}{
		"none":         {nil, 200, 200},
		"another":      {[]string{other.ID}, 200, 403},
		"an empty one": {[]string{""}, 400, 403},
		"nonsense":     {[]string{"x"}, 400, 403},
		"two":          {[]string{other.ID, other.ID}, 400, 403},
		"a list":       {[]string{other.ID + "," + other.ID}, 400, 403},
		"no such":      {[]string{"0123456789abcdef01234567"}, 404, 403},
		"of none":      {[]string{"-"}, 400, 403},
	} {
		for _, path := range []string{"/me", "/agents", "/runs"} {
			w := ask(e, path, c.named...)
			assert.Equal(t, c.operator, w.Code, "%s, %s: %s", path, name, w.Body)
			httpapitest.Sane(t, w)
			assert.NotEmpty(t, w.Header().Get("Ratelimit-Limit"))
			assert.NotEqual(t, "7", w.Header().Get("Ratelimit-Limit"), "the limit is the key's")
			w = ask(e.As(made.Key), path, c.named...)
			assert.Equal(t, c.admin, w.Code, "%s, %s, an admin: %s", path, name, w.Body)
		}
		assert.Equal(t, 200, ask(e.As("none"), "/healthz", c.named...).Code)
		assert.Equal(t, 401, ask(e.As("none"), "/me", c.named...).Code)
	}
	assert.Equal(t, 403, ask(e, "/organizations", other.ID).Code, "an admin of it, and no more")
	assert.Contains(t, ask(e, "/me", other.ID).Body.String(), `"level":"admin"`)
}
