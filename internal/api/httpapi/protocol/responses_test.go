package protocol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

// patient is a service whose runs are never executed. It waits for them, with slots for one request at a time.
func patient(t *testing.T) httpapitest.API {
	return httpapitest.New(t, func(c *service.Config) { c.Shares.Key, c.ResponseWindow = 1, time.Hour })
}

// soon returns the next value of a channel; it fails when none comes.
func soon[T any](t *testing.T, of <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-of:
	case <-time.After(20 * time.Second):
		require.Fail(t, what)
	}
	return v
}

// A request that waits for longer than others takes a stream slot. Where none is left, it is answered with the present
// state of its run. Its wait and its slot end with the client.
func TestALongWaitTakesAPlaceUntilItsClientLeaves(t *testing.T) {
	e := patient(t)
	ended := make(chan *httptest.ResponseRecorder, 3)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, r)
		ended <- rec
	}))
	defer s.Close()
	for range 2 { // the place is free again for the second
		here, leave := context.WithCancel(t.Context())
		defer leave()
		for range 3 {
			r, err := http.NewRequestWithContext(here, http.MethodPost, s.URL+httpapi.Base+"/responses",
				strings.NewReader(`{"model":"Demo","input":"x"}`))
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+e.Key)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "once")
			go func() {
				if answer, err := http.DefaultClient.Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
		for range 2 {
			w := soon(t, ended, "two have no place")
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Contains(t, w.Body.String(), `"status":"queued"`)
		}
		assert.Empty(t, ended, "one waits")
		leave()
		soon(t, ended, "it waits for nobody")
	}
}

func TestALongWaitEndsWithTheRightToTheAgent(t *testing.T) {
	e := patient(t)
	made := func(e httpapitest.API, path, body, id string) string {
		w := e.Send("POST", path, body)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		var v map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
		return v[id].(string)
	}
	organization := made(e, "/organizations", `{"name":"o"}`, "organization_id")
	as := func(role, level string) httpapitest.API {
		user := made(e, "/users", fmt.Sprintf(`{"email":"%s@example.com","role":%q,"organization_id":%q}`,
			role, role, organization), "user_id")
		return e.As(made(e, "/api-keys", fmt.Sprintf(`{"name":"k","user_id":%q,"level":%q,"organization_id":%q}`,
			user, level, organization), "key"))
	}
	admin, member := as("admin", "admin"), as("member", "run")
	agent := made(admin, "/agents", `{"name":"D"}`, "agent_id")
	group := made(admin, "/groups", `{"name":"g"}`, "group_id")
	ended := make(chan *httptest.ResponseRecorder, 1)
	go func() { ended <- member.Send("POST", "/responses", `{"model":"`+agent+`","input":"x"}`) }()
	require.Eventually(t, func() bool {
		return strings.Contains(admin.Send("GET", "/runs", "").Body.String(), `"run_id"`)
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, admin.Send("PATCH", "/agents/"+agent, `{"group_ids":["`+group+`"]}`).Code)
	assert.Equal(t, http.StatusForbidden, soon(t, ended, "it waits for nothing").Code)
}
