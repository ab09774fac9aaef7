package agent

import (
	"context"
	"encoding/json"
	"strings"

	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/strictjson"
)

// answered is the run's end when its last model step is a good answer, or one that is bad for good; nil when the model is
// asked to mend it.
func (s *session) answered(ctx context.Context, last record.Step) *Result {
	answer := &Answer{Text: s.text(), Finish: last.Finish}
	if s.wanted == nil {
		return &Result{Answer: answer}
	}
	output, fault := s.structured(ctx, last.Text)
	if ctx.Err() != nil {
		return nil
	}
	if fault == nil {
		answer.Output = output
		return &Result{Answer: answer}
	}
	answers := 0
	for _, step := range s.steps {
		if step.Kind == record.ModelStep && len(step.Calls) == 0 {
			answers++
		}
	}
	if answers > repairs {
		return &Result{Failure: "the answer does not fit the agent's output_schema: " + fault.Error()}
	}
	return nil
}

// repairs is how often a model may mend a structured answer.
const repairs = 1

// answerLimits are those of a structured answer.
var answerLimits = strictjson.Limits{Bytes: maxReply, Depth: 64}

// structured is the JSON of a text, and what of it does not fit.
func (s *session) structured(ctx context.Context, text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if inner, fenced := strings.CutPrefix(text, "```"); fenced { // as models like to have it
		inner = strings.TrimPrefix(inner, "json")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
	}
	output, err := strictjson.Value([]byte(text), answerLimits)
	if err != nil {
		return nil, err
	}
	return output, s.wanted.Check(ctx, output)
}

func repair(fault error) string {
	return "This answer does not fit the schema: " + fault.Error() + ". Answer again, with nothing but JSON that fits."
}

// instructions are the agent's, with what a structured answer must be like.
func (s *session) instructions() string {
	if s.wanted == nil {
		return s.Agent.Spec.Instructions
	}
	return strings.TrimSpace(s.Agent.Spec.Instructions + "\n\nAnswer with nothing but JSON that fits this JSON schema:\n" + string(s.Agent.Spec.OutputSchema))
}

// askUser is how models that were not made for this platform learn that they may ask.
var askUser = model.ToolSpec{
	Name: model.AskUser, Description: "Asks the user a question and waits for the answer. For what only the user knows.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"},"description":"answers to choose from"}},"required":["question"]}`),
}

// specs are the tools that the model is shown.
func (s *session) specs() []model.ToolSpec {
	var specs []model.ToolSpec
	for _, o := range s.Tools {
		specs = append(specs, model.ToolSpec{Name: o.Name, Description: o.Description, Parameters: o.Parameters})
	}
	if s.Agent.Spec.CanAsk {
		specs = append(specs, askUser)
	}
	return specs
}

// leftOut is how many messages an earlier call of this run had to leave out.
func (s *session) leftOut() int {
	if last := s.lastModelStep(); last != nil {
		return last.LeftOut
	}
	return 0
}

// leaveOut leaves out more of the history: half of what is still there, in whole turns. It says whether there was any.
func (s *session) leaveOut(step *record.Step) bool {
	left := len(s.History) - step.LeftOut
	if left < 2 {
		return false
	}
	half := (left/2 + 1) &^ 1
	step.LeftOut += min(half, left&^1)
	return true
}

// fitted is a conversation without the oldest n messages of its history.
func (s *session) fitted(whole []model.Message, n int) []model.Message {
	return whole[min(n, len(s.History)):]
}
