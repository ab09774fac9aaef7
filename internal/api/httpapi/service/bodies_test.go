package service_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

// sample is an accepted request with many members. Names in braces stand for ids; {made} for that of the answer.
type sample struct {
	operation, body string
	id              string   // the member of the answer that is the id
	reads           []string // operations that show it
	fixed           []string // members that stay
}

const petDocument = `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"servers":[{` +
	`"url":"https://api.example.com"}],"paths":{"/items/{n}":{"get":{"operationId":"items",` +
	`"summary":"s","parameters":[{"name":"n","in":"path",` +
	`"required":true,"schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}}}`

const petRequest = `{"name":"act","description":"d","method":"POST","headers":{"X-Word":"a"},"query":["q"],` +
	`"body":"b","parameters":{"type":"object","properties":{"q":{"type":"string"},"b":{"type":"object"}}}}`

const wholeAgent = `"name":"n","description":"d","instructions":"i","model":{"provider":"demo","name":"demo",` +
	`"temperature":0.5,"max_tokens":10},"toolkit_ids":["{kit}"],"knowledge_base_ids":["{base}"],"knowledge":` +
	`{"mode":"hybrid","limit":3,"always":true},"approval":{"mode":"tools","tools":["act"]},"can_ask":true,` +
	`"limits":{"max_active_seconds":10,"max_steps":2,"max_tokens":100},"group_ids":["{group}"],` +
	`"approver_group_ids":["{group}"],"chat_visibility":"own",` +
	`"budget":{"period":"month","max_runs":1000,"max_tokens":9},` +
	`"metadata":{"a":"b"},"output_schema":{"type":"object","properties":{"a":{"type":"string"}}},"skip_check":true`

const wholeOrganization = `"name":"n","budget":{"period":"day","max_runs":1000,"max_tokens":9},"caps":{"user":5,` +
	`"organization":10},"chat_visibility":"own","currency":"EUR",` +
	`"prices":[{"model":"demo/demo","input":1.5,"output":2}],` +
	`"rate_limit":{"requests_per_minute":9000000,"burst":900000},"run_retention_days":30`

const ceilings = `"ceilings":{"caps":{"user":9,"organization":90},"rate_limit":{"burst":9000000,` +
	`"requests_per_minute":9000000}}`

// samples are one for each operation that takes JSON.
var samples = []sample{
	// First, while the agents are few: each is a tool.
	{"POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"message":"m"},` +
		`"_meta":{"progressToken":"t"}}}`, "", nil, []string{"method"}},
	{"POST /agents", `{` + wholeAgent + `,"publish":true}`, "agent_id",
		[]string{"/agents/{made}", "/agents/{made}/export", "/agents/{made}/versions"}, nil},
	{"PATCH /agents/{agent}", `{` + wholeAgent + `,"publish":true}`, "",
		[]string{"/agents/{agent}", "/agents/{agent}/export", "/agents/{agent}/versions"}, nil},
	{"POST /agents/{agent}/duplicate", `{"name":"n"}`, "agent_id", []string{"/agents/{made}"}, nil},
	{"POST /agents/{agent}/publish", `{"version":1}`, "", []string{"/agents/{agent}"}, nil},
	{"POST /api-keys", `{"name":"n","level":"read","sees":"organization","expires_at":"2100-01-01T00:00:00Z",` +
		`"budget":{"period":"day","max_runs":1000,"max_tokens":9},"user_id":"{user}"}`, "api_key_id",
		[]string{"/api-keys/{made}"}, nil},
	{"PATCH /api-keys/{key}", `{"name":"n","sees":"own","expires_at":"2100-01-01T00:00:00Z",` +
		`"budget":{"period":"day","max_runs":1000,"max_tokens":9}}`, "", []string{"/api-keys/{key}"}, nil},
	{"POST /api-keys/{key}/rotate", `{"overlap_seconds":5}`, "", []string{"/api-keys"}, nil},
	{"POST /files", `{"name":"a.txt","content_type":"text/plain","size":3,"purpose":"message"}`, "file_id",
		[]string{}, nil},
	{"POST /groups", `{"name":"n","description":"d","budget":{"period":"day","max_runs":1000,"max_tokens":9}}`,
		"group_id",
		[]string{"/groups/{made}"}, nil},
	{"PATCH /groups/{group}", `{"name":"n","description":"d","budget":{"period":"day","max_runs":1000,"max_tokens":9}}`,
		"",
		[]string{"/groups/{group}"}, nil},
	{"POST /groups/{group}/members", `{"user_id":"{user}"}`, "", []string{"/groups/{group}/members"}, nil},
	{"POST /knowledge-bases", `{"name":"n","description":"d","chunking":{"size":300,"overlap":30},` +
		`"group_ids":["{group}"]}`, "knowledge_base_id", []string{"/knowledge-bases/{made}"}, nil},
	{"PATCH /knowledge-bases/{base}", `{"name":"n","description":"d","chunking":{"size":300,"overlap":30},` +
		`"group_ids":["{group}"]}`, "", []string{"/knowledge-bases/{base}"}, nil},
	{"POST /knowledge-bases/{base}/documents", `{"text":"t","title":"t","metadata":{"a":"b","n":1,"t":true},` +
		`"group_ids":["{group}"]}`, "document_id",
		[]string{"/knowledge-bases/{base}/documents/{made}"}, nil},
	{"PATCH /knowledge-bases/{base}/documents/{document}", `{"title":"t","metadata":{"a":"b","n":1,"t":true},` +
		`"group_ids":["{group}"]}`, "", []string{"/knowledge-bases/{base}/documents/{document}"}, nil},
	{"PUT /knowledge-bases/{base}/documents/{document}/content", `{"text":"t"}`, "",
		[]string{"/knowledge-bases/{base}/documents/{document}"}, nil},
	{"POST /knowledge-bases/{base}/reprocess", `{"status":"failed"}`, "", nil, nil},
	{"POST /search", `{"query":"q","knowledge_base_ids":["{base}"],"limit":3,"min_score":0.1,"mode":"hybrid",` +
		`"filter":{"metadata":{"a":"b","n":{"gte":1,"lte":3},"t":{"in":[true]}},"document_ids":["{document}"]}}`,
		"", nil, nil},
	{"PATCH /organization", `{` + wholeOrganization + `}`,
		"", []string{"/organization"}, []string{"rate_limit", "caps", "ceilings"}},
	{"POST /organization/webhook-secret/rotate", `{"overlap_seconds":5}`, "", nil, nil},
	{"POST /organizations", `{` + ceilings + `,` + wholeOrganization + `}`,
		"organization_id", []string{"/organizations/{made}"}, nil},
	{"PATCH /organizations/{organization}", `{` + ceilings + `,` + wholeOrganization + `}`, "",
		[]string{"/organizations/{organization}"}, nil},
	{"POST /responses", `{"model":"{agent}","input":[{"type":"message","role":"user","content":[{"type":"input_text",` +
		`"text":"t"}]}],"background":true,"metadata":{"a":"b"},"tools":[{"type":"function","name":"f","description":` +
		`"d","parameters":{"type":"object"},"strict":true}],"tool_choice":"auto","text":{"format":{"type":` +
		`"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"temperature":0.5,"top_p":1,` +
		`"max_output_tokens":100,"instructions":"i","truncation":"auto","store":true,"parallel_tool_calls":true}`,
		"id", []string{"/responses/{made}", "/responses/{made}/input_items"}, []string{"background"}},
	{"POST /runs/cancel", `{"filter":{"agent_id":"{agent}","status":"queued"},"confirm_count":0}`, "", nil, nil},
	{"POST /runs/{run}/followups", `{"message":"m","idempotency_key":"k"}`, "", []string{"/runs/{run}"}, nil},
	{"POST /runs/{run}/resume", `{"decided_by":"x","decisions":[{"interrupt_id":"i","decision":"answer",` +
		`"message":"m","arguments":{}}]}`, "", nil, nil},
	{"POST /runs/{run}/token", `{"expires_in":60}`, "", nil, nil},
	{"POST /runs/{run}/cancel", `{"reason":"r"}`, "", []string{"/runs/{run}"}, nil},
	{"POST /toolkits", `{"kind":"http","name":"n","url":"https://api.example.com/act","request":` + petRequest +
		`,"credentials":{"type":"bearer","token":"t"},"enabled":["act"]}`, "toolkit_id",
		[]string{"/toolkits/{made}", "/toolkits/{made}/tools"}, nil},
	{"POST /toolkits", `{"kind":"openapi","name":"n","base_url":"https://api.example.com","document":` + petDocument +
		`,"credentials":{"type":"header","name":"X-Key","value":"v"}}`, "toolkit_id",
		[]string{"/toolkits/{made}", "/toolkits/{made}/tools"}, nil},
	{"PATCH /toolkits/{kit}", `{"name":"n","url":"https://api.example.com/act","request":` + petRequest +
		`,"credentials":{"type":"basic","username":"u","password":"p"}}`, "",
		[]string{"/toolkits/{kit}", "/toolkits/{kit}/tools", "/agents/{agent}/export"}, nil},
	{"POST /toolkits/{kit}/refresh", `{"dry_run":true}`, "", nil, nil},
	{"PATCH /toolkits/{kit}/tools/act", `{"enabled":true,"approval":"when","approval_when":{"argument":"q",` +
		`"pattern":"x"},"retry_safe":true,"timeout_ms":1000}`, "", []string{"/toolkits/{kit}/tools"}, nil},
	{"POST /toolkits/{kit}/tools/act/try", `{"arguments":{"q":"x"}}`, "", nil, nil},
	{"POST /users", `{"name":"n","email":"a@example.com","role":"member","concurrency_cap":3,"group_ids":["{group}"],` +
		`"budget":{"period":"day","max_runs":1000,"max_tokens":9}}`, "user_id", []string{"/users/{made}"}, nil},
	{"PATCH /users/{user}", `{"name":"n","email":"b@example.com","role":"member","concurrency_cap":3,"group_ids":` +
		`["{group}"],"budget":{"period":"day","max_runs":1000,"max_tokens":9}}`, "", []string{"/users/{user}"}, nil},
	{"POST /webhooks/deliveries/{run}/redeliver", `{"force":true}`, "", nil, nil},
	{"POST /webhooks/test", `{"callback_url":"https://example.com/hook"}`, "", nil, nil},
	{"POST /a2a/{agent}", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x","historyLength":1}}`, "",
		nil, nil},
}

// elsewhere are the operations that take JSON and are not in samples, each with the reason.
var elsewhere = map[string]string{
	"POST /agents/import": "its body is an export, below",
	"POST /agui/{}":       "it answers with a stream until the run ends, and no worker is here",
}

// others are the values that a client may put in the place of a value.
var others = []string{`null`, `true`, `0`, `-1`, `1.5`, `1e300`, `""`, `"x"`, `[]`, `[null]`, `["x"]`, `{}`,
	`{"x":null}`, `{"x":false}`}

// With any value in the place of a value of a request, the document has the answer. The operations that show an
// accepted value have the shape of the document.
func TestAnyValueOfARequestIsAnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	e := httpapitest.New(t, func(c *service.Config) {
		c.Toolkits.Kinds["http"], c.Toolkits.Kinds["openapi"] = &httptool.Kind{}, &openapitool.Kind{}
	})
	sampled := map[string]bool{}
	for _, s := range samples {
		sampled[placeholders.ReplaceAllString(s.operation, "{}")] = true
	}
	read(t).each(func(name string, o describedOperation) {
		name = placeholders.ReplaceAllString(name, "{}")
		if o.RequestBody != nil && o.RequestBody.Content["application/json"].Schema != nil && elsewhere[name] == "" {
			assert.True(t, sampled[strings.ReplaceAll(name, "tools/{}", "tools/act")], "no sample of %s", name)
		}
	})
	send := func(method, path, body string) *httptest.ResponseRecorder {
		w := e.Send(method, path, body)
		if t.Failed() {
			t.Fatalf("%s %s %s\nwas answered %d %.2000s", method, path, body, w.Code, w.Body)
		}
		return w
	}
	ids := prepared(t, e, send)
	sent, taken := 0, 0
	for _, s := range samples {
		method, path, _ := strings.Cut(ids.Replace(s.operation), " ")
		var whole any
		require.NoError(t, json.Unmarshal([]byte(ids.Replace(s.body)), &whole), s.body)
		sendBody := func(body any) *httptest.ResponseRecorder {
			raw, err := json.Marshal(body)
			require.NoError(t, err)
			w := send(method, path, string(raw))
			sent++
			if w.Code >= http.StatusMultipleChoices {
				return w
			}
			taken++
			made := ""
			if s.id != "" {
				var answer map[string]any
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
				made = fmt.Sprint(answer[s.id])
			}
			for _, shown := range s.reads {
				shown = strings.ReplaceAll(ids.Replace(shown), "{made}", made)
				require.Equal(t, http.StatusOK, send(http.MethodGet, shown, "").Code, "%s after %s", shown, raw)
			}
			return w
		}
		if w := sendBody(whole); s.reads != nil {
			require.Less(t, w.Code, 300, "%s is not accepted: %s", s.operation, w.Body)
		}
		mutations(whole, s.fixed, func(mutant any) { sendBody(mutant) })
	}
	t.Logf("%d requests, %d of them accepted", sent, taken)
	assert.Greater(t, taken, sent/10)
}

var placeholders = regexp.MustCompile(`\{[^}]*\}`)

// prepared makes the resources that the samples name by ids.
func prepared(
	t *testing.T, e httpapitest.API, send func(method, path, body string) *httptest.ResponseRecorder,
) *strings.Replacer {
	t.Helper()
	id := func(path, body, member string) string {
		w := send(http.MethodPost, path, body)
		require.Less(t, w.Code, 300, "%s", w.Body)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return fmt.Sprint(answer[member])
	}
	base := id("/knowledge-bases", `{"name":"b"}`, "knowledge_base_id")
	return strings.NewReplacer(
		"{agent}", id("/agents", `{"name":"a","model":{"provider":"demo","name":"demo"}}`, "agent_id"),
		"{base}", base,
		"{document}", id("/knowledge-bases/"+base+"/documents", `{"text":"t"}`, "document_id"),
		"{group}", id("/groups", `{"name":"g"}`, "group_id"),
		"{user}", id("/users", `{"name":"u","email":"u@example.com","role":"member"}`, "user_id"),
		"{key}", id("/api-keys", `{"name":"k","level":"read"}`, "api_key_id"),
		"{organization}", id("/organizations", `{"name":"o"}`, "organization_id"),
		"{kit}", id("/toolkits",
			`{"kind":"http","name":"n","url":"https://api.example.com/act","request":`+petRequest+`}`, "toolkit_id"),
		"{run}", e.Begin(t).RunID,
	)
}

// mutations calls visit with copies of a value in which one place has another value. It puts every value of others at
// each place, except in the fixed members of the whole.
func mutations(whole any, fixed []string, visit func(any)) {
	raw, _ := json.Marshal(whole)
	var walk func(at any, put func(any))
	var root any
	_ = json.Unmarshal(raw, &root)
	walk = func(at any, put func(any)) {
		for _, other := range others {
			var v any
			_ = json.Unmarshal([]byte(other), &v)
			put(v)
			visit(root)
		}
		put(at)
		switch at := at.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(at)) {
				was := at[name]
				walk(was, func(v any) { at[name] = v })
				at[name] = was
			}
		case []any:
			for i, was := range at {
				walk(was, func(v any) { at[i] = v })
				at[i] = was
			}
		}
	}
	members, _ := root.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(fixed, name) {
			walk(members[name], func(v any) { members[name] = v })
		}
	}
}

// The document requires exactly the members that a request needs. It lists every member that a request may have.
func TestTheDocumentRequiresWhatARequestNeeds(t *testing.T) {
	t.Parallel()
	e := httpapitest.New(t, func(c *service.Config) {
		c.Toolkits.Kinds["http"], c.Toolkits.Kinds["openapi"] = &httptool.Kind{}, &openapitool.Kind{}
	})
	ids := prepared(t, e, e.Send)
	sent := map[string]map[string]bool{}
	needed := map[string][]string{} // members that all accepted samples of an operation need
	for _, s := range samples {
		if s.reads == nil {
			continue
		}
		method, path, _ := strings.Cut(ids.Replace(s.operation), " ")
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(ids.Replace(s.body)), &members))
		var needs []string
		for name := range members {
			without := maps.Clone(members)
			delete(without, name)
			body, err := json.Marshal(without)
			require.NoError(t, err)
			var refused struct{ Errors []struct{ Location string } }
			require.NoError(t, json.Unmarshal(e.Send(method, path, string(body)).Body.Bytes(), &refused))
			for _, at := range refused.Errors {
				if at.Location == "body."+name {
					needs = append(needs, name)
				}
			}
		}
		operation := placeholders.ReplaceAllString(s.operation, "{}")
		if sent[operation] == nil {
			sent[operation] = map[string]bool{}
		}
		for name := range members {
			sent[operation][name] = true
		}
		if before, known := needed[operation]; known {
			needs = slices.DeleteFunc(needs, func(name string) bool { return !slices.Contains(before, name) })
		}
		needed[operation] = needs
	}
	d := read(t)
	d.each(func(name string, o describedOperation) {
		operation := placeholders.ReplaceAllString(name, "{}")
		needs, known := needed[operation]
		if !known {
			return
		}
		body := o.RequestBody.Content["application/json"].Schema
		if ref, is := body["$ref"].(string); is {
			body = d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		}
		var required []string
		list, _ := body["required"].([]any)
		for _, one := range list {
			required = append(required, one.(string))
		}
		assert.ElementsMatch(t, needs, required, name)
		properties, _ := body["properties"].(map[string]any)
		for member := range sent[operation] {
			assert.Contains(t, properties, member, name)
		}
	})
}
