package broker

import (
	"context"
	"encoding/json"
	"errors"

	"agentplatform/events"
	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// What is sent, as it crosses, and back.

func sentDifference(d toolkit.Difference) (events.Difference, error) {
	sent := events.Difference{Added: d.Added, Removed: d.Removed, Changed: d.Changed}
	for _, c := range d.Tools {
		var one events.ChangedTool
		for to, t := range map[*json.RawMessage]*toolkit.Tool{&one.Before: c.Before, &one.After: c.After} {
			if t == nil {
				continue
			}
			raw, err := json.Marshal(t)
			if err != nil {
				return events.Difference{}, err
			}
			*to = raw
		}
		sent.Tools = append(sent.Tools, one)
	}
	return sent, nil
}

func receivedDifference(d events.Difference) (toolkit.Difference, error) {
	got := toolkit.Difference{Added: d.Added, Removed: d.Removed, Changed: d.Changed}
	for _, c := range d.Tools {
		var one toolkit.Changed
		for to, raw := range map[**toolkit.Tool]json.RawMessage{&one.Before: c.Before, &one.After: c.After} {
			if raw == nil {
				continue
			}
			if err := json.Unmarshal(raw, to); err != nil {
				return toolkit.Difference{}, err
			}
		}
		got.Tools = append(got.Tools, one)
	}
	return got, nil
}

func sentOfferings(o tool.Offerings) (sent events.Offerings) {
	for _, r := range o.Resources {
		sent.Resources = append(sent.Resources, events.OfferedResource(r))
	}
	for _, p := range o.Prompts {
		sent.Prompts = append(sent.Prompts, events.OfferedPrompt(p))
	}
	return sent
}

func receivedOfferings(o events.Offerings) (got tool.Offerings) {
	for _, r := range o.Resources {
		got.Resources = append(got.Resources, tool.Resource(r))
	}
	for _, p := range o.Prompts {
		prompt := tool.Prompt(p)
		if prompt.Arguments == nil {
			prompt.Arguments = []string{} // an empty list is left out on the way
		}
		got.Prompts = append(got.Prompts, prompt)
	}
	return got
}

func sentModels(l provider.Listing) events.ModelList {
	sent := events.ModelList{Unreachable: l.Unreachable}
	for _, m := range l.Models {
		sent.Models = append(sent.Models, events.ListedModel{
			Provider: m.Provider, Name: m.Name, Description: m.Description,
		})
	}
	return sent
}

func receivedModels(l events.ModelList) provider.Listing {
	got := provider.Listing{Unreachable: map[string]string{}}
	for name, why := range l.Unreachable {
		got.Unreachable[name] = why
	}
	for _, m := range l.Models {
		got.Models = append(got.Models, provider.Model{
			Provider: m.Provider, Info: model.Info{Name: m.Name, Description: m.Description},
		})
	}
	return got
}

// kinds are the names of the kinds of problems.
var kinds = map[problem.Kind]string{
	problem.Internal: "internal", problem.Invalid: "invalid", problem.TooLarge: "too_large",
	problem.Unauthenticated: "unauthenticated", problem.Forbidden: "forbidden", problem.NotFound: "not_found",
	problem.Conflict: "conflict", problem.PreconditionFailed: "precondition_failed", problem.Limited: "limited",
	problem.Unavailable: "unavailable",
}

// marks are the errors that others ask for by what they are.
var marks = []struct {
	kind events.FailureKind
	mark error
}{
	{events.FailureUnapproved, errUnapproved}, {events.FailureConflict, record.ErrConflict},
	{events.FailureSealed, seal.ErrNotOurs}, {events.FailureDeadline, context.DeadlineExceeded},
	{events.FailureCancelled, context.Canceled},
}

// failed is an error as it crosses; nil for none.
func failed(err error) *events.Failure {
	if err == nil {
		return nil
	}
	f := &events.Failure{Kind: events.FailureInternal, Text: err.Error()}
	if p, is := problem.As(err); is {
		f.Kind, f.Text = events.FailureProblem, p.Message
		f.Problem = &events.FailureToClient{
			Kind: kinds[p.Kind], Code: p.Code, Extras: p.Extras, RetryAfter: p.RetryAfter, Cause: failed(p.Cause),
		}
		for _, one := range p.Fields {
			f.Problem.Fields = append(f.Problem.Fields, events.FailureField(one))
		}
		return f
	}
	if e, is := errors.AsType[*embedding.Error](err); is {
		f.Kind, f.Embedding = events.FailureEmbedding, &events.FailureOfVectors{Kind: string(e.Kind), Wait: e.Wait}
		return f
	}
	if e, is := errors.AsType[*tool.Error](err); is {
		f.Kind, f.Text = events.FailureTool, e.Message
		return f
	}
	for _, m := range marks {
		if errors.Is(err, m.mark) {
			f.Kind = m.kind
			return f
		}
	}
	return f
}

// received is a failure as the error that it was.
func received(f events.Failure) error {
	switch {
	case f.Kind == events.FailureProblem && f.Problem != nil:
		p := &problem.Error{
			Code: f.Problem.Code, Message: f.Text, Extras: f.Problem.Extras, RetryAfter: f.Problem.RetryAfter,
		}
		for kind, name := range kinds {
			if name == f.Problem.Kind {
				p.Kind = kind
			}
		}
		for _, one := range f.Problem.Fields {
			p.Fields = append(p.Fields, problem.Field(one))
		}
		if f.Problem.Cause != nil {
			p.Cause = received(*f.Problem.Cause)
		}
		return p
	case f.Kind == events.FailureEmbedding && f.Embedding != nil:
		return &embedding.Error{
			Kind: embedding.Kind(f.Embedding.Kind), Wait: f.Embedding.Wait, Err: errors.New(f.Text),
		}
	case f.Kind == events.FailureTool:
		return &tool.Error{Message: f.Text}
	}
	for _, m := range marks {
		if m.kind == f.Kind {
			return &marked{f.Text, m.mark}
		}
	}
	return errors.New(f.Text)
}

// marked is an error with the text that it had and the mark by which it is known.
type marked struct {
	text string
	mark error
}

func (m *marked) Error() string { return m.text }
func (m *marked) Unwrap() error { return m.mark }
