package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
)

const langGraph = "langgraph"

// langgraph plans the agent of an assistant of LangGraph. Each graph defines the configuration of its assistants.
// Common names are mapped, including those of the Open Agent Platform.
func (p *planner) langgraph(o *object) {
	id := o.text("assistant_id")
	o.source = named("assistant", o.peek("name"), id)
	if p.marks[o.file+"#"+id] {
		what := "the file has this assistant already"
		if version := o.members["version"]; given(version) {
			what += "; this is its version " + short(version)
		}
		o.whole(what, "keep the one that the agent shall be made of")
		return
	}
	p.marks[o.file+"#"+id] = true
	a := o.begin(o.assistantMark(id), "Assistant "+id)
	graph := o.text("graph_id")
	a.Metadata["graph"] = cut(graph, maxMetadataText)
	o.about(Changed, fmt.Sprintf("graph %q is a program, which an export has not: the agent calls tools in the loop "+
		"of this service, until its model answers", graph),
		"where the graph does more, serve that as an MCP server or behind a URL, and add it as a toolkit")
	o.configuration(&a)
	if m := o.open("metadata"); m != nil {
		m.metadata(a.Metadata)
	}
	o.ignore("is made anew", "created_at", "updated_at", "version")
	o.rest("see whether the agent needs it")
	o.agent(a)
}

// assistantMark returns a lasting name of an assistant. The default assistant of a graph has an id made from the
// graph's name, the same in every deployment. So its mark also has the time at which it was made.
func (o *object) assistantMark(id string) string {
	var metadata struct {
		By string `json:"created_by"`
	}
	_ = json.Unmarshal(o.members["metadata"], &metadata)
	if metadata.By == "system" {
		return langGraph + ":" + digest("system", id, o.peek("created_at"))
	}
	return markOf(langGraph, id)
}

// configuration maps config.configurable and context. The server stores both in the same way.
func (o *object) configuration(a *Agent) {
	var configurable json.RawMessage
	var settings []*object
	if c := o.open("config"); c != nil {
		configurable = c.members["configurable"]
		settings = append(settings, c.open("configurable"))
		c.report(LeftOut, "steps of a graph are not those of an agent here", "set limits.max_steps of the agent",
			"recursion_limit")
		c.report(LeftOut, "runs have metadata, not tags", "send metadata with the message", "tags")
		c.rest("see whether the agent needs it")
	}
	if bytes.Equal(o.members["context"], configurable) {
		o.ignore("repeats config.configurable", "context")
	} else {
		settings = append(settings, o.open("context"))
	}
	modelled := false
	for _, s := range settings {
		if s != nil {
			modelled = s.configurable(a, modelled) || modelled
		}
	}
	if !modelled {
		none := o.model("config", "", "")
		a.Model.Provider, a.Model.Name, a.Model.Chosen = none.Provider, none.Name, none.Chosen
	}
}

// configurable maps one set of settings. Settings from an earlier set win. It returns whether there is a model.
func (o *object) configurable(a *Agent, modelled bool) bool {
	for _, name := range []string{"model", "model_name", "llm"} {
		if member := o.spelled(name); !modelled && o.peek(member) != "" {
			sampling := a.Model
			a.Model = o.model(member, "", o.text(member))
			a.Model.Temperature, a.Model.MaxTokens = sampling.Temperature, sampling.MaxTokens
			modelled = true
		}
	}
	if a.Model.Temperature == nil {
		o.temperature(&a.Model, o.spelled("temperature"))
	}
	if a.Model.MaxTokens == nil {
		o.tokens(&a.Model, o.spelled("max_tokens"))
	}
	for _, name := range []string{"system_prompt", "prompt", "instructions", "system_message"} {
		if member := o.spelled(name); a.Instructions == "" && o.peek(member) != "" {
			a.Instructions = o.fitBytes(member, o.text(member))
		}
	}
	o.servers(a)
	o.interrupts(a)
	const program = "is a program of the graph, which an export has not"
	o.each("tools", "tool", program, "serve it as an MCP server or behind a URL, and add it as a toolkit")
	for _, member := range []string{"agents", "subagents"} {
		o.each(member, "agent", "is another one that this agent hands work to",
			"offer it as an MCP tool: this service's own MCP server has every agent as a tool")
	}
	o.each("triggers", "trigger", "starts runs at an event", "send a message where the event happens")
	o.ignore("names the run, not the assistant", "thread_id", "run_id", "assistant_id", "graph_id", "checkpoint_id",
		"checkpoint_ns", "user_id", "langgraph_auth_user_id")
	o.rest("see whether the agent needs it: its meaning depends on the graph")
	return modelled
}

// servers maps MCP servers and collections of documents. A graph may give such members any name. Their own members
// identify them.
func (o *object) servers(a *Agent) {
	for _, name := range sortedKeys(o.members) {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(o.members[name], &members)
		_, tools := members["tools"]
		_, address := members["url"]
		_, collections := members["collections"]
		switch snake(name) {
		case "mcp_config":
			tools, address = true, true
		case "rag", "rag_config":
			collections = true
		}
		if tools && address {
			if m := o.open(name); m != nil {
				m.mcp(a)
			}
		} else if collections {
			if r := o.open(name); r != nil {
				r.collections(a)
			}
		}
	}
}

// mcp maps the MCP server of the Open Agent Platform. Its graphs add /mcp to the server's address. An assistant has the
// tools of the server that it names.
func (o *object) mcp(a *Agent) {
	tools := o.texts("tools")
	unclear := given(o.members["tools"]) && tools == nil // which is reported
	if member := o.spelled("auth_required"); string(o.members[member]) == "true" {
		o.report(Credentials, "the server wants credentials, which an export has not", giveCredentials, member)
	}
	o.interrupts(a)
	address := strings.TrimRight(o.text("url"), "/")
	o.rest("create the toolkit yourself: POST /toolkits with kind mcp")
	if address == "" || unclear {
		return
	}
	if len(tools) == 0 {
		o.about(Notice, "the assistant uses no tool of this server: no toolkit was created",
			"create the toolkit yourself: POST /toolkits with kind mcp")
		return
	}
	if u, err := url.Parse(address); err == nil && path.Base(u.Path) != "mcp" {
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+"/mcp", strings.TrimRight(u.EscapedPath(), "/")+"/mcp"
		address = u.String()
		o.about(Changed, "the server is asked at /mcp below its address, as the graphs of the Open Agent Platform do",
			"PATCH url of the toolkit where that is wrong", "url")
	}
	if mark := o.server(langGraph, "", "url", address, tools); mark != "" {
		a.Toolkits = append(a.Toolkits, mark)
	}
}

// interrupts maps the tools whose calls need a human's decision.
func (o *object) interrupts(a *Agent) {
	config := o.open(o.spelled("interrupt_config"))
	if config == nil {
		return
	}
	for _, name := range sortedKeys(config.members) {
		if raw := config.members[name]; given(raw) && string(raw) != "false" {
			config.take(name)
			a.Approval = append(a.Approval, name)
		}
	}
}

// each reports the elements of a list by their names, if nothing else has read the list.
func (o *object) each(member, kind, what, do string) {
	if o.done[member] {
		return
	}
	for _, e := range o.list(member) {
		name := ""
		if json.Unmarshal(e.raw, &name) != nil {
			if t := o.p.object(o.file, e.path, o.source, e.raw); t != nil {
				name = t.peek("name")
			}
		}
		o.p.find(Finding{Kind: LeftOut, Source: o.source, File: o.file, Path: e.path, Do: do, Whole: true,
			What: fmt.Sprintf("%s %s %s", kind, shownName(name), what)})
	}
}

// collections maps the collections of a server of documents. Only the export's folder can have their files.
func (o *object) collections(a *Agent) {
	o.report(LeftOut, "the server of the documents is not asked", "save its documents as said below",
		o.spelled("rag_url"))
	for _, id := range o.texts("collections") {
		mark := markOf(langGraph, id)
		if !o.p.marks[mark] {
			o.collection(mark, id)
		}
		a.Bases = append(a.Bases, mark)
	}
	o.rest("")
}

func (o *object) collection(mark, id string) {
	b := Base{Mark: mark, Name: cut("Collection "+id, maxName)}
	for _, at := range o.p.export.collection[id] {
		o.p.export.used[at] = true
		if o.p.sized(o, at) {
			name := path.Base(at)
			d := Document{Title: cut(name, maxTitle), Name: cut(name, maxName), Path: at}
			b.Documents = append(b.Documents, d)
		}
	}
	if len(b.Documents) == 0 {
		o.about(Notice, fmt.Sprintf("collection %q: its documents are not in the export: the knowledge base is empty",
			id), "save them in the folder "+collections+"/"+cut(id, 100)+", and run again")
	}
	o.p.base(b, "")
}
