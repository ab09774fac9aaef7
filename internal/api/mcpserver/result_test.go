package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// stage is a server. The test executes its runs.
type stage struct {
	*mcpserver.Server

	t *testing.T
	p tenant.Principal
}

func newStage(t *testing.T) *stage {
	server, p := waiting(t)
	return &stage{Server: server, t: t, p: p}
}

// begin begins a run of the first agent.
func (s *stage) begin() string {
	s.t.Helper()
	agents, err := record.OldestResources[catalog.Agent](s.t.Context(), s.Store, s.p.Scope(), "", 1)
	require.NoError(s.t, err)
	posted, err := s.Intake.Post(s.t.Context(), s.p, intake.Message{AgentID: agents.Rows[0].Value.ID, Text: "x"})
	require.NoError(s.t, err)
	return posted.Run.ID()
}

func (s *stage) transition(run string, c transition.Change) {
	s.t.Helper()
	_, err := s.Intake.Executor.Do(s.t.Context(), record.System(), run,
		func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
	require.NoError(s.t, err)
}

func (s *stage) run(run string) record.Run {
	s.t.Helper()
	e, err := s.Store.Run(s.t.Context(), record.System(), run)
	require.NoError(s.t, err)
	return e.Value
}

// claim begins an attempt, as a worker does.
func (s *stage) claim(run string) lifecycle.Work {
	s.t.Helper()
	s.transition(run, transition.Change{
		Event: lifecycle.Claim{Holder: "w", Until: s.Intake.Host.Now().Add(time.Hour)},
	})
	return lifecycle.Work{Attempt: s.run(run).Attempt}
}

func (s *stage) complete(run, result string) {
	s.t.Helper()
	s.transition(run, transition.Change{
		Event: lifecycle.Complete{Work: s.claim(run)}, Result: json.RawMessage(result),
	})
}

// ask pauses a run with interrupts of these kinds.
func (s *stage) ask(run string, kinds ...lifecycle.InterruptKind) {
	s.t.Helper()
	e := lifecycle.Pause{Work: s.claim(run), ExpiresAt: s.Intake.Host.Now().Add(time.Hour)}
	var list []record.Interrupt
	for n, kind := range kinds {
		id := string(rune('i' + n))
		e.Interrupts = append(e.Interrupts, lifecycle.Pending{ID: id, Kind: kind})
		list = append(list, record.Interrupt{Interrupt: events.Interrupt{
			ID: id, Kind: string(kind), Prompt: "Which " + id + "?", CreatedAt: "2026-03-01T12:00:00.000Z",
		}})
	}
	s.transition(run, transition.Change{Event: e, Interrupts: list})
}

// callResult is the result of a call.
type callResult struct {
	IsError    bool              `json:"isError"`
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	Meta       json.RawMessage   `json:"_meta"`
}

func (s callResult) text(t *testing.T) string {
	t.Helper()
	require.NotEmpty(t, s.Content)
	var one struct{ Text string }
	require.NoError(t, json.Unmarshal(s.Content[0], &one))
	return one.Text
}

// call calls a tool.
func (s *stage) call(name string, arguments any) callResult {
	s.t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": object{"name": name, "arguments": arguments}})
	require.NoError(s.t, err)
	var a struct{ Result *callResult }
	w := ask(s.Server, s.p, string(body), "")
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &a), "%s", w.Body)
	require.NotNil(s.t, a.Result, "%s", w.Body)
	return *a.Result
}

type object = map[string]any

func of(run string) object { return object{"run_id": run} }

// A message answers one question, and nothing else: an approval is not the model's.
func TestAPauseNamesWhoEndsIt(t *testing.T) {
	const byMessage, byHuman = "another message with this chat_id", "POST /runs/{run_id}/resume"
	s := newStage(t)
	for _, c := range []struct {
		kinds     []lifecycle.InterruptKind
		want, not string
	}{
		{[]lifecycle.InterruptKind{lifecycle.Clarification}, byMessage, byHuman},
		{[]lifecycle.InterruptKind{lifecycle.Approval}, byHuman, byMessage},
		{[]lifecycle.InterruptKind{lifecycle.Clarification, lifecycle.Clarification}, byHuman, byMessage},
		{[]lifecycle.InterruptKind{lifecycle.Clarification, lifecycle.Approval}, byHuman, byMessage},
	} {
		run := s.begin()
		s.ask(run, c.kinds...)
		a := s.call("get_run", of(run))
		assert.Contains(t, a.text(t), "Which i?")
		assert.Contains(t, a.text(t), c.want)
		assert.NotContains(t, a.text(t), c.not)
		_, err := s.Intake.Cancel(t.Context(), s.p, run, "")
		require.NoError(t, err)
	}
}

// An answer is passed on unchanged: with its files, and each digit of its numbers.
func TestAResultHasItsFilesAndAllDigits(t *testing.T) {
	s := newStage(t)
	s.URL = "https://api.example.com/api/v1"
	run := s.begin()
	s.complete(run, `{"answer":"done","output":{"id":9007199254740993},"files":[
		{"file_id":"0123456789abcdef01234567","name":"a b.csv","content_type":"text/csv","size":7}]}`)
	a := s.call("get_run", of(run))
	assert.Equal(t, "done", a.text(t))
	assert.Contains(t, string(a.Structured), `"output":{"id":9007199254740993}`)
	assert.Contains(t, string(a.Structured), `"files":[{"file_id":"0123456789abcdef01234567","name":"a b.csv",`)
	require.Len(t, a.Content, 2)
	assert.JSONEq(t, `{"type":"resource_link","uri":"https://api.example.com/api/v1/files/0123456789abcdef01234567",
		"name":"a b.csv","mimeType":"text/csv","size":7}`, string(a.Content[1]))

	run = s.begin()
	s.complete(run, `{"answer":"nothing more","output":null}`)
	a = s.call("get_run", of(run))
	assert.NotContains(t, string(a.Structured), "output")
	assert.Len(t, a.Content, 1)
}

// Results fit their published schema.
func TestTheSchemaOfResultsIsTheirs(t *testing.T) {
	s := newStage(t)
	var response struct {
		Result struct {
			Tools []struct{ OutputSchema *jsonschema.Schema }
		}
	}
	body := ask(s.Server, s.p, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "").Body.String()
	require.NoError(t, json.Unmarshal([]byte(body), &response))
	require.Len(t, response.Result.Tools, 3)
	assert.NotContains(t, body, `:true`, "a schema is an object, which all clients read")
	assert.NotRegexp(t, `"(output|items)":false`, body, "a schema is an object, which all clients read")
	assert.Contains(t, body, `"output":{}`)
	assert.Contains(t, body, `"properties":{"message":`, "in the order of the type")
	completed := s.begin()
	s.complete(completed, `{"answer":"done","output":[7],"files":[
		{"file_id":"0123456789abcdef01234567","name":"a.csv","content_type":"text/csv","size":7}]}`)
	asks := s.begin()
	s.ask(asks, lifecycle.Approval)
	whole, err := json.Marshal(mcpserver.Gives())
	require.NoError(t, err)
	for _, one := range response.Result.Tools {
		schema := one.OutputSchema
		shown, err := json.Marshal(schema)
		require.NoError(t, err)
		assert.JSONEq(t, string(whole), string(shown), "nothing but booleans for schemas is written in another way")
		assert.Equal(t, "object", schema.Type)
		assert.Equal(t, []string{"run_id", "chat_id", "status"}, schema.Required)
		assert.Equal(t, &jsonschema.Schema{}, schema.Properties["output"], "anything")
		assert.Contains(t, schema.Properties["files"].Items.Properties, "content_type")
		resolved, err := schema.Resolve(nil)
		require.NoError(t, err)
		for _, run := range []string{completed, asks} {
			var given any
			require.NoError(t, json.Unmarshal(s.call("get_run", of(run)).Structured, &given))
			assert.NoError(t, resolved.Validate(given))
		}
		assert.Error(t, resolved.Validate(object{"run_id": 7}))
	}
}

// The text of an error that is not a problem is for the log.
func TestWhatCannotBeReturnedIsLogged(t *testing.T) {
	s := newStage(t)
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	run := s.begin()
	s.complete(run, `{"answer":7}`)
	a := s.call("get_run", of(run))
	assert.True(t, a.IsError)
	assert.Contains(t, a.text(t), "is unavailable")
	assert.Contains(t, log.String(), "cannot unmarshal number")
	log.Reset()
	assert.True(t, s.call("get_run", of("000000000000000000000000")).IsError)
	assert.Empty(t, log.String())
}

// The result of a refused call names the limit in _meta, and the time after which another attempt may succeed.
func TestALimitIsNamedInTheResult(t *testing.T) {
	s := newStage(t)
	s.begin()
	a := s.call("Demo", object{"message": "x"})
	assert.True(t, a.IsError)
	assert.JSONEq(t, `{"error":{"code":"user_concurrency_cap","limit":1,"active":1,"retry_after":1}}`, string(a.Meta))
	assert.Empty(t, a.Structured)
}

// A model reads the result of its call, and can repeat the call. It does not see an error of the protocol.
func TestArgumentsThatAreRefusedAreAResult(t *testing.T) {
	s := newStage(t)
	for _, arguments := range []object{
		{"message": ""}, {"message": "x", "chat_id": "no id"},
		{"message": "x", "files": []object{{"name": "a.txt", "data": "???"}}},
		{"message": "x", "files": slices.Repeat([]object{{"name": "a", "data": "YQ=="}}, 11)},
		{"message": "x", "file_ids": []string{"?"}}, {"message": 7}, {},
	} {
		a := s.call("Demo", arguments)
		assert.True(t, a.IsError, "%v", arguments)
		assert.NotContains(t, a.text(t), "is unavailable")
	}
	a := s.call("get_run", of("?"))
	assert.True(t, a.IsError)
}
