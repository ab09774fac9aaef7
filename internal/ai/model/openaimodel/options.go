package openaimodel

import "agentplatform/internal/ai/model"

// options are the parameters of a request that a client may set.
type options struct {
	TopP     *float64 `json:"top_p,omitempty"`
	Effort   string   `json:"reasoning_effort,omitempty"`
	Choice   any      `json:"tool_choice,omitempty"` // a word, or a tool
	Parallel *bool    `json:"parallel_tool_calls,omitempty"`
}

// named is the choice of a function.
type named struct {
	Type     string       `json:"type"`
	Function functionName `json:"function"`
}

type functionName struct {
	Name string `json:"name"`
}

func optionsOf(r model.Request) options {
	o := options{TopP: r.Options.TopP, Effort: r.Options.Effort}
	switch {
	case !r.Forced():
	case r.Options.Tool != "":
		o.Choice = named{"function", functionName{r.Options.Tool}}
	default:
		o.Choice = "required"
	}
	if r.Options.OneCall && len(r.Tools) > 0 { // OpenAI refuses it without tools
		o.Parallel = new(bool)
	}
	return o
}
