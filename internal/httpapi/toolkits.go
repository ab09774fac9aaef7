package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"agentplatform/events"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/tool"
	"agentplatform/internal/toolkit"
)

func (s *Server) toolkitRoutes() {
	read, manage := tenant.LevelRead, tenant.LevelManage
	register(s, operation{method: "POST", path: "/toolkits", level: manage, status: http.StatusCreated, id: "create-toolkit", summary: "Create a toolkit from what its endpoint offers", tag: "toolkits"}, s.createToolkit)
	register(s, operation{method: "GET", path: "/toolkits", level: read, id: "list-toolkits", summary: "List toolkits", tag: "toolkits"}, s.listToolkits)
	register(s, operation{method: "GET", path: "/toolkits/{id}", level: read, id: "read-toolkit", summary: "Read a toolkit", tag: "toolkits"}, s.readToolkit)
	register(s, operation{method: "PATCH", path: "/toolkits/{id}", level: manage, id: "edit-toolkit", summary: "Change a toolkit; refresh it to see what it then offers. When it moves to another server it loses its credentials, unless new ones come along", tag: "toolkits"}, s.editToolkit)
	register(s, operation{method: "DELETE", path: "/toolkits/{id}", level: manage, status: http.StatusNoContent, id: "delete-toolkit", summary: "Delete a toolkit", tag: "toolkits"}, s.deleteToolkit)
	register(s, operation{method: "POST", path: "/toolkits/{id}/refresh", level: manage, id: "refresh-toolkit", summary: "Look again at what the endpoint offers; what is new is not enabled", tag: "toolkits"}, s.refreshToolkit)
	register(s, operation{method: "GET", path: "/toolkits/{id}/resources", level: read, id: "list-resources", summary: "What an MCP server offers beside tools: resources and prompts", tag: "toolkits"}, s.listResources)
	register(s, operation{method: "GET", path: "/toolkits/{id}/tools", level: read, id: "list-tools", summary: "List a toolkit's tools", tag: "toolkits"}, s.listTools)
	register(s, operation{method: "PATCH", path: "/toolkits/{id}/tools/{name}", level: manage, id: "edit-tool", summary: "Change the rules for a tool", tag: "toolkits"}, s.editTool)
	register(s, operation{method: "POST", path: "/toolkits/{id}/tools/{name}/try", level: manage, id: "try-tool", summary: "Call a tool at once; a call that would wait for approval needs the level admin", tag: "toolkits"}, s.tryTool)
}

type toolkitBody struct {
	Kind        string          `json:"kind,omitempty" enum:"openapi,mcp,http" doc:"at creation"`
	Name        *string         `json:"name,omitempty"`
	URL         *string         `json:"url,omitempty" doc:"of the OpenAPI document, of the MCP server, or of the request"`
	BaseURL     *string         `json:"base_url,omitempty" doc:"of an OpenAPI document's operations, where it is not the document's own, or is another server's than the document and credentials are for it"`
	Document    json.RawMessage `json:"document,omitempty" doc:"an OpenAPI document, as JSON or as a text of YAML, instead of a url"`
	Request     json.RawMessage `json:"request,omitempty" doc:"of the kind http: {name, description, method, headers, query, body, parameters}"`
	Command     []string        `json:"command,omitempty" doc:"of an MCP server that is a program of this machine, where the deployment allows it"`
	Credentials json.RawMessage `json:"credentials,omitempty" doc:"write-only: {type: bearer, token}, {type: header or query, name, value}, {type: basic, username, password}; null for none"`
	Enabled     []string        `json:"enabled,omitempty" doc:"at creation: the tools to enable; all that are found by default"`
}

// draft is the body as the use case takes it; what is null is taken away.
func (b toolkitBody) draft(raw []byte) (toolkit.Draft, error) {
	var there map[string]json.RawMessage
	if err := decode("body", raw, &there); err != nil {
		return toolkit.Draft{}, err
	}
	d := toolkit.Draft{Kind: b.Kind, Name: b.Name, URL: b.URL, BaseURL: b.BaseURL, Request: b.Request, Command: b.Command, Enabled: b.Enabled}
	if _, named := there["enabled"]; named && d.Enabled == nil {
		d.Enabled = []string{}
	}
	if len(b.Document) > 0 && string(b.Document) != "null" {
		d.Document = b.Document
		var text string
		if json.Unmarshal(b.Document, &text) == nil {
			d.Document = []byte(text)
		}
	}
	if c := there["credentials"]; c != nil {
		d.Credentials = &tool.Credentials{} // null: none
		if err := jsonv2.Unmarshal(c, d.Credentials, jsonv2.RejectUnknownMembers(true)); err != nil || (d.Credentials.Type == "" && string(c) != "null") {
			return d, problem.InvalidField("body.credentials", "must be {type: bearer, token}, {type: header or query, name, value}, {type: basic, username, password} or null")
		}
	}
	return d, nil
}

type toolkitView struct {
	ToolkitID       string          `json:"toolkit_id"`
	OrganizationID  *string         `json:"organization_id"`
	Kind            string          `json:"kind" enum:"builtin,openapi,mcp,http"`
	Name            string          `json:"name"`
	URL             *string         `json:"url"`
	BaseURL         *string         `json:"base_url"`
	Request         json.RawMessage `json:"request,omitempty"`
	Command         []string        `json:"command,omitempty"`
	CredentialsType *string         `json:"credentials_type" doc:"null for none; the credentials themselves are never shown"`
	Origins         []string        `json:"credentials_origins" doc:"the servers that the credentials are for; they are sent to no other"`
	ToolCount       int             `json:"tool_count"`
	CreatedAt       *string         `json:"created_at"`
	UpdatedAt       *string         `json:"updated_at"`
	RefreshedAt     *string         `json:"refreshed_at"`
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func viewToolkit(t record.Toolkit) toolkitView {
	v := toolkitView{
		ToolkitID: t.ID, OrganizationID: optionalOwner(t.Organization), Kind: t.Kind, Name: t.Name, URL: optional(t.URL), BaseURL: optional(t.BaseURL),
		Request: t.Request, Command: t.Command, CredentialsType: optional(t.Lets), Origins: append([]string{}, t.Origins...),
		ToolCount: t.ToolCount,
	}
	for to, at := range map[**string]time.Time{&v.CreatedAt: t.CreatedAt, &v.UpdatedAt: t.UpdatedAt, &v.RefreshedAt: t.RefreshedAt} {
		if !at.IsZero() { // as of what was never refreshed, and of the built-in one of no organization
			*to = optional(events.Time(at))
		}
	}
	return v
}

func toolkitAnswer(e record.Entity[record.Toolkit]) *answer[toolkitView] {
	return &answer[toolkitView]{ETag: etag(e.Version()), Body: viewToolkit(e.Value)}
}

func (s *Server) createToolkit(ctx context.Context, p tenant.Principal, in *struct {
	Body    toolkitBody
	RawBody []byte
}) (*answer[toolkitView], error) {
	d, err := in.Body.draft(in.RawBody)
	if err != nil {
		return nil, err
	}
	e, err := s.Toolkits.Create(ctx, p.Organization.ID, d)
	if err != nil {
		return nil, err
	}
	return toolkitAnswer(e), nil
}

type toolkitList struct {
	Toolkits   []toolkitView `json:"toolkits"`
	NextCursor *string       `json:"next_cursor"`
}

func (s *Server) listToolkits(ctx context.Context, p tenant.Principal, in *Paging) (*answer[toolkitList], error) {
	list, most := toolkitList{Toolkits: []toolkitView{}}, in.Limit
	if in.Cursor == "" {
		builtin, err := s.Toolkits.Toolkit(ctx, p.Scope(), record.BuiltinToolkit(p.Organization.ID))
		if err != nil {
			return nil, err
		}
		list.Toolkits = append(list.Toolkits, viewToolkitOf(p, builtin.Value))
		in.Limit = max(1, in.Limit-1)
	}
	page, err := resources[record.Toolkit](ctx, s, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	if len(list.Toolkits) == most { // there is no room for more; are there more?
		if page.Next != "" || len(page.Rows) > 0 {
			page.Next = beforeAll
		}
		page.Rows = nil
	}
	list.NextCursor = encodeCursor(page.Next)
	for _, e := range page.Rows {
		list.Toolkits = append(list.Toolkits, viewToolkit(e.Value))
	}
	return &answer[toolkitList]{Body: list}, nil
}

// beforeAll is the place of the built-in toolkit, which is listed before all that are stored: places are made of
// letters, digits and what stands before those.
const beforeAll = "~"

// viewToolkitOf views a toolkit that may be the built-in one, which is as old as the organization.
func viewToolkitOf(p tenant.Principal, t record.Toolkit) toolkitView {
	if t.Kind == toolkit.Builtin {
		t.CreatedAt, t.UpdatedAt = p.Organization.CreatedAt, p.Organization.CreatedAt
	}
	return viewToolkit(t)
}

func (s *Server) readToolkit(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[toolkitView], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	e, err := s.Toolkits.Toolkit(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	return &answer[toolkitView]{ETag: etag(e.Version()), Body: viewToolkitOf(p, e.Value)}, nil
}

func (s *Server) editToolkit(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Match
	Body    toolkitBody
	RawBody []byte
}) (*answer[toolkitView], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	if in.Body.Kind != "" || in.Body.Enabled != nil {
		return nil, problem.InvalidField("body", "kind and enabled are for the creation of a toolkit")
	}
	d, err := in.Body.draft(in.RawBody)
	if err != nil {
		return nil, err
	}
	e, err := s.Toolkits.Edit(ctx, p.Scope(), in.ID, in.precondition(), d)
	if err != nil {
		return nil, err
	}
	return toolkitAnswer(e), nil
}

func (s *Server) deleteToolkit(ctx context.Context, p tenant.Principal, in *IDPath) (*struct{}, error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	return nil, s.Toolkits.Remove(ctx, p.Scope(), in.ID)
}

type differenceView struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed" doc:"those that say, take or call something else than before; they are not enabled any more"`
}

func (s *Server) refreshToolkit(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[differenceView], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	d, err := s.Toolkits.Refresh(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	v := differenceView{append([]string{}, d.Added...), append([]string{}, d.Removed...), append([]string{}, d.Changed...)}
	return &answer[differenceView]{Body: v}, nil
}

func (s *Server) listResources(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[tool.Offerings], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	found, err := s.Toolkits.Browse(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	found.Resources, found.Prompts = append([]tool.Resource{}, found.Resources...), append([]tool.Prompt{}, found.Prompts...)
	return &answer[tool.Offerings]{Body: found}, nil
}

type approvalWhen struct {
	Argument string `json:"argument"`
	Pattern  string `json:"pattern,omitempty" doc:"a regular expression (RE2); empty: whenever the argument is there"`
}

type toolView struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Parameters   json.RawMessage `json:"parameters" doc:"a JSON schema"`
	Enabled      bool            `json:"enabled"`
	Approval     string          `json:"approval" enum:"never,always,when"`
	ApprovalWhen *approvalWhen   `json:"approval_when,omitempty"`
	TimeoutMS    *int            `json:"timeout_ms" doc:"null: a minute"`
	RetrySafe    bool            `json:"retry_safe" doc:"whether a call may be made again after a crash without asking a human"`
	Problem      string          `json:"problem,omitempty" doc:"why it cannot be enabled"`
}

func viewTool(t toolkit.Tool) toolView {
	v := toolView{
		Name: t.Name, Description: t.Description, Parameters: t.Parameters, Enabled: t.Enabled, Approval: t.Approval.Mode, RetrySafe: t.RetrySafe,
		Problem: t.Problem,
	}
	if v.Approval == "" {
		v.Approval = "never"
	}
	if v.Approval == "when" {
		v.ApprovalWhen = &approvalWhen{t.Approval.Argument, t.Approval.Pattern}
	}
	if t.TimeoutMS > 0 {
		v.TimeoutMS = &t.TimeoutMS
	}
	return v
}

type toolList struct {
	Tools      []toolView `json:"tools"`
	NextCursor *string    `json:"next_cursor"`
}

func (s *Server) listTools(ctx context.Context, p tenant.Principal, in *IDPath) (*answer[toolList], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	_, tools, err := s.Toolkits.Offered(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	list := toolList{Tools: []toolView{}}
	for _, t := range tools {
		list.Tools = append(list.Tools, viewTool(t))
	}
	return &answer[toolList]{Body: list}, nil
}

// ToolPath names a tool of a toolkit.
type ToolPath struct {
	IDPath
	Name string `path:"name" maxLength:"64"`
}

func (s *Server) editTool(ctx context.Context, p tenant.Principal, in *struct {
	ToolPath
	Body struct {
		Enabled      *bool         `json:"enabled,omitempty"`
		Approval     *string       `json:"approval,omitempty" enum:"never,always,when"`
		ApprovalWhen *approvalWhen `json:"approval_when,omitempty" doc:"with approval: when"`
		TimeoutMS    *int          `json:"timeout_ms,omitempty" nullable:"true" minimum:"1" maximum:"600000"`
		RetrySafe    *bool         `json:"retry_safe,omitempty"`
	}
	RawBody []byte
}) (*answer[toolView], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	rules := toolkit.Rules{Enabled: in.Body.Enabled, TimeoutMS: in.Body.TimeoutMS, RetrySafe: in.Body.RetrySafe}
	if in.Body.Approval != nil {
		rules.Approval = &tool.Approval{Mode: *in.Body.Approval}
		if w := in.Body.ApprovalWhen; w != nil && rules.Approval.Mode == "when" {
			rules.Approval.Argument, rules.Approval.Pattern = w.Argument, w.Pattern
		}
	} else if in.Body.ApprovalWhen != nil {
		return nil, problem.InvalidField("body.approval_when", "goes with approval: when")
	}
	var there map[string]json.RawMessage
	if decode("body", in.RawBody, &there) == nil && string(there["timeout_ms"]) == "null" {
		rules.TimeoutMS = new(int)
	}
	t, err := s.Toolkits.SetRules(ctx, p.Scope(), in.ID, in.Name, rules)
	if err != nil {
		return nil, err
	}
	return &answer[toolView]{Body: viewTool(t)}, nil
}

type triedView struct {
	Result     *string `json:"result"`
	Error      *string `json:"error" doc:"what the model would be told"`
	DurationMS int64   `json:"duration_ms"`
}

func (s *Server) tryTool(ctx context.Context, p tenant.Principal, in *struct {
	ToolPath
	Body struct {
		Arguments json.RawMessage `json:"arguments" doc:"a JSON object"`
	}
}) (*answer[triedView], error) {
	if err := in.check("toolkit"); err != nil {
		return nil, err
	}
	a, err := s.Toolkits.Try(ctx, p.Scope(), in.ID, in.Name, in.Body.Arguments, func() error { return p.May(tenant.LevelAdmin) })
	if err != nil {
		return nil, err
	}
	v := triedView{Error: optional(a.Error), DurationMS: a.Elapsed.Milliseconds()}
	if a.Error == "" {
		v.Result = &a.Result
	}
	return &answer[triedView]{Body: v}, nil
}
