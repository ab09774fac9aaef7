package agent

import (
	"context"
	"encoding/json"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// checkAnswer returns how the run ends if its last model step is an answer: with it, or with a failure if it does not
// match the schema and was repaired before. It returns nil if the model is to repair it, or if ctx has ended.
func (s *session) checkAnswer(ctx context.Context, last record.Step) *Result {
	answer := &Answer{Text: s.text.String(), Finish: last.Finish}
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
	if s.answers > repairs {
		return &Result{Failure: "the answer does not fit the agent's output_schema: " + fault.Error()}
	}
	return nil
}

// repairs is how often a model may repair a structured answer.
const repairs = 1

// answerLimits bound a structured answer.
var answerLimits = strictjson.Limits{Bytes: maxReply, Depth: 64}

// structured parses a text as JSON in its normal form. The error says why it is invalid or does not match the schema.
func (s *session) structured(ctx context.Context, text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if inner, fenced := strings.CutPrefix(text, "```"); fenced { // many models put JSON in a code block
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

// instructions are the agent's instructions, followed by the client's, by how to cite and by the schema of a
// structured answer.
func (s *session) instructions() string {
	text := s.Agent.Spec.Instructions
	if s.Instructions != "" {
		text += "\n\n" + s.Instructions
	}
	if s.Search != nil {
		text += "\n\n" + citation.Instructions
	}
	if s.wanted != nil {
		text += "\n\nAnswer with nothing but JSON that fits this JSON schema:\n" + string(s.Agent.Spec.OutputSchema)
	}
	if text == s.Agent.Spec.Instructions {
		return text
	}
	return strings.TrimSpace(text)
}

// askUser is the tool by which a model asks the user.
var askUser = model.ToolSpec{
	Name:        model.AskUser,
	Description: "Asks the user a question and waits for the answer. For what only the user knows.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"},` +
		`"options":{"type":"array","items":{"type":"string"},"description":"answers to choose from"}},` +
		`"required":["question"]}`),
}

// specs are the tools that the model is offered.
func (s *session) specs() []model.ToolSpec {
	var specs []model.ToolSpec
	for _, o := range s.Tools {
		specs = append(specs, model.ToolSpec{Name: o.Name, Description: o.Description, Parameters: o.Parameters})
	}
	for _, f := range s.Functions {
		specs = append(specs, model.ToolSpec{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	if s.Search != nil {
		specs = append(specs, model.SearchTool)
	}
	if s.Agent.Spec.CanAsk {
		specs = append(specs, askUser)
	}
	return specs
}
