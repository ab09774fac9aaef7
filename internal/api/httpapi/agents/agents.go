package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/record"
)

func (h *handlers) agentRoutes() {
	r := h.routes("agents", "agent")
	httpapi.Route(r, "POST /agents", "create-agent",
		"Create an agent", h.createAgent, httpapi.Created, httpapi.Needs("name"))
	httpapi.Route(r, "GET /agents", "list-agents", "List agents", h.listAgents)
	httpapi.Route(r, "GET /agents/{id}", "read-agent", "Read an agent", h.readAgent)
	httpapi.Route(r, "PATCH /agents/{id}", "edit-agent", "Change an agent: its next version", h.editAgent)
	httpapi.Route(r, "DELETE /agents/{id}", "delete-agent", "Delete an agent", h.deleteAgent)
	httpapi.Route(r, "GET /agents/{id}/versions", "list-agent-versions",
		"List an agent's versions, newest first", h.listVersions)
	httpapi.Route(r, "GET /agents/{id}/tools", "list-agent-tools",
		"List the tools of an agent's runs, with the names that runs use", h.listAgentTools)
	httpapi.Route(r, "POST /agents/{id}/publish", "publish-agent",
		"Publish a version: new runs start with it; it may be newer or older", h.publishAgent)
	httpapi.Route(r, "POST /agents/{id}/duplicate", "duplicate-agent",
		"Create a copy of an agent", h.duplicateAgent, httpapi.Created)
	managers := r
	managers.Read = tenant.LevelManage
	httpapi.Route(managers, "GET /agents/{id}/export", "export-agent",
		"The agent and its toolkits as one document, without credentials", h.exportAgent, httpapi.Stores)
	httpapi.Route(r, "POST /agents/import", "import-agent",
		"Create an agent from an exported document", h.importAgent, httpapi.Created)
	httpapi.Route(r, "GET /models", "list-models", "List the models that this deployment can reach", h.listModels)
}

// agentBody is a client's edit of an agent. A member that is absent keeps its value, or its default.
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
	KnowledgeBaseIDs *[]string `json:"knowledge_base_ids,omitempty" doc:"at most 20; runs search them with the rights of their user"`
	Knowledge        *struct {
		Mode   *string `json:"mode,omitempty" enum:"hybrid,semantic,keyword" doc:"hybrid by default"`
		Limit  *int    `json:"limit,omitempty" minimum:"1" maximum:"20" doc:"passages of a search; 6 by default"`
		Always *bool   `json:"always,omitempty" doc:"true: search for the last two user messages before the first model call; false: the model decides, with a tool"`

		MaxPerDocument *int     `json:"max_per_document,omitempty" minimum:"1" maximum:"20" doc:"passages of one document in a search; 3 by default"`
		MinScore       *float64 `json:"min_score,omitempty" nullable:"true" minimum:"0" maximum:"1" doc:"the lowest score of a passage, as in POST /search. null: a keyword score of 0.02, a cosine of 0.15, or all query words that any passage has, if those are half of the query"`
	} `json:"knowledge,omitempty" doc:"settings for searches in the knowledge bases"`
	Approval *struct {
		Mode  *string   `json:"mode,omitempty" enum:"never,always,tools"`
		Tools *[]string `json:"tools,omitempty" doc:"with mode tools: names of tools that the agent has"`
		Self  *bool     `json:"self,omitempty" nullable:"true" doc:"false: the user of a run may reject its calls but not approve them, even as an admin; true by default"`
	} `json:"approval,omitempty" doc:"calls that need approval, besides toolkits' rules; only admins require fewer"`
	CanAsk *bool `json:"can_ask,omitempty" doc:"whether the agent may ask for clarifications"`
	Limits *struct {
		MaxActiveSeconds *int `json:"max_active_seconds,omitempty" nullable:"true" minimum:"10" maximum:"14400"`
		MaxSteps         *int `json:"max_steps,omitempty" nullable:"true" minimum:"1" maximum:"1000"`
		MaxTokens        *int `json:"max_tokens,omitempty" nullable:"true" minimum:"1" doc:"input and output tokens of all model calls of a run"`
	} `json:"limits,omitempty"`
	GroupIDs         *[]string                       `json:"group_ids,omitempty" doc:"groups whose members may see and use the agent and its runs; admins always may; empty: the whole organization"`
	ApproverGroupIDs *[]string                       `json:"approver_group_ids,omitempty" doc:"groups whose members may decide tool calls, even without access to the agent; admins always may. Empty: the run's user, managers and admins. A change needs level admin"`
	ChatVisibility   *catalog.Visibility             `json:"chat_visibility,omitempty" enum:"own,organization" doc:"access to its chats, their runs and files. own: the user and managers; organization: as in the organization's settings. A change from own to organization needs level admin"`
	Budget           httpapi.Nullable[record.Budget] `json:"budget,omitzero" doc:"for all its versions together; null: no budget"`
	CallbackURL      *string                         `json:"callback_url,omitempty" nullable:"true" doc:"the address for webhooks if a request has no callback_url"`
	Metadata         map[string]string               `json:"metadata,omitempty" nullable:"true"`
	OutputSchema     json.RawMessage                 `json:"output_schema,omitempty" shape:"object|null" doc:"a JSON schema for answers; null: any text"`
	Publish          *bool                           `json:"publish,omitempty" doc:"false: do not publish the new version; new runs keep the published one. Not stored"`
	SkipCheck        bool                            `json:"skip_check,omitempty" doc:"accept a model that cannot be reached now; not stored"`
}

type agentView struct {
	AgentID        string  `json:"agent_id"`
	OrganizationID *string `json:"organization_id"`
	Version        int     `json:"version"`
	Published      int     `json:"published_version" doc:"the version that new runs start with"`
	catalog.AgentSpec
	ChatVisibility catalog.Visibility              `json:"chat_visibility" enum:"own,organization"`
	Budget         httpapi.Nullable[record.Budget] `json:"budget"`
	Problems       []string                        `json:"problems,omitempty" doc:"only when one agent is read. For level manage: approvers are missing, so admins decide. For all: its approval names missing tools, so each call needs approval until the agent is saved again"`
	CreatedAt      string                          `json:"created_at"`
	UpdatedAt      string                          `json:"updated_at"`
}

func viewAgent(a catalog.Agent) agentView {
	v := agentView{
		AgentID:        a.ID,
		OrganizationID: httpapi.OptionalOwner(a.Organization),
		Version:        a.Version,
		Published:      a.Current(),
		AgentSpec:      a.Spec,
		ChatVisibility: cmp.Or(a.Spec.ChatVisibility, catalog.SeesAll),
		Budget:         httpapi.Nullable[record.Budget]{Value: a.Spec.Budget},
		CreatedAt:      events.Time(a.CreatedAt),
		UpdatedAt:      events.Time(a.UpdatedAt),
	}
	v.Knowledge = v.Knowledge.OrDefault()
	self := !v.Approval.OthersOnly()
	v.Approval.Self = &self
	for _, list := range []*[]string{
		&v.ToolkitIDs, &v.KnowledgeBaseIDs, &v.GroupIDs, &v.ApproverGroupIDs, &v.Approval.Tools,
	} {
		if *list == nil {
			*list = []string{}
		}
	}
	return v
}

var agentAnswer = httpapi.Shows(viewAgent)

// merged applies a merge patch (RFC 7396) to an agent's spec; a member that becomes absent goes back to its default.
func (h *handlers) merged(organization string, current catalog.AgentSpec, patch []byte) (catalog.AgentSpec, error) {
	spec := h.Tenants.DefaultSpec(organization)
	before, err := json.Marshal(current)
	if err != nil {
		return spec, err
	}
	after, err := httpapi.Merge(before, patch)
	if err != nil {
		return spec, problem.InvalidField("body", "%s", err)
	}
	if err := httpapi.Decode("body", after, &spec); err != nil {
		return spec, err
	}
	return spec, h.checkCallback(spec)
}

func (h *handlers) checkCallback(spec catalog.AgentSpec) error {
	if spec.CallbackURL == "" {
		return nil
	}
	return webhook.CheckURL(h.Callbacks, spec.CallbackURL)
}

func (h *handlers) createAgent(ctx context.Context, p tenant.Principal, in *struct {
	Body    agentBody
	RawBody []byte
}) (*answer[agentView], error) {
	spec, err := h.merged(p.Organization, h.Tenants.DefaultSpec(p.Organization), in.RawBody)
	if err != nil {
		return nil, err
	}
	return agentAnswer(h.Tenants.CreateAgent(ctx, p.Organization, spec, in.Body.SkipCheck))
}

type agentList struct {
	Agents     []agentView `json:"agents"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) listAgents(ctx context.Context, p tenant.Principal, in *httpapi.Paging) (*answer[agentList], error) {
	rows, next, err := httpapi.Resources(ctx, h.Store, p.Scope(), *in, func(a catalog.Agent) bool {
		return p.MayUse(a) == nil
	})
	return httpapi.Body(agentList{httpapi.Views(rows, viewAgent), next}), err
}

func (h *handlers) readAgent(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[agentView], error) {
	e, err := h.Tenants.Agent(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	v := viewAgent(e.Value)
	v.Problems, err = h.problemsOf(ctx, p, e.Value)
	return httpapi.Versioned(e.Version(), v), err
}

// problemsOf lists the tools that an agent's policy names and that the agent does not have. Managers also see that
// nobody may approve: this reads the organization's users. It checks the policies of the newest version, and of the
// version with which new runs begin.
func (h *handlers) problemsOf(ctx context.Context, p tenant.Principal, a catalog.Agent) (list []string, err error) {
	versions := []catalog.Agent{a}
	if a.Current() != a.Version {
		published, err := h.Tenants.Runnable(ctx, p, a.ID, a.Current())
		if err != nil {
			return nil, err
		}
		versions = append(versions, published)
	}
	if p.Authorize(tenant.LevelManage) == nil {
		if list, err = h.Tenants.ApproversProblems(ctx, versions...); err != nil {
			return nil, err
		}
	}
	for _, v := range versions {
		if v.Spec.Approval.Mode != "tools" {
			continue
		}
		named, err := h.Toolkits.Names(ctx, a.Organization, v.Spec.ToolkitIDs)
		if err != nil {
			return nil, err
		}
		for _, name := range v.Spec.Unknown(toolkit.Offers(named)) {
			list = append(list, fmt.Sprintf("The approval of version %d names the tool %q, which the agent does not "+
				"have. Each tool call needs approval until you save the agent without it.", v.Version, name))
		}
	}
	return list, nil
}

func (h *handlers) editAgent(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	Body    agentBody
	RawBody []byte
}) (*answer[agentView], error) {
	publish := in.Body.Publish == nil || *in.Body.Publish
	return agentAnswer(h.Tenants.EditAgent(ctx, p, in.ID, in.Precondition(), in.Body.SkipCheck, publish,
		func(current catalog.AgentSpec) (catalog.AgentSpec, error) {
			return h.merged(p.Organization, current, in.RawBody)
		}))
}

func (h *handlers) deleteAgent(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	return nil, h.Tenants.RemoveAgent(ctx, p, in.ID)
}

type versionList struct {
	Versions   []agentView `json:"versions"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) listVersions(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Paging
}) (*answer[versionList], error) {
	if _, err := h.Tenants.Agent(ctx, p, in.ID); err != nil {
		return nil, err
	}
	rows, next, err := httpapi.Filter(ctx, in.Paging, func(
		ctx context.Context, after string, n int,
	) (record.Page[catalog.Agent], error) {
		return record.Versions[catalog.Agent](ctx, h.Store, in.ID, after, n)
	}, httpapi.Bounded(func(a catalog.Agent) (catalog.Agent, bool, error) { return a, true, nil }))
	return httpapi.Body(versionList{httpapi.Each(rows, viewAgent), next}), err
}

type modelView struct {
	Kind        string `json:"kind" enum:"chat,embedding" doc:"chat: for agents; embedding: for knowledge bases"`
	Provider    string `json:"provider"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Dimensions  *int   `json:"dimensions,omitempty" doc:"dimensions of an embedding model's vectors, if they are set"`
}

type modelList struct {
	Models      []modelView       `json:"models"`
	Unreachable map[string]string `json:"unreachable,omitempty" doc:"providers that did not list their models, with the reason"`
	NextCursor  *string           `json:"next_cursor"`
}

func (h *handlers) listModels(ctx context.Context, _ tenant.Principal, _ *struct{}) (*answer[modelList], error) {
	reached, err := h.Models.List(ctx)
	if err != nil {
		return nil, err
	}
	list := modelList{Models: []modelView{}, Unreachable: reached.Unreachable}
	for _, m := range reached.Models {
		list.Models = append(list.Models, modelView{
			Kind: "chat", Provider: m.Provider, Name: m.Name, Description: m.Description,
		})
	}
	for _, m := range h.Embeddings {
		list.Models = append(list.Models, modelView{
			Kind: "embedding", Provider: m.Provider, Name: m.Name, Dimensions: httpapi.Optional(m.Dimensions),
		})
	}
	return httpapi.Body(list), nil
}
