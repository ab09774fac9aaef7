package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/store/record"
)

// A decision may change a run's [record.Context], for the rest of the run. The conversation stays, and a choice of
// tools is for one part.
func TestADecisionChangesWhatARunIsGiven(t *testing.T) {
	before := []record.ContextMessage{{Role: "user", Text: "Hi"}}
	first := record.Context{Before: before, Instructions: "Be A.", ToolChoice: record.OneTool, Tool: "f"}
	pause := func(c *record.Context) record.Pause {
		return record.Pause{Decided: &record.Decisions{Context: c}}
	}
	changed := &record.Context{Instructions: "Be B.", ToolChoice: record.NoTool}
	for name, c := range map[string]struct {
		pauses []record.Pause
		want   record.Context
	}{
		"its message":           {nil, first},
		"a pause that waits":    {[]record.Pause{{}}, record.Context{Before: before, Instructions: "Be A."}},
		"an unchanged decision": {[]record.Pause{pause(nil)}, record.Context{Before: before, Instructions: "Be A."}},
		"a decision with one": {[]record.Pause{pause(changed)},
			record.Context{Before: before, Instructions: "Be B.", ToolChoice: record.NoTool}},
		"another pause after it": {[]record.Pause{pause(changed), {}},
			record.Context{Before: before, Instructions: "Be B."}},
		"the last change": {[]record.Pause{pause(changed), pause(&record.Context{Whole: true})},
			record.Context{Before: before, Whole: true}},
	} {
		assert.Equal(t, c.want, record.Given(record.Input{Context: &first}, c.pauses), name)
	}
	assert.Zero(t, record.Given(record.Input{}, []record.Pause{pause(nil)}))
}
