package agents

import (
	"context"
	"slices"
	"strings"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

type agentToolView struct {
	ToolView
	ToolkitID string `json:"toolkit_id"`
	Tool      string `json:"tool" doc:"its name in the toolkit"`
}

type agentToolList struct {
	Tools      []agentToolView `json:"tools"`
	NextCursor *string         `json:"next_cursor"`
}

// listAgentTools lists the tools that runs of an agent have, with the names and approvals of these runs.
func (h *handlers) listAgentTools(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.LongPaging
	Version int    `query:"agent_version" minimum:"1" doc:"the published version by default"`
	Name    string `query:"name" doc:"the tool with this name in runs"`
}) (*answer[agentToolList], error) {
	agent, err := h.Tenants.Runnable(ctx, p, in.ID, in.Version)
	if err != nil {
		return nil, err
	}
	published, err := h.Tenants.Runnable(ctx, p, in.ID, 0)
	if err != nil {
		return nil, err
	}
	tools, err := h.agentTools(ctx, p.Organization, agent.Spec, published.Spec)
	if err != nil {
		return nil, err
	}
	if in.Name != "" {
		tools = slices.DeleteFunc(tools, func(t agentToolView) bool { return t.Name != in.Name })
	}
	slices.SortFunc(tools, func(a, b agentToolView) int { return strings.Compare(a.Name, b.Name) })
	shown, next, err := httpapi.Filter(ctx, httpapi.Paging(in.LongPaging), func(
		_ context.Context, after string, _ int,
	) (page record.Page[agentToolView], _ error) {
		for _, t := range tools {
			if t.Name > after {
				page.Rows, page.Positions = append(page.Rows, t), append(page.Positions, t.Name)
			}
		}
		return page, nil
	}, httpapi.Bounded(func(t agentToolView) (agentToolView, bool, error) { return t, true, nil }))
	return httpapi.Body(agentToolList{shown, next}), err
}

func (h *handlers) agentTools(
	ctx context.Context, organization string, spec, published catalog.AgentSpec,
) (tools []agentToolView, err error) {
	named, err := h.Toolkits.Names(ctx, organization, spec.ToolkitIDs)
	if err != nil {
		return nil, err
	}
	all, err := h.Toolkits.Listed(ctx, organization, published.ToolkitIDs)
	if err != nil {
		return nil, err
	}
	offers := toolkit.Offers(named)
	own, current := spec.Policy(offers), published.Policy(all)
	for i, n := range named {
		v := agentToolView{viewTool(n.Tool), n.Toolkit.ID, n.Tool.Name}
		v.Name = n.Name
		if own.Asks(offers, offers[i]) || current.Asks(offers, offers[i]) {
			v.Approval, v.ApprovalWhen = "always", nil
		}
		tools = append(tools, v)
	}
	return tools, nil
}
