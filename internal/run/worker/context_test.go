package worker

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// The member Whole is passed on. A decision may change it, for the rest of the run.
func TestWhatMayBeLeftOutIsPassedOn(t *testing.T) {
	decided := func(c *record.Context) []record.Pause {
		return []record.Pause{{Decided: &record.Decisions{Context: c}}}
	}
	for name, c := range map[string]struct {
		whole  bool
		pauses []record.Pause
		want   bool
	}{
		"not said": {false, nil, false}, "said": {true, nil, true}, "said before a pause": {true, decided(nil), true},
		"said with a decision":     {false, decided(&record.Context{Whole: true}), true},
		"not said with a decision": {true, decided(&record.Context{}), false},
	} {
		var task agent.Task
		addContext(&task, record.Run{}, record.Input{Context: &record.Context{Whole: c.whole}}, c.pauses)
		assert.Equal(t, c.want, task.Whole, name)
	}
}
