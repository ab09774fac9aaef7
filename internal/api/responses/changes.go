package responses

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
)

// given has the data that a client has given a run: its context, its echo, and metadata.
type given struct {
	context  record.Context
	echo     echo
	metadata map[string]string
}

// until is the data that a run had been given when a part of it began, as in [record.Given].
func until(in record.Input, pauses []record.Pause, part int) (g given, err error) {
	g.metadata = in.Metadata
	later := func(p record.Pause) bool { return p.Number > part }
	if at := slices.IndexFunc(pauses, later); at >= 0 {
		pauses = pauses[:at]
	}
	g.context = record.Given(in, pauses)
	g.echo, err = bridge.Echo[echo](record.Input{Context: &g.context})
	return g, err
}

// changed is the context with which a run goes on when the request answers its pause: the members of the request, and
// else those of the run. It is nil where that is the same as JSON: clients send their tools and instructions each time,
// and write one schema with other white space. A client with several agents sends the tools of the next one.
func (c *creation) changed(ctx context.Context, r record.Run) (*record.Context, error) {
	had, err := c.given(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.over(had)
}

// over is changed, for the data that the run had. A member of the request counts, also with a default or an empty list.
func (c *creation) over(had given) (*record.Context, error) {
	now, shown, new := had.context, had.echo, *c.runContext
	now.Before = nil
	if c.request.Instructions != "" || len(c.in.system) > 0 {
		now.Instructions, shown.System = new.Instructions, c.echo.System
	}
	if c.request.Tools != nil {
		now.Functions, shown.Strict = new.Functions, c.echo.Strict
	}
	if c.echo.Format != nil {
		now.OutputSchema, shown.Format = new.OutputSchema, c.echo.Format
	}
	if new.Effort != "" {
		now.Effort = new.Effort
	}
	if c.request.ParallelToolCalls != nil {
		now.OneCall = new.OneCall
	}
	if c.request.Truncation != "" {
		now.Whole, shown.Truncation = new.Whole, c.request.Truncation
	}
	now.Temperature, now.MaxTokens = cmp.Or(new.Temperature, now.Temperature), cmp.Or(new.MaxTokens, now.MaxTokens)
	if c.request.TopP != nil { // 1 is the default, which new does not have
		now.TopP = new.TopP
	}
	now.ToolChoice, now.Tool = new.ToolChoice, new.Tool
	var err error
	if now.Echo, err = json.Marshal(shown); err != nil {
		return nil, err
	}
	had.context.Before = nil
	if strictjson.Same(now, had.context) {
		return nil, nil
	}
	return &now, nil
}

// given is the data that a run was given for its present part. It returns a problem of kind Invalid where the request
// is for another agent, or has a member that no run can change.
func (c *creation) given(ctx context.Context, r record.Run) (had given, err error) {
	if r.Agent != c.agent {
		return had, problem.InvalidField("body.model", "must be %s, the agent of the response that waits", r.Agent)
	}
	in, err := c.Store.Input(ctx, r)
	if err != nil {
		return had, err
	}
	pauses, err := c.Store.AllPauses(ctx, r.ID())
	if err != nil {
		return had, err
	}
	if had, err = until(in, pauses, r.Pause); err != nil {
		return had, err
	}
	if len(c.request.Metadata) > 0 && !maps.Equal(c.request.Metadata, had.metadata) {
		return had, otherThan("metadata")
	}
	if c.runContext.Unstored && !had.context.Unstored {
		return had, otherThan("store")
	}
	return had, nil
}

// otherThan refuses a member that is not that of the response that waits.
func otherThan(member string) error {
	return problem.InvalidField("body."+member,
		"must be omitted or unchanged: the waiting run continues with its first settings")
}

// unchanged returns nil when the request has the run's own data, or none: a message that answers a question changes
// nothing.
func (c *creation) unchanged(ctx context.Context, r record.Run) error {
	had, err := c.given(ctx, r)
	if err != nil {
		return err
	}
	old, new := had.context, c.runContext
	own, system := had.echo.instructions(old.Instructions)
	for _, of := range []struct {
		field  string
		wanted bool
		same   bool
	}{
		{"tools", c.request.Tools != nil, strictjson.Same(new.Functions, old.Functions)},
		{"instructions", c.request.Instructions != "", c.request.Instructions == own},
		{"text.format", c.echo.Format != nil, strictjson.Same(new.OutputSchema, old.OutputSchema)},
		{"temperature", new.Temperature != nil, reflect.DeepEqual(new.Temperature, old.Temperature)},
		{"max_output_tokens", new.MaxTokens != nil, reflect.DeepEqual(new.MaxTokens, old.MaxTokens)},
		{"top_p", c.request.TopP != nil, reflect.DeepEqual(new.TopP, old.TopP)},
		{"reasoning", new.Effort != "", new.Effort == old.Effort},
		{"parallel_tool_calls", c.request.ParallelToolCalls != nil, new.OneCall == old.OneCall},
		{"truncation", c.request.Truncation != "", new.Whole == old.Whole},
		{"tool_choice", new.ToolChoice != "", false},
	} {
		if of.wanted && !of.same {
			return otherThan(of.field)
		}
	}
	alike := func(a, b spoken) bool { return a.text == b.text }
	if len(c.in.system) > 0 && !slices.EqualFunc(c.in.system, system, alike) {
		return problem.InvalidField("body.input", "system and developer messages must be omitted or unchanged: "+
			"the waiting run continues with its first settings")
	}
	return nil
}
