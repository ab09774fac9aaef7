package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) toolkitRoutes() {
	r := h.routes("toolkits", "toolkit")
	httpapi.SchemaOf[credentials](h.Server)
	httpapi.Route(r, "POST /toolkits", "create-toolkit",
		"Create a toolkit from the tools of an endpoint",
		h.createToolkit, httpapi.Created, httpapi.Needs("kind", "name"))
	httpapi.Route(r, "GET /toolkits", "list-toolkits", "List toolkits", h.listToolkits)
	httpapi.Route(r, "GET /toolkits/{id}", "read-toolkit", "Read a toolkit", h.readToolkit)
	httpapi.Route(r, "PATCH /toolkits/{id}", "edit-toolkit",
		"Change a toolkit; refresh it to read its tools again. If its server changes, "+
			"its credentials are deleted, unless the request has new ones",
		h.editToolkit)
	httpapi.Route(r, "DELETE /toolkits/{id}", "delete-toolkit", "Delete a toolkit", h.deleteToolkit)
	httpapi.Route(r, "POST /toolkits/{id}/refresh", "refresh-toolkit",
		"Read the endpoint's tools again; new tools are not enabled", h.refreshToolkit)
	httpapi.Route(r, "GET /toolkits/{id}/resources", "list-resources",
		"List the resources and prompts of an MCP server", h.listResources, httpapi.Conflicts)
	httpapi.Route(r, "GET /toolkits/{id}/tools", "list-tools", "List a toolkit's tools", h.listTools)
	httpapi.Route(r, "PATCH /toolkits/{id}/tools/{name}", "edit-tool", "Change the rules for a tool", h.editTool)
	httpapi.Route(r, "POST /toolkits/{id}/tools/{name}/try", "try-tool",
		"Call a tool immediately; a call that needs approval requires level admin", h.testTool)
}

type toolkitBody struct {
	Kind        string                     `json:"kind,omitempty" enum:"openapi,mcp,http" doc:"at creation"`
	Name        *string                    `json:"name,omitempty"`
	URL         *string                    `json:"url,omitempty" doc:"the URL of the OpenAPI document, the MCP server or the request"`
	BaseURL     *string                    `json:"base_url,omitempty" doc:"the base URL of an OpenAPI document's operations: required if the document does not state it, or if credentials are for another server than the document's"`
	Document    json.RawMessage            `json:"document,omitempty" shape:"string|object" doc:"an OpenAPI document, as JSON or YAML text, instead of a url"`
	Request     *tool.HTTPRequest          `json:"request,omitempty" doc:"for kind http"`
	Command     []string                   `json:"command,omitempty" doc:"the command of an MCP server on this machine, if the deployment allows it"`
	Credentials json.RawMessage            `json:"credentials,omitempty" shape:"Credentials|null" doc:"write-only: {type: bearer, token}, {type: header or query, name, value}, {type: basic, username, password}; null for none"`
	Enabled     httpapi.Nullable[[]string] `json:"enabled,omitzero" doc:"the names of all enabled tools; by default all tools at creation, or none if there are more than 128"`
	Include     httpapi.Nullable[[]string] `json:"include,omitzero" doc:"operations or MCP tools to include: ids, names, tag:TAG or path:PATH, with * for any characters; null: all. A change reads the server again, like a refresh, and needs a request of its own. The present value changes nothing"`
	Exclude     httpapi.Nullable[[]string] `json:"exclude,omitzero" doc:"operations or tools to exclude, in the same form"`
}

// draft is the body in the form of the use case; a null member is removed.
func (b toolkitBody) draft() (toolkit.Draft, error) {
	d := toolkit.Draft{
		Kind:    b.Kind,
		Name:    b.Name,
		URL:     b.URL,
		BaseURL: b.BaseURL,
		Request: b.Request,
		Command: b.Command,
	}
	for of, value := range map[*[]string]*[]string{
		&d.Selection.Include: b.Include.Value, &d.Selection.Exclude: b.Exclude.Value,
	} {
		if value != nil {
			*of = *value
		}
	}
	if b.Enabled.Present {
		d.Enabled = append([]string{}, *b.Enabled.Edit()...)
	}
	if len(b.Document) > 0 && string(b.Document) != "null" {
		d.Document = b.Document
		var text string
		if json.Unmarshal(b.Document, &text) == nil {
			d.Document = []byte(text)
		}
	}
	if c := b.Credentials; c != nil {
		d.Credentials = &tool.Credentials{} // null: none
		err := jsonv2.Unmarshal(c, d.Credentials, jsonv2.RejectUnknownMembers(true))
		if err != nil || d.Credentials.Type == "" && string(c) != "null" {
			return d, problem.InvalidField("body.credentials", "must be {type: bearer, token}, "+
				"{type: header or query, name, value}, {type: basic, username, password} or null")
		}
	}
	return d, nil
}

type toolkitView struct {
	ToolkitID       string            `json:"toolkit_id"`
	OrganizationID  *string           `json:"organization_id"`
	Kind            string            `json:"kind" enum:"builtin,openapi,mcp,http"`
	Name            string            `json:"name"`
	URL             *string           `json:"url"`
	BaseURL         *string           `json:"base_url"`
	Request         *tool.HTTPRequest `json:"request,omitempty" doc:"for kind http"`
	Command         []string          `json:"command,omitempty"`
	Include         []string          `json:"include,omitempty"`
	Exclude         []string          `json:"exclude,omitempty"`
	CredentialsType *string           `json:"credentials_type" doc:"null for none; the credentials themselves are never shown"`
	Origins         []string          `json:"credentials_origins" doc:"the servers that receive the credentials; no other server does"`
	ToolCount       int               `json:"tool_count"`
	EnabledCount    *int              `json:"enabled_count,omitempty" doc:"the number of enabled tools"`
	Tools           []toolPolicy      `json:"tools,omitempty" doc:"only at creation: its tools, whether enabled and whether they need approval"`
	Note            string            `json:"note,omitempty" doc:"the next step, if agents cannot use its tools yet"`
	CreatedAt       *string           `json:"created_at"`
	UpdatedAt       *string           `json:"updated_at"`
	RefreshedAt     *string           `json:"refreshed_at"`
}

// toolPolicy is the policy of a tool alone, as a creation shows it.
type toolPolicy struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled"`
	Approval string `json:"approval" enum:"never,always,when"`
}

// viewToolkit is the view of a toolkit for a principal. The built-in one is as old as the organization.
func viewToolkit(p tenant.Principal, t catalog.Toolkit) toolkitView {
	if t.Kind == toolkit.Builtin {
		created := p.Account().Organization.CreatedAt
		t.CreatedAt, t.UpdatedAt = created, created
	}
	return toolkitView{
		ToolkitID:       t.ID,
		OrganizationID:  httpapi.OptionalOwner(t.Organization),
		Kind:            t.Kind,
		Name:            t.Name,
		URL:             httpapi.Optional(t.URL),
		BaseURL:         httpapi.Optional(t.BaseURL),
		Request:         t.Request,
		Command:         t.Command,
		CredentialsType: httpapi.Optional(t.CredentialsType),
		Origins:         append([]string{}, t.Origins...),
		Include:         t.Selection.Include,
		Exclude:         t.Selection.Exclude,
		ToolCount:       t.ToolCount,
		EnabledCount:    t.EnabledCount,
		Note:            note(t),
		// Without a time are what was never refreshed, and the built-in one of no organization.
		CreatedAt:   httpapi.OptionalTime(t.CreatedAt),
		UpdatedAt:   httpapi.OptionalTime(t.UpdatedAt),
		RefreshedAt: httpapi.OptionalTime(t.RefreshedAt),
	}
}

// note warns that a toolkit has too many tools for a model, and that none of them is enabled.
func note(t catalog.Toolkit) string {
	if t.EnabledCount == nil || *t.EnabledCount > 0 || t.ToolCount <= tool.MaxOffered {
		return ""
	}
	return fmt.Sprintf("The toolkit has %d tools, and a model takes %d. None is enabled: enable some, or choose a "+
		"part with include.", t.ToolCount, tool.MaxOffered)
}

// toolkitAnswer returns a function that answers a principal with a toolkit.
func toolkitAnswer(p tenant.Principal) func(record.Entity[catalog.Toolkit], error) (*answer[toolkitView], error) {
	return httpapi.Shows(func(t catalog.Toolkit) toolkitView { return viewToolkit(p, t) })
}

func (h *handlers) createToolkit(ctx context.Context, p tenant.Principal, in *struct {
	Body toolkitBody
}) (*answer[toolkitView], error) {
	d, err := in.Body.draft()
	if err != nil {
		return nil, err
	}
	made, err := h.Toolkits.Create(ctx, p.Organization, d)
	if err != nil {
		return nil, err
	}
	v := viewToolkit(p, made.Value)
	v.Tools = httpapi.Each(made.Tools, func(t toolkit.Tool) toolPolicy {
		one := viewTool(t)
		return toolPolicy{one.Name, one.Enabled, one.Approval}
	})
	return httpapi.Versioned(made.Version(), v), nil
}

type toolkitList struct {
	Toolkits   []toolkitView `json:"toolkits"`
	NextCursor *string       `json:"next_cursor"`
}

func (h *handlers) listToolkits(
	ctx context.Context, p tenant.Principal, in *httpapi.Paging,
) (*answer[toolkitList], error) {
	toolkits, next, err := httpapi.Filter(ctx, *in, func(
		ctx context.Context, after string, limit int,
	) (page record.Page[record.Entity[catalog.Toolkit]], err error) {
		page, err = record.Resources[catalog.Toolkit](ctx, h.Store, p.Scope(), after, limit)
		if err != nil || after != "" {
			return page, err
		}
		builtin, err := h.Toolkits.Toolkit(ctx, p.Scope(), catalog.BuiltinToolkit(p.Organization))
		page.Rows, page.Positions = slices.Insert(page.Rows, 0, builtin), slices.Insert(page.Positions, 0, beforeAll)
		return page, err
	}, func(e record.Entity[catalog.Toolkit]) (toolkitView, bool, error) {
		return viewToolkit(p, e.Value), true, nil
	})
	return httpapi.Body(toolkitList{toolkits, next}), err
}

// beforeAll is the cursor place of the built-in toolkit, which is listed before all that are stored. Places consist of
// letters, digits and characters that sort before those.
const beforeAll = "~"

func (h *handlers) readToolkit(
	ctx context.Context, p tenant.Principal, in *httpapi.IDPath,
) (*answer[toolkitView], error) {
	return toolkitAnswer(p)(h.Toolkits.Toolkit(ctx, p.Scope(), in.ID))
}

func (h *handlers) editToolkit(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	Body toolkitBody
}) (*answer[toolkitView], error) {
	t, err := h.Toolkits.Toolkit(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	in.Body.asRead(t.Value)
	if in.Body.Kind != "" {
		return nil, problem.InvalidField("body.kind", "is only valid when a toolkit is created")
	}
	if in.Body.Include.Present || in.Body.Exclude.Present {
		return h.selectTools(ctx, p, in.ID, in.Precondition(), in.Body)
	}
	in.Body.Enabled.Present = in.Body.Enabled.Value != nil // null leaves it as it is
	d, err := in.Body.draft()
	if err != nil {
		return nil, err
	}
	return toolkitAnswer(p)(h.Toolkits.Edit(ctx, p.Scope(), in.ID, in.Precondition(), d))
}

// asRead removes members from an edit that the toolkit already has and that cannot change, or not together with other
// members. A client may thus send the toolkit back as it was read.
func (b *toolkitBody) asRead(t catalog.Toolkit) {
	if b.Kind == t.Kind {
		b.Kind = ""
	}
	for sent, has := range map[*httpapi.Nullable[[]string]][]string{
		&b.Include: t.Selection.Include, &b.Exclude: t.Selection.Exclude,
	} {
		if sent.Value != nil && len(has) > 0 && slices.Equal(*sent.Value, has) {
			*sent = httpapi.Nullable[[]string]{}
		}
	}
}

// selectTools changes the tools that a toolkit includes and excludes. The rest of the body is for requests that contact
// no server.
func (h *handlers) selectTools(
	ctx context.Context, p tenant.Principal, id string, match record.Match, b toolkitBody,
) (*answer[toolkitView], error) {
	include, exclude := b.Include, b.Exclude
	b.Include, b.Exclude = httpapi.Nullable[[]string]{}, httpapi.Nullable[[]string]{}
	if !reflect.ValueOf(b).IsZero() {
		return nil, problem.InvalidField("body",
			"cannot change together with other fields: send include and exclude in a request of their own")
	}
	c := toolkit.Choice{Include: include.Edit(), Exclude: exclude.Edit()}
	if _, err := h.Asker.Select(ctx, p.Scope(), id, match, c); err != nil {
		return nil, err
	}
	return toolkitAnswer(p)(h.Toolkits.Toolkit(ctx, p.Scope(), id))
}

func (h *handlers) deleteToolkit(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	return nil, h.Toolkits.Remove(ctx, p.Scope(), in.ID)
}

type changedToolView struct {
	Name   string                     `json:"name"`
	Change string                     `json:"change" enum:"added,removed,changed"`
	Before httpapi.Nullable[ToolView] `json:"before"`
	After  httpapi.Nullable[ToolView] `json:"after"`
}

type differenceView struct {
	Added   []string          `json:"added"`
	Removed []string          `json:"removed"`
	Changed []string          `json:"changed" doc:"tools with a changed description, parameters or call; they are no longer enabled"`
	Tools   []changedToolView `json:"tools,omitempty" doc:"with dry_run: each of these tools, before and after"`
}

func viewDifference(d toolkit.Difference) differenceView {
	return differenceView{
		Added:   append([]string{}, d.Added...),
		Removed: append([]string{}, d.Removed...),
		Changed: append([]string{}, d.Changed...),
	}
}

func viewChanges(list []toolkit.Changed) []changedToolView {
	return httpapi.Each(list, func(c toolkit.Changed) changedToolView {
		one := changedToolView{Change: "changed"}
		switch {
		case c.Before == nil:
			one.Change = "added"
		case c.After == nil:
			one.Change = "removed"
		}
		if c.Before != nil {
			was := viewTool(*c.Before)
			one.Name, one.Before.Value = was.Name, &was
		}
		if c.After != nil {
			is := viewTool(*c.After)
			one.Name, one.After.Value = is.Name, &is
		}
		return one
	})
}

func (h *handlers) refreshToolkit(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body *struct {
		DryRun bool `json:"dry_run,omitempty" doc:"return the changes without making them"`
	}
}) (*answer[differenceView], error) {
	dry, refresh := in.Body != nil && in.Body.DryRun, h.Asker.Refresh
	if dry {
		refresh = h.Asker.Preview
	}
	d, err := refresh(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	v := viewDifference(d)
	if dry {
		v.Tools = viewChanges(d.Tools)
	}
	return httpapi.Body(v), nil
}

func (h *handlers) listResources(
	ctx context.Context, p tenant.Principal, in *httpapi.IDPath,
) (*answer[tool.Offerings], error) {
	found, err := h.Asker.Browse(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	found.Resources = append([]tool.Resource{}, found.Resources...)
	found.Prompts = append([]tool.Prompt{}, found.Prompts...)
	return httpapi.Body(found), nil
}

type approvalWhen struct {
	Argument string `json:"argument"`
	Pattern  string `json:"pattern,omitempty" doc:"a regular expression (RE2); empty: any value of the argument"`
}

// ToolView is a tool as clients see it. It is exported because it is embedded: the framework reads only exported
// fields.
type ToolView struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Parameters   json.RawMessage `json:"parameters" shape:"object" doc:"a JSON schema"`
	Enabled      bool            `json:"enabled"`
	Approval     string          `json:"approval" enum:"never,always,when"`
	ApprovalWhen *approvalWhen   `json:"approval_when,omitempty"`
	TimeoutMS    *int            `json:"timeout_ms" doc:"null: a minute"`
	RetrySafe    bool            `json:"retry_safe" doc:"true: after a crash a call may be repeated without a human decision"`
	Problem      string          `json:"problem,omitempty" doc:"the reason that it cannot be enabled"`
}

func viewTool(t toolkit.Tool) ToolView {
	v := ToolView{
		Name:        t.Name,
		TimeoutMS:   httpapi.Optional(t.TimeoutMS),
		Description: t.Description,
		Parameters:  t.Parameters,
		Enabled:     t.Enabled,
		Approval:    t.Approval.Mode,
		RetrySafe:   t.RetrySafe,
		Problem:     t.Problem,
	}
	if v.Approval == "" {
		v.Approval = "never"
	}
	if v.Approval == "when" {
		v.ApprovalWhen = &approvalWhen{t.Approval.Argument, t.Approval.Pattern}
	}
	return v
}

type toolList struct {
	Tools      []ToolView `json:"tools"`
	NextCursor *string    `json:"next_cursor"`
}

func (h *handlers) listTools(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[toolList], error) {
	_, tools, err := h.Toolkits.Offered(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	return httpapi.Body(toolList{Tools: httpapi.Each(tools, viewTool)}), nil
}

// ToolPath names a tool of a toolkit.
type ToolPath struct {
	httpapi.IDPath
	Name string `path:"name" maxLength:"64"`
}

func (h *handlers) editTool(ctx context.Context, p tenant.Principal, in *struct {
	ToolPath
	Body struct {
		Enabled      *bool                 `json:"enabled,omitempty"`
		Approval     *string               `json:"approval,omitempty" enum:"never,always,when" doc:"level admin is needed to require approval for fewer calls"`
		ApprovalWhen *approvalWhen         `json:"approval_when,omitempty" doc:"with approval: when"`
		TimeoutMS    httpapi.Nullable[int] `json:"timeout_ms,omitzero" minimum:"1" maximum:"600000"`
		RetrySafe    *bool                 `json:"retry_safe,omitempty"`
	}
}) (*answer[ToolView], error) {
	rules := toolkit.Rules{
		Enabled: in.Body.Enabled, TimeoutMS: in.Body.TimeoutMS.Edit(), RetrySafe: in.Body.RetrySafe,
		Loosen: p.MayLoosen,
	}
	if in.Body.Approval != nil {
		rules.Approval = &tool.Approval{Mode: *in.Body.Approval}
		if w := in.Body.ApprovalWhen; w != nil && rules.Approval.Mode == "when" {
			rules.Approval.Argument, rules.Approval.Pattern = w.Argument, w.Pattern
		}
	} else if in.Body.ApprovalWhen != nil {
		return nil, problem.InvalidField("body.approval_when", "is only valid with approval: when")
	}
	t, err := h.Toolkits.SetRules(ctx, p.Scope(), in.ID, in.Name, rules)
	return httpapi.Body(viewTool(t)), err
}

type triedView struct {
	Result     *string `json:"result"`
	Error      *string `json:"error" doc:"the error that a model would receive"`
	DurationMS int64   `json:"duration_ms"`
}

func (h *handlers) testTool(ctx context.Context, p tenant.Principal, in *struct {
	ToolPath
	Body struct {
		Arguments json.RawMessage `json:"arguments" shape:"object"`
	}
}) (*answer[triedView], error) {
	a, err := h.Asker.TestCall(
		ctx, p.Scope(), in.ID, in.Name, in.Body.Arguments, func() error { return p.Authorize(tenant.LevelAdmin) },
	)
	if err != nil {
		return nil, err
	}
	v := triedView{Error: httpapi.Optional(a.Error), DurationMS: a.Elapsed.Milliseconds()}
	if a.Error == "" {
		v.Result = &a.Result
	}
	return httpapi.Body(v), nil
}
