package view

import (
	"cmp"
	"context"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Person is a user as others of the organization see it.
type Person struct {
	UserID string `json:"user_id"`
	Name   string `json:"name" doc:"the name, or the e-mail address without one; empty if the user was deleted, or is an operator who acted in the organization"`
}

// Persons returns a function that reads users of an organization; it reads each once. The error is one of the store.
func Persons(ctx context.Context, s *record.Store, scope record.Scope) func(user string) (Person, error) {
	known := map[string]Person{}
	return func(user string) (Person, error) {
		p, there := known[user]
		if there {
			return p, nil
		}
		u, err := record.Resource[catalog.User](ctx, s, scope, user)
		if refused, is := problem.As(err); is && refused.Kind != problem.Unavailable {
			err = nil
		}
		p = Person{user, cmp.Or(u.Value.Name, u.Value.Email)}
		if err == nil {
			known[user] = p
		}
		return p, err
	}
}

// ToDecide is the part of a run for an approver who may not use its agent.
type ToDecide struct {
	RunID       string             `json:"run_id"`
	AgentName   string             `json:"agent_name"`
	Status      string             `json:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out"`
	Interrupts  []events.Interrupt `json:"interrupts" doc:"the pending approvals"`
	Message     string             `json:"message" doc:"the message that the run answers"`
	RequestedBy Person             `json:"asked_by" doc:"the user of the run"`
}

// ToDecideOf reads the part of a run for an approver. Questions are not for approvers. The error is one of the store.
func ToDecideOf(ctx context.Context, s *record.Store, r record.Run) (v ToDecide, err error) {
	v = ToDecide{RunID: r.ID(), Status: string(r.Status)}
	scope := record.Of(r.Organization)
	agent, err := catalog.Standing(ctx, s, scope, r.Agent)
	if err != nil && !problem.Is(err, "not_found") {
		return v, err
	}
	v.AgentName = agent.Spec.Name
	if v.Interrupts, err = Interrupts(ctx, s, r); err != nil {
		return v, err
	}
	v.Interrupts = slices.DeleteFunc(v.Interrupts, func(i events.Interrupt) bool {
		return i.Kind != string(lifecycle.Approval)
	})
	in, err := s.Input(ctx, r)
	if err != nil {
		return v, err
	}
	v.Message = in.Message
	v.RequestedBy, err = Persons(ctx, s, scope)(r.User)
	return v, err
}
