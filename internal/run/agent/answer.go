package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// checkAnswer returns the end of the run if its last model step is an answer. The end is that answer, or a failure if
// it does not match the schema and was repaired before. It returns nil if the model must answer again, or if ctx has
// ended.
func (s *session) checkAnswer(ctx context.Context, last record.Step) *Result {
	if s.wanted == nil {
		if s.asksAgain(last) {
			return nil
		}
		return s.answered(last)
	}
	output, fault := s.structured(ctx, last)
	if ctx.Err() != nil {
		return nil
	}
	if fault == nil {
		r := s.answered(last)
		r.Answer.Output = output
		return r
	}
	if s.answers > repairs {
		return &Result{Failure: "the answer does not fit the agent's output_schema: " + fault.Error()}
	}
	return nil
}

// answered is the end of a run with its last model step as the answer.
func (s *session) answered(last record.Step) *Result {
	a := &Answer{Text: s.answer.String(), Finish: last.Finish}
	if a.Text == "" && a.Finish != cut {
		a.Finish = noText
	}
	return &Result{Answer: a}
}

// Reasons why an answer ended.
const (
	cut    = "length"
	noText = "empty"
)

// asksAgain reports whether the model must reply once more because its reply is empty. A run that has called tools may
// have done its work by them. A reply that was cut would be cut again. The demo model obeys its message.
func (s *session) asksAgain(last record.Step) bool {
	return model.Blank(last.Text) && last.Finish != cut && s.calling == 0 && s.answers <= repairs &&
		s.Agent.Spec.Model.Provider != demo
}

const demo = "demo"

// repairs is the number of requests for a better answer: one with text, or one that fits the schema.
const repairs = 1

// objection is the message that requests a better answer from the model. An empty reply needs one, too: for the same
// conversation, models often return another empty reply. The client may have changed the schema since.
func (s *session) objection(ctx context.Context, step record.Step) string {
	var fault error
	if s.wanted != nil {
		_, fault = s.structured(ctx, step)
	}
	switch {
	case fault != nil:
		return "This answer does not fit the schema: " + fault.Error() +
			". Answer again, only with JSON that fits."
	case model.Blank(step.Text):
		return "Your reply was empty. Reply to the message above."
	default:
		return "Answer again."
	}
}

// streaming returns the function that streams the text of the next reply. If the text so far needs a break, the break
// is sent first. Nothing is sent until the reply has visible text.
func (s *session) streaming(ctx context.Context) func(piece string) {
	var held strings.Builder // received text, while it has no visible part
	begun := false
	return func(piece string) {
		if begun {
			s.Output.Append(ctx, piece)
			return
		}
		if held.WriteString(piece); model.Blank(piece) {
			return
		}
		begun = true
		gap, text := s.answer.Next(held.String())
		if gap != "" {
			s.Output.Append(ctx, gap)
		}
		s.Output.Append(ctx, text)
	}
}

// answerLimits bound a structured answer.
var answerLimits = strictjson.Limits{Bytes: maxReply, Depth: 64}

// validated is the result of checking a structured answer. The loop needs it up to three times.
type validated struct {
	step   int
	output json.RawMessage
	fault  error
}

// structured parses a step's text as JSON in its normal form. The error explains why it is invalid or does not match
// the schema.
func (s *session) structured(ctx context.Context, step record.Step) (json.RawMessage, error) {
	if s.validated == nil || s.validated.step != step.Index {
		output, fault := s.check(ctx, step.Text)
		if ctx.Err() != nil {
			return output, fault
		}
		s.validated = &validated{step.Index, output, fault}
	}
	return s.validated.output, s.validated.fault
}

func (s *session) check(ctx context.Context, text string) (json.RawMessage, error) {
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

// instructions are the agent's instructions, the client's, the rules for citations, and the schema of a structured
// answer.
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

// askUser is the tool with which a model asks the user.
var askUser = model.ToolSpec{
	Name:        model.AskUser,
	Description: "Asks the user a question and waits for the answer. For what only the user knows.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"},` +
		`"options":{"type":"array","items":{"type":"string"},"description":"answers to choose from"}},` +
		`"required":["question"]}`),
}

// specs are the tools that the model may call.
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
	clipDescriptions(specs)
	return specs
}

// maxDescriptions bounds the descriptions of the tools in a request to a model, in bytes.
const maxDescriptions = 256 << 10

// clipDescriptions cuts the longest descriptions to the same length, if the sum is over maxDescriptions.
func clipDescriptions(specs []model.ToolSpec) {
	var lengths []int
	for _, one := range specs {
		lengths = append(lengths, len(one.Description))
	}
	slices.Sort(lengths)
	left := maxDescriptions
	for i, length := range lengths {
		share := left / (len(lengths) - i)
		if length <= share {
			left -= length
			continue
		}
		for n, one := range specs { // all descriptions of at least this length
			if len(one.Description) > share {
				specs[n].Description = tool.Clip(one.Description, share-len("…"))
			}
		}
		return
	}
}
