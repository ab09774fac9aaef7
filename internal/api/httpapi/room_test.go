package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/tenant"
)

// made returns the ids in the answer to a request that makes a resource.
func made(t *testing.T, e httpapitest.API, path, body string) (of struct {
	Organization string `json:"organization_id"`
	User         string `json:"user_id"`
	Key          string
	Agent        string `json:"agent_id"`
}) {
	t.Helper()
	w := e.Send("POST", path, body)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &of))
	return of
}

// organization makes an organization of users users, and returns the API once for each of them, with a key of a level.
func organization(t *testing.T, e httpapitest.API, users int, level string) (all []httpapitest.API) {
	t.Helper()
	id := made(t, e, "/organizations", `{"name":"o"}`).Organization
	for n := range users {
		user := made(t, e, "/users",
			fmt.Sprintf(`{"email":"u%d@example.com","role":"admin","organization_id":%q}`, n, id)).User
		all = append(all, e.As(made(t, e, "/api-keys", fmt.Sprintf(
			`{"name":"k","user_id":%q,"level":%q,"organization_id":%q}`, user, level, id)).Key))
	}
	return all
}

// routes are routes of each kind that take JSON, as an organization reaches them.
func routes(agent string) []string {
	return []string{
		"POST /search", "POST /responses", "PATCH /organization", "POST /runs/0123456789abcdef01234567/resume",
		"POST /a2a/" + agent, "POST /agui/" + agent, "POST /mcp", "POST /runs/cancel", "POST /files",
		"POST /knowledge-bases/0123456789abcdef01234567/documents",
	}
}

// roundTrip is how a request over the wire is answered.
func roundTrip(t *testing.T, s *httptest.Server, e httpapitest.API, route, body string) (status int, text string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	r, err := http.NewRequest(method, s.URL+httpapi.Base+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+e.Key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client().Do(r)
	require.NoError(t, err, route)
	defer func() { _ = answer.Body.Close() }()
	all, err := io.ReadAll(answer.Body)
	require.NoError(t, err, route)
	return answer.StatusCode, string(all)
}

// padded is a body of JSON of so many bytes.
func padded(size int) string {
	const before, after = `{"query":"where?"`, `}`
	return before + strings.Repeat(" ", size-len(before)-len(after)) + after
}

const (
	mib       = 1 << 20
	largest   = 8 * mib
	smallSize = 64 << 10
)

// siege has a body held that does not end: all but the last byte of one of a size.
func siege(t *testing.T, s *httptest.Server, e httpapitest.API, route string, size int, inChunks bool) net.Conn {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	text := padded(size)[:size-1]
	length := fmt.Sprintf("Content-Length: %d", size)
	if inChunks {
		length = "Transfer-Encoding: chunked"
		var b strings.Builder
		for piece := range slices.Chunk([]byte(text), 60_000) {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
		}
		text = b.String()
	}
	c := dialAndWrite(t, s, e.Head(method, httpapi.Base+path, "Content-Type: application/json\r\n"+length+"\r\n"))
	go func() { _, _ = io.WriteString(c, text) }()
	return c
}

// question is a request whose answer must not depend on others.
type question struct {
	route string
	size  int
}

// questions are small and large requests at each door, and one of the largest size.
func questions(agent string) (all []question) {
	for _, route := range routes(agent) {
		for _, size := range []int{60, smallSize, mib} {
			all = append(all, question{route, size})
		}
	}
	return append(all, question{"POST /search", largest})
}

// unharmed checks that an organization's requests, while others disturb, get the answers that they get without them.
func unharmed(t *testing.T, s *httptest.Server, e httpapitest.API, all []question, disturb func()) {
	t.Helper()
	alone := map[question]int{}
	for _, l := range all {
		alone[l], _ = roundTrip(t, s, e, l.route, padded(l.size))
	}
	disturb()
	for _, l := range all {
		status, text := roundTrip(t, s, e, l.route, padded(l.size))
		assert.Equal(t, alone[l], status, "%s of %d bytes: %s", l.route, l.size, text)
	}
}

// besieged is the API behind a real server that waits for its clients, with an organization that only sends requests.
func besieged(t *testing.T) (e, other httpapitest.API, s *httptest.Server) {
	t.Helper()
	e = httpapitest.New(t, func(c *service.Config) { c.MaxBody, c.Stall = 64*mib, time.Hour })
	s = limited(t, e)
	other = organization(t, e, 1, "admin")[0]
	other.Agent = made(t, other, "/agents", `{"name":"a"}`).Agent
	return e, other, s
}

// Two, three and four organizations hold all bodies that they may, with bodies that do not end. They leave room for
// others: for small bodies at every entry point, and for large ones.
func TestBodiesThatDoNotEndLeaveOthersRoom(t *testing.T) {
	for attackers := 2; attackers <= 4; attackers++ {
		for _, inChunks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d organizations, chunked: %v", attackers, inChunks), func(t *testing.T) {
				e, other, s := besieged(t)
				var held []net.Conn
				unharmed(t, s, other, questions(other.Agent), func() {
					var users []httpapitest.API
					for range attackers {
						users = append(users, organization(t, e, 2, "admin")...)
					}
					for n, user := range users {
						held = append(held, siege(t, s, user, routes(other.Agent)[n%3], largest, inChunks))
					}
					require.Eventually(t, func() bool {
						bodies, _, _ := e.Held()
						return bodies == int64(len(users)*(largest-smallSize-1))
					}, patience, time.Millisecond)
					for _, user := range users { // and once more
						status, text := roundTrip(t, s, user, "POST /search", padded(largest))
						assert.Equal(t, http.StatusTooManyRequests, status, text)
					}
				})
				for _, c := range held {
					_ = c.Close()
				}
				empty(t, e)
			})
		}
	}
}

// So do organizations that have very many small bodies held, and heads without their bodies.
func TestSmallBodiesThatDoNotEndLeaveOthersRoom(t *testing.T) {
	e, other, s := besieged(t)
	var held []net.Conn
	unharmed(t, s, other, questions(other.Agent), func() {
		for range 2 {
			for _, user := range organization(t, e, 2, "read") {
				for range 192 { // 12 MiB of the 16 of a user, 24 of the 24 of the organization
					held = append(held, siege(t, s, user, "POST /search", smallSize+1, false),
						dialAndWrite(t, s, user.Head("POST", "/api/v1/search", "Content-Length: 8388608\r\n")))
				}
			}
		}
		require.Eventually(t, func() bool {
			bodies, smallBodies, _ := e.Held()
			return smallBodies == 2*24*mib && bodies == 0
		}, patience, time.Millisecond)
	})
	for _, c := range held {
		_ = c.Close()
	}
	empty(t, e)
}

// A user at the user's limit leaves room for others of the same organization. A refusal names the limit, at each entry
// point in the form that its clients read.
func TestARefusedShareNamesItsLimit(t *testing.T) {
	e, _, s := besieged(t)
	users := organization(t, e, 2, "admin")
	users[0].Agent = made(t, users[0], "/agents", `{"name":"a"}`).Agent
	refusal := func(route string) map[string]any {
		method, path, _ := strings.Cut(route, " ")
		w := users[0].Send(method, path, padded(largest))
		require.Equal(t, http.StatusTooManyRequests, w.Code, "%s: %s", route, w.Body)
		assert.Equal(t, "1", w.Header().Get("Retry-After"), route)
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), route)
		return body
	}
	held := []net.Conn{siege(t, s, users[0], "POST /search", largest, false)}
	require.Eventually(t, func() bool {
		bodies, _, _ := e.Held()
		return bodies == largest-smallSize-1
	}, patience, time.Millisecond)
	for _, route := range routes(users[0].Agent) {
		body := refusal(route)
		assert.Equal(t, []any{"share_exceeded", "request_bodies", "user", 12.0 * mib},
			[]any{body["code"], body["limit"], body["scope"], body["max"]}, route)
		assert.InDelta(t, 12*mib, body["used"], 5*mib, route)
		if route == "POST /responses" {
			assert.Equal(t, map[string]any{"message": body["message"], "type": "too_many_requests", "param": nil,
				"code": "share_exceeded"}, body["error"])
		}
	}
	status, text := roundTrip(t, s, users[1], "POST /search", padded(largest))
	assert.Equal(t, http.StatusOK, status, "a colleague: %s", text)

	held = append(held, siege(t, s, users[1], "POST /search", largest, false))
	require.Eventually(t, func() bool {
		bodies, _, _ := e.Held()
		return bodies == 2*(largest-smallSize-1)
	}, patience, time.Millisecond)
	body := refusal("POST /search")
	assert.Equal(t, []any{"organization", 16.0 * mib}, []any{body["scope"], body["max"]})
	for _, user := range users {
		status, text = roundTrip(t, s, user, "POST /search", padded(smallSize))
		assert.Equal(t, http.StatusOK, status, "small bodies pass: %s", text)
	}
	for _, c := range held {
		_ = c.Close()
	}
	empty(t, e)
}

// When very many organizations hold all there is, the refusal is of the service.
func TestWhenAllRoomForBodiesIsTaken(t *testing.T) {
	e, other, s := besieged(t)
	held := int64(0)
	for _, users := range []int{2, 2, 2, 2, 1} { // the last takes half of the reserve
		for _, user := range organization(t, e, users, "read") {
			siege(t, s, user, "POST /search", largest, false)
			held += largest - smallSize - 1
		}
		require.Eventually(t, func() bool {
			bodies, _, _ := e.Held()
			return bodies == held
		}, patience, time.Millisecond)
	}
	w := other.Send("POST", "/search", padded(largest))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), `"code":"unavailable"`)
	assert.Equal(t, http.StatusOK, other.Send("POST", "/search", padded(mib)).Code, "what is left is for smaller ones")
	assert.Equal(t, http.StatusOK, other.Send("POST", "/search", padded(smallSize)).Code, "small bodies pass")
}

// large adds a route whose answers have the number of bytes in the query.
func large(e httpapitest.API) {
	e.Handle("GET", "/large", tenant.LevelRead, func(w http.ResponseWriter, r *http.Request, _ *httpapi.Call) error {
		size, err := strconv.Atoi(r.URL.Query().Get("bytes"))
		if err == nil {
			_, _ = w.Write(make([]byte, size))
		}
		return err
	})
}

// Readers of two, three and four organizations request large answers and read nothing of them. They leave room for
// others.
func TestAnswersThatAreNotTakenLeaveOthersRoom(t *testing.T) {
	for attackers := 2; attackers <= 4; attackers++ {
		t.Run(fmt.Sprint(attackers), func(t *testing.T) {
			e, other, s := besieged(t)
			large(e)
			var held []net.Conn
			for range attackers {
				for _, user := range organization(t, e, 2, "read") {
					held = append(held, dialAndWrite(t, s,
						user.Head("GET", fmt.Sprint("/api/v1/large?bytes=", 16*mib), "")))
				}
			}
			require.Eventually(t, func() bool {
				_, _, answers := e.Held()
				return answers == int64(len(held)*(16*mib-smallSize))
			}, patience, time.Millisecond)
			for _, size := range []int{60, smallSize, mib, 8 * mib} {
				status, text := roundTrip(t, s, other, fmt.Sprint("GET /large?bytes=", size), "")
				assert.Equal(t, http.StatusOK, status)
				assert.Len(t, text, size)
			}
			for _, c := range held {
				_ = c.Close()
			}
			empty(t, e)
		})
	}
}

// A resource's answer that finds no room is a refusal on the wire, too.
func TestAnAnswerWithoutRoomIsRefused(t *testing.T) {
	e, _, s := besieged(t)
	large(e)
	users := organization(t, e, 2, "admin")
	for range 3 {
		made(t, users[0], "/agents", fmt.Sprintf(`{"name":"a","instructions":%q}`, strings.Repeat("x", 200<<10)))
	}
	var held []net.Conn
	for _, user := range users {
		held = append(held, dialAndWrite(t, s,
			user.Head("GET", fmt.Sprint("/api/v1/large?bytes=", 16*mib+smallSize), "")))
	}
	require.Eventually(t, func() bool {
		_, _, answers := e.Held()
		return answers == 32*mib
	}, patience, time.Millisecond)
	status, text := roundTrip(t, s, users[0], "GET /agents", "")
	assert.Equal(t, http.StatusTooManyRequests, status, text)
	assert.Contains(t, text, `"limit":"large_responses"`)
	for _, c := range held {
		_ = c.Close()
	}
	empty(t, e)
}

// An answer to a request without a key takes no room of the limits that organizations share.
func TestAnswersWithoutAKeyCountForNobody(t *testing.T) {
	e, _, s := besieged(t)
	for range 20 {
		dialAndWrite(t, s, strings.Repeat("GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 60))
	}
	for range 20 {
		status, _ := roundTrip(t, s, e.As("none"), "GET /openapi.json", "")
		require.Equal(t, http.StatusOK, status)
		_, _, answers := e.Held()
		assert.Zero(t, answers)
	}
}

// Room that a request holds comes back after any end of the request.
func TestWhatIsHeldComesBack(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.MaxBody, c.Stall = 64*mib, time.Hour })
	large(e)
	for path, then := range map[string]func(w http.ResponseWriter){
		"/panics": func(http.ResponseWriter) { panic("on purpose") },
		"/aborts": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"/answer-panics": func(w http.ResponseWriter) {
			_, _ = w.Write(make([]byte, mib))
			panic("on purpose")
		},
	} {
		e.Handle("POST", path, tenant.LevelRead, func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
			_, err := e.ReadBody(w, r, c)
			if err == nil {
				then(w)
			}
			return err
		})
	}
	s := limited(t, e)
	whole := func(route string, body string, head ...string) func() net.Conn {
		method, path, _ := strings.Cut(route, " ")
		return func() net.Conn {
			return dialAndWrite(t, s, e.Head(method, httpapi.Base+path, fmt.Sprintf(
				"Content-Type: application/json\r\nContent-Length: %d\r\n%s", len(body), strings.Join(head, "")))+body)
		}
	}
	for name, send := range map[string]func() net.Conn{
		"an answer":            whole("POST /search", padded(mib)),
		"a refusal":            whole("POST /users", padded(mib)),
		"no JSON":              whole("POST /search", strings.Repeat("x", mib)),
		"another content type": whole("POST /search", padded(mib), "Content-Type: text/plain\r\n"),
		"a panic":              whole("POST /panics", padded(mib)),
		"a connection cut":     whole("POST /aborts", padded(mib)),
		"a panic in an answer": whole("POST /answer-panics", padded(mib)),
		"a large answer":       whole("GET /large?bytes=1048576", ""),
		"a call":               whole("POST /mcp", padded(mib)),
		"one byte too many": func() net.Conn {
			return siege(t, s, e, "POST /search", largest+mib, true)
		},
		"its client goes": func() net.Conn {
			c := siege(t, s, e, "POST /search", mib, false)
			require.Eventually(t, func() bool {
				bodies, _, _ := e.Held()
				return bodies > 0
			}, patience, time.Millisecond)
			_ = c.(*net.TCPConn).CloseWrite()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := send()
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
			}
			_ = c.Close()
			empty(t, e)
		})
	}
}

// empty waits until nothing is held any more.
func empty(t *testing.T, e httpapitest.API) {
	t.Helper()
	assert.Eventually(t, func() bool {
		bodies, smallBodies, answers := e.Held()
		return bodies+smallBodies+answers == 0
	}, patience, time.Millisecond, "not all that was held came back")
}
