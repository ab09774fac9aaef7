package agent

import (
	"context"
	"fmt"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/store/record"
)

// A client may send functions that it executes itself. A call of one is an interrupt like a question: the run pauses,
// and the answer is the call's output. The service neither makes such a call nor knows its effects, so the agent's
// approvals do not apply to it.

func (s *session) function(name string) (record.Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f record.Function) bool { return f.Name == name })
	if i < 0 {
		return record.Function{}, false
	}
	return s.Functions[i], true
}

// delegate asks the client for the output of a call of its function.
func (s *session) delegate(ctx context.Context, j *job, f record.Function) *job {
	if err := schema.Fits(ctx, f.Parameters, j.Arguments); err != nil {
		return j.end(s, model.Failed, unfit+err.Error())
	}
	j.interrupt = s.interrupt(j, lifecycle.Clarification,
		fmt.Sprintf("The client must send the output of its function %s.", j.Name))
	j.interrupt.Tool = &events.InterruptTool{Name: j.Name, Arguments: j.Arguments}
	return j
}

// twiceNamed returns the name of a function that is also the name of an agent's tool, or of a built-in tool that the
// model gets. It returns "" if there is none. A call of such a name could mean either.
func (s *session) twiceNamed() string {
	for _, f := range s.Functions {
		_, known := s.find(f.Name)
		asks, searches := f.Name == model.AskUser && s.Agent.Spec.CanAsk, f.Name == model.Search && s.Search != nil
		if known || asks || searches {
			return f.Name
		}
	}
	return ""
}
