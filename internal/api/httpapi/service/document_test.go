package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/apidoc"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/store/table"
)

// described is the OpenAPI document as these tests read it.
type described struct {
	Paths, Webhooks map[string]map[string]describedOperation
	Tags            []struct{ Name string }
	Components      struct {
		Schemas            map[string]object
		Responses, Headers map[string]object
	}
}

type describedOperation struct {
	OperationID, Description string
	Tags                     []string
	Parameters               []struct {
		Name, In string
		Example  any
	}
	RequestBody *struct{ Content map[string]describedContent }
	Responses   map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]describedContent
		Headers map[string]object
	}
}

type describedContent struct {
	Schema  object
	Example any
}

func read(t *testing.T) (d described) {
	t.Helper()
	document, err := httpapitest.New(t).Document()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(document, &d))
	return d
}

// each calls visit for every operation.
func (d described) each(visit func(name string, o describedOperation)) {
	for path, methods := range d.Paths {
		for method, o := range methods {
			visit(strings.ToUpper(method)+" "+strings.TrimPrefix(path, httpapi.Base), o)
		}
	}
}

// everySchema calls visit for each schema and those in it, with where it stands.
func (d described) everySchema(visit func(at string, s object)) {
	var walk func(at string, s object)
	walk = func(at string, s object) {
		visit(at, s)
		members, _ := s["properties"].(object)
		for name, p := range members {
			walk(at+"."+name, p.(object))
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if inner, is := s[key].(object); is && (key == "items" || len(inner) > 0) { // else any JSON, by any name
				walk(at+"[]", inner)
			}
		}
		for _, key := range []string{"oneOf", "anyOf", "allOf"} {
			list, _ := s[key].([]any)
			for _, one := range list {
				walk(at+"|", one.(object))
			}
		}
	}
	for name, s := range d.Components.Schemas {
		walk(name, s)
	}
	d.each(func(name string, o describedOperation) {
		if o.RequestBody != nil {
			for kind, c := range o.RequestBody.Content {
				walk(name+" "+kind, c.Schema)
			}
		}
		for status, r := range o.Responses {
			for kind, c := range r.Content {
				walk(name+" "+status+" "+kind, c.Schema)
			}
		}
	})
}

// Each operation lists its refusals by number, and each refusal is the one error.
func TestTheDocumentListsRefusals(t *testing.T) {
	d := read(t)
	changes := regexp.MustCompile("^(POST|PUT|PATCH|DELETE) ")
	d.each(func(name string, o describedOperation) {
		want := []string{"400", "401", "403", "404", "429", "500", "503", "default"}
		if name == "GET /healthz" {
			want = []string{"400", "503", "default"}
		}
		if changes.MatchString(name) && !slices.Contains([]string{"search", "mcp", "a2a"}, o.OperationID) {
			want = append(want, "409")
		}
		if changes.MatchString(name) {
			want = append(want, "507")
		}
		if o.RequestBody != nil {
			want = append(want, "413")
		}
		for _, p := range o.Parameters {
			if p.Name == "If-Match" {
				want = append(want, "412")
			}
		}
		for _, status := range want {
			r, there := o.Responses[status]
			if !assert.True(t, there, "%s: %s", name, status) {
				continue
			}
			content := r.Content
			if r.Ref != "" {
				raw, err := json.Marshal(d.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")])
				require.NoError(t, err)
				var shared struct{ Content map[string]describedContent }
				require.NoError(t, json.Unmarshal(raw, &shared))
				content = shared.Content
			}
			schema := content["application/json"].Schema
			if either, is := schema["oneOf"].([]any); is { // of a protocol that has its own
				schema = either[0].(object)
			}
			assert.Equal(t, "#/components/schemas/Error", schema["$ref"], "%s: %s", name, status)
		}
	})
	for _, name := range []string{"TooManyRequests", "Unavailable"} {
		assert.Contains(t, d.Components.Responses[name]["headers"], "Retry-After")
	}
}

// fullDisk is a table that accepts no more writes.
type fullDisk struct{ table.Table }

func (fullDisk) Commit(context.Context, string, ...table.Op) error {
	return &table.Error{Kind: table.Full}
}

// The document has each answer of an operation while the disk is full: Do checks it.
func TestTheDocumentHasTheAnswersOfAFullDisk(t *testing.T) {
	e, d := httpapitest.New(t), read(t)
	run := e.Begin(t).RunID
	e.Items.Table = fullDisk{e.Items.Table}
	fill := strings.NewReplacer("{run_id}", run, "{response_id}", "resp_"+run, "{agent_id}", e.Agent,
		"/agents/{id}", "/agents/"+e.Agent, "{id}", strings.Repeat("0", 24), "{chat_id}", "c", "{name}", "x",
		"{user_id}", strings.Repeat("0", 24), "{document_id}", strings.Repeat("0", 24))
	full := 0
	d.each(func(name string, o describedOperation) {
		method, path, _ := strings.Cut(name, " ")
		body, kind := []byte("{}"), "application/json"
		if o.RequestBody != nil {
			if example := o.RequestBody.Content[kind].Example; example != nil {
				var err error
				body, err = json.Marshal(example)
				require.NoError(t, err)
			} else if o.RequestBody.Content["multipart/form-data"].Schema != nil {
				kind, body = e.Form("message", "x", "wait", "false", "file", "x")
			}
		}
		r := httptest.NewRequest(method, httpapi.Base+fill.Replace(path), bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept", "application/json, text/event-stream")
		if method == http.MethodGet && strings.HasSuffix(path, "/stream") {
			return // it would follow the run
		}
		w := e.Do(r)
		assert.NotEqual(t, http.StatusInternalServerError, w.Code, "%s: %s", name, w.Body)
		if w.Code == http.StatusInsufficientStorage {
			full++
		}
	})
	assert.Greater(t, full, 20, "so many reach the disk")
}

func TestTheDocumentsNamesAreIdentifiers(t *testing.T) {
	d := read(t)
	camel, pascal := regexp.MustCompile("^[a-z][A-Za-z0-9]*$"), regexp.MustCompile("^[A-Z][A-Za-z0-9]*$")
	tags, seen := map[string]bool{}, map[string]bool{}
	for _, tag := range d.Tags {
		tags[tag.Name] = true
	}
	d.each(func(name string, o describedOperation) {
		assert.Regexp(t, camel, o.OperationID, name)
		assert.False(t, seen[o.OperationID], o.OperationID)
		seen[o.OperationID] = true
		for _, tag := range o.Tags {
			assert.True(t, tags[tag], "%s: the tag %s is not described", name, tag)
		}
	})
	for name := range d.Components.Schemas {
		assert.Regexp(t, pascal, name)
		assert.NotContains(t, apidoc.GeneratorNames, name, "a generator's own")
	}
}

// Members that an answer always has are required, its lists are never null, and its times are times.
func TestTheDocumentRequiresWhatIsAlwaysThere(t *testing.T) {
	d := read(t)
	for name, most := range map[string]int{
		"Run": 27, "AgentView": 19, "Completed": 10, "Handle": 5, "Error": 5, "CancelledRun": 3, "KeyView": 12,
		"NewKeyView": 13, "NamedBudgetView": 9, "AgentToolView": 9, "Interrupt": 4, "Result": 8,
	} {
		required, _ := d.Components.Schemas[name]["required"].([]any)
		assert.GreaterOrEqual(t, len(required), most, name)
	}
	isTime := regexp.MustCompile(`\.(.*_)?(at|until)\|?$`)
	d.everySchema(func(at string, s object) {
		if list, both := s["type"].([]any); both {
			assert.Fail(t, "a list of types", "%s: %v", at, list)
		}
		if s["type"] == "string" && isTime.MatchString(at) {
			assert.Equal(t, "date-time", s["format"], at)
		}
		if s["type"] == "array" {
			assert.Contains(t, s, "items", at)
		}
		assert.NotEqual(t, true, s["additionalProperties"], at)
		if s["type"] == "object" && s["properties"] == nil {
			assert.Contains(t, s, "additionalProperties", "%s: a typed client may give it no member", at)
		}
	})
	for _, in := range []string{"runs", "interrupts", "parked"} {
		members, _ := d.Components.Schemas["Run"]["properties"].(object)
		assert.NotContains(t, d.Components.Schemas["Run"], "oneOf")
		if list, there := members[in].(object); there {
			assert.Equal(t, "array", list["type"], in)
		}
	}
}

// The document has untyped JSON only in answers by an agent's own schema, and in data that a protocol or a kind of
// toolkits keeps to itself.
func TestTheDocumentIsTyped(t *testing.T) {
	may := []string{
		"AGUIResult.output", "Completed.output", "Result.output", "RpcError.data", "Tool.binding", "ToolInput.binding",
		"ToolkitView.request",
	}
	read(t).everySchema(func(at string, s object) {
		for _, key := range []string{"type", "$ref", "oneOf", "anyOf", "allOf"} {
			if s[key] != nil {
				return
			}
		}
		assert.Contains(t, may, at, "anything may stand there")
	})
}

// An operation has an example, accepts its documented body, and answers with a body.
func TestTheDocumentsBodiesAreComplete(t *testing.T) {
	d := read(t)
	d.each(func(name string, o describedOperation) {
		assert.NotEmpty(t, o.Description, name)
		examples := 0
		for _, p := range o.Parameters {
			assert.NotEqual(t, "Accept", p.Name, name)
			if p.Example != nil {
				examples++
			}
		}
		if o.RequestBody != nil {
			content := o.RequestBody.Content
			if _, json := content["application/json"]; json {
				assert.NotContains(t, content, "application/octet-stream", name)
			}
			for _, c := range content {
				if c.Example != nil {
					examples++
				}
			}
		} else {
			assert.False(t, strings.HasPrefix(name, "PATCH ") || strings.HasPrefix(name, "PUT "), name)
		}
		for status, r := range o.Responses {
			if status < "300" && status != "204" && name != "POST /mcp" {
				assert.NotEmpty(t, r.Content, "%s: %s", name, status)
			}
			if status < "300" {
				assert.Contains(t, r.Headers, "X-Request-Id", "%s: %s", name, status)
				for _, c := range r.Content {
					if c.Example != nil {
						examples++
					}
				}
			}
			if status < "300" && (strings.Contains(name, "{run_id}") || name == "POST /chat") {
				assert.Contains(t, r.Headers, "X-Agent-Run-Id", "%s: %s", name, status)
			}
		}
		assert.Positive(t, examples, "%s has no example", name)
		for _, p := range o.Parameters {
			assert.False(t, p.Name == "If-Match" && strings.HasPrefix(name, "POST ") && !strings.Contains(name, "{id}"),
				"%s: there is nothing to match", name)
		}
	})
	form := d.Components.Schemas["ChatFields"]["properties"].(object)
	assert.Equal(t, "boolean", form["wait"].(object)["type"])
	assert.Equal(t, "boolean", form["streaming"].(object)["type"])
	assert.Equal(t, "binary", form["files"].(object)["items"].(object)["format"])
	assert.Contains(t, d.Paths[httpapi.Base+"/chat"]["post"].Responses["202"].Headers, "Idempotent-Replayed")
}

// Streams and webhooks are typed by their events.
func TestTheDocumentHasEvents(t *testing.T) {
	d := read(t)
	for union, c := range map[string]struct {
		by     string
		events int
	}{"RunEvent": {"event", 7}, "ResponseEvent": {"type", 15}, "AGUIEvent": {"type", 11}} {
		discriminator, _ := d.Components.Schemas[union]["discriminator"].(object)
		assert.Equal(t, c.by, discriminator["propertyName"])
		assert.Len(t, discriminator["mapping"], c.events)
		for event, ref := range discriminator["mapping"].(object) {
			s := d.Components.Schemas[strings.TrimPrefix(ref.(string), "#/components/schemas/")]
			assert.Contains(t, s["properties"].(object)[c.by].(object)["enum"], event)
			assert.Contains(t, s["required"], c.by)
			assert.Greater(t, len(s["required"].([]any)), 1, event)
		}
	}
	const name = "#/components/schemas/RunEvent"
	sse := d.Paths[httpapi.Base+"/runs/{run_id}/stream"]["get"].Responses["200"].Content["text/event-stream"]
	lines := d.Paths[httpapi.Base+"/chat"]["post"].Responses["200"].Content["application/x-ndjson"]
	assert.Equal(t, name, sse.Schema["$ref"])
	assert.Equal(t, name, lines.Schema["$ref"])
	require.Len(t, d.Webhooks, 2)
	for _, event := range []string{"agent_run.awaiting_input", "agent_run.terminal"} {
		var headers []string
		for _, p := range d.Webhooks[event]["post"].Parameters {
			headers = append(headers, p.Name)
		}
		assert.ElementsMatch(t,
			[]string{"x-agent-signature", "webhook-id", "webhook-timestamp", "webhook-signature"}, headers)
	}
}

// The document may be requested while requests are checked with its source, the description. Nothing changes the
// description then; the race detector would report it.
func TestTheDocumentIsMadeBesideRequests(t *testing.T) {
	e := httpapitest.New(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				e.Send("PATCH", "/organization", `{"name":"o"}`)
			}
		})
	}
	wg.Go(func() {
		_, err := e.Document()
		assert.NoError(t, err)
	})
	wg.Wait()
}
