package openaimodel

import "agentplatform/internal/ai/model"

// options are the parameters of a request that a client may set.
type options struct {
	TopP     *float64 `json:"top_p,omitempty"`
	Effort   string   `json:"reasoning_effort,omitempty"`
	Choice   any      `json:"tool_choice,omitempty"` // a word, or a tool
	Parallel *bool    `json:"parallel_tool_calls,omitempty"`
}

func optionsOf(r model.Request) options {
	o := options{TopP: r.Options.TopP, Effort: r.Options.Effort}
	switch {
	case !r.Forced():
	case r.Options.Tool != "":
		o.Choice = map[string]any{"type": "function", "function": map[string]string{"name": r.Options.Tool}}
	default:
		o.Choice = "required"
	}
	if r.Options.OneCall && len(r.Tools) > 0 { // OpenAI refuses it without tools
		o.Parallel = new(bool)
	}
	return o
}
