package anthropicmodel

import "agentplatform/internal/ai/model"

// choice is which tools a reply may or must call.
type choice struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	OneCall bool   `json:"disable_parallel_tool_use,omitempty"`
}

func choiceOf(r model.Request) *choice {
	c := choice{Type: "auto", OneCall: r.Options.OneCall}
	switch {
	case r.Forced() && r.Options.Tool != "":
		c.Type, c.Name = "tool", r.Options.Tool
	case r.Forced():
		c.Type = "any"
	case !c.OneCall || len(r.Tools) == 0:
		return nil
	}
	return &c
}
