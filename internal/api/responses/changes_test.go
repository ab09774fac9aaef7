package responses

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
)

const everything = `{"model":"A","input":"x","instructions":"Be A.","temperature":0.3,"top_p":0.5,` +
	`"max_output_tokens":99,"parallel_tool_calls":false,"truncation":"disabled","reasoning":{"effort":"low"},` +
	`"tool_choice":"required","text":{"format":{"type":"json_schema","name":"n","schema":` +
	`{"type":"object","properties":{"n":{"const":9007199254740993}}}}},` +
	`"tools":[{"type":"function","name":"f","strict":true,"parameters":` +
	`{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":[9007199254740993]}}}}]}`

// creationOf is a request that goes on with a run.
func creationOf(t *testing.T, body string) *creation {
	t.Helper()
	c := &creation{}
	require.NoError(t, json.Unmarshal([]byte(body), &c.request))
	require.NoError(t, c.request.check())
	var err error
	c.runContext, c.echo, err = c.request.context(input{})
	require.NoError(t, err)
	return c
}

// hadOf is the stored data of a run that a request began.
func hadOf(t *testing.T, body string) given {
	t.Helper()
	raw, err := json.Marshal(creationOf(t, body).runContext)
	require.NoError(t, err)
	var c record.Context
	require.NoError(t, json.Unmarshal(raw, &c))
	had, err := until(record.Input{Context: &c}, []record.Pause{{}}, 0) // it waits
	require.NoError(t, err)
	return had
}

// Clients send everything each time. Equal members, however they are written, are not stored again.
func TestWhatIsSentAgainChangesNothing(t *testing.T) {
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(everything), &all))
	for name, again := range map[string]string{
		"as it was": everything,
		"with white space and members in another order": `{"tools":[ {"parameters": {"properties":
			{"b": {"enum": [ 9007199254740993 ]}, "a":{"type":"string"}}, "type" : "object"}, "strict": true,
			"name":"f","type":"function"} ],"text":{"format":{"type":"json_schema","name":"n",
			"schema":{ "properties":{"n":{"const":9007199254740993}},"type":"object" }}},"model":"A","input":"x"}`,
		"nothing": `{"model":"A","input":"x","tools":null,"top_p":null}`,
	} {
		of := creationOf(t, again)
		of.runContext.ToolChoice = ""
		changed, err := of.over(hadOf(t, everything))
		require.NoError(t, err)
		assert.Nil(t, changed, name)
	}
	changed, err := creationOf(t, `{"model":"A","input":"x","tools":[]}`).over(hadOf(t, `{"model":"A","input":"x"}`))
	require.NoError(t, err)
	assert.Nil(t, changed, "there were none")
}

// A member that is there holds, also where it is a default.
func TestAnExplicitDefaultIsAChange(t *testing.T) {
	for member, is := range map[string]func(record.Context) bool{
		`"tools":[]`:                        func(c record.Context) bool { return len(c.Functions) == 0 },
		`"top_p":1`:                         func(c record.Context) bool { return c.TopP == nil },
		`"parallel_tool_calls":true`:        func(c record.Context) bool { return !c.OneCall },
		`"truncation":"auto"`:               func(c record.Context) bool { return !c.Whole },
		`"text":{"format":{"type":"text"}}`: func(c record.Context) bool { return c.OutputSchema == nil },
		`"temperature":1`:                   func(c record.Context) bool { return *c.Temperature == 1 },
		`"reasoning":{"effort":"none"}`:     func(c record.Context) bool { return c.Effort == "none" },
		`"tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":` +
			`{"a":{"type":"string"},"b":{"enum":[9007199254740992]}}}}]`: func(c record.Context) bool {
			return len(c.Functions) == 1
		},
	} {
		had := hadOf(t, everything)
		changed, err := creationOf(t, `{"model":"A","input":"x",`+member+`}`).over(had)
		require.NoError(t, err)
		if assert.NotNil(t, changed, member) {
			assert.True(t, is(*changed), member)
			shown, err := until(record.Input{Context: changed}, nil, 0)
			require.NoError(t, err)
			assert.Len(t, shown.echo.Strict, len(changed.Functions), member)
		}
	}
}
