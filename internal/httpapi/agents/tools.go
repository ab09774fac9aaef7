package agents

import (
	"context"

	"agentplatform/internal/httpapi"
	"agentplatform/internal/tenant"
	"agentplatform/internal/tool"
	"agentplatform/internal/toolkit"
)

type agentToolView struct {
	toolView
	ToolkitID string `json:"toolkit_id"`
	Tool      string `json:"tool" doc:"its name in the toolkit"`
}

type agentToolList struct {
	Tools      []agentToolView `json:"tools"`
	NextCursor *string         `json:"next_cursor"`
}

// listAgentTools lists the tools that runs of an agent have, by the names and with the approvals that runs know.
func (h *handlers) listAgentTools(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Version int `query:"agent_version" minimum:"1" doc:"the published one by default"`
}) (*httpapi.Answer[agentToolList], error) {
	if err := in.Check("agent"); err != nil {
		return nil, err
	}
	agent, err := h.Tenants.Runnable(ctx, p, in.ID, in.Version)
	if err != nil {
		return nil, err
	}
	named, err := h.Toolkits.Names(ctx, p.Organization.ID, agent.Spec.ToolkitIDs)
	if err != nil {
		return nil, err
	}
	offers, asks := toolkit.Offers(named), agent.Spec.Approval
	list := agentToolList{Tools: []agentToolView{}}
	for i, n := range named {
		v := agentToolView{viewTool(n.Tool), n.Toolkit.ID, n.Tool.Name}
		v.Name = n.Name
		if asks.Mode == "always" || asks.Mode == "tools" && tool.Listed(offers, offers[i], asks.Tools) {
			v.Approval, v.ApprovalWhen = "always", nil
		}
		list.Tools = append(list.Tools, v)
	}
	return &httpapi.Answer[agentToolList]{Body: list}, nil
}
