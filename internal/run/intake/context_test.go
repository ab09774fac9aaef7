package intake

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// A bad context of a message is refused with the name of its field, before a model gets it.
func TestWhatIsBroughtIsChecked(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	function := func(change func(*record.Function)) record.Context {
		f := record.Function{Name: "f", Parameters: object}
		change(&f)
		return record.Context{Functions: []record.Function{f}}
	}
	call := func(id, name, arguments string) record.ContextMessage {
		return record.ContextMessage{Role: record.RoleAssistant, Calls: []record.ContextCall{{
			ID: id, Name: name, Arguments: json.RawMessage(arguments),
		}}}
	}
	output := record.ContextMessage{Role: record.RoleTool, Call: "c", Text: "out"}
	before := func(messages ...record.ContextMessage) record.Context { return record.Context{Before: messages} }
	for name, c := range map[string]struct {
		context record.Context
		field   string
	}{
		"instructions too long": {
			record.Context{Instructions: strings.Repeat("x", maxInstructions+1)}, "context.instructions",
		},
		"instructions no UTF-8": {record.Context{Instructions: "\xff"}, "context.instructions"},
		"a schema that is none": {
			record.Context{OutputSchema: json.RawMessage(`{"type":7}`)}, "context.output_schema",
		},
		"too many functions": {
			record.Context{Functions: make([]record.Function, MaxFunctions+1)}, "context.functions",
		},
		"a name":  {function(func(f *record.Function) { f.Name = "a b" }), "context.functions[0].name"},
		"no name": {function(func(f *record.Function) { f.Name = "" }), "context.functions[0].name"},
		"no parameters": {
			function(func(f *record.Function) { f.Parameters = nil }), "context.functions[0].parameters",
		},
		"parameters no JSON": {
			function(func(f *record.Function) { f.Parameters = []byte("{") }), "context.functions[0].parameters",
		},
		"parameters that no object fits": {
			function(func(f *record.Function) { f.Parameters = []byte(`{"type":"string"}`) }),
			"context.functions[0].parameters",
		},
		"a long description": {function(func(f *record.Function) {
			f.Description = strings.Repeat("x", tool.MaxDescription+1)
		}), "context.functions[0].description"},
		"a description no UTF-8": {
			function(func(f *record.Function) { f.Description = "\xff" }), "context.functions[0].description",
		},
		"a name twice": {record.Context{Functions: []record.Function{
			{Name: "f", Parameters: object}, {Name: "f", Parameters: object},
		}}, "context.functions[1].name"},
		"functions too large": {func() record.Context {
			big := json.RawMessage(`{"description":"` + strings.Repeat("x", 60<<10) + `"}`)
			var c record.Context
			for _, name := range strings.Split("abcdefghi", "") {
				c.Functions = append(c.Functions, record.Function{Name: name, Parameters: big})
			}
			return c
		}(), "context.functions"},
		"a role": {before(record.ContextMessage{Role: "system", Text: "x"}), "context.before[0].role"},
		"text no UTF-8": {
			before(record.ContextMessage{Role: record.RoleUser, Text: "\xff"}), "context.before[0].text",
		},
		"too many parts":         {before(make([]record.ContextMessage, MaxBefore+1)...), "context.before"},
		"an output without call": {before(output), "context.before[0].call"},
		"an output twice":        {before(call("c", "f", `{}`), output, output), "context.before[2].call"},
		"a call without output":  {before(call("c", "f", `{}`)), "context.before"},
		"words before the output": {
			before(call("c", "f", `{}`), record.ContextMessage{Role: record.RoleUser}, output), "context.before[1]",
		},
		"a call's id":        {before(call("", "f", `{}`), output), "context.before[0].calls[0].id"},
		"a call's name":      {before(call("c", "", `{}`), output), "context.before[0].calls[0].name"},
		"a call's arguments": {before(call("c", "f", `[]`), output), "context.before[0].calls[0].arguments"},
		"one id for two calls": {
			before(call("c", "f", `{}`), output, call("c", "f", `{}`), output), "context.before[2].calls[0].id",
		},
		"a conversation too large": {before(slices.Repeat([]record.ContextMessage{
			{Role: record.RoleUser, Text: strings.Repeat("x", 200<<10)},
		}, 6)...), "context.before"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Message{Text: "hi", Context: &c.context}.checkNew()
			p, ok := problem.As(err)
			require.True(t, ok, "%v", err)
			require.Len(t, p.Fields, 1)
			assert.Equal(t, c.field, p.Fields[0].Location, "%s", p.Message)
		})
	}
	fine := record.Context{
		Instructions: "x", OutputSchema: object, Functions: []record.Function{{Name: "f", Parameters: object}},
		Before: []record.ContextMessage{call("c", "f", `{"a":1}`), output},
	}
	assert.NoError(t, Message{Context: &fine}.checkNew())
	assert.NoError(t, Message{Context: &fine}.check(""), "a conversation may end with an output, without a message")
	assert.Error(t, Message{Context: &record.Context{}}.check(""))
}
