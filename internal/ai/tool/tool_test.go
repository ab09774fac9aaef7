package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/tool"
)

func TestACallNeedsApprovalByModeAndPattern(t *testing.T) {
	when := func(argument, pattern string) tool.Approval {
		return tool.Approval{Mode: "when", Argument: argument, Pattern: pattern}
	}
	for name, c := range map[string]struct {
		rule      tool.Approval
		arguments string
		asks      bool
	}{
		"no rule":                            {tool.Approval{}, `{"to":"x"}`, false},
		"never":                              {tool.Approval{Mode: "never"}, `{"to":"x"}`, false},
		"always":                             {tool.Approval{Mode: "always"}, `{}`, true},
		"a mode that nobody knows":           {tool.Approval{Mode: "sometimes"}, `{}`, true},
		"the argument is there":              {when("to", ""), `{"to":null}`, true},
		"it is not":                          {when("to", ""), `{"from":"x"}`, false},
		"it matches":                         {when("to", "mallory"), `{"to":"mallory@example.com"}`, true},
		"it does not":                        {when("to", "^mallory$"), `{"to":"alice"}`, false},
		"another case of its name":           {when("to", "mallory"), `{"to":"alice","TO":"mallory"}`, true},
		"a name that folds to it":            {when("kind", "mallory"), `{"\u212Aind":"mallory"}`, true},
		"a number":                           {when("n", "^[0-9]{4,}$"), `{"n":5000}`, true},
		"a number in a list":                 {when("n", "^[0-9]{4,}$"), `{"n":[1,[5000]]}`, true},
		"a text in an object":                {when("to", "^mallory$"), `{"to":{"address":["mallory"]}}`, true},
		"an escaped text in a list":          {when("to", "^a\\\\b$"), `{"to":["a\\b"]}`, true},
		"a name in an object":                {when("to", "mallory"), `{"to":{"mallory":1}}`, true},
		"the whole of an object":             {when("to", `^\{"a":1\}$`), `{"to":{"a":1}}`, true},
		"a truth":                            {when("force", "true"), `{"force":true}`, true},
		"arguments that cannot be read":      {when("to", "mallory"), `{"to"`, true},
		"a pattern that cannot be read":      {when("to", "("), `{"to":"x"}`, true},
		"such a pattern, without the member": {when("to", "("), `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			why, asks := c.rule.Required(json.RawMessage(c.arguments))
			assert.Equal(t, c.asks, asks)
			assert.Equal(t, asks, why != "")
		})
	}
}

func TestAChangedDefinitionHasAnotherFingerprint(t *testing.T) {
	is := func(endpoint, definition string) tool.Offer {
		return tool.Offer{Source: "kit/act", Fingerprint: tool.Fingerprint(endpoint, json.RawMessage(definition))}
	}
	was := is("https://a", `{"binding":{"name":"act","n":9007199254740993},"description":"d"}`)
	assert.True(t, is("https://a", `{"description":"d","binding":{"n":9007199254740993,"name":"act"}}`).Is(was.Source,
		was.Fingerprint), "members have no order")
	for _, changed := range []tool.Offer{
		is("https://b", `{"binding":{"name":"act","n":9007199254740993},"description":"d"}`),
		is("https://a", `{"binding":{"name":"act","n":9007199254740992},"description":"d"}`),
		is("https://a", `{"binding":{"name":"act","n":9007199254740993},"description":"e"}`),
		{Source: "other/act", Fingerprint: was.Fingerprint}, {},
	} {
		assert.False(t, changed.Is(was.Source, was.Fingerprint))
	}
	assert.True(t, was.Is("", ""), "a tool that needs no source")
	assert.True(t, was.Is("kit/act", ""), "as an earlier program noted it")
	assert.False(t, was.Is("kit/ac", ""))
}

// Paused calls wait for days, also during a deployment: the fingerprint of a definition must not change between
// versions.
func TestTheFingerprintOfAKnownDefinitionIsUnchanged(t *testing.T) {
	d := tool.Definition{Spec: tool.Spec{Name: "act", Description: "d",
		Parameters: json.RawMessage(`{"type":"object"}`)}, Binding: json.RawMessage(`{"method":"GET"}`)}
	assert.Equal(t, "6ce67f7d9c7d50091bb8b20fec7ea71580536ea663e2fda52f73cf02342072c7",
		tool.Fingerprint([]any{"https://a", "", []string(nil), json.RawMessage(nil)}, d))
}
