package worker

import (
	"fmt"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// addContext adds the client's context to the task of a run: that of the message, or of the decision of a later pause.
// Intake has checked it.
func addContext(t *agent.Task, r record.Run, in record.Input, pauses []record.Pause) {
	c := record.Given(in, pauses)
	t.Before, t.Since = modelMessages(c.Before, r.Turn), -1
	if n := len(pauses); n > 0 {
		t.Since = record.ReplyOf(pauses[n-1].Interrupts)
	}
	t.Instructions, t.Functions = c.Instructions, c.Functions
	t.NoTools, t.Whole = c.ToolChoice == record.NoTool, c.Whole
	t.Options = model.Options{
		TopP: c.TopP, Effort: c.Effort, OneCall: c.OneCall, Tool: c.Tool,
		MustCall: c.ToolChoice == record.AnyTool || c.ToolChoice == record.OneTool,
	}
	if len(c.OutputSchema) > 0 {
		t.Agent.Spec.OutputSchema = c.OutputSchema
	}
	if c.Temperature != nil {
		t.Agent.Spec.Model.Temperature = c.Temperature
	}
	if most := t.Agent.Spec.Model.MaxTokens; c.MaxTokens != nil && (most == nil || *c.MaxTokens < *most) {
		t.Agent.Spec.Model.MaxTokens = c.MaxTokens
	}
}

// modelMessages converts a conversation that a client sent with a turn to messages for a model. The ids of its calls
// are ours: the turn and a number.
func modelMessages(before []record.ContextMessage, turn int) (messages []model.Message) {
	calls := map[string]model.Call{} // by the client's ids
	for _, one := range before {
		switch one.Role {
		case record.RoleUser:
			messages = append(messages, model.Message{Role: model.User, Text: one.Text})
		case record.RoleAssistant:
			m := model.Message{Role: model.Assistant, Text: one.Text}
			for _, call := range one.Calls {
				id := fmt.Sprintf("before_%d_%d", turn, len(calls))
				c := model.Call{ID: id, Name: call.Name, Arguments: call.Arguments}
				calls[call.ID], m.Calls = c, append(m.Calls, c)
			}
			messages = append(messages, m)
		case record.RoleTool:
			c := calls[one.Call]
			r := model.Result{CallID: c.ID, Name: c.Name, Outcome: model.Succeeded, Text: one.Text}
			if last := len(messages) - 1; last >= 0 && messages[last].Role == model.Tool { // of the same reply
				messages[last].Results = append(messages[last].Results, r)
				continue
			}
			messages = append(messages, model.Message{Role: model.Tool, Results: []model.Result{r}})
		}
	}
	return messages
}
