// Package kinds gives toolkits the kinds that the settings allow.
//
// It is wiring: with boot and cloud it imports adapters.
package kinds

import (
	"strings"

	"agentplatform/internal/egress"
	"agentplatform/internal/setting"
	"agentplatform/internal/tool"
	"agentplatform/internal/tool/builtintool"
	"agentplatform/internal/tool/httptool"
	"agentplatform/internal/tool/mcptool"
	"agentplatform/internal/tool/openapitool"
	"agentplatform/internal/toolkit"
)

// Make makes them. How long one of their requests lasts is the caller's to bound.
func Make(t *toolkit.Toolkits, s setting.Settings) error {
	policy, err := egress.Read(s.ToolAllowHosts, "TOOL_CA_FILE", s.ToolCAFile)
	if err != nil {
		return err
	}
	client := policy.Client(0)
	t.Policy = policy
	for _, line := range s.ToolCommands { // its words are told apart here, and nowhere else
		t.Commands = append(t.Commands, strings.Fields(line))
	}
	t.Kinds = map[string]tool.Kind{
		toolkit.Builtin: builtintool.New(t.Host), "openapi": &openapitool.Kind{Client: client}, "mcp": &mcptool.Kind{Client: client},
		"http": &httptool.Kind{Client: client},
	}
	return nil
}
