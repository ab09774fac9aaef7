// Package builtintool implements the tool port with the toolkit that every organization has: echo, calculate,
// current_time. It imports its port and host.
package builtintool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // current_time needs time zones on machines that have none installed

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/host"
)

// Kind is the kind "builtin".
type Kind struct{ host host.Host }

// New makes the kind; current_time reads the clock of h.
func New(h host.Host) *Kind { return &Kind{host: h} }

func schema(properties string, required ...string) json.RawMessage {
	list, _ := json.Marshal(append([]string{}, required...))
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s}`, properties, list))
}

var definitions = []tool.Definition{
	{Spec: tool.Spec{Name: "echo", Description: "Gives back the text it gets.", RetrySafe: true,
		Parameters: schema(`"text":{"type":"string"}`, "text")}},
	{Spec: tool.Spec{Name: "calculate", Description: "Works out an arithmetic expression.", RetrySafe: true,
		Parameters: schema(`"expression":{"type":"string"}`, "expression")}},
	{Spec: tool.Spec{Name: "current_time",
		Description: "Tells the time in a timezone, by its IANA name; UTC if none is given.", RetrySafe: true,
		Parameters: schema(`"timezone":{"type":"string"}`)}},
}

// Discover lists the three tools. It never fails.
func (*Kind) Discover(context.Context, tool.Endpoint) ([]tool.Definition, error) {
	return slices.Clone(definitions), nil
}

// Call runs one of the tools. It returns a [tool.Error] for arguments that cannot be used and for a tool that does not
// exist.
func (t *Kind) Call(_ context.Context, _ tool.Endpoint, _ tool.Definition, i tool.Invocation) (tool.Result, error) {
	text, err := t.call(i)
	return tool.TextResult(text), err
}

func (t *Kind) call(i tool.Invocation) (string, error) {
	var a struct {
		Text       *string `json:"text"`
		Expression *string `json:"expression"`
		Timezone   string  `json:"timezone"`
	}
	if err := json.Unmarshal(i.Arguments, &a); err != nil {
		return "", tool.Fail("the arguments do not fit: %s", err)
	}
	switch i.Name {
	case "echo":
		if a.Text == nil {
			return "", tool.Fail("text is required")
		}
		return *a.Text, nil
	case "calculate":
		if a.Expression == nil {
			return "", tool.Fail("expression is required")
		}
		return calculate(*a.Expression)
	case "current_time":
		zone, err := time.LoadLocation(a.Timezone)
		if err != nil {
			return "", tool.Fail("%q is not a timezone", a.Timezone)
		}
		return t.host.Now().In(zone).Format(time.RFC3339), nil
	default:
		return "", tool.Fail("the tool %q does not exist", i.Name)
	}
}
