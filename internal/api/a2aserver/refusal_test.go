package a2aserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

func TestATaskOfAnotherAgentOrNobodyIsNotThere(t *testing.T) {
	w := newWorld(t)
	foreign, gone := w.task("x"), w.send(`{"contextId":"gone","parts":[{"text":"x"}]}`)["id"].(string)
	_, err := w.Intake.DeleteChat(t.Context(), w.who, "gone")
	require.NoError(t, err)
	mine := w.agent
	w.agent = w.other(func(*catalog.AgentSpec) {})
	methods := []string{"tasks/get", "GetTask", "tasks/cancel", "CancelTask", "tasks/resubscribe", "SubscribeToTask",
		"message/send", "SendMessage", "message/stream", "SendStreamingMessage"}
	for _, method := range methods {
		for _, id := range []string{foreign, gone, "0123456789abcdef01234567", "nonsense", foreign + "/head"} {
			code, text := w.refusal(method, `{"id":"`+id+`","message":{"taskId":"`+id+`","parts":[{"text":"x"}]}}`)
			assert.InDelta(t, -32001, code, 0, "%s of %s", method, id)
			assert.Equal(t, "the task does not exist", text)
		}
	}
	assert.Equal(t, lifecycle.Queued, w.run(foreign).Status)
	w.agent = mine
	assert.Equal(t, foreign, w.result("tasks/get", `{"id":"`+foreign+`"}`)["id"], "its own agent has it")
}

// Another organization's task is a refusal of the whole request, as the organization's agents are.
func TestATaskOfAnotherOrganizationIsForbidden(t *testing.T) {
	w := newWorld(t)
	foreign := w.task("x")
	w.who = w.outsider()
	w.agent = w.other(func(*catalog.AgentSpec) {})
	for _, method := range []string{"tasks/get", "tasks/cancel", "SubscribeToTask", "message/send"} {
		body := request(method, `{"id":"`+foreign+`","message":{"taskId":"`+foreign+`","parts":[{"text":"x"}]}}`)
		_, err := w.Call(t.Context(), w.who, w.agent, sent(body), seated)
		assert.True(t, problem.Is(err, "outside_organization"), "%s: %v", method, err)
	}
	assert.Equal(t, lifecycle.Queued, w.run(foreign).Status)
}

func TestARefusalOfTheServiceIsACodeInTheWordsOfTheProtocol(t *testing.T) {
	w := newWorld(t)
	busy := w.send(`{"contextId":"busy","parts":[{"text":"x"}]}`)["id"].(string)
	gone := w.run(w.task("x")).Chat
	_, err := w.Intake.DeleteChat(t.Context(), w.who, gone)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		message string
		code    float64
		text    string
	}{
		"a chat that is busy":       {`"contextId":"busy","parts":[{"text":"x"}]`, -32004, "busy with run " + busy},
		"a chat that was deleted":   {`"contextId":"` + gone + `","parts":[{"text":"x"}]`, -32001, "chat " + gone},
		"a context with a bad name": {`"contextId":"a b","parts":[{"text":"x"}]`, -32602, "message.contextId: must"},
		"a message with a bad id":   {`"messageId":"é","parts":[{"text":"x"}]`, -32602, "message.messageId: must"},
		"a message with a long id": {
			`"messageId":"` + strings.Repeat("m", 227) + `","parts":[{"text":"x"}]`, -32602, "at most 226 printable",
		},
		"a message that is too long": {`"parts":[{"text":"` + strings.Repeat("x", 256<<10+1) + `"}]`, -32602,
			"message.parts: "},
		"a message that says nothing": {`"parts":[]`, -32602, "message.parts must contain a text, data or file part"},
		"a file": {`"parts":[{"text":"x"},{"kind":"file","file":{"uri":"https://example.com"}}]`, -32005,
			"does not fetch file URLs"},
	} {
		code, text := w.refusal("message/send", `{"message":{`+c.message+`}}`)
		assert.InDelta(t, c.code, code, 0, name)
		assert.Contains(t, text, c.text, name)
		code, text = w.refusal("SendStreamingMessage", `{"message":{`+c.message+`}}`)
		assert.InDelta(t, c.code, code, 0, name)
		assert.Contains(t, text, c.text, name)
	}
}

// full is a table whose disk is full.
type full struct{ table.Table }

func (full) Commit(context.Context, string, ...table.Op) error { return &table.Error{Kind: table.Full} }

func TestALimitOrAFailureOfTheStoreIsAProblemOfTheRequest(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	call := func() error {
		_, err := w.Call(t.Context(), w.who, w.agent, sent(request("message/send",
			`{"message":{"parts":[{"text":"x"}]},"configuration":{"blocking":false}}`)), seated)
		return err
	}
	for range 8 {
		require.NoError(t, call())
	}
	assert.True(t, problem.Is(call(), "user_concurrency_cap"))

	w.items.broken, w.items.err = "run/", &table.Error{Kind: table.Down, Err: errBroken}
	_, err := w.Call(t.Context(), w.who, w.agent, sent(request("tasks/get", `{"id":"`+run+`"}`)), seated)
	assert.True(t, problem.Is(err, "unavailable"), "%v", err)

	w.items.broken, w.items.Table = "", full{w.items.Table}
	_, err = w.Call(t.Context(), w.who, w.agent, sent(request("tasks/cancel", `{"id":"`+run+`"}`)), seated)
	assert.True(t, problem.Is(err, "insufficient_storage"), "%v", err)
}

// Both versions are served whichever of them a client names.
func TestAnUnknownVersionIsRefused(t *testing.T) {
	w := newWorld(t)
	for version, known := range map[string]bool{
		"": true, "0.3": true, "0.3.0": true, "1.0": true, "1.0.1": true,
		"0.2": false, "0.30": false, "1.1": false, "1": false, "2.0": false, "x": false,
	} {
		for _, method := range []string{"ListTasks", "tasks/get"} {
			in := sent(request(method, `{}`))
			in.Version = version
			r, err := w.Call(t.Context(), w.who, w.agent, in, seated)
			require.NoError(t, err)
			a := shown(t, r.Message).(object)
			e, _ := a["error"].(object)
			assert.Equal(t, !known, e["code"] == -32009.0, "%s: %v", version, a)
			assert.InDelta(t, 7, a["id"], 0)
		}
	}
}

// The card has no capability for it.
func TestThereIsNoExtendedCard(t *testing.T) {
	w := newWorld(t)
	code, text := w.refusal("GetExtendedAgentCard", `{}`)
	assert.InDelta(t, -32004, code, 0)
	assert.Contains(t, text, "extended")
	code, _ = w.refusal("agent/getAuthenticatedExtendedCard", `{}`)
	assert.InDelta(t, -32007, code, 0)
	a := w.answer(`{"jsonrpc":"2.0","id":7,"method":"GetExtendedAgentCard"}`)
	assert.InDelta(t, -32004, a["error"].(object)["code"], 0, "without params, too")
}

// A stream that has no place begins no run.
func TestAStreamWithoutAPlaceBeginsNothing(t *testing.T) {
	w := newWorld(t)
	full := problem.New(problem.Limited, "rate_limited", "no place")
	_, err := w.Call(t.Context(), w.who, w.agent, sent(request("message/stream",
		`{"message":{"parts":[{"text":"x"}]}}`)), func() error { return full })
	require.ErrorIs(t, err, full)
	runs, err := w.Store.RunsOfOrganization(t.Context(), w.who.Scope(), "", 1)
	require.NoError(t, err)
	assert.Empty(t, runs.Rows)
}

// The text of any other error may contain internal details.
func TestAnErrorOfTheServiceIsLoggedAndNotReturned(t *testing.T) {
	w := newWorld(t)
	run := w.send(`{"contextId":"c","parts":[{"text":"` + strings.Repeat("x", 1<<10) + `"}]}`)["id"].(string)
	w.ask(run, lifecycle.Approval)
	id := `{"id":"` + run + `"}`
	for part, c := range map[string]struct{ method, params string }{
		"run/" + run + "/head":       {"CancelTask", id},
		"chat/" + w.who.Organization: {"tasks/cancel", id}, // is read when the run leaves it
		"run/" + run + "/input":      {"GetTask", id},
		"run/" + run + "/pause":      {"tasks/get", id},
		"chat":                       {"message/send", `{"message":{"contextId":"c","parts":[{"text":"x"}]}}`},
		"run/":                       {"SubscribeToTask", id},
		"chat/":                      {"message/stream", `{"message":{"contextId":"c","parts":[{"text":"x"}]}}`},
	} {
		w.log.Reset()
		w.items.broken, w.items.err = part, errBroken
		code, text := w.refusal(c.method, c.params)
		assert.InDelta(t, -32603, code, 0, part)
		assert.Equal(t, "the service had an internal error; try again later", text, part)
		assert.Contains(t, w.log.String(), errBroken.Error(), part)
	}
}

func TestAnInvalidBodyGetsOneErrorWithItsID(t *testing.T) {
	w := newWorld(t)
	call := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"Dance"}` }
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	huge := strings.Repeat("9", 1<<16)
	for name, c := range map[string]struct {
		body string
		code float64
		id   string
		text string
	}{
		"nothing":                     {``, -32700, `null`, "not JSON"},
		"a text cut off":              {`{"jsonrpc":"2.0","id":1`, -32700, `null`, "not JSON"},
		"something after it":          {call(`1`) + `x`, -32700, `null`, "not JSON"},
		"two calls":                   {call(`1`) + call(`2`), -32700, `null`, "not JSON"},
		"a member that stands twice":  {`{"id":1,"id":2}`, -32700, `null`, "not JSON"},
		"not valid Unicode":           {call("\"\xff\""), -32700, `null`, "not JSON"},
		"half a character":            {call(`"\ud800"`), -32700, `null`, "not JSON"},
		"too deep":                    {call(deep(20_000)), -32700, `null`, "not JSON"},
		"a batch":                     {`[` + call(`1`) + `]`, -32600, `null`, "batches are not supported"},
		"an empty batch":              {`[]`, -32600, `null`, "batches are not supported"},
		"a number":                    {`7`, -32600, `null`, "one JSON object"},
		"a method of another type":    {`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, `1`, "method must be a string"},
		"null":                        {`null`, -32600, `null`, `jsonrpc must be "2.0"`},
		"another version of JSON-RPC": {`{"jsonrpc":"1.0","id":1,"method":"tasks/get"}`, -32600, `1`, "jsonrpc"},
		"no version of JSON-RPC":      {`{"id":1,"method":"tasks/get"}`, -32600, `1`, "jsonrpc"},
		"no method":                   {`{"jsonrpc":"2.0","id":1}`, -32601, `1`, "no method"},
		"a method that is not there":  {call(`1`), -32601, `1`, "no method Dance"},
		"a method in another case":    {`{"jsonrpc":"2.0","id":1,"method":"gettask"}`, -32601, `1`, "no method"},
		"no id":                       {`{"jsonrpc":"2.0","method":"Dance"}`, -32601, `null`, "no method"},
		"an id that is null":          {call(`null`), -32601, `null`, "no method"},
		"an id that is a text":        {call(`"<seven>"`), -32601, `"<seven>"`, "no method"},
		"an id that no float can be":  {call(`9007199254740993`), -32601, `9007199254740993`, "no method"},
		"a huge id":                   {call(`"` + huge + `"`), -32601, `"` + huge + `"`, "no method"},
		"a huge number as id":         {call(huge), -32601, huge, "no method"},
		"no params":                   {`{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, -32602, `1`, "id of the task"},
		"no params of a message":      {`{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`, -32602, `1`, "a text"},
		"a role that is none": {
			request("message/send", `{"message":{"role":"robot","parts":[{"text":"x"}]}}`), -32602, `7`, "message.role",
		},
		"an id that is an object": {call(`{"a":[1]}`), -32600, `null`, "id must be a string"},
		"an id that is a list":    {call(`[1]`), -32600, `null`, "id must be a string"},
		"an id that is true":      {call(`true`), -32600, `null`, "id must be a string"},
		"an id of many lists":     {call(deep(999)), -32600, `null`, "id must be a string"},
		"params that are a list":  {request("tasks/get", `[]`), -32602, `7`, "params must be an object"},
		"params that are a text":  {request("message/send", `"x"`), -32602, `7`, "params must be an object"},
		"a message of another type": {
			request("message/send", `{"message":7}`), -32602, `7`, "params.message must be an object",
		},
		"a part of another type": {
			request("message/send", `{"message":{"parts":[7]}}`), -32602, `7`,
			"params.message.parts[0] must be an object",
		},
		"an id of a task that is none": {request("GetTask", `{"id":7}`), -32602, `7`, "params.id must be a string"},
		"a length that is no number": {
			request("GetTask", `{"id":"x","historyLength":"1"}`), -32602, `7`,
			"params.historyLength must be a whole number",
		},
		"a push that is not there": {request("tasks/pushNotificationConfig/set", `{}`), -32602, `7`, "must be"},
		"pushes of no task":        {request("GetTaskPushNotificationConfig", `{}`), -32602, `7`, "id of the task"},
		"pushes that are a number": {request("ListTaskPushNotificationConfigs", `7`), -32602, `7`, "must be an object"},
		"a push with a number as token": {
			request("CreateTaskPushNotificationConfig", `{"token":7}`), -32602, `7`, "params.token must be a string",
		},
	} {
		r := w.reply(c.body)
		b, err := json.Marshal(r.Message)
		require.NoError(t, err, name)
		var response struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result"`
			Error   struct {
				Code    float64 `json:"code"`
				Message string  `json:"message"`
			} `json:"error"`
		}
		require.NoError(t, json.Unmarshal(b, &response), name)
		assert.Empty(t, r.Run, name)
		assert.Equal(t, "2.0", response.JSONRPC, name)
		assert.Nil(t, response.Result, name)
		assert.InDelta(t, c.code, response.Error.Code, 0, name)
		assert.Contains(t, response.Error.Message, c.text, name)
		assert.True(t, sameID(t, c.id, response.ID), name)
	}
	assert.Empty(t, w.log.String(), "none of it is a fault of the service")
}

// sameID reports whether two ids are the same digit by digit, with any escapes of their letters.
func sameID(t *testing.T, sent string, got json.RawMessage) bool {
	t.Helper()
	exact := func(text string) (id any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		require.NoError(t, d.Decode(&id))
		return id
	}
	return exact(sent) == exact(string(got))
}

// Clients of 0.3 look for the text in data; a body that cannot be read may be of either version.
func TestAnErrorHasDataInVersion03Alone(t *testing.T) {
	w := newWorld(t)
	for method, want := range map[string]string{
		"tasks/get": `{"code":-32001,"message":"the task does not exist","data":{"error":"the task does not exist"}}`,
		"GetTask":   `{"code":-32001,"message":"the task does not exist"}`,
	} {
		answer := w.answer(request(method, `{"id":"x"}`))
		assert.Equal(t, fill(t, `{"jsonrpc":"2.0","id":7,"error":`+want+`}`), any(answer))
	}
	assert.Equal(t, fill(t, `{"jsonrpc":"2.0","id":null,
		"error":{"code":-32700,"message":"it is cut off","data":{"error":"it is cut off"}}}`),
		shown(t, a2aserver.Malformed("it is cut off")))
}
