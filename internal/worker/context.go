package worker

import (
	"fmt"

	"agentplatform/internal/agent"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
)

// brought gives a task what the client brought beside the message. Intake has checked it.
func brought(t *agent.Task, c record.Context) {
	t.Instructions, t.Functions = c.Instructions, c.Functions
	if len(c.OutputSchema) > 0 {
		t.Agent.Spec.OutputSchema = c.OutputSchema
	}
	if c.Temperature != nil {
		t.Agent.Spec.Model.Temperature = c.Temperature
	}
	if most := t.Agent.Spec.Model.MaxTokens; c.MaxTokens != nil && (most == nil || *c.MaxTokens < *most) {
		t.Agent.Spec.Model.MaxTokens = c.MaxTokens
	}
	calls := map[string]model.Call{} // under ids of ours, by the client's
	for _, said := range c.Before {
		switch said.Role {
		case record.RoleUser:
			t.Before = append(t.Before, model.Message{Role: model.User, Text: said.Text})
		case record.RoleAssistant:
			m := model.Message{Role: model.Assistant, Text: said.Text}
			for _, call := range said.Calls {
				c := model.Call{ID: fmt.Sprintf("before_%d", len(calls)), Name: call.Name, Arguments: call.Arguments}
				calls[call.ID], m.Calls = c, append(m.Calls, c)
			}
			t.Before = append(t.Before, m)
		case record.RoleTool:
			c := calls[said.Call]
			r := model.Result{CallID: c.ID, Name: c.Name, Outcome: model.Succeeded, Text: said.Text}
			if last := len(t.Before) - 1; last >= 0 && t.Before[last].Role == model.Tool { // of the same reply
				t.Before[last].Results = append(t.Before[last].Results, r)
				continue
			}
			t.Before = append(t.Before, model.Message{Role: model.Tool, Results: []model.Result{r}})
		}
	}
}
