package protocol_test

import (
	"encoding/json"
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
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// watched reports the first wait.
type watched struct {
	*stream.LocalNotifier

	waits chan struct{}
}

func (n watched) OnNotify(f func(*record.RunEntity), what ...string) func() {
	defer func() {
		select {
		case n.waits <- struct{}{}:
		default:
		}
	}()
	return n.LocalNotifier.OnNotify(f, what...)
}

// member is a user of the operator's organization, with a key.
func member(t *testing.T, e httpapitest.API) (m httpapitest.API, user string) {
	t.Helper()
	var made struct {
		UserID string `json:"user_id"`
		Key    string `json:"key"`
	}
	w := e.Send("POST", "/users", `{"email":"m@example.com","role":"member"}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made), w.Body.String())
	user = made.UserID
	w = e.Send("POST", "/api-keys", `{"name":"k","level":"run","user_id":"`+user+`"}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made), w.Body.String())
	return e.As(made.Key), user
}

// Every wait ends with the right to it, long before its own end, which is an hour or 20 s.
func TestEveryWaitEndsWithItsRight(t *testing.T) {
	const window = 15 * time.Second // in which nothing happens by itself
	waits := map[string]func(m httpapitest.API, run string) *httptest.ResponseRecorder{
		"a read of a run": func(m httpapitest.API, run string) *httptest.ResponseRecorder {
			return m.Send("GET", "/runs/"+run+"?wait_ms=20000", "")
		},
		"a message": func(m httpapitest.API, _ string) *httptest.ResponseRecorder { return m.Chat("message", "x") },
		"A2A": func(m httpapitest.API, _ string) *httptest.ResponseRecorder {
			return m.Send("POST", "/a2a/"+m.Agent, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":
				{"kind":"message","role":"user","messageId":"m","parts":[{"kind":"text","text":"x"}]}}}`)
		},
		"MCP": func(m httpapitest.API, _ string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,
				"method":"tools/call","params":{"name":"Demo","arguments":{"message":"x"}}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			return m.Do(r)
		},
		"a response": func(m httpapitest.API, _ string) *httptest.ResponseRecorder {
			return m.Send("POST", "/responses", `{"model":"Demo","input":"x"}`)
		},
		"the inbox": func(m httpapitest.API, _ string) *httptest.ResponseRecorder {
			return m.Send("GET", "/interrupts?wait_ms=20000", "")
		},
	}
	ends := map[string]func(e, m httpapitest.API, user string){
		"the key is revoked":  func(_, m httpapitest.API, _ string) { revoke(t, m) },
		"the user is deleted": func(e, _ httpapitest.API, user string) { e.Send("DELETE", "/users/"+user, "") },
		"the agent is closed": func(e, m httpapitest.API, _ string) {
			var made struct {
				GroupID string `json:"group_id"`
			}
			w := e.Send("POST", "/groups", `{"name":"g"}`)
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made), w.Body.String())
			w = e.Send("PATCH", "/agents/"+m.Agent, `{"group_ids":["`+made.GroupID+`"]}`)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		},
	}
	for wait, ask := range waits {
		for end, ending := range ends {
			if wait == "the inbox" && end == "the agent is closed" {
				continue // it is about no agent
			}
			t.Run(wait+", "+end, func(t *testing.T) {
				n := watched{stream.NewLocalNotifier(), make(chan struct{}, 1)}
				e := httpapitest.New(t, func(c *service.Config) {
					c.ObserveWindow = time.Hour
					machine := host.System()
					c.Hub = stream.New(memtable.New(machine.Now), n, machine, c.Log)
				})
				m, user := member(t, e)
				run := m.Chat("message", "x", "wait", "false").Header().Get("X-Agent-Run-Id")
				answered := make(chan *httptest.ResponseRecorder, 1)
				go func() { answered <- ask(m, run) }()
				<-n.waits
				ending(e, m, user)
				select {
				case w := <-answered:
					body := w.Body.String()
					assert.NotContains(t, body, `queued`)
					assert.NotContains(t, body, `submitted`)
					assert.NotContains(t, body, `in_progress`)
					want := http.StatusUnauthorized
					if end == "the agent is closed" {
						want = http.StatusForbidden
					}
					if wait != "MCP" && wait != "A2A" { // which have errors of their own
						assert.Equal(t, want, w.Code, body)
					}
				case <-time.After(window):
					t.Fatal("it still waits")
				}
			})
		}
	}
}
