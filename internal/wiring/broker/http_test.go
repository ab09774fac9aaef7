package broker_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/wiring/broker"
)

// Parts that differ between two answers: ids, times, and durations.
var passing = regexp.MustCompile(`[0-9a-f]{24}|\d{4}-\d\d-\d\dT[\d:.]+Z|"(duration|latency)_ms":\d+`)

// Clients cannot distinguish a deployment with a broker from one without.
func TestClientsSeeNoBroker(t *testing.T) {
	type request struct {
		method, path, body string
		status             int
	}
	answers := map[string][]string{}
	for _, way := range ways {
		k := &kind{names: []string{"stays", "goes"}}
		e := httpapitest.New(t, func(c *service.Config) {
			c.Toolkits.Kinds["mcp"] = k
			c.Models = &provider.Set{Host: host.System(), Catalogues: map[string]model.Catalogue{
				"demo": &catalogue{names: []string{"demo"}}, "near": &catalogue{names: []string{"small"}},
			}}
			if way == "by itself" {
				return
			}
			client := &broker.Client{Broker: &broker.Broker{
				Toolkits: c.Toolkits, Webhooks: c.Webhooks, Models: c.Models, Log: quiet,
			}}
			c.Asker, c.Prober = client, client
			c.Models = &broker.Models{Client: client, Near: &provider.Set{}}
		})
		w := e.Send("POST", "/toolkits", `{"kind":"mcp","name":"n","url":"https://a.example.com",
			"credentials":{"type":"bearer","token":"open-sesame"}}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		var made struct {
			ID string `json:"toolkit_id"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
		at := "/toolkits/" + made.ID
		w = e.Send("PATCH", at+"/tools/stays", `{"approval":"always"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		w = e.Send("POST", "/api-keys", `{"name":"k","level":"manage"}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		var manager struct{ Key string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &manager))
		ask := func(e httpapitest.API, r request) {
			w := e.Send(r.method, r.path, r.body)
			assert.Equal(t, r.status, w.Code, "%s: %s %s: %s", way, r.method, r.path, w.Body)
			got := r.method + " " + r.path + " " + w.Body.String() + w.Header().Get("Retry-After")
			answers[way] = append(answers[way], passing.ReplaceAllString(got, "PASSING"))
		}
		attemptPath := at + "/tools/stays/try"
		for _, r := range []request{
			{"POST", attemptPath, `{"arguments":{"n":1}}`, 200},
			{"POST", attemptPath, `{"arguments":{"n":"x"}}`, 400},
			{"POST", attemptPath, `{"arguments":[]}`, 400},
			{"POST", at + "/tools/no/try", `{"arguments":{}}`, 404},
			{"GET", at + "/resources", ``, 200},
			{"GET", "/toolkits/0123456789abcdef01234567/resources", ``, 404},
			{"GET", "/models", ``, 200},
			{"POST", "/webhooks/test", `{"callback_url":"https://example.com/hook"}`, 200},
			{"POST", "/webhooks/test", `{"callback_url":"http://example.com/hook"}`, 400},
		} {
			ask(e, r)
		}
		ask(e.As(manager.Key), request{"POST", attemptPath, `{"arguments":{"n":1}}`, 403})
		k.names, k.about = []string{"stays", "comes"}, "another"
		ask(e, request{"POST", at + "/refresh", `{"dry_run":true}`, 200})
		ask(e, request{"POST", at + "/refresh", `{}`, 200})
		k.fails = tool.Fail("go away, open-sesame")
		ask(e, request{"POST", at + "/refresh", `{}`, 400})
		ask(e, request{"GET", at + "/resources", ``, 409})
		ask(e, request{"POST", attemptPath, `{"arguments":{}}`, 200})
		ask(e, request{"GET", "/audit-log", ``, 200})
	}
	assert.Equal(t, answers[ways[0]], answers[ways[1]])
}

// If a broker has no capacity, clients get an answer with Retry-After.
func TestABusyBrokerIsUnavailable(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) {
		c.Prober = &broker.Client{Broker: dead{broker.ErrNotReceived}}
	})
	w := e.Send("POST", "/webhooks/test", `{"callback_url":"https://example.com/hook"}`)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
}
