package agent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/agent"
)

// An agent's list of tools that need approval may have a tool's own name, or the name that the model uses.
func TestApprovalHoldsUnderEitherNameOfATool(t *testing.T) {
	for _, listed := range []string{"pay", "pay_bank", "pay_treasury"} {
		var made []string
		m := &script{replies: []turn{calls("a", "pay_bank", `{}`), textReply("done")}}
		s := newStage(m, func(task *agent.Task) {
			task.Agent.Spec.Approval = catalog.AgentApproval{Mode: "tools", Tools: []string{listed}}
			task.Tools = []tool.Offer{
				{
					Spec: tool.Spec{Name: "pay_bank", RetrySafe: true},
					Own:  "pay",
					Call: func(context.Context, tool.Invocation) (tool.Result, error) {
						made = append(made, "pay")
						return tool.TextResult("paid"), nil
					},
				},
			}
		})
		r := s.work(t)
		require.Len(t, r.Interrupts, 1, listed)
		assert.Empty(t, made, listed)
	}
}

func TestToolCannotTakeANameReservedByTheLoop(t *testing.T) {
	assert.ElementsMatch(t, []string{model.AskUser, model.Search}, tool.ReservedNames)
}
