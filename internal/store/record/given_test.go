package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
)

// A decision keeps what it changes, and no more. With what earlier versions kept, all of it, a run goes on as well.
func TestADecisionKeepsWhatItChanges(t *testing.T) {
	const (
		before = `"before":[{"role":"user","text":"Hi"}]`
		f      = `"functions":[{"name":"f","parameters":{"type":"object","required":["n"]}}]`
		spaced = `"functions":[{"name":"f","parameters":{"required": ["n"], "type": "object"}}]`
		g      = `"functions":[{"name":"g","parameters":{"const":9007199254740993}}]`
		nulled = `"functions":[{"name":"f","parameters":{"default":null,"required":["n"],"type":null}}]`
		most   = f + `,"instructions":"Be A.","temperature":0,"max_tokens":9,"one_call":true,"echo":{"a":1}`
	)
	for name, c := range map[string]struct{ had, now, changes string }{
		"nothing":                {most, most, ""},
		"written otherwise":      {f, spaced, ""},
		"one member":             {most, g + most[len(f):], g},
		"a null within a member": {f, nulled, nulled},
		"one that was not there": {f, f + `,"whole":true`, `"whole":true`},
		"all go":                 {f + `,"whole":true`, "", `"functions":null,"whole":null`},
		"a number to nothing":    {`"temperature":0`, "", `"temperature":null`},
		"nothing to a number":    {"", `"temperature":0`, `"temperature":0`},
		"true to false":          {`"one_call":true`, `"one_call":false`, `"one_call":null`},
		"a choice": {`"tool_choice":"required"`, `"tool_choice":"function","tool":"f"`,
			`"tool":"f","tool_choice":"function"`},
		"a choice is for one part": {`"tool_choice":"required"`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var first, now, want record.Context
			join := func(members string) []byte {
				if members != "" {
					members = "," + members
				}
				return []byte("{" + before + members + "}")
			}
			require.NoError(t, json.Unmarshal(join(c.had), &first))
			require.NoError(t, json.Unmarshal(join(c.now), &want))
			require.NoError(t, json.Unmarshal([]byte("{"+c.now+"}"), &now))
			asked := record.Pause{Number: 1}
			had, err := record.Given(record.Input{Context: &first}, []record.Pause{asked})
			require.NoError(t, err)
			change, err := had.ChangeTo(now)
			require.NoError(t, err)
			if c.changes == "" {
				require.Nil(t, change)
				change = &record.Changed{}
			} else {
				assert.JSONEq(t, "{"+c.changes+"}", string(change.Members))
				assert.Equal(t, now, change.To)
			}
			for _, d := range []record.Decisions{{Changes: change.Members}, {Context: &now}} {
				raw, err := json.Marshal(d)
				require.NoError(t, err)
				asked.Decided = &record.Decisions{}
				require.NoError(t, json.Unmarshal(raw, asked.Decided))
				is, err := record.Given(record.Input{Context: &first}, []record.Pause{asked})
				require.NoError(t, err)
				same, err := want.ChangeTo(is)
				require.NoError(t, err)
				assert.Nil(t, same, "%s", raw)
				assert.Equal(t, first.Before, is.Before)
			}
		})
	}
	is, err := record.Given(record.Input{}, []record.Pause{
		{Decided: &record.Decisions{Changes: json.RawMessage(`{"instructions":"Be B.","tool_choice":"none"}`)}},
		{Decided: &record.Decisions{Changes: json.RawMessage(`{"whole":true}`)}}, {},
	})
	require.NoError(t, err)
	assert.Equal(t, record.Context{Instructions: "Be B.", Whole: true}, is, "each goes on from the one before")
}
