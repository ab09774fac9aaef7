package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
)

// Each request to a model has the descriptions of all tools. Their sum is bounded; the longest are cut.
func TestTheDescriptionsOfARequestAreBounded(t *testing.T) {
	const most = 256 << 10
	for name, c := range map[string]struct {
		long, short int // tools
		size        int // of a long description
		cut         bool
	}{
		"as long as they may be":   {128, 0, tool.MaxDescription, true},
		"some are short":           {100, 28, tool.MaxDescription, true},
		"as much as a model reads": {16, 0, tool.MaxDescription, false},
		"those in use":             {20, 108, 7000, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &window{maxBytes: 1000}
			s := newStage(m, func(task *agent.Task) {
				for i := range c.long + c.short {
					size := 700
					if i < c.long {
						size = c.size
					}
					task.Tools = append(task.Tools, tool.Offer{Spec: tool.Spec{Name: fmt.Sprint("t", i),
						Description: strings.Repeat("x", size), Parameters: []byte(`{"type":"object"}`)}})
				}
			})
			r := s.work(t)
			require.NotNil(t, r.Answer, r.Failure)
			sum := 0
			for i, one := range m.shown[0].Tools {
				sum += len(one.Description)
				assert.Equal(t, c.cut && i < c.long, strings.HasSuffix(one.Description, "…"), "%d", i)
			}
			assert.LessOrEqual(t, sum, most)
			assert.True(t, !c.cut || sum > most-1000, "as much as may be is shown")
			assert.Len(t, s.task.Tools[0].Description, c.size)
		})
	}
}
