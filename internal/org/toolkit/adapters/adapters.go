// Package adapters gives toolkits the kinds that the settings allow. It is separate from toolkit: so programs that call
// no tools do not link their libraries.
//
// It is wiring: like boot and cloud it may import adapters.
package adapters

import (
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/setting"
)

// Make makes the kinds and sets the egress policy. The caller limits the time of their requests. It fails if
// TOOL_ALLOW_HOSTS or TOOL_CA_FILE cannot be used.
func Make(t *toolkit.Toolkits, s setting.Settings) error {
	policy, err := egress.Read(s.ToolAllowHosts, "TOOL_CA_FILE", s.ToolCAFile)
	if err != nil {
		return err
	}
	client := policy.Client(0)
	t.Policy = policy
	for _, line := range s.ToolCommands { // only here is a command line split into words
		t.Commands = append(t.Commands, strings.Fields(line))
	}
	t.Kinds = map[string]tool.Kind{
		toolkit.Builtin: builtintool.New(t.Host), "openapi": &openapitool.Kind{Client: client},
		"mcp":  &mcptool.Kind{Client: client},
		"http": &httptool.Kind{Client: client},
	}
	return nil
}
