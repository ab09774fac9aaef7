package toolkit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Portable is a toolkit without its organization and its credentials. Key is the name by which the agent of the
// document refers to it.
type Portable struct {
	Key      string            `json:"key"`
	Kind     string            `json:"kind"`
	Name     string            `json:"name"`
	URL      string            `json:"url,omitempty"`
	BaseURL  string            `json:"base_url,omitempty"`
	Document string            `json:"document,omitempty" doc:"the OpenAPI document of a toolkit without a url"`
	Request  *tool.HTTPRequest `json:"request,omitempty"`
	Include  []string          `json:"include,omitempty"`
	Exclude  []string          `json:"exclude,omitempty"`
	Tools    []Tool            `json:"tools"`

	found []Tool // at an import: the tools that are known without asking a server
}

// Export returns an agent's toolkits in portable form, and the keys that replace their ids. The built-in toolkit has
// its name as key. Deleted toolkits and those that are a command of this machine are left out. It returns a problem of
// kind Forbidden for another organization's toolkit, and of kind Unavailable when one kept changing.
func (s *Toolkits) Export(
	ctx context.Context, scope record.Scope, ids []string,
) (list []Portable, keys []string, err error) {
	list, keys = []Portable{}, []string{}
	for _, id := range ids {
		if id == catalog.BuiltinToolkit(scope.Organization()) {
			keys = append(keys, Builtin)
			continue
		}
		t, tools, err := s.Offered(ctx, scope, id)
		if problem.Is(err, "not_found") {
			continue // it was removed
		}
		if err != nil {
			return nil, nil, err
		}
		if len(t.Command) > 0 {
			continue // a program of this machine cannot be exported
		}
		for i := range tools { // an import reads no approval as that of a new tool
			tools[i].Approval.Mode = cmp.Or(tools[i].Approval.Mode, "never")
		}
		p := Portable{Key: t.ID, Kind: t.Kind, Name: t.Name, URL: t.URL, BaseURL: t.BaseURL, Request: t.Request,
			Include: t.Selection.Include, Exclude: t.Selection.Exclude, Tools: tools}
		p.Document, err = s.document(ctx, t)
		if errors.Is(err, record.ErrConflict) {
			err = problem.Retry(err)
		}
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, t.ID)
		list = append(list, p)
	}
	return list, keys, nil
}

// document is the OpenAPI document that was given to a toolkit, empty for none.
func (s *Toolkits) document(ctx context.Context, t catalog.Toolkit) (string, error) {
	if t.Document == "" || t.Kind != "openapi" {
		return "", nil
	}
	raw, err := s.Store.Blob(ctx, t.Document)
	return string(raw), err
}

// maxImported is how many toolkits a document may have, as many as an agent may have.
const maxImported = 100

// Import returns the ids of the toolkits that the keys name. A key names the built-in toolkit, one of the organization
// with the same kind, name and endpoint, or a new one without credentials. Nothing is stored before all of list is
// checked; check then checks the agent's tools. If the document gives a tool fewer approvals than a new one has, loosen
// must allow it. It returns a problem of kind Invalid that names the field, also with the code url_forbidden, or an
// error of these two functions.
func (s *Toolkits) Import(
	ctx context.Context, scope record.Scope, keys []string, list []Portable, loosen Loosen,
	check func(of []tool.Offer) error,
) ([]string, error) {
	err := cmp.Or(
		problem.InvalidIf(len(list) > maxImported, "body.toolkits", "must be at most %d", maxImported),
		problem.InvalidIf(len(keys) > maxImported, "body.agent.toolkit_ids", "must be at most %d", maxImported),
	)
	if err != nil {
		return nil, err
	}
	named, loosened := map[string]Portable{}, map[string]error{}
	for i, p := range list { // nothing is created before all of it is checked
		later := func(what string) error { // the rules of a toolkit that is there are not taken
			loosened[p.Key] = cmp.Or(loosened[p.Key], loosen(what))
			return nil
		}
		if err := s.checkPortable(ctx, fmt.Sprintf("body.toolkits[%d]", i), &p, later); err != nil {
			return nil, err
		}
		named[p.Key] = p
	}
	if err := checkEnabled(list); err != nil {
		return nil, err
	}
	for i, key := range keys {
		if _, there := named[key]; !there && key != Builtin {
			return nil, problem.InvalidField(fmt.Sprintf("body.agent.toolkit_ids[%d]", i),
				"must be the key of a toolkit in the document, not %q", key)
		}
	}
	ids, kits := make([]string, len(keys)), make([]kit, len(keys))
	for i, key := range keys {
		if ids[i], kits[i], err = s.find(ctx, scope, key, named[key]); err != nil {
			return nil, err
		}
		if err := loosened[key]; ids[i] == "" && err != nil {
			return nil, err
		}
	}
	if err := check(Offers(namesIn(kits))); err != nil {
		return nil, err
	}
	for i, key := range keys {
		if ids[i] == "" { // unless it is that of a key before
			ids[i], _, err = s.find(ctx, scope, key, named[key])
		}
		if ids[i] == "" && err == nil {
			ids[i], err = s.make(ctx, scope, named[key], kits[i].tools)
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// checkEnabled returns a problem of kind Invalid for more enabled tools than an agent may have.
func checkEnabled(list []Portable) error {
	enabled := 0
	for _, p := range list {
		for _, one := range p.Tools {
			if one.Enabled {
				enabled++
			}
		}
	}
	return problem.InvalidIf(enabled > tool.MaxOffered, "body.toolkits",
		"have %d enabled tools together, but the limit is %d", enabled, tool.MaxOffered)
}

// checkPortable checks a toolkit as its creation would, and each of its tools with its rules. It finds the tools that
// follow from the document or the request, with the numbers in their names. The error is a problem of kind Invalid.
func (s *Toolkits) checkPortable(ctx context.Context, at string, p *Portable, loosen Loosen) (err error) {
	if _, ok := s.Kinds[p.Kind]; !ok || p.Kind == Builtin {
		return problem.InvalidField(at+".kind", "must be openapi, mcp or http")
	}
	err = cmp.Or(
		s.check(at, Draft{Name: &p.Name, URL: &p.URL, BaseURL: &p.BaseURL, Document: []byte(p.Document),
			Selection: p.selection()}),
		problem.InvalidIf(p.Document != "" && p.Kind != "openapi",
			at+".document", "is only valid for kind openapi"),
		problem.InvalidIf(p.Request != nil && p.Kind != "http", at+".request", "is only valid for kind http"),
		problem.InvalidIf(p.URL == "" && p.Kind != "openapi", at+".url", "is required"),
		problem.InvalidIf(p.Kind == "http" && !p.selection().IsAll(), at+".include",
			"is only valid for kinds openapi and mcp"),
	)
	if err != nil {
		return err
	}
	if len(p.Tools) > tool.MaxTools {
		return problem.InvalidField(at+".tools", "must be at most %d", tool.MaxTools)
	}
	names, tools := map[string]bool{}, make([]Tool, 0, len(p.Tools))
	for i, imported := range p.Tools {
		location := fmt.Sprintf("%s.tools[%d]", at, i)
		one, err := imported.checked(location, names, loosen)
		if err != nil {
			return err
		}
		tools = append(tools, one)
	}
	p.Tools = tools
	before := slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool {
		own := identityOf(t.Own, t.Binding).own
		return t.Name != tool.Name(own) && !isNumbered(t.Name, tool.Name(own))
	})
	if field := p.whole(); field != "" {
		if p.found, err = s.discover(ctx, p.Kind, p.endpoint(), before); err != nil {
			return problem.InvalidField(at+"."+field, "%s", err)
		}
	}
	return nil
}

// checked returns an imported tool with its rules applied, a problem of kind Invalid, or loosen's error. A document
// cannot declare a tool read-only: its server does.
func (t Tool) checked(location string, names map[string]bool, loosen Loosen) (Tool, error) {
	one, fault := examine(t.Definition, names)
	if fault != "" {
		return one, problem.InvalidField(location, "is not an exported tool: %s", fault)
	}
	one.Own = tool.Clip(t.Own, tool.EnoughText)
	one.Problem = cmp.Or(one.Problem, tool.Clip(t.Problem, 500))
	rules := Rules{Enabled: &t.Enabled, TimeoutMS: &t.TimeoutMS, RetrySafe: &t.RetrySafe, Loosen: loosen}
	if t.Approval != (tool.Approval{}) {
		rules.Approval = &t.Approval
	}
	return one, rules.apply(location, location+".approval", &one)
}

// whole names the field that defines the tools without a request to a server; empty when there is none.
func (p Portable) whole() string {
	switch {
	case p.Kind == "http":
		return "request"
	case p.Document != "":
		return "document"
	}
	return ""
}

func (p Portable) endpoint() tool.Endpoint {
	return tool.Endpoint{URL: p.URL, BaseURL: p.BaseURL, Request: p.Request, Document: []byte(p.Document),
		Selection: p.selection()}
}

func (p Portable) selection() tool.Selection {
	return tool.Selection{Include: p.Include, Exclude: p.Exclude}
}

// leads reports whether an imported tool calls the server that its toolkit names. The toolkit may get credentials
// later, when nobody checks each tool.
func (p Portable) leads(t Tool) bool {
	if p.Document != "" {
		return slices.ContainsFunc(p.found, func(one Tool) bool { return one.Name == t.Name && one.same(t) })
	}
	at := tool.Origin(cmp.Or(p.BaseURL, p.URL))
	return p.Kind == "mcp" || at != "" && t.Origin() == at // the binding of mcp holds only a name
}

func sameRequest(a, b *tool.HTTPRequest) bool {
	one, err := json.Marshal(a)
	other, failed := json.Marshal(b)
	return err == nil && failed == nil && sameJSON(one, other)
}

// find returns the toolkit of the organization that a key of a document stands for; the id is empty for a new toolkit.
func (s *Toolkits) find(ctx context.Context, scope record.Scope, key string, p Portable) (string, kit, error) {
	if key == Builtin {
		id := catalog.BuiltinToolkit(scope.Organization())
		t, tools, err := s.Offered(ctx, scope, id)
		return id, kit{&t, tools}, err
	}
	for e, err := range record.All[catalog.Toolkit](ctx, s.Store, scope, 100) {
		if err != nil {
			return "", kit{}, err
		}
		if t := e.Value; t.Kind == p.Kind && t.Name == p.Name && t.URL == p.URL && t.BaseURL == p.BaseURL &&
			sameRequest(t.Request, p.Request) && slices.Equal(t.Selection.Include, p.Include) &&
			slices.Equal(t.Selection.Exclude, p.Exclude) {
			document, err := s.document(ctx, t)
			if err == nil && (p.Document == "" || document == p.Document) {
				t, tools, err := s.Offered(ctx, scope, t.ID)
				return t.ID, kit{&t, tools}, err
			}
			if err != nil && !errors.Is(err, record.ErrConflict) { // it is being changed concurrently
				return "", kit{}, err
			}
		}
	}
	tools := slices.Clone(p.Tools)
	for i := range tools {
		if !p.leads(tools[i]) {
			tools[i].Enabled, tools[i].Problem = false,
				"it was imported with another address than its toolkit: refresh the toolkit"
		}
	}
	return "", kit{&catalog.Toolkit{Name: p.Name}, tools}, nil
}

// make makes an imported toolkit.
func (s *Toolkits) make(ctx context.Context, scope record.Scope, p Portable, tools []Tool) (string, error) {
	now := s.Host.Now()
	t := catalog.Toolkit{
		ID: s.Host.NewID(), Organization: scope.Organization(), Kind: p.Kind, Name: p.Name, URL: p.URL,
		BaseURL: p.BaseURL, Request: p.Request, Selection: p.selection(),
		CreatedAt: now, UpdatedAt: now,
	}
	tx := s.Store.Begin(t.ID)
	if err := s.apply(ctx, tx, &t, Draft{Document: []byte(p.Document)}); err != nil {
		return "", err
	}
	if err := s.keep(ctx, tx, &t, list{Tools: tools}); err != nil {
		return "", err
	}
	record.PutResource(tx, record.Fresh(t))
	return t.ID, tx.Commit(ctx)
}
