package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/webhook"
)

func (s *Server) agentRoutes() {
	manage := tenant.LevelManage
	register(s, operation{method: "POST", path: "/agents", level: manage, status: http.StatusCreated, id: "create-agent", summary: "Create an agent", tag: "agents"}, s.createAgent)
	register(s, operation{method: "GET", path: "/agents", level: tenant.LevelRead, id: "list-agents", summary: "List agents", tag: "agents"}, s.listAgents)
	register(s, operation{method: "GET", path: "/agents/{id}", level: tenant.LevelRead, id: "read-agent", summary: "Read an agent", tag: "agents"}, s.readAgent)
	register(s, operation{method: "PATCH", path: "/agents/{id}", level: manage, id: "edit-agent", summary: "Change an agent: its next version", tag: "agents"}, s.editAgent)
	register(s, operation{method: "DELETE", path: "/agents/{id}", level: manage, status: http.StatusNoContent, id: "delete-agent", summary: "Delete an agent", tag: "agents"}, s.deleteAgent)
	register(s, operation{method: "GET", path: "/agents/{id}/versions", level: tenant.LevelRead, id: "list-agent-versions", summary: "List an agent's versions, newest first", tag: "agents"}, s.listVersions)
	register(s, operation{method: "POST", path: "/agents/{id}/publish", level: manage, id: "publish-agent", summary: "Have new runs begin with a version, a newer one or an older one again", tag: "agents"}, s.publishAgent)
	register(s, operation{method: "POST", path: "/agents/{id}/duplicate", level: manage, status: http.StatusCreated, id: "duplicate-agent", summary: "Create an agent like this one", tag: "agents"}, s.duplicateAgent)
	register(s, operation{method: "GET", path: "/agents/{id}/export", level: manage, id: "export-agent", summary: "The agent and its toolkits as one document, without credentials", tag: "agents"}, s.exportAgent)
	register(s, operation{method: "POST", path: "/agents/import", level: manage, status: http.StatusCreated, id: "import-agent", summary: "Create an agent from an exported document", tag: "agents"}, s.importAgent)
	register(s, operation{method: "GET", path: "/models", level: tenant.LevelRead, id: "list-models", summary: "What this deployment can reach", tag: "agents"}, s.listModels)
}

// agentBody is what a client may say about an agent; what it leaves out keeps its value, or its default.
type agentBody struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"200"`
	Description  *string `json:"description,omitempty" nullable:"true"`
	Instructions *string `json:"instructions,omitempty" nullable:"true"`
	Model        *struct {
		Provider    *string  `json:"provider,omitempty"`
		Name        *string  `json:"name,omitempty" nullable:"true"`
		Temperature *float64 `json:"temperature,omitempty" nullable:"true" minimum:"0" maximum:"2"`
		MaxTokens   *int     `json:"max_tokens,omitempty" nullable:"true" minimum:"1"`
	} `json:"model,omitempty"`
	ToolkitIDs       *[]string `json:"toolkit_ids,omitempty" doc:"the built-in toolkit by default"`
	KnowledgeBaseIDs *[]string `json:"knowledge_base_ids,omitempty"`
	Approval         *struct {
		Mode  *string   `json:"mode,omitempty" enum:"never,always,tools"`
		Tools *[]string `json:"tools,omitempty"`
	} `json:"approval,omitempty" doc:"which tool calls need a human's approval"`
	CanAsk *bool `json:"can_ask,omitempty" doc:"whether the agent may ask for clarifications"`
	Limits *struct {
		MaxActiveSeconds *int `json:"max_active_seconds,omitempty" nullable:"true" minimum:"10" maximum:"14400"`
		MaxSteps         *int `json:"max_steps,omitempty" nullable:"true" minimum:"1" maximum:"1000"`
		MaxTokens        *int `json:"max_tokens,omitempty" nullable:"true" minimum:"1" doc:"of a run's model calls together, in and out"`
	} `json:"limits,omitempty"`
	GroupIDs         *[]string               `json:"group_ids,omitempty" doc:"whose members may see it, use it, and have to do with its runs, besides admins; empty: the whole organization"`
	ApproverGroupIDs *[]string               `json:"approver_group_ids,omitempty" doc:"whose members may decide about tool calls, besides admins; empty: whoever may resume the run"`
	Budget           nullable[record.Budget] `json:"budget,omitzero" doc:"of all its versions together; null: none"`
	CallbackURL      *string                 `json:"callback_url,omitempty" nullable:"true" doc:"where pushes go when a request names no address"`
	OutputSchema     json.RawMessage         `json:"output_schema,omitempty" doc:"a JSON schema that answers must fit; null for any text"`
	Publish          *bool                   `json:"publish,omitempty" doc:"false: new runs go on to begin with the version that is published; it is not kept"`
	SkipCheck        bool                    `json:"skip_check,omitempty" doc:"take a model that cannot be reached now; it is not kept"`
}

type agentView struct {
	AgentID        string  `json:"agent_id"`
	OrganizationID *string `json:"organization_id"`
	Version        int     `json:"version"`
	Published      int     `json:"published_version" doc:"the version that runs begin with"`
	record.AgentSpec
	Budget    nullable[record.Budget] `json:"budget"`
	CreatedAt string                  `json:"created_at"`
	UpdatedAt string                  `json:"updated_at"`
}

func viewAgent(a record.Agent) agentView {
	v := agentView{
		AgentID: a.ID, OrganizationID: optionalOwner(a.Organization), Version: a.Version, Published: a.Current(), AgentSpec: a.Spec, Budget: nullable[record.Budget]{a.Spec.Budget},
		CreatedAt: events.Time(a.CreatedAt), UpdatedAt: events.Time(a.UpdatedAt),
	}
	for _, list := range []*[]string{&v.ToolkitIDs, &v.KnowledgeBaseIDs, &v.GroupIDs, &v.ApproverGroupIDs, &v.Approval.Tools} {
		if *list == nil {
			*list = []string{}
		}
	}
	return v
}

func agentAnswer(e record.Entity[record.Agent]) *answer[agentView] {
	return &answer[agentView]{ETag: etag(e.Version()), Body: viewAgent(e.Value)}
}

// merged applies a merge patch (RFC 7396) to an agent's spec; what becomes absent goes back to its default.
func (s *Server) merged(organization string, current record.AgentSpec, patch []byte) (record.AgentSpec, error) {
	spec := s.Tenants.DefaultSpec(organization)
	before, err := json.Marshal(current)
	if err != nil {
		return spec, err
	}
	after, err := merge(before, patch)
	if err != nil {
		return spec, problem.InvalidField("body", "%s", err)
	}
	if err := decode("body", after, &spec); err != nil {
		return spec, err
	}
	return spec, s.checkCallback(spec)
}

func (s *Server) checkCallback(spec record.AgentSpec) error {
	if spec.CallbackURL == "" {
		return nil
	}
	return webhook.CheckURL(s.Callbacks, spec.CallbackURL)
}

func (s *Server) createAgent(ctx context.Context, p tenant.Principal, in *struct {
	Body    agentBody
	RawBody []byte
}) (*answer[agentView], error) {
	spec, err := s.merged(p.Organization.ID, s.Tenants.DefaultSpec(p.Organization.ID), in.RawBody)
	if err != nil {
		return nil, err
	}
	e, err := s.Tenants.CreateAgent(ctx, p.Organization.ID, spec, in.Body.SkipCheck)
	return agentAnswer(e), err
}

type agentList struct {
	Agents     []agentView `json:"agents"`
	NextCursor *string     `json:"next_cursor"`
}

func (s *Server) listAgents(ctx context.Context, p tenant.Principal, in *Paging) (*answer[agentList], error) {
	page, err := resources[record.Agent](ctx, s, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	list := agentList{Agents: []agentView{}, NextCursor: encodeCursor(page.Next)}
	for _, e := range page.Rows {
		if p.MayUse(e.Value) == nil {
			list.Agents = append(list.Agents, viewAgent(e.Value))
		}
	}
	return &answer[agentList]{Body: list}, nil
}

func (s *Server) readAgent(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[agentView], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.Agent(ctx, p, in.ID)
	return agentAnswer(e), err
}

func (s *Server) editAgent(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Match
	Body    agentBody
	RawBody []byte
}) (*answer[agentView], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	e, err := s.Tenants.EditAgent(ctx, p, in.ID, in.precondition(), in.Body.SkipCheck, in.Body.Publish == nil || *in.Body.Publish, func(current record.AgentSpec) (record.AgentSpec, error) {
		return s.merged(p.Organization.ID, current, in.RawBody)
	})
	return agentAnswer(e), err
}

func (s *Server) deleteAgent(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	return nil, s.Tenants.RemoveAgent(ctx, p, in.ID)
}

type versionList struct {
	Versions   []agentView `json:"versions"`
	NextCursor *string     `json:"next_cursor"`
}

func (s *Server) listVersions(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Paging
}) (*answer[versionList], error) {
	if err := in.check("agent"); err != nil {
		return nil, err
	}
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Tenants.Agent(ctx, p, in.ID); err != nil {
		return nil, err
	}
	page, err := s.Store.AgentVersions(ctx, in.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	list := versionList{Versions: []agentView{}, NextCursor: encodeCursor(page.Next)}
	for _, a := range page.Rows {
		list.Versions = append(list.Versions, viewAgent(a))
	}
	return &answer[versionList]{Body: list}, nil
}

type modelView struct {
	Provider    string `json:"provider"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type modelList struct {
	Models      []modelView       `json:"models"`
	Unreachable map[string]string `json:"unreachable,omitempty" doc:"providers that did not list their models, and why"`
	NextCursor  *string           `json:"next_cursor"`
}

func (s *Server) listModels(ctx context.Context, _ tenant.Principal, _ *struct{}) (*answer[modelList], error) {
	reached := s.Models.List(ctx)
	list := modelList{Models: []modelView{}, Unreachable: reached.Unreachable}
	for _, m := range reached.Models {
		list.Models = append(list.Models, modelView{m.Provider, m.Name, m.Description})
	}
	return &answer[modelList]{Body: list}, nil
}
