package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/ai/provider/registry"
)

// function is a function that an agent of the export could call.
type function struct {
	name        string
	description string
	parameters  json.RawMessage // a JSON schema; may be absent
	where       string          // the place of its program, for the report
}

// callable makes the toolkit of a function for which the user named a URL, and returns its mark. The mark is empty if
// there is no such URL. That is reported, with the arguments that a program for it must take.
func (o *object) callable(platform string, f function) string {
	p := o.p
	p.used["-tool"+f.name] = true
	address := p.options.Tools[f.name]
	if address == "" {
		o.about(LeftOut, fmt.Sprintf("function %s: an export has no program that could execute it%s; it takes %s",
			f.name, f.where, arguments(f.parameters)),
			"serve it at a URL that takes its arguments as a JSON body by POST, and run again with -tool "+
				f.name+"=URL")
		return ""
	}
	t := Toolkit{
		Kind: "http", URL: address, Name: f.name,
		Request: &Request{
			Name: toolName(f.name), Description: f.description, Method: "POST", Body: "body",
			Parameters: asBody(f.parameters),
		},
	}
	o.about(Changed, fmt.Sprintf("function %s is called at %s; the model gives its arguments within body", f.name,
		site(address)), "give the toolkit credentials if the URL wants them; look at its approval and retry_safe")
	called, takes := [2]string{t.URL, t.Request.Name}, string(t.Request.Parameters)
	if other, known := p.takes[called]; !known {
		p.takes[called] = takes
	} else if other != takes {
		o.about(Notice, "another function of this name takes something else: both call "+site(address),
			"check that it supports both, or PATCH url of the toolkit")
	}
	return p.toolkit(platform, t)
}

// arguments returns the names of a function's arguments only, as examples and defaults of a schema may be secrets.
func arguments(schema json.RawMessage) string {
	var s struct{ Properties map[string]json.RawMessage }
	_ = json.Unmarshal(schema, &s)
	var names []string
	for _, name := range sortedKeys(s.Properties) {
		names = append(names, shownName(name))
	}
	if len(names) == 0 {
		return "nothing"
	}
	return cut(strings.Join(names, ", "), 2000) + ", as its schema there says"
}

// plainTool matches ordinary names of tools.
var plainTool = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)

// shownName returns a name for a report. If the name may hold other content, it returns only the size.
func shownName(name string) string {
	if plainTool.MatchString(name) && !secretText(name) {
		return name
	}
	return fmt.Sprintf("(text, %d bytes)", len(name))
}

// toolName returns the service's name for a tool. Characters that models do not accept become _.
func toolName(text string) string {
	name := strings.Trim(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}), "_"), "_")
	return cmp.Or(name[:min(len(name), maxToolName)], "tool")
}

// localReference matches a reference of a schema to a place within it.
var localReference = regexp.MustCompile(`"\$ref"\s*:\s*"#(/[^"]*)?"`)

// asBody returns the schema of an argument body that has the given schema. Definitions stay at the root, which
// references use. Other references within the schema get the new path, unless the schema has an address of its own.
func asBody(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 || schema[0] != '{' {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	own := bytes.Contains(schema, []byte(`"$id"`))
	schema = localReference.ReplaceAllFunc(schema, func(reference []byte) []byte {
		if own || bytes.Contains(reference, []byte("#/$defs")) || bytes.Contains(reference, []byte("#/definitions")) {
			return reference
		}
		return bytes.Replace(reference, []byte("#"), []byte("#/properties/body"), 1)
	})
	whole := map[string]any{
		"type": "object", "properties": map[string]any{"body": schema}, "required": []string{"body"},
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) == nil {
		for _, name := range []string{"$defs", "definitions"} {
			if defined, there := members[name]; there {
				whole[name] = defined
			}
		}
	}
	raw, err := json.Marshal(whole)
	if err != nil { // it is made of JSON
		panic(err)
	}
	return raw
}

// site returns the part of an address that a report may have: scheme and host. Path and query may have a secret in
// them.
func site(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address"
	}
	return u.Scheme + "://" + u.Host
}

// bare removes possible secrets from an address, and returns whether there were any. These are a user, parameters that
// look like secrets, a query that cannot be read, and a fragment.
func bare(u *url.URL) bool {
	query, err := url.ParseQuery(u.RawQuery)
	hidden := u.User != nil || u.Fragment != "" || err != nil
	if err != nil {
		query = nil
	}
	for parameter, values := range query {
		name := strings.ToLower(parameter)
		if secretive(parameter) || name == "key" || name == "code" || slices.ContainsFunc(values, secretText) {
			query.Del(parameter)
			hidden = true
		}
	}
	if hidden {
		u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, query.Encode(), "", ""
	}
	return hidden
}

// server makes the toolkit of an MCP server, and returns its mark. The mark is empty if its address cannot be used,
// which is reported. tools are those to enable; nil: all.
func (o *object) server(platform, name, member, address string, tools []string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(address) > 2048 {
		o.about(LeftOut, "is not an http or https URL", "create the toolkit yourself: POST /toolkits with kind mcp",
			member)
		return ""
	}
	if bare(u) {
		o.about(Credentials, "the address may contain credentials, which are not imported",
			giveCredentials, member)
	}
	if name == "" {
		name = u.Host
	}
	var named []string // nil: all
	for _, tool := range tools {
		named = append(named, toolName(tool))
	}
	slices.Sort(named)
	return o.p.toolkit(platform, Toolkit{Kind: "mcp", Name: name, URL: u.String(), Enabled: slices.Compact(named)})
}

// toolkit adds a toolkit to the plan, unless it has the same one, and returns its mark.
func (p *planner) toolkit(platform string, t Toolkit) string {
	request := ""
	if t.Request != nil {
		request = t.Request.Name + string(t.Request.Parameters)
	}
	t.Mark = platform + " " + digest(append([]string{t.Kind, t.URL, request}, t.Enabled...)...)[:10]
	if !p.marks[t.Mark] {
		p.marks[t.Mark] = true
		suffix := " [" + t.Mark + "]"
		t.Name = cut(t.Name, maxName-len(suffix)) + suffix
		p.Toolkits = append(p.Toolkits, t)
	}
	return t.Mark
}

// base adds a knowledge base to the plan. about is its description without the mark.
func (p *planner) base(b Base, about string) string {
	suffix := "[imported from " + b.Mark + "]"
	if about != "" {
		suffix = "\n\n" + suffix
	}
	b.Description = cut(about, maxAbout-len(suffix)) + suffix
	p.marks[b.Mark] = true
	p.Bases = append(p.Bases, b)
	return b.Mark
}

// most returns a list without repetitions, cut to the limit of an agent. The cut is reported.
func (o *object) most(list []string, most int, what, do string) []string {
	list = Union(list)
	if len(list) > most {
		o.about(LeftOut, fmt.Sprintf("%d %s, of which an agent may have %d", len(list), what, most), do)
		list = list[:most]
	}
	return list
}

// approvals keeps within the number of names that an agent may have for approval. If there are more, all calls need
// one.
func (o *object) approvals(a *Agent) {
	for i, name := range a.Approval {
		if utf8.RuneCountInString(name) > maxName {
			a.Approval[i] = toolName(name)
		}
	}
	if a.Approval = Union(a.Approval); len(a.Approval) > MaxApproval {
		o.about(Changed, fmt.Sprintf("%d tools want an approval, of which an agent may name %d: each call of a tool "+
			"needs an approval", len(a.Approval), MaxApproval), "PATCH approval of the agent")
		a.Approval, a.ApproveAll = nil, true
	}
}

// begin returns a new agent with its name, or otherwise if it has none, and its description.
func (o *object) begin(mark, otherwise string) Agent {
	name := o.fit("name", strings.TrimSpace(o.text("name")), maxName)
	return Agent{
		Mark: mark, Source: o.source, Metadata: map[string]string{}, Name: cmp.Or(name, cut(otherwise, maxName)),
		Description: o.fit("description", o.text("description"), maxDescription),
	}
}

// agent adds an agent to the plan. If the plan has one with the same mark, that is reported instead.
func (o *object) agent(a Agent) {
	if o.p.marks[a.Mark] {
		o.about(LeftOut, "the export has this agent twice", "take one of them out, and run again")
		return
	}
	o.p.marks[a.Mark] = true
	a.Toolkits = o.most(a.Toolkits, MaxToolkits, "toolkits", "give the missing parts to another agent")
	a.Bases = o.most(a.Bases, MaxBases, "knowledge bases", "put documents of several into one")
	o.approvals(&a)
	a.Metadata[ImportedFrom] = a.Mark
	o.p.Agents = append(o.p.Agents, a)
}

// providerOf returns this service's provider for another platform's name. It is empty if there is none.
func providerOf(name string) string {
	name = strings.ToLower(name)
	for _, p := range registry.All() {
		if len(p.Settings) > 0 && (name == p.Name || slices.Contains(p.Aliases, name)) {
			return p.Name
		}
	}
	return ""
}

// isProvidersOwn reports whether an address is a provider's default address.
func isProvidersOwn(address string) bool {
	return slices.ContainsFunc(registry.All(), func(p registry.About) bool {
		own, err := url.Parse(p.URL)
		return err == nil && own.Host != "" && strings.Contains(address, "://"+own.Host+"/")
	})
}

// model maps the name of a model. provider is that of the export; empty: it is part of the name, or unknown.
func (o *object) model(member, provider, name string) Model {
	full := name
	if provider != "" {
		full = provider + "/" + name
	}
	for _, key := range []string{full, name} {
		chosen, ok := o.p.options.Models[key]
		o.p.used["-model"+key] = true
		if ok {
			to, rest, _ := strings.Cut(chosen, "/")
			return Model{Provider: to, Name: rest, Chosen: true}
		}
	}
	if provider == "" {
		provider, name = divided(name)
	}
	if ours := providerOf(provider); ours != "" && name != "" {
		return Model{Provider: ours, Name: name}
	}
	if name == "" {
		o.about(Changed, "the export has no model; the agent has the model demo, which repeats its input",
			"PATCH model of the agent", member)
		return Model{Provider: "demo"}
	}
	o.about(Changed, fmt.Sprintf("model %q: this service has no provider of that name; the agent has the model "+
		"demo, which repeats its input", full),
		fmt.Sprintf("run again with -model %s=PROVIDER/NAME; an endpoint that speaks OpenAI's API is the provider "+
			"openai", full), member)
	return Model{Provider: "demo"}
}

// divided splits provider:name or provider/name into both, or guesses the provider of a bare name.
func divided(text string) (provider, name string) {
	for _, sign := range []string{":", "/"} {
		if before, after, found := strings.Cut(text, sign); found && before != "ft" {
			return before, after
		}
	}
	for _, p := range registry.All() {
		for _, prefix := range p.Prefixes {
			if strings.HasPrefix(text, prefix) {
				return p.Name, text
			}
		}
	}
	return "", text
}

// settings adds the export's sampling settings to a model.
func (o *object) settings(m *Model, temperature, tokens string) {
	o.temperature(m, temperature)
	o.tokens(m, tokens)
}

func (o *object) temperature(m *Model, member string) {
	n := o.number(member)
	if n == nil {
		return
	}
	if *n < 0 || *n > 2 {
		o.wrong(member, "must be between 0 and 2")
		return
	}
	m.Temperature = n
}

func (o *object) tokens(m *Model, member string) {
	var n int
	if !hasValue(o.members[member]) || !o.value(member, "must be a whole number", &n) {
		return
	}
	if n < 1 {
		o.wrong(member, "must be at least 1")
		return
	}
	m.MaxTokens = &n
}
