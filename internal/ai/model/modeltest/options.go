package modeltest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// RunOptions checks the request that an adapter sends for each option that a client may set. sent has the expected
// members of the body, as JSON, by names of cases. All other members are ignored, except those in every.
func RunOptions(t *testing.T, open func(address string) model.Model, every []string, sent map[string]string) {
	t.Helper()
	warm, most := 0.5, 0.25
	tools := []model.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"type":"object"}`)}}
	cases := map[string]model.Request{
		"none":                {Tools: tools},
		"any tool":            {Tools: tools, Options: model.Options{MustCall: true}},
		"one tool":            {Tools: tools, Options: model.Options{MustCall: true, Tool: "f"}},
		"one call":            {Tools: tools, Options: model.Options{OneCall: true}},
		"one call of a tool":  {Tools: tools, Options: model.Options{OneCall: true, MustCall: true, Tool: "f"}},
		"without tools":       {Options: model.Options{MustCall: true, OneCall: true}},
		"top_p":               {Options: model.Options{TopP: &most}},
		"top_p and warmth":    {Temperature: &warm, Options: model.Options{TopP: &most}},
		"effort":              {Options: model.Options{Effort: "low"}},
		"a tool of a request": {Tools: tools, Options: model.Options{Tool: "f"}},
	}
	require.Len(t, sent, len(cases))
	for name, r := range cases {
		r.Name, r.Messages = "m", []model.Message{{Role: model.User, Text: "x"}}
		var all map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(sentBody(t, open, r), &all))
		have := map[string]json.RawMessage{}
		for _, member := range every {
			if raw, there := all[member]; there {
				have[member] = raw
			}
		}
		raw, err := json.Marshal(have)
		require.NoError(t, err)
		assert.JSONEq(t, sent[name], string(raw), name)
	}
}
