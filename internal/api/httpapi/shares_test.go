package httpapi_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net"
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
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/waiting"
)

// tenantOf makes another organization with an admin, an agent and a run that stays queued.
func tenantOf(t *testing.T, e httpapitest.API) (theirs httpapitest.API, run string) {
	t.Helper()
	made := func(e httpapitest.API, path, body, member string) string {
		w := e.Send("POST", path, body)
		require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return answer[member].(string)
	}
	id := made(e, "/organizations", `{"name":"theirs"}`, "organization_id")
	user := made(e, "/users", `{"email":"a@`+id+`.example","role":"admin","organization_id":"`+id+`"}`, "user_id")
	key := made(e, "/api-keys", `{"name":"k","level":"admin","user_id":"`+user+`","organization_id":"`+id+`"}`, "key")
	theirs = e.As(key)
	theirs.Agent = made(theirs, "/agents", `{"name":"a","model":{"provider":"demo"}}`, "agent_id")
	return theirs, theirs.Chat("message", "x", "wait", "false").Header().Get("X-Agent-Run-Id")
}

// key is the same user with another key.
func key(t *testing.T, e httpapitest.API) httpapitest.API {
	t.Helper()
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal(e.Send("POST", "/api-keys", `{"name":"k","level":"admin"}`).Body.Bytes(), &made))
	return e.As(made.Key)
}

type refusal struct {
	Code, Limit, Scope string
	Max, Used          int64
}

// ask sends the head of a request, and returns its open connection with the answer.
func ask(t *testing.T, s *httptest.Server, e httpapitest.API, path string) (net.Conn, int, refusal) {
	t.Helper()
	c := dialAndWrite(t, s, e.Head("GET", httpapi.Base+path, ""))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	var why refusal
	if answer.StatusCode >= 400 {
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&why))
		assert.NotEmpty(t, answer.Header.Get("Retry-After"))
	}
	return c, answer.StatusCode, why
}

// An organization with any number of keys leaves the reserve of streams to others, and the operator has its own.
func TestStreamsOfAnOrganizationLeaveOthersRoom(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.Streams = 20 })
	s := limited(t, e)
	theirs, run := tenantOf(t, e)
	scopes := map[string]int{}
	for range 6 { // the user's 8 of 20, by keys of 6
		for k := key(t, theirs); ; {
			_, status, why := ask(t, s, k, "/runs/"+run+"/stream")
			if status != http.StatusOK {
				assert.Equal(t, http.StatusTooManyRequests, status)
				assert.Equal(t, []string{"share_exceeded", "streams"}, []string{why.Code, why.Limit})
				assert.Equal(t, why.Max, why.Used)
				scopes[why.Scope]++
				break
			}
			scopes["open"]++
		}
	}
	assert.Equal(t, map[string]int{"open": 8, "api_key": 1, "user": 5}, scopes)
	other, run := tenantOf(t, e)
	for range 6 {
		_, status, _ := ask(t, s, other, "/runs/"+run+"/stream")
		assert.Equal(t, http.StatusOK, status)
	}
}

// Connections count for the sender of their last request, also while they are idle. They are released when they are
// closed.
func TestConnectionsOfAnOrganizationLeaveOthersRoom(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.Connections = 20 })
	s := limited(t, e)
	theirs, _ := tenantOf(t, e)
	second := key(t, theirs)
	var open []net.Conn
	for range 6 {
		c, status, _ := ask(t, s, theirs, "/me")
		require.Equal(t, http.StatusOK, status)
		open = append(open, c)
	}
	c, status, why := ask(t, s, theirs, "/me")
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, refusal{"share_exceeded", "connections", "api_key", 6, 6}, why)
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err, "the refused connection is closed")
	for range 2 {
		_, status, _ = ask(t, s, second, "/me")
		require.Equal(t, http.StatusOK, status)
	}
	_, status, why = ask(t, s, second, "/me")
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, refusal{"share_exceeded", "connections", "user", 8, 8}, why)
	other, _ := tenantOf(t, e)
	shared, status, _ := ask(t, s, other, "/me")
	assert.Equal(t, http.StatusOK, status)
	_, err = shared.Write([]byte(theirs.Head("GET", "/api/v1/me", "")))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(shared), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, answer.StatusCode, "it would be theirs, and they have all of theirs")
	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool {
		_, status, _ := ask(t, s, theirs, "/me")
		return status == http.StatusOK
	}, patience, 10*time.Millisecond, "a connection is given back")
}

// A request over the share of connections counts against the rate of its key, as any other.
func TestARequestOverTheShareOfConnectionsCounts(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.Connections = 20 })
	s := limited(t, e)
	theirs, _ := tenantOf(t, e)
	limits := `{"rate_limit":{"requests_per_minute":1,"burst":8}}`
	require.Equal(t, http.StatusOK, theirs.Send("PATCH", "/organization", limits).Code)
	codes := map[string]int{}
	for range 20 {
		_, _, why := ask(t, s, theirs, "/me")
		codes[why.Code]++
	}
	assert.Equal(t, 6, codes[""], "a key has 6 of 20 connections")
	assert.NotZero(t, codes["share_exceeded"])
	assert.NotZero(t, codes["rate_limited"], "%v", codes)
}

// A request that finds no slot for its wait does not wait. It is not refused.
func TestWaitsBeyondTheShareEndImmediately(t *testing.T) {
	const hour = time.Hour
	e := httpapitest.New(t, func(c *service.Config) { c.Streams, c.Shares.Key, c.ObserveWindow = 20, 1, hour })
	theirs, run := tenantOf(t, e)
	var left []time.Duration
	theirs.Handle("GET", "/wait", tenant.LevelRead, func(
		_ http.ResponseWriter, r *http.Request, c *httpapi.Call,
	) error {
		left = append(left, waiting.Left(r.Context(), 0), waiting.Left(r.Context(), hour))
		if r.URL.RawQuery == "" {
			return nil
		}
		theirs.Send("GET", "/wait", "")
		read := theirs.Send("GET", "/runs/"+run+"?wait_ms=20000", "")
		assert.Equal(t, http.StatusOK, read.Code)
		assert.Contains(t, read.Body.String(), `"status":"queued"`)
		posted := theirs.Chat("message", "y")
		assert.Equal(t, http.StatusAccepted, posted.Code, posted.Body.String())
		assert.NoError(t, theirs.TakeSlot(r.Context(), c), "a stream instead")
		theirs.Send("GET", "/wait", "")
		left = append(left, waiting.Left(r.Context(), hour))
		return nil
	})
	began := time.Now()
	theirs.Send("GET", "/wait?outer", "")
	assert.Less(t, time.Since(began), hour)
	require.Len(t, left, 7)
	assert.Greater(t, min(left[0], left[1]), hour)
	assert.Zero(t, max(left[2], left[3]), "the first one has the only slot")
	assert.Greater(t, min(left[4], left[5]), hour, "a wait that goes on as a stream gives its slot back")
	assert.Greater(t, left[6], hour)
}

// All keys of an organization together have a rate. Requests over the rate of a key do not count.
func TestTheRateOfAnOrganizationHoldsForAllItsKeys(t *testing.T) {
	e := httpapitest.New(t)
	theirs, _ := tenantOf(t, e)
	second := key(t, theirs)
	limits := `{"rate_limit":{"requests_per_minute":1,"burst":3},` +
		`"organization_rate_limit":{"requests_per_minute":1,"burst":5}}`
	require.Equal(t, http.StatusOK, theirs.Send("PATCH", "/organization", limits).Code)
	of := func(k httpapitest.API) (answered int, first string) {
		for range 10 {
			w := k.Send("GET", "/me", "")
			if w.Code == http.StatusOK {
				answered++
				continue
			}
			var why refusal
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &why))
			assert.Equal(t, "rate_limited", why.Code)
			assert.NotEmpty(t, w.Header().Get("Retry-After"))
			first = cmp.Or(first, why.Scope)
		}
		return answered, first
	}
	n, scope := of(theirs)
	assert.LessOrEqual(t, n, 3)
	assert.Equal(t, "api_key", scope)
	m, scope := of(second)
	assert.LessOrEqual(t, n+m, 5)
	assert.NotZero(t, m)
	assert.Equal(t, "organization", scope)
	other, _ := tenantOf(t, e)
	assert.Equal(t, http.StatusOK, other.Send("GET", "/me", "").Code)
	assert.Equal(t, http.StatusOK, e.Send("GET", "/me", "").Code, "an operator is not locked out")
	w := theirs.Send("PATCH", "/organization", strings.Replace(limits, `"burst":5`, `"burst":1000000000`, 1))
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
}
