package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// eliciting is a server that asks for a form during a call, and answers with the values that it got.
func eliciting(t *testing.T, forms ...string) tool.Endpoint {
	t.Helper()
	return elicitingAfter(t, func() {}, forms...)
}

// elicitingAfter waits in each call before it asks.
func elicitingAfter(t *testing.T, wait func(), forms ...string) tool.Endpoint {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "ask"},
			func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				var got []string
				wait()
				for n, form := range forms {
					answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form",
						Message: fmt.Sprintf("Question %d?", n), RequestedSchema: json.RawMessage(form)})
					if err != nil {
						return nil, nil, err
					}
					content, _ := json.Marshal(answer.Content)
					got = append(got, answer.Action+" "+string(content))
					if answer.Action != "accept" {
						break
					}
				}
				return text(strings.Join(got, "; ")), nil, nil
			})
		return s
	}, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return tool.Endpoint{URL: web.URL}
}

// answered makes a call, and repeats it with each answer until the server asks nothing more.
func answered(t *testing.T, e tool.Endpoint, answers ...string) (questions []*tool.Question, result string) {
	t.Helper()
	var given []tool.Answer
	for {
		s := (&mcptool.Kind{Client: http.DefaultClient}).Session(e) // that of an attempt
		got, err := ask(t.Context(), s, "ask", func(i *tool.Invocation) { i.Answers = given })
		s.End()
		var q *tool.Question
		if err == nil {
			require.Len(t, given, len(answers), "all answers were questions for")
			return questions, got
		}
		require.ErrorAs(t, err, &q)
		require.Less(t, len(given), len(answers), q.Text)
		questions = append(questions, q)
		given = append(given, tool.Answer{Question: q.ID, Text: answers[len(given)]})
	}
}

func object(properties, required string) string {
	return `{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`
}

func TestWhatAServerAsksIsAnsweredByAHuman(t *testing.T) {
	name := object(`"name":{"type":"string","description":"of the ship"}`, `"name"`)
	colour := object(`"colour":{"type":"string","enum":["red","green"]}`, `"colour"`)
	for title, c := range map[string]struct {
		forms, answers []string
		options        []string // of the first question
		want           string   // the first question
		result         string
	}{
		"a text": {forms: []string{name}, answers: []string{"Ada: the first"}, want: "of the ship",
			result: `accept {"name":"Ada: the first"}`},
		"a choice": {forms: []string{colour}, answers: []string{"GREEN"}, options: []string{"red", "green", "decline"},
			result: `accept {"colour":"green"}`},
		"one that does not fit": {forms: []string{colour}, answers: []string{"blue", "red"},
			options: []string{"red", "green", "decline"},
			result:  `accept {"colour":"red"}`},
		"a titled choice": {forms: []string{object(
			`"c":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}]}`, `"c"`)},
			answers: []string{"red"}, options: []string{"Red", "Green", "decline"}, result: `accept {"c":"#f00"}`},
		"yes or no": {forms: []string{object(`"sure":{"type":"boolean"}`, `"sure"`)}, answers: []string{"Yes"},
			options: []string{"yes", "no", "decline"}, result: `accept {"sure":true}`},
		"a number": {forms: []string{object(`"n":{"type":"integer","minimum":1,"maximum":9}`, `"n"`)},
			answers: []string{"many", "12", "7"}, result: `accept {"n":7}`},
		"a format": {forms: []string{object(`"mail":{"type":"string","format":"email"}`, `"mail"`)},
			answers: []string{"nobody", "a@example.com"}, want: "mail (string as email)",
			result: `accept {"mail":"a@example.com"}`},
		"a date and a number with a default": {
			forms: []string{object(`"on":{"type":"string","format":"date"},"n":{"type":"integer","default":3}`,
				`"on"`)},
			answers: []string{"on: 2026-13-01", "on: 2026-12-01"}, want: "n (integer, may be left out: 3)",
			result: `accept {"n":3,"on":"2026-12-01"}`},
		"a confirmation": {forms: []string{`{"type":"object","properties":{}}`}, answers: []string{"accept"},
			options: []string{"accept", "decline"}, result: `accept null`},
		"several fields": {forms: []string{object(`"name":{"type":"string"},"age":{"type":"integer"}`, `"name","age"`)},
			answers: []string{"name: Ada\nage: 36"}, want: "name: value", result: `accept {"age":36,"name":"Ada"}`},
		"several fields as JSON": {
			forms:   []string{object(`"name":{"type":"string"},"age":{"type":"integer"}`, `"name"`)},
			answers: []string{`{"name":"Ada"}`}, want: "may be left out", result: `accept {"name":"Ada"}`},
		"two questions": {forms: []string{name, colour}, answers: []string{"Ada", "red"},
			result: `accept {"name":"Ada"}; accept {"colour":"red"}`},
		"declined":  {forms: []string{name, colour}, answers: []string{"decline"}, result: `decline null`},
		"cancelled": {forms: []string{name, colour}, answers: []string{" Cancel "}, result: `cancel null`},
		"declined later": {forms: []string{name, colour}, answers: []string{"Ada", "decline"},
			result: `accept {"name":"Ada"}; decline null`},
	} {
		t.Run(title, func(t *testing.T) {
			questions, result := answered(t, eliciting(t, c.forms...), c.answers...)
			assert.Equal(t, c.result, result)
			assert.Equal(t, c.options, questions[0].Options)
			assert.Contains(t, questions[0].Text, "Question 0?")
			assert.Contains(t, questions[0].Text, c.want)
		})
	}
}

// A server that asks the same question twice in one call gets two answers. No answer is used for another question.
func TestEachAnswerIsForItsQuestion(t *testing.T) {
	name := object(`"name":{"type":"string"}`, `"name"`)
	e := eliciting(t, name, name)
	s := (&mcptool.Kind{Client: http.DefaultClient}).Session(e)
	defer s.End()
	_, err := ask(t.Context(), s, "ask", func(i *tool.Invocation) {
		i.Answers = []tool.Answer{{Question: "another", Text: "Ada"}}
	})
	var q *tool.Question
	require.ErrorAs(t, err, &q)
	_, result := answered(t, e, "Ada", "Bob")
	assert.Equal(t, `accept {"name":"Ada"}; accept {"name":"Bob"}`, result)
}

// Calls that ask at the same time in one session cannot be separated: the model reads what to do.
func TestCallsThatAskAtTheSameTime(t *testing.T) {
	failures := make([]error, 4)
	var all, there sync.WaitGroup
	there.Add(len(failures))
	e := elicitingAfter(t, func() {
		there.Done()
		there.Wait()
	}, object(`"name":{"type":"string"}`, `"name"`))
	s := (&mcptool.Kind{Client: http.DefaultClient}).Session(e)
	defer s.End()
	for i := range failures {
		all.Go(func() { _, failures[i] = ask(t.Context(), s, "ask") })
	}
	all.Wait()
	refused := 0
	for _, err := range failures {
		var q *tool.Question // of the last one, which questions alone
		var failed *tool.Error
		if errors.As(err, &failed) {
			refused++
			assert.ErrorContains(t, err, "one after another")
		} else {
			require.ErrorAs(t, err, &q)
		}
	}
	assert.GreaterOrEqual(t, refused, 3)
}

// From one version of the protocol on, a server asks by a result.
func TestAResultMayAsk(t *testing.T) {
	address, _ := scripted(t, map[string]func(json.RawMessage) string{
		"server/discover": always(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`),
		"tools/call": func(params json.RawMessage) string {
			var p struct {
				InputResponses json.RawMessage
				RequestState   string
			}
			_ = json.Unmarshal(params, &p)
			if p.RequestState == "" {
				return `{"resultType":"input_required","requestState":"x","inputRequests":{"e":{"method":` +
					`"elicitation/create","params":{"mode":"form","message":"name?","requestedSchema":` +
					object(`"name":{"type":"string"}`, `"name"`) + `}}}}`
			}
			got, _ := json.Marshal(p.RequestState + " " + string(p.InputResponses))
			return `{"resultType":"complete","content":[{"type":"text","text":` + string(got) + `}]}`
		},
	})
	questions, result := answered(t, tool.Endpoint{URL: address}, "Ada")
	assert.Contains(t, questions[0].Text, "name?")
	assert.Contains(t, result, "x {")
	assert.Contains(t, result, `"name":"Ada"`)
}

// A question with too many options for a human has none: any text answers it. All parts of a question are bounded.
func TestAQuestionIsBounded(t *testing.T) {
	enum := func(n, size int) string {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprint(i) + strings.Repeat("x", size)
		}
		raw, err := json.Marshal(values)
		require.NoError(t, err)
		return string(raw)
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"%02d%s":{"type":"string","title":"%s"}`, i, strings.Repeat("n", 200),
			strings.Repeat("t", 900))
	}
	for name, c := range map[string]struct {
		form    string
		options int
	}{
		"ten of 1 MiB": {object(`"a":{"type":"string","enum":`+enum(10, 1<<20)+`}`, ``), 0},
		"one too long": {object(`"a":{"type":"string","enum":`+enum(1, 600)+`}`, ``), 0},
		"a title": {object(`"a":{"type":"string","oneOf":[{"const":"a","title":"`+strings.Repeat("x", 600)+`"}]}`,
			``), 0},
		"an item":        {object(`"a":{"type":"array","items":{"type":"string","enum":`+enum(2, 600)+`}}`, ``), 0},
		"an empty one":   {object(`"a":{"type":"string","enum":["a",""]}`, ``), 0},
		"as they may be": {object(`"a":{"type":"string","enum":`+enum(20, 490)+`}`, ``), 21},
		"many fields":    {object(strings.Join(many, `,`), ``), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&mcptool.Kind{Client: http.DefaultClient}).Session(eliciting(t, c.form))
			defer s.End()
			_, err := ask(t.Context(), s, "ask")
			var q *tool.Question
			require.ErrorAs(t, err, &q)
			assert.Len(t, q.Options, c.options)
			assert.LessOrEqual(t, len(strings.Join(q.Options, "")), 16<<10)
			assert.LessOrEqual(t, len(q.Text), 8<<10)
			assert.Equal(t, c.options == 0, strings.Contains(q.Text, `The answer "decline" refuses.`))
		})
	}
}

// Defaults are shown as the JSON that an answer may have.
func TestDefaultsAreShownAsTheyAreWritten(t *testing.T) {
	for shown, field := range map[string]string{
		`: 10000000)`: `{"type":"integer","default":10000000}`,
		`: ["a b","<c>"]; one`: `{"type":"array","items":{"type":"string","enum":["a b","<c>"]},` +
			`"default":["a b","<c>"]}`,
		`may be left out: "x")`: `{"type":"string","default":"x"}`,
		`left out: false; one`:  `{"type":"boolean","default":false}`,
	} {
		t.Run(shown, func(t *testing.T) {
			questions, result := answered(t, eliciting(t, object(`"a":`+field+`,"b":{"type":"string"}`, `"b"`)), "b: x")
			assert.Contains(t, questions[0].Text, shown)
			var form struct{ Default json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(field), &form))
			_, result, _ = strings.Cut(result, " ")
			var got map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(result), &got))
			assert.JSONEq(t, string(form.Default), string(got["a"]))
		})
	}
}

// A form with too many fields is refused in clear words.
func TestAFormWithTooManyFieldsIsRefused(t *testing.T) {
	for n, want := range map[int]string{200: "", 201: "over 200 fields", 32_000: "over 200 fields"} {
		fields, required := make([]string, n), make([]string, n)
		for i := range fields {
			required[i] = fmt.Sprintf(`"f%d"`, i)
			fields[i] = required[i] + `:{"type":"string"}`
		}
		s := (&mcptool.Kind{Client: http.DefaultClient}).Session(eliciting(t,
			object(strings.Join(fields, `,`), strings.Join(required, `,`))))
		_, err := ask(t.Context(), s, "ask")
		s.End()
		var q *tool.Question
		if want == "" {
			require.ErrorAs(t, err, &q)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotErrorAs(t, err, &q)
	}
}
