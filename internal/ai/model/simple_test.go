package model_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/platform/schema/schematest"
)

// strict is a provider that answers requests whose tools break its rules with an error.
type strict struct {
	by      schematest.Provider
	longest int // bytes of a description; 0: any
	refusal error
	sent    []model.Request
}

func (s *strict) Converse(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	s.sent = append(s.sent, r)
	for _, t := range r.Sendable().Tools {
		if schematest.Refused(s.by, t.PlainNames()) != "" || s.longest > 0 && len([]rune(t.Description)) > s.longest {
			return model.Reply{}, s.refusal
		}
	}
	emit("ok")
	return model.Reply{Text: "ok"}, nil
}

func refusal(status int, words string) error {
	return model.FromHTTP(status, providerhttp.Trouble{Message: words})
}

// Refusals in the words of reports: zed#44875 (Gemini), zed#28521 and pydantic-ai#1623 (Amazon Nova), sentry-mcp#106
// (OpenAI), claude-code#586 (Anthropic); and those of llama.cpp's server.
func TestToolsThatAreRefusedAreDescribedInSimplerWords(t *testing.T) {
	parameters := json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","title":"T","type":"object",` +
		`"properties":{"kind":{"const":"a"},"n":{"type":["integer","null"],"exclusiveMinimum":0},"to":{"$ref":` +
		`"#/$defs/person"},"odata $x":{"type":"array"}},"required":["kind","to"],"additionalProperties":false,` +
		`"$defs":` +
		`{"person":{"type":"object","description":"who","properties":{"mail":{"type":"string","format":"email"},` +
		`"boss":{"$ref":"#/$defs/person"}},"required":["mail"]}}}`)
	long := strings.Repeat("wörds ", 300)
	for name, c := range map[string]struct {
		provider *strict
		calls    int // until the second request is answered
	}{
		"Gemini": {&strict{by: schematest.Gemini, refusal: refusal(400, `Invalid JSON payload received. Unknown name `+
			`"const" at 'tools[0].function_declarations[5].parameters.properties[8].value': Cannot find field.`)}, 3},
		"Nova": {&strict{by: schematest.Nova, refusal: refusal(400, `The model returned the following errors: `+
			`Malformed input request: #/toolConfig/tools/2/toolSpec/inputSchema/json: extraneous key [definitions] is `+
			`not permitted`)}, 3},
		"OpenAI": {&strict{by: schematest.All, longest: 1024, refusal: refusal(400, `Invalid `+
			`'tools[13].function.description': string too long. Expected a string with maximum length 1024`)}, 3},
		"llama.cpp": {&strict{by: schematest.Gemini, refusal: refusal(500, "JSON schema conversion failed:\nPattern "+
			"must start with '^' and end with '$'")}, 3},
		"one that takes all": {&strict{by: schematest.All}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := model.WithSimpleTools(c.provider)
			r := model.Request{Name: "m", Instructions: "Be brief.",
				Tools: []model.ToolSpec{{Name: "send", Description: long, Parameters: parameters}}}
			for range 2 {
				reply, err := m.Converse(t.Context(), r, func(string) {})
				require.NoError(t, err)
				assert.Equal(t, "ok", reply.Text)
			}
			require.Len(t, c.provider.sent, c.calls, "it is remembered")
			assert.Equal(t, string(parameters), string(r.Tools[0].Parameters))
			last := c.provider.sent[c.calls-1]
			if c.calls == 2 {
				assert.Equal(t, r, last)
				return
			}
			assert.JSONEq(t, `{"type":"object","properties":{"kind":{"type":"string","enum":["a"]},"n":{"type":`+
				`"integer","nullable":true},"to":{"type":"object","description":"who","properties":{"mail":{"type":`+
				`"string"},"boss":{"type":"object","description":"who","properties":{}}},"required":["mail"]}},`+
				`"required":["kind","to"]}`, string(last.Tools[0].Parameters))
			assert.Contains(t, last.Instructions, strings.TrimSpace(long), "nothing of a description is lost")
			assert.Contains(t, last.Instructions, `"odata $x"`)
		})
	}
}

func TestAFailureOfSomethingElseIsNotRepeated(t *testing.T) {
	tools := []model.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"properties":{"a":{"const":1}}}`)}}
	for name, c := range map[string]struct {
		refusal error
		tools   []model.ToolSpec
		calls   int
	}{
		"another parameter":   {refusal(400, "max_tokens is too large"), tools, 1},
		"overload":            {refusal(503, "overloaded"), tools, 1},
		"no tools":            {refusal(400, "Invalid schema"), nil, 1},
		"a cancel":            {context.Canceled, tools, 1},
		"the simple one, too": {refusal(400, "Invalid schema for function 'f': unknown"), tools, 2},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := &refusing{err: c.refusal}
			m := model.WithSimpleTools(refuses)
			for range 2 {
				_, err := m.Converse(t.Context(), model.Request{Name: "m", Tools: c.tools}, func(string) {})
				require.ErrorIs(t, err, c.refusal)
			}
			assert.Equal(t, 2*c.calls, refuses.calls, "nothing is learned of it")
		})
	}
}

// refusing answers each call with an error.
type refusing struct {
	err   error
	calls int
}

func (m *refusing) Converse(context.Context, model.Request, func(string)) (model.Reply, error) {
	m.calls++
	return model.Reply{}, m.err
}

// Gemini refuses a name that begins with a digit (seclab-taskflow-agent#287); Amazon Nova makes no valid call of one
// with a hyphen (Semoss#2892).
func TestNamesThatAProviderRefusesAreSimpler(t *testing.T) {
	sent := []model.Request{}
	m := model.WithSimpleTools(converse(func(r model.Request) (model.Reply, error) {
		sent = append(sent, r)
		reply := model.Reply{}
		for _, tool := range r.Tools {
			if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`).MatchString(tool.Name) {
				return reply, refusal(400, "* GenerateContentRequest.tools[0].function_declarations[1].name: Invalid "+
					"function name. Must start with a letter or an underscore.")
			}
			reply.Calls = append(reply.Calls, model.Call{Name: tool.Name})
		}
		return reply, nil
	}))
	long := strings.Repeat("1", 64)
	names := []string{"get_x", "get-x", "21st_magic", "get_x_2", "get-x-2", "-", long, long[:63] + "-", "gone-"}
	r := model.Request{Name: "m", Messages: []model.Message{
		{Role: model.Assistant, Calls: []model.Call{{ID: "a", Name: "gone-"}, {ID: "b", Name: "get-x"}}},
		{Role: model.Tool, Results: []model.Result{{CallID: "a", Name: "gone-"}, {CallID: "b", Name: "get-x"}}},
	}, Options: model.Options{MustCall: true, Tool: "get-x"}}
	for _, name := range names[:8] {
		r.Tools = append(r.Tools, model.ToolSpec{Name: name, Parameters: json.RawMessage(`{}`)})
	}
	for range 2 {
		reply, err := m.Converse(t.Context(), r, func(string) {})
		require.NoError(t, err)
		var called []string
		for _, c := range reply.Calls {
			called = append(called, c.Name)
		}
		assert.Equal(t, names[:8], called, "calls have the names of the request")
	}
	require.Len(t, sent, 3)
	got, seen := sent[2], map[string]bool{}
	for _, tool := range got.Tools {
		assert.False(t, seen[tool.Name], tool.Name)
		seen[tool.Name] = true
	}
	assert.Equal(t, "get_x", got.Tools[0].Name)
	assert.Equal(t, got.Tools[1].Name, got.Options.Tool)
	assert.Equal(t, got.Tools[1].Name, got.Messages[0].Calls[1].Name)
	assert.Equal(t, got.Tools[1].Name, got.Messages[1].Results[1].Name)
	assert.Equal(t, "gone_", got.Messages[0].Calls[0].Name)
	assert.Equal(t, "get-x", r.Messages[0].Calls[1].Name, "the request itself is not changed")
}

type converse func(model.Request) (model.Reply, error)

func (f converse) Converse(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
	return f(r)
}

// A call that has begun counts as an attempt: its text and its tokens must not be lost.
func TestACallThatHasBegunIsNotRepeated(t *testing.T) {
	invalid := model.BrokeOff(providerhttp.NewTrouble("Model produced invalid sequence as part of ToolUse.", ""))
	var sent []string
	m := model.WithSimpleTools(converse(func(r model.Request) (model.Reply, error) {
		if sent = append(sent, r.Tools[0].Name); r.Tools[0].Name == "get-x" {
			return model.Reply{InputTokens: 7}, invalid
		}
		return model.Reply{}, nil
	}))
	r := model.Request{Name: "m", Tools: []model.ToolSpec{{Name: "get-x", Parameters: json.RawMessage(`{}`)}}}
	reply, err := m.Converse(t.Context(), r, func(string) {})
	require.ErrorIs(t, err, invalid)
	assert.EqualValues(t, 7, reply.InputTokens)
	_, err = m.Converse(t.Context(), r, func(string) {})
	require.NoError(t, err)
	assert.Equal(t, []string{"get-x", "get_x"}, sent)
}

// A refusal holds only for the refused tools, and only where simpler words helped.
func TestSimpleToolsAreRememberedWhereTheyHelped(t *testing.T) {
	tool := func(name string) model.Request {
		return model.Request{Name: "m", Tools: []model.ToolSpec{{Name: name, Parameters: json.RawMessage(`{}`)}}}
	}
	refused, throttled := refusal(400, "Invalid function name"), refusal(429, "slow down")
	broke := model.Begin(model.BrokeOff(providerhttp.NewTrouble("invalid sequence as part of ToolUse")))
	mute := model.Begin(model.Fail(model.Retryable, "the model's stream ended in the middle"))
	for name, c := range map[string]struct {
		answers     []error // of the first requests
		tools, sent string  // the tool of each call and of each request
	}{
		"it helped":                    {[]error{refused}, "a-b a-b", "a-b a_b a_b"},
		"of other tools":               {[]error{refused}, "a-b c-d", "a-b a_b c-d"},
		"it did not help":              {[]error{refused, throttled}, "a-b a-b", "a-b a_b a-b"},
		"a cancel":                     {[]error{refused, context.Canceled}, "a-b a-b", "a-b a_b a-b"},
		"it is refused later":          {[]error{refused, nil, refused}, "a-b a-b a-b", "a-b a_b a_b a_b"},
		"it had begun":                 {[]error{broke}, "a-b a-b a-b", "a-b a_b a_b"},
		"it had begun, of other tools": {[]error{broke}, "a-b c-d a-b", "a-b c-d a_b"},
		"it had begun, once":           {[]error{broke, mute}, "a-b a-b a-b", "a-b a_b a-b"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			m := model.WithSimpleTools(converse(func(r model.Request) (model.Reply, error) {
				if sent = append(sent, r.Tools[0].Name); len(sent) > len(c.answers) {
					return model.Reply{}, nil
				}
				return model.Reply{}, c.answers[len(sent)-1]
			}))
			for _, name := range strings.Fields(c.tools) {
				_, _ = m.Converse(t.Context(), tool(name), func(string) {})
			}
			assert.Equal(t, strings.Fields(c.sent), sent)
		})
	}
}

// A conversation names the tools that it has called, also where a client asks for a reply without tools.
func TestCallsOfARequestWithoutToolsGetSimpleNames(t *testing.T) {
	var sent []string
	m := model.WithSimpleTools(converse(func(r model.Request) (model.Reply, error) {
		if sent = append(sent, r.Messages[0].Calls[0].Name); sent[len(sent)-1] == "get-x" {
			return model.Reply{}, refusal(400, "Invalid function name")
		}
		return model.Reply{}, nil
	}))
	for range 2 {
		_, err := m.Converse(t.Context(), model.Request{Name: "m", Messages: []model.Message{
			{Role: model.Assistant, Calls: []model.Call{{ID: "a", Name: "get-x"}}},
			{Role: model.Tool, Results: []model.Result{{CallID: "a", Name: "get-x"}}},
		}}, func(string) {})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"get-x", "get_x", "get_x"}, sent)
}

// Mostly a provider has refused nothing. Then a call does not read its tools, which may have megabytes.
func TestNothingIsReadOfToolsThatNobodyRefused(t *testing.T) {
	m := model.WithSimpleTools(quiet{})
	r := model.Request{Name: "m", Tools: make([]model.ToolSpec, 128)}
	allocations := testing.AllocsPerRun(10, func() { _, _ = m.Converse(t.Context(), r, func(string) {}) })
	assert.LessOrEqual(t, allocations, 5.0)
}

type quiet struct{ model.Model }

func (quiet) Converse(context.Context, model.Request, func(string)) (model.Reply, error) {
	return model.Reply{Text: "Hello."}, nil
}
