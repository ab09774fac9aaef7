package httpapi

import (
	"context"
	"unicode/utf8"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/toolkit"
)

func (s *Server) publishAgent(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Match
	Body struct {
		Version int `json:"version" minimum:"1"`
	}
}) (*answer[agentView], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.PublishAgent(ctx, p, in.ID, in.precondition(), in.Body.Version)
	if err != nil {
		return nil, err
	}
	return agentAnswer(e), nil
}

func (s *Server) duplicateAgent(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Body *struct {
		Name *string `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"by default the agent's with (copy)"`
	}
}) (*answer[agentView], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.Agent(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	spec := e.Value.Spec
	if in.Body != nil && in.Body.Name != nil {
		spec.Name = *in.Body.Name
	} else if spec.Name += " (copy)"; utf8.RuneCountInString(spec.Name) > 200 {
		return nil, problem.InvalidField("body.name", "is required: with (copy) the agent's name has more than 200 characters")
	}
	made, err := s.Tenants.DuplicateAgent(ctx, e.Value, spec)
	if err != nil {
		return nil, err
	}
	return agentAnswer(made), nil
}

// The form of an exported agent; a later one gets another number.
const exportVersion = 1

type agentDocument struct {
	Format     string             `json:"format" enum:"agent-platform/agent"`
	Version    int                `json:"format_version"`
	ExportedAt string             `json:"exported_at,omitempty"`
	Agent      record.AgentSpec   `json:"agent"`
	Toolkits   []toolkit.Portable `json:"toolkits"`
}

func (s *Server) exportAgent(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Version int `query:"version" minimum:"1" doc:"by default the newest"`
}) (*answer[agentDocument], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.Agent(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	a := e.Value
	if in.Version > 0 && in.Version != a.Version {
		if a, err = s.Store.AgentVersion(ctx, p.Scope(), in.ID, in.Version); err != nil {
			return nil, err
		}
	}
	d := agentDocument{Format: "agent-platform/agent", Version: exportVersion, ExportedAt: events.Time(s.Host.Now()), Agent: a.Spec}
	d.Toolkits, d.Agent.ToolkitIDs, err = s.Toolkits.Export(ctx, p.Scope(), a.Spec.ToolkitIDs)
	if err != nil {
		return nil, err
	}
	if err := s.Store.NoteDeed(ctx, p.Organization.ID, "agent", in.ID); err != nil {
		return nil, err
	}
	d.Agent.KnowledgeBaseIDs, d.Agent.GroupIDs, d.Agent.ApproverGroupIDs = []string{}, []string{}, []string{} // they are this organization's
	return &answer[agentDocument]{Body: d}, nil
}

func (s *Server) importAgent(ctx context.Context, p tenant.Principal, in *struct {
	SkipCheck bool `query:"skip_check" doc:"take a model that cannot be reached now"`
	Body      agentDocument
}) (*answer[agentView], error) {
	if in.Body.Version != exportVersion {
		return nil, problem.InvalidField("body.format_version", "must be %d", exportVersion)
	}
	spec := in.Body.Agent
	if err := s.checkCallback(spec); err != nil {
		return nil, err
	}
	bare := spec
	bare.ToolkitIDs = nil // they are this document's own keys yet; no toolkit is made for an agent that is not
	err := s.Tenants.CheckAgent(ctx, p.Organization.ID, bare, in.SkipCheck)
	if err != nil {
		return nil, err
	}
	if spec.ToolkitIDs, err = s.Toolkits.Import(ctx, p.Scope(), spec.ToolkitIDs, in.Body.Toolkits); err != nil {
		return nil, err
	}
	e, err := s.Tenants.CreateAgent(ctx, p.Organization.ID, spec, true)
	if err != nil {
		return nil, err
	}
	return agentAnswer(e), nil
}
