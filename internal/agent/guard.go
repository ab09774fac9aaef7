package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/schema"
)

const (
	// sameRounds is how often an agent may make the very same calls one after another.
	sameRounds = 10
	// unfitCalls is how often a tool may be called with arguments that do not fit, one time after another: the model is told
	// each time, and may try again twice.
	unfitCalls = 3
	// unfit begins what the model is told of such a call.
	unfit = "the arguments do not fit: "
)

// guard says why the loop must not go on, if it must not.
func (s *session) guard(ctx context.Context) (string, error) {
	if limit := s.maxSteps(); len(s.steps) >= limit {
		return fmt.Sprintf("the run took %d steps, as many as its agent may (limits.max_steps)", limit), nil
	}
	var tokens int64
	for _, step := range s.steps {
		tokens += step.InputTokens + step.OutputTokens
	}
	if n := s.Agent.Spec.Limits.MaxTokens; n != nil && tokens >= int64(*n) {
		return fmt.Sprintf("the run used %d tokens, its agent may use %d (limits.max_tokens)", tokens, *n), nil
	}
	if name := s.goesInCircles(); name != "" {
		return fmt.Sprintf("the agent called %s with the same arguments %d times one after another", name, sameRounds), nil
	}
	if name := s.cannotCall(); name != "" {
		return fmt.Sprintf("the agent called %s %d times one after another with arguments that do not fit", name, unfitCalls), nil
	}
	if s.Over == nil {
		return "", nil
	}
	return s.Over(ctx, tokens)
}

// goesInCircles names a tool that the last rounds of calls have called over and over, if they were all the same.
func (s *session) goesInCircles() string {
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

// cannotCall names a tool whose last calls were all made with arguments that do not fit.
func (s *session) cannotCall() string {
	misses := map[string]int{}
	over := map[string]bool{} // tools whose count has ended
	for _, step := range slices.Backward(s.steps) {
		if step.Kind != record.ToolStep || over[step.Name] {
			continue
		}
		if step.Outcome != string(model.Failed) || !strings.HasPrefix(step.Output, unfit) {
			over[step.Name] = true
			continue
		}
		if misses[step.Name]++; misses[step.Name] == unfitCalls {
			return step.Name
		}
	}
	return ""
}

// fits says what of a call's arguments does not fit what the tool takes. A schema that cannot be read takes anything.
func fits(ctx context.Context, parameters, arguments json.RawMessage) error {
	takes, err := schema.Compile(parameters)
	if err != nil {
		return nil //nolint:nilerr // the server at the other end judges
	}
	return takes.Check(ctx, arguments)
}
