package intake

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
)

// Bounds of the context that a client sends with a message. A conversation is stored with the run, and the model
// receives all of it.
const (
	MaxFunctions = 128
	MaxBefore    = 1000 // parts of a conversation

	maxInstructions = 256 << 10 // bytes, as of an agent's
	maxSchema       = 64 << 10  // bytes, as of an agent's
	maxFunctions    = 512 << 10
	maxBefore       = 1 << 20 // bytes of the whole conversation
	maxEcho         = 128 << 10
)

// isName matches the name of a function, and the id of a call.
var isName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkContext returns a problem of kind Invalid for a context that cannot be sent to a model. The names of fields
// begin with context.
func checkContext(c record.Context) error {
	temperature, most := c.Temperature, c.MaxTokens
	return cmp.Or(
		problem.InvalidIf(len(c.Instructions) > maxInstructions,
			"context.instructions", "must have at most %d bytes", maxInstructions),
		checkText("context.instructions", c.Instructions),
		problem.InvalidIf(temperature != nil && !(*temperature >= 0 && *temperature <= 2),
			"context.temperature", "must be between 0 and 2"),
		problem.InvalidIf(most != nil && *most < 1, "context.max_tokens", "must be at least 1"),
		problem.InvalidIf(len(c.Echo) > maxEcho, "context.echo", "must have at most %d bytes", maxEcho),
		checkSchema("context.output_schema", c.OutputSchema),
		checkChoice(c),
		checkFunctions(c.Functions),
		checkBefore(c.Before),
	)
}

func checkSchema(field string, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > maxSchema {
		return problem.InvalidField(field, "must have at most %d bytes", maxSchema)
	}
	if _, err := schema.Compile(raw); err != nil {
		return problem.InvalidField(field, "must be a JSON schema: %s", err)
	}
	return nil
}

// checkFunctions checks the form of the functions. It does not compile their schemas: many schemas take seconds, and
// the client itself receives the arguments.
func checkFunctions(list []record.Function) error {
	if len(list) > MaxFunctions {
		return problem.InvalidField("context.functions", "must have at most %d entries", MaxFunctions)
	}
	size := 0
	seen := map[string]bool{}
	for i, f := range list {
		at := fmt.Sprintf("context.functions[%d]", i)
		switch {
		case !isName.MatchString(f.Name):
			return problem.InvalidField(at+".name", "must have 1 to 64 characters of A-Z a-z 0-9 _ -")
		case seen[f.Name]:
			return problem.InvalidField(at+".name", "must differ from the other names")
		case len(f.Description) > tool.MaxDescription:
			return problem.InvalidField(at+".description", "must have at most %d bytes", tool.MaxDescription)
		}
		if err := checkText(at+".description", f.Description); err != nil {
			return err
		}
		_, err := strictjson.Object(f.Parameters, strictjson.Limits{Bytes: maxSchema, Depth: 64})
		if err == nil {
			_, err = schema.Portable(f.Parameters)
		}
		if err != nil {
			return problem.InvalidField(at+".parameters", "must be a JSON schema of an object: %s", err)
		}
		seen[f.Name] = true
		size += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	if size > maxFunctions {
		return problem.InvalidField("context.functions", "must have at most %d bytes together", maxFunctions)
	}
	return nil
}

// suits returns nil if the context of a client fits an agent, else a problem of kind Invalid.
func suits(c *record.Context, of catalog.AgentSpec) error {
	if own := of.OutputSchema; len(c.OutputSchema) > 0 && len(own) > 0 && string(own) != "null" {
		return problem.InvalidField("context.output_schema",
			"must be omitted: the agent has an output_schema of its own")
	}
	return distinct(c.Functions, of)
}

// efforts are the values that a model accepts.
var efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh"}

// checkChoice checks the client's settings of the model call. The error is a problem of kind Invalid.
func checkChoice(c record.Context) error {
	names := func(f record.Function) bool { return f.Name == c.Tool }
	one := c.ToolChoice == record.OneTool
	return cmp.Or(
		problem.InvalidIf(c.TopP != nil && !(*c.TopP >= 0 && *c.TopP <= 1), "context.top_p", "must be between 0 and 1"),
		problem.InvalidIf(!slices.Contains(efforts, c.Effort), "context.effort", "must be none, minimal, low, medium, "+
			"high or xhigh"),
		problem.InvalidIf(one && !slices.ContainsFunc(c.Functions, names),
			"context.tool_choice", "must name one of the request's functions"),
	)
}

// distinct returns a problem of kind Invalid for a function with the name of a built-in tool of the agent's model. The
// names of the tools in its toolkits are checked when the run begins.
func distinct(list []record.Function, of catalog.AgentSpec) error {
	for i, f := range list {
		if of.Offers(f.Name) {
			return problem.InvalidField(fmt.Sprintf("context.functions[%d].name", i),
				"must not be %s: the agent has a tool of that name", f.Name)
		}
	}
	return nil
}

// checkBefore checks a conversation. Each call of a function has one output, which follows the call before any other
// message. Providers require this.
func checkBefore(list []record.ContextMessage) error {
	if len(list) > MaxBefore {
		return problem.InvalidField("context.before", "must have at most %d parts", MaxBefore)
	}
	size := 0
	var open []string // calls without an output, of the last assistant
	known := map[string]bool{}
	for i, part := range list {
		at := fmt.Sprintf("context.before[%d]", i)
		if part.Role != record.RoleTool && len(open) > 0 {
			return problem.InvalidField(at, "must be the output of the call %s, which has no output yet", open[0])
		}
		if err := checkText(at+".text", part.Text); err != nil {
			return err
		}
		size += len(part.Text)
		switch part.Role {
		case record.RoleUser:
		case record.RoleAssistant:
			for n, c := range part.Calls {
				if err := checkCall(fmt.Sprintf("%s.calls[%d]", at, n), c, known); err != nil {
					return err
				}
				known[c.ID], open = true, append(open, c.ID)
				size += len(c.Name) + len(c.Arguments)
			}
		case record.RoleTool:
			n := slices.Index(open, part.Call)
			if n < 0 {
				return problem.InvalidField(at+".call", "must be a preceding call that has no output yet")
			}
			open = slices.Delete(open, n, n+1)
		default:
			return problem.InvalidField(at+".role", "must be user, assistant or tool")
		}
	}
	if len(open) > 0 {
		return problem.InvalidField("context.before", "must contain the output of the call %s", open[0])
	}
	if size > maxBefore {
		return problem.InvalidField("context.before", "must have at most %d bytes", maxBefore)
	}
	return nil
}

func checkCall(at string, c record.ContextCall, known map[string]bool) error {
	switch {
	case !isName.MatchString(c.ID):
		return problem.InvalidField(at+".id", "must have 1 to 64 characters of A-Z a-z 0-9 _ -")
	case known[c.ID]:
		return problem.InvalidField(at+".id", "must not be the id of another call")
	case !isName.MatchString(c.Name):
		return problem.InvalidField(at+".name", "must have 1 to 64 characters of A-Z a-z 0-9 _ -")
	}
	if _, err := strictjson.Object(c.Arguments, EditLimits); err != nil {
		return problem.InvalidField(at+".arguments", "must be a JSON object: %s", err)
	}
	return nil
}
