package agents

import (
	"cmp"
	"context"
	"unicode/utf8"

	"agentplatform/events"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) publishAgent(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	Body struct {
		Version int `json:"version" required:"true" minimum:"1"`
	}
}) (*answer[agentView], error) {
	return agentAnswer(h.Tenants.PublishAgent(ctx, p, in.ID, in.Precondition(), in.Body.Version))
}

func (h *handlers) duplicateAgent(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body *struct {
		Name *string `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"by default the agent's name with (copy)"`
	}
}) (*answer[agentView], error) {
	e, err := h.Tenants.Agent(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	spec := e.Value.Spec
	if in.Body != nil && in.Body.Name != nil {
		spec.Name = *in.Body.Name
	} else if spec.Name += " (copy)"; utf8.RuneCountInString(spec.Name) > 200 {
		return nil, problem.InvalidField(
			"body.name", "is required: the agent's name with (copy) is longer than 200 characters",
		)
	}
	return agentAnswer(h.Tenants.DuplicateAgent(ctx, e.Value, spec))
}

// The form of an exported agent; a later one gets another number.
const exportVersion = 1

type agentDocument struct {
	Format     string             `json:"format" enum:"agent-platform/agent"`
	Version    int                `json:"format_version"`
	ExportedAt string             `json:"exported_at,omitempty"`
	Agent      catalog.AgentSpec  `json:"agent"`
	Toolkits   []toolkit.Portable `json:"toolkits"`
}

func (h *handlers) exportAgent(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Version int `query:"version" minimum:"1" doc:"by default the newest"`
}) (*answer[agentDocument], error) {
	e, err := h.Tenants.Agent(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	a := e.Value
	if in.Version > 0 && in.Version != a.Version {
		if a, err = record.Version[catalog.Agent](ctx, h.Store, p.Scope(), in.ID, in.Version); err != nil {
			return nil, err
		}
	}
	d := agentDocument{
		Format:     "agent-platform/agent",
		Version:    exportVersion,
		ExportedAt: events.Time(h.Host.Now()),
		Agent:      a.Spec,
	}
	d.Toolkits, d.Agent.ToolkitIDs, err = h.Toolkits.Export(ctx, p.Scope(), a.Spec.ToolkitIDs)
	if err != nil {
		return nil, err
	}
	if err := h.Tenants.NoteExport(ctx, p, in.ID); err != nil {
		return nil, err
	}
	// The other ids that it names are this organization's.
	d.Agent.ChatVisibility = cmp.Or(a.Spec.ChatVisibility, catalog.SeesAll)
	d.Agent.KnowledgeBaseIDs, d.Agent.GroupIDs, d.Agent.ApproverGroupIDs = []string{}, []string{}, []string{}
	return httpapi.Body(d), nil
}

func (h *handlers) importAgent(ctx context.Context, p tenant.Principal, in *struct {
	SkipCheck bool `query:"skip_check" doc:"accept a model that cannot be reached now"`
	Body      agentDocument
}) (*answer[agentView], error) {
	if in.Body.Version != exportVersion {
		return nil, problem.InvalidField("body.format_version", "must be %d", exportVersion)
	}
	spec := in.Body.Agent
	if err := h.checkCallback(spec); err != nil {
		return nil, err
	}
	bare := spec
	// They are still this document's own keys, and so are the names of its tools. No toolkit is made for an agent that
	// is not made.
	bare.ToolkitIDs, bare.Approval.Tools = nil, nil
	err := h.Tenants.CheckAgent(ctx, p.Organization, bare, in.SkipCheck)
	if err != nil {
		return nil, err
	}
	spec.ToolkitIDs, err = h.Toolkits.Import(ctx, p.Scope(), spec.ToolkitIDs, in.Body.Toolkits, p.MayLoosen,
		func(of []tool.Offer) error { return tenant.CheckPolicy(spec, of) })
	if err != nil {
		return nil, err
	}
	return agentAnswer(h.Tenants.CreateAgent(ctx, p.Organization, spec, true))
}
