package view_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// An approver who may not use the agent gets only these members. New members of a run must not be added to them without
// a decision.
func TestWhatAnApproverFromOutsideIsShown(t *testing.T) {
	w := newWorld(t)
	w.agent("a", false, "g")
	w.user("u", "")
	r := head(lifecycle.AwaitingInput)
	r.Pause, r.Interrupts = 1, []lifecycle.Pending{{ID: "1", Kind: "approval"}, {ID: "2", Kind: "clarification"}}
	r.Error, r.Input.Metadata = "secret", map[string]string{"secret": "secret"}
	w.commit(func(tx *record.Tx) {
		tx.PutPause(t.Context(), r, 1, []record.Interrupt{
			{Interrupt: events.Interrupt{
				ID: "1", Kind: "approval", Prompt: "May it?", CreatedAt: "now",
				Tool: &events.InterruptTool{Name: "pay", Arguments: json.RawMessage(`{"sum":1}`)},
			}, Call: "secret", Source: "secret", Fingerprint: "secret"},
			{Interrupt: events.Interrupt{ID: "2", Kind: "clarification", Prompt: "secret"}},
		})
	})
	e := w.store(r)
	for _, c := range []struct {
		status lifecycle.Status
		asks   []any
	}{
		{lifecycle.AwaitingInput, []any{object{
			"id": "1", "kind": "approval", "prompt": "May it?", "created_at": "now",
			"tool": object{"name": "pay", "arguments": object{"sum": 1.0}},
		}}},
		{lifecycle.Completed, []any{}},
	} {
		e.Value.Status = c.status
		v, err := view.ToDecideOf(t.Context(), w.Store, e.Value)
		require.NoError(t, err)
		assert.Equal(t, object{
			"run_id": id(0), "agent_name": "", "status": string(c.status), "message": "hello",
			"asked_by": object{"user_id": "u", "name": "u@example.com"}, "interrupts": c.asks,
		}, shown(t, v))
	}
}
