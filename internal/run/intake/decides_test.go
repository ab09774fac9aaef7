package intake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
)

// Who may decide what a run waits for is said as a resume would say it.
func TestDecidesSaysWhoMayResume(t *testing.T) {
	question, approval := lifecycle.Clarification, lifecycle.Approval
	for name, c := range map[string]struct {
		level   tenant.Level
		approve bool // the agent's approvers are of another group
		kinds   []lifecycle.InterruptKind
		may     bool
	}{
		"a question":                  {tenant.LevelRun, true, []lifecycle.InterruptKind{question}, true},
		"an approval":                 {tenant.LevelRun, false, []lifecycle.InterruptKind{approval}, true},
		"an approval of others":       {tenant.LevelRun, true, []lifecycle.InterruptKind{approval}, false},
		"an approval of others among": {tenant.LevelManage, true, []lifecycle.InterruptKind{question, approval}, false},
		"an admin":                    {tenant.LevelAdmin, true, []lifecycle.InterruptKind{approval}, true},
		"a reader":                    {tenant.LevelRead, false, []lifecycle.InterruptKind{question}, false},
	} {
		w := newWorld(t)
		w.agent = w.closed(func(s *catalog.AgentSpec) {
			if c.approve {
				s.ApproverGroupIDs = []string{w.group()}
			}
		})
		run := w.post(intake.Message{Text: "m"}).Run.ID()
		w.ask(run, c.kinds...)
		w.who.Level = c.level
		decides := w.Decides(t.Context(), w.who)
		for range 2 { // the second time it remembers
			may, err := decides(w.run(run))
			require.NoError(t, err, name)
			assert.Equal(t, c.may, may, name)
		}
	}
}
