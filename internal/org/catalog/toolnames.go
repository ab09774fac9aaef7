package catalog

import "agentplatform/internal/store/record"

// ToolNames are the names of an organization's agents as tools of the MCP server. A name stays with its
// agent, also when the agent is renamed or deleted.
type ToolNames struct {
	Organization string            `json:"organization_id"`
	Agents       map[string]string `json:"agents"` // ids of agents, by names of tools
}

// Placed implements [record.Resourceful].
func (n ToolNames) Placed() (string, string, string) {
	return "tool_names", ToolNamesID(n.Organization), n.Organization
}

// ToolNamesID is the id of the names of an organization.
func ToolNamesID(organization string) string { return record.DerivedID("tool_names", organization) }
