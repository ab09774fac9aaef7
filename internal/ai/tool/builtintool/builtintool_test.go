package builtintool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
	"agentplatform/internal/platform/host"
)

func TestTools(t *testing.T) {
	k := builtintool.New(host.System())
	for _, c := range []struct{ name, arguments, want, fails string }{
		{"echo", `{"text":"a b"}`, "a b", ""},
		{"echo", `{"text":""}`, "", ""},
		{"echo", `{}`, "", "text is required"},
		{"echo", `{"text":5}`, "", "do not fit"},
		{"calculate", `{"expression":"2+3*4"}`, "14", ""},
		{"calculate", `{"expression":"7/2"}`, "3.5", ""},
		{"calculate", `{"expression":"6/2"}`, "3", ""},
		{"calculate", `{"expression":"2**10 - 1"}`, "1023", ""},
		{"calculate", `{"expression":"1/0"}`, "", "divides by zero"},
		{"calculate", `{"expression":"0.1+0.2"}`, "0.3", ""},
		{"calculate", `{"expression":"2**3**2 - -1"}`, "513", ""},
		{"calculate", `{"expression":"-2**2 + (17 % 5) * 2"}`, "0", ""},
		{"calculate", `{"expression":"9007199254740993 * 3"}`, "27021597764222979", ""},
		{"calculate", `{"expression":"2 ** 0.5"}`, "1.4142135623730951", ""},
		{"calculate", `{"expression":"1/3"}`, "0.3333333333333333", ""},
		{"calculate", `{"expression":"9**9**9"}`, "", "too large"},
		{"calculate", `{"expression":"1e999999"}`, "", "is not valid"},
		{"calculate", `{"expression":"(-8) ** 0.5"}`, "", "not a number"},
		{"calculate", `{"expression":"(1"}`, "", "is not valid at its end"},
		{"calculate", `{"expression":"2 pi"}`, "", "is not valid at pi"},
		{"calculate", `{"expression":"1+"}`, "", "is not valid"},
		{"calculate", `{"expression":"\"a\"+\"b\""}`, "", "is not valid"},
		{"calculate", `{"expression":"len([1,2])"}`, "", "is not valid"},
		{"calculate", `{}`, "", "expression is required"},
		{"current_time", `{"timezone":"Nowhere/Land"}`, "", "not a timezone"},
		{"nothing", `{}`, "", "does not exist"},
	} {
		got, err := k.Call(t.Context(), tool.Endpoint{}, tool.Definition{},
			tool.Invocation{Name: c.name, Arguments: json.RawMessage(c.arguments)})
		if c.fails != "" {
			var failure *tool.Error
			require.ErrorAs(t, err, &failure, c.arguments)
			assert.Contains(t, err.Error(), c.fails, c.arguments)
			continue
		}
		require.NoError(t, err, c.arguments)
		assert.Equal(t, c.want, got.Text, c.arguments)
	}
	berlin, err := k.Call(t.Context(), tool.Endpoint{}, tool.Definition{},
		tool.Invocation{Name: "current_time", Arguments: json.RawMessage(`{"timezone":"Asia/Kolkata"}`)})
	require.NoError(t, err)
	assert.Regexp(t, `^20\d\d-\d\d-\d\dT.*\+05:30$`, berlin.Text)
}

func TestEveryToolHasASchemaAndMayBeRepeated(t *testing.T) {
	found, err := builtintool.New(host.System()).Discover(t.Context(), tool.Endpoint{})
	require.NoError(t, err)
	for _, s := range found {
		var schema map[string]any
		require.NoError(t, json.Unmarshal(s.Parameters, &schema), s.Name)
		assert.Equal(t, "object", schema["type"])
		assert.True(t, s.RetrySafe)
		assert.NotEmpty(t, s.Description)
	}
}
