package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/store/record"
)

const (
	// sameRounds is the number of consecutive rounds of identical calls that ends the run.
	sameRounds = 10
	// unfitCalls is the number of consecutive calls of a tool with invalid arguments that ends the run. The model gets
	// the error of each, so that it has two more attempts.
	unfitCalls = 3
	// unfit is the prefix of the result of such a call.
	unfit = "the arguments do not fit: "
)

// guard returns the reason why the loop must stop: steps, tokens, repeated calls or a budget. It is empty if the loop
// may continue. The error is that of [Task.BudgetExceeded].
func (s *session) guard(ctx context.Context) (string, error) {
	taken := len(s.steps) - s.cut
	if s.done(firstSearch) != nil { // it was not requested by a model
		taken--
	}
	limit := defaultMaxSteps
	if n := s.Agent.Spec.Limits.MaxSteps; n != nil {
		limit = *n
	}
	if taken >= limit {
		return fmt.Sprintf("the run took %d steps, the limit of its agent (limits.max_steps)", limit), nil
	}
	if n := s.Agent.Spec.Limits.MaxTokens; n != nil && s.tokens >= int64(*n) {
		return fmt.Sprintf("the run used %d tokens; its agent may use %d (limits.max_tokens)", s.tokens, *n), nil
	}
	if name := s.repeatedCall(); name != "" {
		return fmt.Sprintf("the agent called %s with the same arguments %d times one after another", name,
			sameRounds), nil
	}
	if name := s.invalidCalls(); name != "" {
		return fmt.Sprintf("the agent called %s %d times one after another with arguments that do not fit", name,
			unfitCalls), nil
	}
	return s.overBudget(ctx, record.Step{})
}

// overBudget returns the budget that is exceeded. The tokens of the step under way count, too.
func (s *session) overBudget(ctx context.Context, under record.Step) (string, error) {
	if s.BudgetExceeded == nil {
		return "", nil
	}
	goesOn := under.InputTokens + under.OutputTokens
	more := goesOn
	for _, step := range s.unsaved {
		more += step.InputTokens + step.OutputTokens
	}
	return s.BudgetExceeded(ctx, s.tokens+goesOn, more)
}

// repeatedCall returns the name of a tool of the last rounds if sameRounds of them made identical calls; otherwise
// "".
func (s *session) repeatedCall() string {
	same, before, name := 0, "", ""
	for _, step := range slices.Backward(s.steps) {
		if step.Kind != record.ModelStep {
			continue
		}
		var calls strings.Builder
		for _, c := range step.Calls {
			_, _ = fmt.Fprintf(&calls, "%q %s\n", c.Name, c.Arguments)
			name = c.Name
		}
		if calls.Len() == 0 || (before != "" && calls.String() != before) {
			return ""
		}
		before = calls.String()
		if same++; same == sameRounds {
			return name
		}
	}
	return ""
}

// invalidCalls returns the name of a tool whose last unfitCalls calls all had invalid arguments; otherwise "". Only
// tools of the last round can have reached the limit since the last check.
func (s *session) invalidCalls() string {
	if s.lastOfModel == nil {
		return ""
	}
	misses := map[string]int{} // by tool, while its failures are consecutive
	for _, c := range s.lastOfModel.Calls {
		misses[c.Name] = 0
	}
	for i := len(s.steps) - 1; i >= 0 && len(misses) > 0; i-- {
		step := s.steps[i]
		if _, counted := misses[step.Name]; step.Kind != record.ToolStep || !counted {
			continue
		}
		if step.Outcome != string(model.Failed) || !strings.HasPrefix(step.Output, unfit) {
			delete(misses, step.Name)
			continue
		}
		if misses[step.Name]++; misses[step.Name] == unfitCalls {
			return step.Name
		}
	}
	return ""
}
