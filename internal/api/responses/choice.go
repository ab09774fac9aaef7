package responses

import (
	"encoding/json"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

type functionChoice struct {
	Type string `json:"type" enum:"function"`
	Name string `json:"name"`
}

// choice reads tool_choice: a word, or a function of the client. The error is a problem of kind Invalid.
func choice(raw json.RawMessage) (of record.ToolChoice, function string, err error) {
	if bridge.IsNull(raw) {
		return "", "", nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "auto":
			return "", "", nil
		case string(record.NoTool), string(record.AnyTool):
			return record.ToolChoice(word), "", nil
		}
	}
	var named functionChoice
	if json.Unmarshal(raw, &named) == nil && named.Type == "function" && named.Name != "" {
		return record.OneTool, named.Name, nil
	}
	return "", "", problem.InvalidField("body.tool_choice",
		`must be auto, none, required, or {"type": "function", "name": …} with a function of tools`)
}

func shownChoice(c record.Context) any {
	switch c.ToolChoice {
	case "":
		return "auto"
	case record.OneTool:
		return functionChoice{"function", c.Tool}
	}
	return c.ToolChoice
}
