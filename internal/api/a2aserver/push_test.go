package a2aserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// kept is the stored push of a run; nil: none.
func (w *world) kept(run string) *record.Push {
	w.t.Helper()
	e, found, err := w.Store.Push(w.t.Context(), run)
	require.NoError(w.t, err)
	assert.Equal(w.t, found, w.run(run).Callback)
	if !found {
		return nil
	}
	return &e.Value
}

// secrets are the secrets of the push of a run.
func (w *world) secrets(run string) (s record.PushSecrets) {
	w.t.Helper()
	kept := w.kept(run)
	assert.NotContains(w.t, kept.Secrets, token)
	assert.Empty(w.t, kept.Token)
	plain, err := w.Sealer.Open(w.t.Context(), record.PushSealedFor(w.who.Organization), kept.Secrets)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal([]byte(plain), &s))
	return s
}

// any calls a method that succeeds, with any result.
func (w *world) any(method, params string) any {
	w.t.Helper()
	a := w.answer(request(method, params))
	require.NotContains(w.t, a, "error")
	require.Contains(w.t, a, "result")
	return a["result"]
}

const token = "s3cret"

func TestAMessageBringsWhereItsTaskIsPushed(t *testing.T) {
	for method, c := range map[string]struct{ member, form string }{
		"message/send":         {"pushNotificationConfig", "a2a/0.3"},
		"message/stream":       {"pushNotificationConfig", "a2a/0.3"},
		"SendMessage":          {"taskPushNotificationConfig", "a2a/1.0"},
		"SendStreamingMessage": {"taskPushNotificationConfig", "a2a/1.0"},
	} {
		w := newWorld(t)
		r := w.reply(request(method, `{"message":{"parts":[{"text":"x"}]},"configuration":{"blocking":false,
			"returnImmediately":true,"`+c.member+`":
				{"id":"one","url":"https://example.com/hook","token":"`+token+`"}}}`))
		b, err := json.Marshal(r.Message)
		require.NoError(t, err)
		assert.NotContains(t, string(b), token)
		runs, err := w.Store.RunsOfOrganization(t.Context(), w.who.Scope(), "", 2)
		require.NoError(t, err)
		require.Len(t, runs.Rows, 1, method)
		run := runs.Rows[0].Value.ID()
		assert.Equal(t, record.PushSecrets{URL: "https://example.com/hook", Token: token}, w.secrets(run), method)
		kept := w.kept(run)
		kept.Secrets = ""
		assert.Equal(t, &record.Push{ID: "one", URL: "https://example.com/hook", Form: c.form, API: w.URL}, kept,
			method)
		assert.NotContains(t, w.log.String(), token)
	}
}

func TestAConfigurationIsSetReadListedAndDeletedIn03(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	const family = "tasks/pushNotificationConfig/"
	assert.Equal(t, []any{}, w.any(family+"list", `{"id":"`+run+`"}`))
	code, _ := w.refusal(family+"get", `{"id":"`+run+`"}`)
	assert.InDelta(t, -32001, code, 0)
	for _, path := range []string{"first", "second"} { // which replaces it
		want := fill(t, `{"taskId":"RUN","pushNotificationConfig":{"id":"RUN","url":"https://example.com/PATH"}}`,
			"RUN", run, "PATH", path)
		assert.Equal(t, want, w.any(family+"set", `{"taskId":"`+run+`","pushNotificationConfig":
			{"url":"https://example.com/`+path+`","token":"`+token+`"}}`))
		assert.Equal(t, want, w.any(family+"get", `{"id":"`+run+`"}`))
		assert.Equal(t, want, w.any(family+"get", `{"id":"`+run+`","pushNotificationConfigId":"`+run+`"}`))
		assert.Equal(t, []any{want}, w.any(family+"list", `{"id":"`+run+`"}`))
		assert.Equal(t, token, w.secrets(run).Token)
	}
	code, _ = w.refusal(family+"get", `{"id":"`+run+`","pushNotificationConfigId":"other"}`)
	assert.InDelta(t, -32001, code, 0)
	code, text := w.refusal(family+"delete", `{"id":"`+run+`"}`)
	assert.InDelta(t, -32602, code, 0)
	assert.Contains(t, text, "is required")
	for range 2 {
		assert.Nil(t, w.any(family+"delete", `{"id":"`+run+`","pushNotificationConfigId":"`+run+`"}`))
		assert.Nil(t, w.kept(run))
	}
}

func TestAConfigurationIsSetReadListedAndDeletedIn10(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	task := `"taskId":"` + run + `"`
	assert.Equal(t, object{"configs": []any{}}, w.any("ListTaskPushNotificationConfigs", `{`+task+`}`))
	want := fill(t, `{`+task+`,"id":"one","url":"https://example.com/hook"}`)
	assert.Equal(t, want, w.any("CreateTaskPushNotificationConfig",
		`{`+task+`,"id":"one","url":"https://example.com/hook","token":"`+token+`"}`))
	assert.Equal(t, want, w.any("GetTaskPushNotificationConfig", `{`+task+`,"id":"one"}`))
	assert.Equal(t, object{"configs": []any{want}}, w.any("ListTaskPushNotificationConfigs", `{`+task+`}`))
	assert.Equal(t, record.PushSecrets{URL: "https://example.com/hook", Token: token}, w.secrets(run))
	assert.Equal(t, "a2a/1.0", w.kept(run).Form)
	code, text := w.refusal("CreateTaskPushNotificationConfig",
		`{`+task+`,"id":"two","url":"https://example.com/other"}`)
	assert.InDelta(t, -32004, code, 0)
	assert.Contains(t, text, "another id")
	assert.Equal(t, object{}, w.any("DeleteTaskPushNotificationConfig", `{`+task+`,"id":"two"}`))
	assert.NotNil(t, w.kept(run))
	assert.Equal(t, object{}, w.any("DeleteTaskPushNotificationConfig", `{`+task+`,"id":"one"}`))
	assert.Nil(t, w.kept(run))
}

// A configuration is refused before anything is done: no run begins, no question is answered.
func TestAConfigurationThatCannotBeKeptIsRefused(t *testing.T) {
	w := newWorld(t)
	asks := w.send(`{"contextId":"asks","parts":[{"text":"x"}]}`)["id"].(string)
	w.ask(asks, lifecycle.Clarification)
	for name, c := range map[string]struct {
		config string
		code   float64
		text   string
	}{
		"no address":      {`{}`, -32602, "pushNotificationConfig.url: is not"},
		"another address": {`{"url":"https://10.0.0.1/"}`, -32602, "pushNotificationConfig.url: is not"},
		"a huge token": {`{"url":"https://example.com/","token":"` + strings.Repeat("x", 1025) + `"}`, -32602,
			"token must have at most 1024"},
		"a token of two headers": {`{"url":"https://example.com/","token":"x\r\nX-Admin: yes"}`, -32602, "token must"},
		"a token with NUL":       {`{"url":"https://example.com/","token":"\u0000"}`, -32602, "token must"},
		"a token with a space":   {`{"url":"https://example.com/","token":"a b"}`, -32602, "token must"},
		"a foreign token":        {`{"url":"https://example.com/","token":"é"}`, -32602, "token must"},
		"a huge id": {`{"url":"https://example.com/","id":"` + strings.Repeat("x", 129) + `"}`, -32602,
			"id must have at most 128"},
		"credentials of an unknown scheme": {
			`{"url":"https://example.com/","authentication":{"scheme":"Digest","credentials":"c"}}`, -32602,
			"pushNotificationConfig.authentication: the scheme must be",
		},
		"credentials of unknown schemes": {
			`{"url":"https://example.com/","authentication":{"schemes":["Digest"],"credentials":"c"}}`, -32602,
			"pushNotificationConfig.authentication: the scheme must be",
		},
		"credentials of no scheme": {
			`{"url":"https://example.com/","authentication":{"credentials":"c"}}`, -32602, "the scheme must be",
		},
		"credentials of two headers": {
			`{"url":"https://example.com/","authentication":{"scheme":"Basic","credentials":"c\r\nX: 1"}}`, -32602,
			"authentication.credentials must",
		},
	} {
		for method, member := range map[string]string{
			"message/send": "pushNotificationConfig", "SendStreamingMessage": "taskPushNotificationConfig",
		} {
			for _, to := range []string{``, `,"taskId":"` + asks + `"`} {
				code, text := w.refusal(method, fmt.Sprintf(
					`{"message":{"parts":[{"text":"x"}]%s},"configuration":{"%s":%s}}`, to, member, c.config))
				assert.InDelta(t, c.code, code, 0, name)
				assert.Contains(t, text, c.text, name)
				assert.NotContains(t, text, "callback_url", name)
			}
		}
		code, _ := w.refusal("tasks/pushNotificationConfig/set",
			`{"taskId":"`+asks+`","pushNotificationConfig":`+c.config+`}`)
		assert.InDelta(t, c.code, code, 0, name)
		code, _ = w.refusal("CreateTaskPushNotificationConfig", `{"taskId":"`+asks+`",`+c.config[1:])
		if name != "no address" { // of 1.0, where id and url are members next to the task
			assert.InDelta(t, c.code, code, 0, name)
		}
	}
	assert.Equal(t, lifecycle.AwaitingInput, w.run(asks).Status)
	assert.Nil(t, w.kept(asks))
	runs, err := w.Store.RunsOfOrganization(t.Context(), w.who.Scope(), "", 5)
	require.NoError(t, err)
	assert.Len(t, runs.Rows, 1)
}

func TestAConfigurationMayHaveCredentials(t *testing.T) {
	for authentication, want := range map[string]record.PushSecrets{
		`{"scheme":"Bearer","credentials":"s3cret"}`:             {Scheme: "Bearer", Credentials: token},
		`{"scheme":"basic","credentials":"s3cret"}`:              {Scheme: "Basic", Credentials: token},
		`{"schemes":["Digest","bearer"],"credentials":"s3cret"}`: {Scheme: "Bearer", Credentials: token},
		`{"scheme":"Digest"}`:                                    {Token: "t"}, // nothing of it could be sent
		`{"schemes":["Bearer"]}`:                                 {Token: "t"},
	} {
		w := newWorld(t)
		want.URL = "https://example.com/"
		push := `{"url":"https://example.com/","token":"` + want.Token + `","authentication":` + authentication + `}`
		task := w.result("message/send", `{"message":{"parts":[{"text":"x"}]},
			"configuration":{"blocking":false,"pushNotificationConfig":`+push+`}}`)
		assert.Equal(t, want, w.secrets(task["id"].(string)), authentication)
		shown := w.any("CreateTaskPushNotificationConfig", `{"taskId":"`+task["id"].(string)+`",`+push[1:])
		assert.NotContains(t, shown, "authentication")
		assert.Equal(t, want, w.secrets(task["id"].(string)), authentication)
	}
}

func TestAnAnswerMayBringAConfiguration(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	w.ask(run, lifecycle.Clarification)
	w.result("message/send", `{"message":{"taskId":"`+run+`","parts":[{"text":"Paris"}]},
		"configuration":{"blocking":false,"pushNotificationConfig":{"url":"https://example.com/hook"}}}`)
	assert.Equal(t, lifecycle.Queued, w.run(run).Status)
	assert.Equal(t, "https://example.com/hook", w.kept(run).URL)
}

// Clients make an id for each message's configuration, and a task has one.
func TestTheConfigurationOfAnAnswerReplacesTheOneThatIsThere(t *testing.T) {
	for _, method := range []string{"message/send", "SendMessage"} {
		w := newWorld(t)
		run := w.task("x")
		w.any("CreateTaskPushNotificationConfig", `{"taskId":"`+run+`","id":"one","url":"https://example.com/one"}`)
		w.ask(run, lifecycle.Clarification)
		config := `{"id":"two","url":"https://example.com/two"}`
		w.result(method, `{"message":{"taskId":"`+run+`","parts":[{"text":"Paris"}]},"configuration":{"blocking":false,
			"returnImmediately":true,"pushNotificationConfig":`+config+`,"taskPushNotificationConfig":`+config+`}}`)
		assert.Equal(t, lifecycle.Queued, w.run(run).Status)
		assert.Equal(t, "two", w.kept(run).ID)
		assert.Equal(t, "https://example.com/two", w.kept(run).URL)
	}
}

// The configuration of an answer takes effect with the answer. It has no effect when the answer is refused, or when the
// answer has taken effect before and is sent again.
func TestTheConfigurationOfAnAnswerCountsWithIt(t *testing.T) {
	decides := func(id, how string) string {
		return `{"data":{"decisions":[{"interrupt_id":"` + id + `","decision":"` + how + `"}]}}`
	}
	set := func(w *world, run, url string) {
		t.Helper()
		w.any("CreateTaskPushNotificationConfig", `{"taskId":"`+run+`","id":"one","url":"`+url+`"}`)
	}
	answer := func(run, parts string) string {
		return `{"message":{"taskId":"` + run + `","parts":[` + parts + `]},"configuration":{"returnImmediately":true,
			"taskPushNotificationConfig":{"id":"one","url":"https://example.com/answer"}}}`
	}
	for name, c := range map[string]struct {
		kind  lifecycle.InterruptKind
		parts string
	}{
		"of another question": {lifecycle.Approval, decides("another", "approve")},
		"in another way":      {lifecycle.Approval, decides("i", "answer")},
		"with a file that is not there": {lifecycle.Clarification,
			`{"url":"https://api.example.com/api/v1/files/000000000000000000000000"}`},
	} {
		w := newWorld(t)
		run := w.task("x")
		set(w, run, "https://example.com/before")
		w.ask(run, c.kind)
		w.refusal("SendMessage", answer(run, c.parts))
		assert.Equal(t, "https://example.com/before", w.kept(run).URL, name)
	}
	w := newWorld(t)
	run := w.task("x")
	w.ask(run, lifecycle.Approval)
	w.result("SendMessage", answer(run, decides("i", "approve")))
	set(w, run, "https://example.com/later")
	w.pause(run, w.claim(run), 2, lifecycle.Approval)
	w.result("SendMessage", answer(run, decides("i", "approve")))
	assert.Equal(t, "https://example.com/later", w.kept(run).URL, "sent again")
}

// An answer with a file is a message, and has its configuration, too.
func TestAnAnswerWithAFileMayBringAConfiguration(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	w.ask(run, lifecycle.Clarification)
	w.result("SendMessage", `{"message":{"taskId":"`+run+`","parts":[{"raw":"eA==","filename":"x.txt"}]},
		"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://example.com/hook"}}}`)
	assert.Equal(t, lifecycle.Queued, w.run(run).Status)
	assert.Equal(t, "https://example.com/hook", w.kept(run).URL)
}

func TestATaskThatHasEndedTakesNoConfiguration(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	w.result("tasks/cancel", `{"id":"`+run+`"}`)
	code, text := w.refusal("CreateTaskPushNotificationConfig", `{"taskId":"`+run+`","url":"https://example.com/"}`)
	assert.InDelta(t, -32004, code, 0)
	assert.Contains(t, text, "has ended")
	assert.Equal(t, object{"configs": []any{}}, w.any("ListTaskPushNotificationConfigs", `{"taskId":"`+run+`"}`))
}

func TestAConfigurationOfAnotherTaskIsNotThere(t *testing.T) {
	w := newWorld(t)
	run := w.task("x")
	w.any("CreateTaskPushNotificationConfig", `{"taskId":"`+run+`","url":"https://example.com/"}`)
	mine, me := w.agent, w.who
	w.agent = w.other(func(*catalog.AgentSpec) {})
	bodies := map[string]string{
		"CreateTaskPushNotificationConfig":    `{"taskId":"` + run + `","url":"https://example.com/mine"}`,
		"GetTaskPushNotificationConfig":       `{"taskId":"` + run + `","id":"` + run + `"}`,
		"ListTaskPushNotificationConfigs":     `{"taskId":"` + run + `"}`,
		"DeleteTaskPushNotificationConfig":    `{"taskId":"` + run + `","id":"` + run + `"}`,
		"tasks/pushNotificationConfig/list":   `{"id":"` + run + `"}`,
		"tasks/pushNotificationConfig/delete": `{"id":"` + run + `","pushNotificationConfigId":"` + run + `"}`,
	}
	for method, params := range bodies {
		code, _ := w.refusal(method, params)
		assert.InDelta(t, -32001, code, 0, method)
	}
	w.who = w.outsider()
	w.agent = w.other(func(*catalog.AgentSpec) {})
	for method, params := range bodies {
		_, err := w.Call(t.Context(), w.who, w.agent, sent(request(method, params)), seated)
		assert.True(t, problem.Is(err, "outside_organization"), "%s: %v", method, err)
	}
	w.agent, w.who = mine, me
	assert.Equal(t, "https://example.com/", w.kept(run).URL)
}
