package worker_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/table"
)

// The agent's published version when the pause begins decides who may approve. After a concurrent edit or publication,
// the pause is written again.
func TestPauseRecordsTheAgentVersionOfThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		edit := func(publish bool, change func(*catalog.AgentSpec)) {
			_, err := s.intake.Tenants.EditAgent(t.Context(), s.who, s.agent, 0, true, publish,
				func(spec catalog.AgentSpec) (catalog.AgentSpec, error) {
					change(&spec)
					return spec, nil
				})
			require.NoError(t, err)
		}
		edit(true, func(spec *catalog.AgentSpec) { spec.Approval.Mode = "always" }) // version 2
		s.converse = talks("act")
		s.tools = []tool.Offer{offer("act", func(context.Context) (tool.Result, error) { return tool.Result{}, nil })}
		id := s.post()
		changes := 0
		s.table.before = func(_ context.Context, commit bool, ops []table.Op) {
			pauses := slices.ContainsFunc(ops, func(op table.Op) bool {
				return bytes.Contains(op.Item.Body, []byte(`"awaiting_input"`))
			})
			if !commit || !pauses || changes == 3 {
				return
			}
			if changes++; changes < 3 {
				edit(changes == 1, func(spec *catalog.AgentSpec) { spec.Description += "." }) // 3, and the draft 4
				return
			}
			_, err := s.intake.Tenants.PublishAgent(t.Context(), s.who, s.agent, 0, 2)
			require.NoError(t, err)
		}
		s.drive()
		assert.Equal(t, 3, changes)
		run := s.run(id)
		assert.Equal(t, lifecycle.AwaitingInput, run.Status)
		assert.Equal(t, 2, run.PausedAgentVersion)
		assert.Equal(t, 1, run.Pause)
	})
}

// A call needs an approval if the run's version of the agent requires it, or the version that new runs begin with. A
// version that is published while the run waits or is paused counts from the next attempt. A draft does not count.
func TestACallNeedsTheApprovalsOfThePublishedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		var kits []string
		policy := func(publish bool, mode string, tools ...string) {
			_, err := s.intake.Tenants.EditAgent(t.Context(), s.who, s.agent, 0, true, publish,
				func(spec catalog.AgentSpec) (catalog.AgentSpec, error) {
					spec.Approval = catalog.AgentApproval{Mode: mode, Tools: tools}
					spec.ToolkitIDs = kits
					return spec, nil
				})
			require.NoError(t, err)
		}
		s.converse = talks("act")
		s.tools = []tool.Offer{offer("act", func(context.Context) (tool.Result, error) { return tool.Result{}, nil })}
		s.listed = []tool.Offer{{Spec: tool.Spec{Name: "act"}}, {Spec: tool.Spec{Name: "other"}}}
		comesTo := func(status lifecycle.Status, id string) {
			t.Helper()
			s.drive()
			assert.Equal(t, status, s.run(id).Status)
			assert.Equal(t, 1, s.run(id).AgentVersion)
		}
		id := s.post()
		policy(false, "always")
		comesTo(lifecycle.Completed, id)
		for _, c := range []struct {
			status lifecycle.Status
			mode   string
			tools  []string
		}{
			{lifecycle.AwaitingInput, "always", nil},
			{lifecycle.AwaitingInput, "tools", []string{"other", "act"}},
			{lifecycle.AwaitingInput, "tools", []string{"gone"}}, // which no version has
			{lifecycle.Completed, "tools", []string{"other"}},    // which the published version has
			{lifecycle.Completed, "never", nil},
		} {
			_, err := s.intake.Tenants.PublishAgent(t.Context(), s.who, s.agent, 0, 1)
			require.NoError(t, err)
			id := s.post()
			policy(true, c.mode, c.tools...)
			comesTo(c.status, id)
		}
		kits = []string{s.intake.Tenants.DefaultSpec(s.who.Organization).ToolkitIDs[0]} // as in version 1
		_, err := s.intake.Tenants.PublishAgent(t.Context(), s.who, s.agent, 0, 1)
		require.NoError(t, err)
		id = s.post()
		policy(true, "tools", "other")
		comesTo(lifecycle.AwaitingInput, id)
		id = s.post()
		policy(true, "always")
		require.NoError(t, s.intake.Tenants.RemoveAgent(t.Context(), s.who, s.agent))
		s.drive()
		assert.Equal(t, lifecycle.AwaitingInput, s.run(id).Status, "its newest version, of an agent that is gone")
	})
}
