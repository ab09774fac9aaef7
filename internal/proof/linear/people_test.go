package linear

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A service may be killed after it has made a user and before it responds. It then has the user, and refuses the
// address from then on.
func TestPeopleAreMadeByAServiceThatIsKilled(t *testing.T) {
	taken := map[string]bool{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Email string }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		if r.URL.Path == "/users" {
			first, there := len(taken) == 0, taken[body.Email]
			taken[body.Email] = true
			if first { // it is made, and not answered
				panic(http.ErrAbortHandler)
			}
			if there {
				w.WriteHeader(http.StatusConflict)
				_, _ = fmt.Fprint(w, `{}`)
				return
			}
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"user_id":"u","key":"k","agent_id":"a","organization_id":"o"}`)
	}))
	defer service.Close()
	s := Service{Address: func() (string, string) { return service.URL, "operator" }}
	keys, agent, err := s.people(t.Context(), 3, 2, true)
	require.NoError(t, err)
	assert.Equal(t, []string{"k", "k", "k"}, keys)
	assert.Equal(t, "a", agent)
}
