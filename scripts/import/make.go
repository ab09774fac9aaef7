package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agentplatform/scripts/import/plan"
)

// maker makes the things of a plan in the order of their references: toolkits, knowledge bases with their documents,
// agents. It finds the things of an earlier run by the plan's marks. So nothing is made twice, also after a run that
// was cut off. If something is refused, it is reported, and the rest goes on without it.
type maker struct {
	client *client
	plan   *plan.Plan
	files  fs.FS
	out    io.Writer
	tokens map[string]string // for toolkits, by the host of their URL

	models    map[string]bool // those that the deployment reaches, as provider/name
	providers map[string]bool
	rows      []toolkitRow      // the toolkits that were there
	toolkits  map[string]string // ids, by marks
	bases     map[string]string
	titles    map[string]string // of the documents of this run, by ids
	waiting   []waiting
	failures  []plan.Finding
	notes     []plan.Finding
	made      int
	there     int
}

// waiting is a document that may not be ready yet.
type waiting struct{ base, id, title, source string }

var errPartly = errors.New("some parts could not be created: run again to continue")

// make returns an error when something could not be made.
func (m *maker) make(ctx context.Context) error {
	m.toolkits, m.bases, m.titles = map[string]string{}, map[string]string{}, map[string]string{}
	m.printf("")
	err := m.all(ctx)
	var b strings.Builder
	fmt.Fprintf(&b, "\ncreated %d, already present %d\n", m.made, m.there)
	if len(m.notes) > 0 {
		b.WriteString("\n")
		plan.WriteFindings(&b, "parts that did not fit this deployment", m.notes)
	}
	if len(m.failures) > 0 {
		b.WriteString("\n")
		plan.WriteFindings(&b, "what failed", m.failures)
	}
	m.printf("%s", strings.TrimSuffix(b.String(), "\n"))
	if err == nil && len(m.failures) > 0 {
		err = errPartly
	}
	return err
}

func (m *maker) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		m.findModels, m.makeToolkits, m.makeBases, m.makeAgents, m.await,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(m.out, format+"\n", args...)
}

func (m *maker) report(made bool, what, name string) {
	verb := "there already:"
	if made {
		verb = "made"
		m.made++
	} else {
		m.there++
	}
	m.printf("%s %s %s", verb, what, plan.Clean(name))
}

// note reports something that did not fit this deployment.
func (m *maker) note(kind, source, what, do string) {
	m.notes = append(m.notes, plan.Finding{Kind: kind, Source: source, What: what, Do: do})
}

// failed reports something that could not be made.
func (m *maker) failed(source, what, do string) {
	m.failures = append(m.failures, plan.Finding{Kind: "failed", Source: source, What: what, Do: do})
}

// fail reports something that could not be made. A refusal concerns only that thing. Any other error is returned, and
// ends the import.
func (m *maker) fail(source, do string, err error) error {
	r, refused := errors.AsType[*refusal](err)
	if !refused || r.passing() || r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		return fmt.Errorf("%s: %w; run again to continue", plan.Clean(source), err)
	}
	m.failed(source, err.Error(), do)
	return nil
}

// toolkitRow is a toolkit as the API returns it.
type toolkitRow struct {
	ID   string `json:"toolkit_id"`
	Name string `json:"name"`
}

func (r *toolkitRow) marked(mark string) bool { return strings.HasSuffix(r.Name, "["+mark+"]") }

func (m *maker) makeToolkits(ctx context.Context) (err error) {
	if m.rows, err = list[toolkitRow](ctx, m.client, "/toolkits", "toolkits"); err != nil {
		return err
	}
	for _, t := range m.plan.Toolkits {
		at := slices.IndexFunc(m.rows, func(r toolkitRow) bool { return r.marked(t.Mark) })
		var made toolkitRow
		if at >= 0 {
			made = m.rows[at]
		} else if made, err = m.makeToolkit(ctx, t); err != nil {
			if err := m.fail("toolkit "+t.Name, toolkitHelp, err); err != nil {
				return err
			}
		}
		if made.ID != "" {
			m.toolkits[t.Mark] = made.ID
			m.report(at < 0, "toolkit", t.Name)
		}
	}
	return nil
}

// maxLacking bounds how many missing tools of a server are tried. Each takes a request.
const maxLacking = 16

// makeToolkit makes a toolkit with those of its tools that its server has. If the result has no id, there is no
// toolkit, which is reported.
func (m *maker) makeToolkit(ctx context.Context, t plan.Toolkit) (made toolkitRow, err error) {
	body := struct {
		plan.Toolkit

		Credentials map[string]string `json:"credentials,omitzero"`
	}{Toolkit: t}
	body.Enabled = slices.Clone(t.Enabled)
	if u, err := url.Parse(t.URL); err == nil && m.tokens[u.Host] != "" {
		body.Credentials = map[string]string{"type": "bearer", "token": m.tokens[u.Host]}
	}
	source := "toolkit " + t.Name
	for range maxLacking {
		err = m.client.call(ctx, http.MethodPost, "/toolkits", body, &made)
		at := 0
		if n, _ := fmt.Sscanf(wrongField(err), "body.enabled[%d]", &at); n < 1 || at < 0 || at >= len(body.Enabled) {
			return made, err
		}
		m.note(plan.LeftOut, source, "the server has no tool "+body.Enabled[at],
			"see GET /toolkits/{id}/tools for its present name, and enable that")
		body.Enabled = slices.Delete(body.Enabled, at, at+1)
		if len(body.Enabled) == 0 {
			break
		}
	}
	what := fmt.Sprintf("the server lacks %d or more of its tools: no toolkit was created", maxLacking)
	if len(body.Enabled) == 0 {
		what = "none of its tools is left: no toolkit was created"
	}
	m.failed(source, what,
		"create a toolkit of this name yourself, with the server's present tools, and run again")
	return made, nil
}

const toolkitHelp = "if the server needs a bearer token, run again with -bearer; for other credentials create " +
	"the toolkit yourself, under this name, and run again; a private address must be in the deployment's " +
	"TOOL_ALLOW_HOSTS"

func (m *maker) makeBases(ctx context.Context) error {
	type row struct {
		ID          string `json:"knowledge_base_id"`
		Description string `json:"description"`
	}
	rows, err := list[row](ctx, m.client, "/knowledge-bases", "knowledge_bases")
	if err != nil {
		return err
	}
	for _, b := range m.plan.Bases {
		mark := "[imported from " + b.Mark + "]"
		at := slices.IndexFunc(rows, func(r row) bool { return strings.HasSuffix(r.Description, mark) })
		made := row{}
		if at >= 0 {
			made = rows[at]
		} else if err := m.client.call(ctx, http.MethodPost, "/knowledge-bases",
			map[string]any{"name": b.Name, "description": b.Description}, &made); err != nil {
			if err := m.fail("knowledge base "+b.Name, "", err); err != nil {
				return err
			}
			continue
		}
		m.bases[b.Mark] = made.ID
		m.report(at < 0, "knowledge base", b.Name)
		if err := m.addDocuments(ctx, made.ID, b, at >= 0); err != nil {
			return err
		}
	}
	return nil
}

// addDocuments sends a base's documents. If the base existed and other imports may share it, new documents are
// reported.
func (m *maker) addDocuments(ctx context.Context, base string, b plan.Base, there bool) error {
	had := map[string]bool{}
	if there && b.Shared {
		rows, err := list[document](ctx, m.client, "/knowledge-bases/"+base+"/documents", "documents")
		if err != nil {
			return err
		}
		for _, d := range rows {
			had[d.ID] = true
		}
	}
	sent := len(m.waiting)
	for _, d := range b.Documents {
		if err := m.addDocument(ctx, base, b.Name, d); err != nil {
			return err
		}
	}
	more := slices.ContainsFunc(m.waiting[sent:], func(w waiting) bool { return !had[w.id] })
	if there && b.Shared && more {
		m.note(plan.Notice, "knowledge base "+b.Name,
			"it was there already and has more documents now: all agents that have a source of this name and "+
				"description search them",
			"where it is another one, delete the new documents, give the source a name of its own in the export, "+
				"and run again")
	}
	return nil
}

// maxDocument bounds how much of a document is read, in bytes: one more than the API takes.
const maxDocument = 50<<20 + 1

func (m *maker) addDocument(ctx context.Context, base, baseName string, d plan.Document) error {
	source := "document " + d.Title + " of knowledge base " + baseName
	content := []byte(d.Text)
	if d.Path != "" {
		var err error
		if content, err = m.read(d.Path); err != nil {
			m.failed(source, err.Error(), "fix the export and run again")
			return nil //nolint:nilerr // noted
		}
	}
	metadata := d.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	made, err := m.client.upload(ctx, base, d.Name, d.Title, metadata, content)
	if err != nil {
		return m.fail(source, "", err)
	}
	if same := m.titles[made.ID]; same != "" {
		m.note(plan.Changed, source, "has the same content as "+same+": both are one document",
			"search for it by that title")
		return nil
	}
	m.titles[made.ID] = d.Title
	m.printf("sent document %s", plan.Clean(d.Title))
	m.waiting = append(m.waiting, waiting{base, made.ID, d.Title, source})
	return nil
}

func (m *maker) read(path string) ([]byte, error) {
	f, err := m.files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxDocument))
}

func (m *maker) findModels(ctx context.Context) error {
	var answer struct {
		Models []struct {
			Kind     string `json:"kind"`
			Provider string `json:"provider"`
			Name     string `json:"name"`
		} `json:"models"`
		Unreachable map[string]string `json:"unreachable"`
	}
	if err := m.client.call(ctx, http.MethodGet, "/models", nil, &answer); err != nil {
		return err
	}
	m.models, m.providers = map[string]bool{}, map[string]bool{}
	for _, one := range answer.Models {
		if one.Kind == "chat" {
			m.models[one.Provider+"/"+one.Name] = true
			m.providers[one.Provider] = true
		}
	}
	for provider := range answer.Unreachable {
		m.providers[provider] = true
	}
	return nil
}

// fit returns the model of an agent: the planned one, or demo if the deployment does not have that provider.
func (m *maker) fit(a *plan.Agent) plan.Model {
	wanted := a.Model
	switch {
	case wanted.Provider == "demo", m.models[wanted.String()]:
	case m.providers[wanted.Provider]:
		m.note(plan.Notice, a.Source, "model "+wanted.String()+" is not a model that the deployment reaches now; "+
			"the agent uses it anyway", "see GET /models, and run again with -model OLD=PROVIDER/NAME, or edit "+
			"the agent")
	default:
		m.note(plan.Changed, a.Source, "model "+wanted.String()+": the deployment has no provider "+wanted.Provider+
			"; the agent has the model demo, which repeats its input",
			"configure the provider and run again, or run again with -model OLD=PROVIDER/NAME")
		wanted.Provider, wanted.Name, wanted.Chosen = "demo", "", false // it replaces nothing
	}
	return wanted
}

// agentRow is an agent as the API returns it.
type agentRow struct {
	ID       string            `json:"agent_id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
	Toolkits []string          `json:"toolkit_ids"`
	Bases    []string          `json:"knowledge_base_ids"`
	Approval struct {
		Mode  string   `json:"mode"`
		Tools []string `json:"tools"`
	} `json:"approval"`
	Model struct {
		Provider string `json:"provider"`
		Name     string `json:"name"`
	} `json:"model"`
}

func (m *maker) makeAgents(ctx context.Context) error {
	rows, err := list[agentRow](ctx, m.client, "/agents", "agents")
	if err != nil {
		return err
	}
	for i := range m.plan.Agents {
		a := &m.plan.Agents[i]
		at := slices.IndexFunc(rows, func(r agentRow) bool { return r.Metadata[plan.ImportedFrom] == a.Mark })
		model := m.fit(a)
		if at >= 0 {
			err = m.complete(ctx, a, rows[at], model)
		} else {
			err = m.create(ctx, a, model)
		}
		if err != nil {
			if err := m.fail(a.Source, "", err); err != nil {
				return err
			}
			continue
		}
		m.report(at < 0, "agent", a.Name)
	}
	return nil
}

// ids returns the ids of existing things with these marks.
func ids(marks []string, of map[string]string) []string {
	list := []string{}
	for _, mark := range marks {
		if id := of[mark]; id != "" {
			list = append(list, id)
		}
	}
	return list
}

// approvalBody returns the body that names the tools that need an approval, or requires one for all calls. It is nil if
// none needs one.
func approvalBody(a *plan.Agent, tools []string) map[string]any {
	switch {
	case a.ApproveAll, len(tools) > plan.MaxApproval:
		return map[string]any{"mode": "always"}
	case len(tools) > 0:
		return map[string]any{"mode": "tools", "tools": tools}
	}
	return nil
}

func (m *maker) create(ctx context.Context, a *plan.Agent, model plan.Model) error {
	body := map[string]any{
		"name": a.Name, "description": a.Description, "instructions": a.Instructions, "metadata": a.Metadata,
		"model": model, "skip_check": true,
		"toolkit_ids": ids(a.Toolkits, m.toolkits), "knowledge_base_ids": ids(a.Bases, m.bases),
	}
	if approval := approvalBody(a, a.Approval); approval != nil {
		body["approval"] = approval
	}
	if a.Passages > 0 {
		body["knowledge"] = map[string]any{"limit": a.Passages}
	}
	if a.OutputSchema != nil {
		body["output_schema"] = a.OutputSchema
	}
	err := m.send(ctx, a, http.MethodPost, "/agents", body)
	if a.OutputSchema != nil && wrongField(err) == "body.output_schema" {
		m.note(plan.LeftOut, a.Source, "the service refuses its output_schema, without which the agent is made: "+
			err.Error(), "PATCH output_schema of the agent with one that it takes")
		delete(body, "output_schema")
		err = m.send(ctx, a, http.MethodPost, "/agents", body)
	}
	return err
}

// send makes or changes an agent. Tools for approval that do not exist are left out. If there are many of them, all
// calls need an approval.
func (m *maker) send(ctx context.Context, a *plan.Agent, method, path string, body map[string]any) error {
	for n := 0; ; n++ {
		err := m.client.call(ctx, method, path, body, nil)
		approval, _ := body["approval"].(map[string]any)
		tools, _ := approval["tools"].([]string)
		at := -1
		_, _ = fmt.Sscanf(wrongField(err), "body.approval.tools[%d]", &at)
		if at < 0 || at >= len(tools) {
			return err
		}
		m.note(plan.LeftOut, a.Source, "the agent has no tool "+plan.Clean(tools[at])+", which wants an approval",
			"give it the tool, which needs an approval at first, and PATCH approval of the agent")
		if tools = slices.Delete(slices.Clone(tools), at, at+1); n == maxLacking {
			tools = nil
		}
		switch {
		case len(tools) > 0:
			body["approval"] = map[string]any{"mode": "tools", "tools": tools}
		case n == maxLacking:
			body["approval"] = map[string]any{"mode": "always"}
		default:
			delete(body, "approval")
		}
	}
}

// complete adds the missing toolkits and knowledge bases to an agent of an earlier run. It replaces the model demo by
// the agent's own, and any model by one that the user now names. Everything else stays, because people may have changed
// it.
func (m *maker) complete(ctx context.Context, a *plan.Agent, there agentRow, model plan.Model) error {
	patch := map[string]any{}
	bases := m.most(a, plan.Union(there.Bases, ids(a.Bases, m.bases)), plan.MaxBases, "knowledge bases")
	if len(bases) > len(there.Bases) {
		patch["knowledge_base_ids"] = bases
	}
	toolkits := m.most(a, plan.Union(there.Toolkits, ids(a.Toolkits, m.toolkits)), plan.MaxToolkits, "toolkits")
	if len(toolkits) > len(there.Toolkits) {
		patch["toolkit_ids"] = toolkits
	}
	m.kept(a, there.Toolkits)
	if patch["toolkit_ids"] != nil && there.Approval.Mode != "always" { // new tools come with their approvals
		had := there.Approval.Tools
		if tools := plan.Union(had, a.Approval); a.ApproveAll || len(tools) > len(had) {
			patch["approval"] = approvalBody(a, tools)
		}
	}
	differs := there.Model.Provider != model.Provider || there.Model.Name != model.Name
	if differs && (model.Chosen || there.Model.Provider == "demo") {
		patch["model"] = map[string]any{"provider": model.Provider, "name": model.Name}
	}
	if len(patch) == 0 {
		return nil
	}
	m.printf("changed agent %s: %s", plan.Clean(a.Name), strings.Join(slices.Sorted(maps.Keys(patch)), ", "))
	patch["skip_check"] = true
	return m.send(ctx, a, http.MethodPatch, "/agents/"+there.ID, patch)
}

// most cuts a list to the limit of an agent, and reports it.
func (m *maker) most(a *plan.Agent, list []string, most int, what string) []string {
	if len(list) <= most {
		return list
	}
	m.note(plan.LeftOut, a.Source, fmt.Sprintf("%d %s, of which an agent may have %d", len(list), what, most),
		"take from the agent what it does not need, and run again")
	return list[:most]
}

// ownMark is the mark at the end of the name of a toolkit that this command made.
var ownMark = regexp.MustCompile(`\[([a-z]+) ([0-9a-f]{10})\]$`)

// kept reports toolkits that an agent has, that came from imports from the same platform, and that the plan does not
// have. They may be from an earlier export, or a person may have added them. That cannot be known, so they stay.
func (m *maker) kept(a *plan.Agent, had []string) {
	platform, _, _ := strings.Cut(a.Mark, ":")
	for _, id := range had {
		at := slices.IndexFunc(m.rows, func(r toolkitRow) bool { return r.ID == id })
		if at < 0 {
			continue
		}
		mark := ownMark.FindStringSubmatch(m.rows[at].Name)
		if mark == nil || mark[1] != platform || slices.Contains(a.Toolkits, mark[1]+" "+mark[2]) {
			continue
		}
		m.note(plan.Notice, a.Source, "the agent still has toolkit "+m.rows[at].Name+", which this export does not "+
			"give it: its tools are those of an earlier one",
			"take it from the agent, if it is not wanted: PATCH toolkit_ids")
	}
}

// await waits until all documents are ready, and reports those that the service could not read.
func (m *maker) await(ctx context.Context) error {
	for _, w := range m.waiting {
		path := "/knowledge-bases/" + w.base + "/documents/" + w.id + "?wait_ms=10000"
		for {
			var d document
			if err := m.client.call(ctx, http.MethodGet, path, nil, &d); err != nil {
				if err := m.fail(w.source, "", err); err != nil {
					return err
				}
				break
			}
			if d.Status == "ready" {
				break
			}
			if d.Status == "failed" {
				m.failed(w.source, d.Error, "put a file there that can be read, and run again")
				break
			}
		}
	}
	if len(m.waiting) > 0 {
		m.printf("%d documents are in", len(m.waiting))
	}
	return nil
}
